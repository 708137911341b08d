"""Overload: a review whose answer would come too late is not examined but rejected, at once.

An API server that has given up waiting does not read the answer, so work on it only delays the
next one. How long a request has waited is known: since the event loop has read it, or since the
event loop last looked at its connections (LoopLag). Each request is measured by itself, so that as
many are examined as there is time for. One that is alone on the port is never rejected.

An episode goes on until nothing was rejected for a while. During an episode a request may have
waited less long than otherwise: the queue that a spike has left is rejected, and does not delay
everybody for minutes.
"""

import asyncio
import faulthandler
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

from webhook.telemetry.logs import LOGGER

MOST_WAITED: Final = 0.4
"""Share of the client's timeout. As long again a request may have waited unseen, on uvloop and
while its connection was made."""
MOST_WAITED_IN_EPISODE: Final = 0.2


class Rejected(StrEnum):
    """What there was too much of."""

    LATE = "late"  # time that this review has waited
    LARGE = "large"  # large reviews that wait for a slot
    READING = "reading"  # bytes of bodies that are being read


class Episode:
    """Logs where a time begins in which something is refused again and again, and where it ends."""

    def __init__(self, begins: str, ends: str, quiet_seconds: float) -> None:
        """`begins` and `ends` are logged; it is over after `quiet_seconds` without a refusal."""
        self._begins: Final = begins
        self._ends: Final = ends
        self._quiet_seconds: Final = quiet_seconds
        self._began = self._last = 0.0
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def count(self, reason: str) -> None:
        """Count a refusal."""
        self._last = time.monotonic()
        if not self._count:
            self._began = self._last
            LOGGER.warning(self._begins, extra={"fields": {"reason": reason}})
        self._count += 1

    def end_if_quiet(self) -> None:
        """End an episode that is over; to be called every few seconds."""
        if self._count and time.monotonic() - self._last >= self._quiet_seconds:
            fields = {"refused": self._count, "seconds": round(self._last - self._began, 3)}
            LOGGER.warning(self._ends, extra={"fields": fields})
            self._count = 0


class Overload(Episode):
    """Decides which reviews are rejected, counts them, and logs each episode."""

    def __init__(self, quiet_seconds: float) -> None:
        """An episode ends after `quiet_seconds` in which nothing was rejected."""
        self.rejected: Final = dict.fromkeys(Rejected, 0)
        super().__init__("overloaded: reviews are shed", "no longer overloaded", quiet_seconds)

    def is_too_late(self, waited: float, timeout: float) -> bool:
        """Whether a client that gives up after `timeout` seconds has waited too long already."""
        return waited > timeout * (MOST_WAITED_IN_EPISODE if self else MOST_WAITED)

    def reject(self, rejected: Rejected) -> None:
        """Count a rejected request."""
        self.rejected[rejected] += 1
        self.count(rejected)


_EVERY_SECONDS: Final = 0.05
_MEASURES: Final = 300
"""Of which the longest lag is shown: those of 15 s, no shorter than between two scrapes."""


class LoopLag:
    """Measures how late the event loop is: it asks to be called at a time, and compares.

    before_last  what is read now has come after this moment, on the clock of time.monotonic: the
                 loop has looked at its connections since, however late it is. When it is not
                 late, the moment is a tenth of a second ago at most
    """

    def __init__(self) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._lags: Final[deque[float]] = deque(maxlen=_MEASURES)
        self._due = self.before_last = time.monotonic()
        self._measure()

    def longest(self) -> float:
        """The longest lag of the last seconds, in seconds, for the metric."""
        return max(self._lags)

    def stop(self) -> None:
        """Measure no more."""
        self._next.cancel()

    def _measure(self) -> None:
        now = time.monotonic()
        self._lags.append(max(now - self._due, 0.0))
        self.before_last, self._due = self._due, now + _EVERY_SECONDS
        self._next = self._loop.call_later(_EVERY_SECONDS, self._measure)


EXIT_STUCK: Final = 70
"""EX_SOFTWARE of sysexits.h."""
_LOOKS: Final = 20
_WRITE_SECONDS: Final = 1.0


@contextmanager
def watchdog(seconds: float) -> Iterator[None]:
    """End the process, from a thread, when its event loop has not run for so long.

    Such a process answers nothing and holds its connections open, and its Lease runs out; a new one
    does better. The log says where each thread was.
    """
    loop, ends = asyncio.get_running_loop(), threading.Event()
    threading.Thread(target=_watch, args=(loop, seconds, ends), daemon=True).start()
    try:
        yield
    finally:
        ends.set()


def _watch(loop: asyncio.AbstractEventLoop, seconds: float, ends: threading.Event) -> None:
    has_run, every = threading.Event(), seconds / _LOOKS
    while not ends.wait(every):
        has_run.clear()
        loop.call_soon_threadsafe(has_run.set)
        # Looks are counted and not seconds: of a time in which the whole process was stopped, or
        # the machine slept, there is one.
        if not any(has_run.wait(every) or ends.is_set() for _ in range(_LOOKS)):
            _end_process(seconds)


def _end_process(seconds: float) -> None:
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        stacks = file.read().decode(errors="replace").splitlines()
    fields = {"seconds": round(seconds), "stacks": stacks}
    LOGGER.critical("the event loop stands still: the process ends", extra={"fields": fields})
    time.sleep(_WRITE_SECONDS)  # another thread writes it
    os._exit(EXIT_STUCK)
