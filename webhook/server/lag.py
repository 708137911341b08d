"""How late the event loop is: what every answer of this process waits for before it is begun."""

import asyncio
from collections import deque
from typing import Final

_EVERY: Final = 0.05
_WINDOW: Final = 15.0
"""Seconds for which the longest lag is told: no shorter than scrapes are apart."""


class LoopLag:
    """Measures by asking the loop to call at a time, and looking how late it calls."""

    def __init__(self) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._seen: Final[deque[tuple[float, float]]] = deque()
        self._due = 0.0
        self._next: asyncio.TimerHandle = self._plan()

    def longest(self) -> float:
        """Seconds: the longest of the last ones, for the metric."""
        return self._seen[0][1] if self._seen else 0.0

    def stop(self) -> None:
        """Measure no more."""
        self._next.cancel()

    def _plan(self) -> asyncio.TimerHandle:
        self._due = self._loop.time() + _EVERY
        return self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        time = self._loop.time()
        late = max(time - self._due, 0.0)
        # Only what is longer than all after it can still become the longest.
        while self._seen and self._seen[-1][1] <= late:
            self._seen.pop()
        self._seen.append((time, late))
        while self._seen[0][0] < time - _WINDOW:
            self._seen.popleft()
        self._next = self._plan()
