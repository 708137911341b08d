"""How late the event loop is: what every answer of this process waits for before it is begun."""

import asyncio
import time
from collections import deque
from typing import Final

_EVERY: Final = 0.05
_WINDOW: Final = 15.0
"""Seconds for which the longest lag is told: no shorter than scrapes are apart."""


class LoopLag:
    """Measures by asking the loop to call at a time, and looking how late it calls.

    before_last  what is read now has come after this moment, on the clock of time.monotonic: the
                 loop has looked at its connections since, however late it is. When it is not
                 late, the moment is a tenth of a second ago at most
    """

    def __init__(self) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._seen: Final[deque[tuple[float, float]]] = deque()
        self._due = self.before_last = time.monotonic()
        self._next: asyncio.TimerHandle = self._plan(self._due)

    def longest(self) -> float:
        """Seconds: the longest of the last ones, for the metric."""
        return self._seen[0][1] if self._seen else 0.0

    def stop(self) -> None:
        """Measure no more."""
        self._next.cancel()

    def _plan(self, now: float) -> asyncio.TimerHandle:
        self.before_last, self._due = self._due, now + _EVERY
        return self._loop.call_later(_EVERY, self._look)

    def _look(self) -> None:
        now = time.monotonic()
        late = max(now - self._due, 0.0)
        # Only what is longer than all after it can still become the longest.
        while self._seen and self._seen[-1][1] <= late:
            self._seen.pop()
        self._seen.append((now, late))
        while self._seen[0][0] < now - _WINDOW:
            self._seen.popleft()
        self._next = self._plan(now)
