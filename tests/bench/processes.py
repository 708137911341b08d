"""What the kernel knows of a process: processor time and memory. Linux only."""

import os
import time
from pathlib import Path
from typing import Final

_SCHEDULED: Final = 2
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_RESIDENT: Final = 1


def cpu_seconds(pid: int) -> float:
    """User and system time of every thread a process has had.

    The same sum as utime + stime of /proc/PID/stat, which only counts in hundredths of a second:
    this is the clock that clock_getcpuclockid(3) names, in nanoseconds.
    """
    return time.clock_gettime((~pid << 3) | _SCHEDULED)


def resident_bytes(pid: int) -> int:
    """Memory that is in RAM now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[_RESIDENT]) * _PAGE


def own_core(*, server: bool) -> set[int]:
    """Where a server runs, and where the load comes from: apart when there are two cores."""
    usable = sorted(os.sched_getaffinity(0))
    return {usable[0] if server else usable[-1]}
