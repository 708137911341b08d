"""What the kernel knows of a process: processor time and memory. Linux only."""

import os
import resource
import time
from pathlib import Path
from typing import Final

_SCHEDULED: Final = 2
_LOOKS: Final = 5
_LOOK_SECONDS: Final = 0.002
_QUIET_WITHIN_SECONDS: Final = 30.0
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_RESIDENT: Final = 1


def cpu_seconds(pid: int) -> float:
    """User and system time of every thread a process has had.

    The same sum as utime + stime of /proc/PID/stat, which only counts in hundredths of a second:
    this is the clock that clock_getcpuclockid(3) names, in nanoseconds.
    """
    return time.clock_gettime((~pid << 3) | _SCHEDULED)


def children_seconds() -> float:
    """User and system time of every process that this one has started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def wait_until_quiet(pid: int) -> float:
    """Wait until a process has nothing to do; its cpu_seconds then.

    It is quiet when it was asleep each time of some: on a busy machine one that waits for its turn
    takes no processor time either, but it is not asleep.
    """
    end = time.monotonic() + _QUIET_WITHIN_SECONDS
    while True:
        found = cpu_seconds(pid)
        for _ in range(_LOOKS):
            if _state(pid) == "R" and time.monotonic() < end:
                break
            time.sleep(_LOOK_SECONDS)
        else:
            return found
        time.sleep(_LOOK_SECONDS)


def _state(pid: int) -> str:
    """R while the first thread runs or waits for a processor (proc_pid_stat(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def resident_bytes(pid: int) -> int:
    """Memory that is in RAM now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[_RESIDENT]) * _PAGE


def own_core(*, server: bool) -> set[int]:
    """Where a server runs, and where the load comes from: apart when there are two cores."""
    usable = sorted(os.sched_getaffinity(0))
    return {usable[0] if server else usable[-1]}
