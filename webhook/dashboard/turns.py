"""At most so much is done for the dashboard at once: it shares a process with admission.

What takes long is done by one thread, so that the event loop answers reviews in between.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, TypeVar

MOST_WAITING: Final = 16

_Made = TypeVar("_Made")


class BusyError(Exception):
    """Too many pages are being made already."""


class Turns:
    """One page after the other; a few may wait."""

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._one: Final = asyncio.Lock()
        self._left = most_waiting
        self._thread: Final = ThreadPoolExecutor(1, "dashboard")

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for one's turn; raises BusyError when too many wait."""
        if not self._left:
            raise BusyError
        self._left -= 1
        try:
            async with self._one:
                yield
        finally:
            self._left += 1

    async def aside(self, make: Callable[[], _Made]) -> _Made:
        """What `make` returns, made beside the event loop. It touches nothing that may change."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, make)

    def close(self) -> None:
        """Make nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)
