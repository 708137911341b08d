"""The one that leads saves what a replica that is new begins with, every few seconds.

A save is taken in bites of the event loop, between two messages of the stream; a large one comes
so much less often that saves never take more than a small part of the time.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from webhook.store.scripts import Command
from webhook.store.snapshot import Snapshot, Snapshots
from webhook.store.stream import BEGINNING, Row

SAVE_SECONDS: Final = 3.0
_IDLE_SECONDS: Final = 600.0
"""What has not changed is saved again before it expires."""
_SHARE: Final = 50
"""One part in so many of the time."""
_BITE: Final = 50


class Known(Protocol):
    """What a Detection knows; see there."""

    def rows(self) -> Iterator[Row]:
        """Every finding of now."""

    def waiting(self) -> list[bytes]:
        """Facts that are not judged yet."""


class Saving:
    """Snapshots of what is known, as of the message that was read last."""

    def __init__(
        self, publish: Callable[[Command], None], snapshots: Snapshots, known: Known
    ) -> None:
        """`publish` sends a command, if that can be now."""
        self._publish: Final = publish
        self._known: Final = known
        self._due = 0.0
        self.snapshots: Final = snapshots
        self.saved = BEGINNING
        """As of which message; BEGINNING after a loss, for the store may have lost it too."""

    async def save(self, at: bytes) -> None:
        """If it is time; nothing may be judged meanwhile."""
        now = time.monotonic()
        waits = _IDLE_SECONDS if at == self.saved else 0.0
        if at == BEGINNING or now < self._due + waits:
            return
        rows = list[Row]()
        for count, row in enumerate(self._known.rows(), start=1):
            rows.append(row)
            if count % _BITE == 0:
                await asyncio.sleep(0)
        snapshot = Snapshot(at, tuple(rows), tuple(self._known.waiting()))
        for command in self.snapshots.write(snapshot):  # half of it is not read
            self._publish(command)
            await asyncio.sleep(0)
        self.saved = at
        self._due = now + max(SAVE_SECONDS, _SHARE * (time.monotonic() - now))
