"""Whether the process that made a registration still runs: a killed one cannot clean up.

Only what ran on this machine can be judged, in the same namespace of process ids; for all others
there is the time of expiry.
"""

import os
import platform
from pathlib import Path


def this_process() -> str:
    """Machine, process ids' namespace, process id and when it began."""
    return _describe(os.getpid())


def is_gone(owner: str) -> bool:
    """Whether the process is known to have ended; False when that cannot be known."""
    *where, pid, began = owner.split(" ") if owner.count(" ") == 3 else ("", "", "", "")  # noqa: PLR2004
    if where != [platform.node(), _namespace()] or not pid.isdigit():
        return False
    return _describe(int(pid)) != owner if began else not _runs(int(pid))


def _describe(pid: int) -> str:
    return f"{platform.node()} {_namespace()} {pid} {_began(pid)}"


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return "-"


def _began(pid: int) -> str:
    """In clock ticks since the machine started, field 22 of proc_pid_stat(5); "" without /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    state, *fields = text[text.rindex(")") + 2 :].split()  # the name before may hold anything
    return "" if state == "Z" else fields[18]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
