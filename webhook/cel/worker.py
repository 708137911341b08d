"""What the worker process does: it limits itself, and evaluates expressions.

It ends at its limits, also within CEL's C++ runtime: the kernel sees to it. Only there CEL is
loaded; this module is, by both.
"""

import os
import resource
import signal
from typing import Any, Final, NamedTuple

MOST_CPU_SECONDS: Final = 0.25
"""For one expression. The API server allows so much for all of a webhook's (apiserver
pkg/apis/cel/config.go: RuntimeCELCostBudgetMatchConditions)."""
MOST_MEMORY: Final = 128 * 1024 * 1024
"""Bytes of address space, of which 56 MiB are taken at the start."""


class Limits(NamedTuple):
    """Seconds of processor time for one expression, and bytes of address space."""

    cpu_seconds: float = MOST_CPU_SECONDS
    memory: int = MOST_MEMORY


class ReviewedRequest(NamedTuple):
    """What matchConditions read.

    namespaced   whether the object is in a namespace
    request      `request` of the review without its objects, in JSON, as are the objects
    """

    namespaced: bool
    request: bytes
    object: bytes
    old_object: bytes


_cpu_seconds = MOST_CPU_SECONDS


def start(limits: Limits) -> None:
    """Limit this process, and let nothing of it out: no core, no text; no variable of ours in."""
    global _cpu_seconds  # noqa: PLW0603 - of a process that does nothing else
    _cpu_seconds = limits.cpu_seconds
    os.setsid()  # ^C is for the server alone
    os.environ.clear()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (1, 2):
        os.dup2(null, number)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would hold whole objects
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory, limits.memory))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process


def run(function: str, *args: Any) -> Any:
    """Call a function of programs.py, within the limit of processor time."""
    from webhook.cel import programs  # noqa: PLC0415 - in the worker alone

    signal.setitimer(signal.ITIMER_PROF, _cpu_seconds)
    try:
        return getattr(programs, function)(*args)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
