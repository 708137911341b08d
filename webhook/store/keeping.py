"""Keeps what is to survive a restart: loaded before the server starts, saved as it changes.

A save takes what changed since the last one, in small bites on the loop; the disk is a thread's
business. A save that fails is told once, counted, and made good by the next.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

import msgspec

from webhook.store.address import BadStoreError
from webhook.store.sqlite import Changes, NotSavedError, Row
from webhook.telemetry import declarations
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics
from webhook.threads import in_thread

SAVE_SECONDS: Final = 3.0
_BITE: Final = 200


class Kept(Protocol):
    """Something that is kept as rows."""

    def marks(self) -> Iterator[tuple[str, Any]]:
        """The name of each row, and what is another value once the row is another."""

    def export(self, name: str) -> bytes | None:
        """One row; None when it is gone by now."""

    def restore(self, rows: Iterable[Row]) -> None:
        """Take rows in, at the start. Raises msgspec.MsgspecError or ValueError."""


class Rows(Protocol):
    """Where rows are kept; see SqliteFile."""

    def load(self, kind: str) -> list[Row]:
        """All rows of a kind."""

    def save(self, changes: Mapping[str, Changes]) -> None:
        """Put and take out rows, all at once; raises NotSavedError."""

    def close(self) -> None:
        """The last call."""


class Keeping:
    """Keeps some parts, each under a name of its own, in rows."""

    def __init__(self, rows: Rows, parts: Mapping[str, Kept]) -> None:
        """Load every part. Raises BadStoreError, and closes the rows then."""
        self._rows: Final = rows
        self._parts: Final = parts
        self._saved: Final[dict[str, dict[str, Any]]] = {}
        self._is_failing = False
        self.failures = 0
        for kind, part in parts.items():
            try:
                part.restore(rows.load(kind))
            except (msgspec.MsgspecError, ValueError) as error:
                rows.close()
                raise BadStoreError(
                    f"--store: {kind} cannot be read; move the file away to start with nothing"
                ) from error
            self._saved[kind] = dict(part.marks())

    @asynccontextmanager
    async def running(self, metrics: Metrics) -> AsyncIterator[None]:
        """Save every few seconds, and once more at the end."""
        metrics.gauge(declarations.STORE_SAVE_FAILURES, lambda: float(self.failures))
        over = asyncio.Event()
        saving = asyncio.create_task(self._run(over))
        try:
            yield
        finally:
            over.set()  # and not cancelled: a thread may be writing
            await saving
            await in_thread(self._rows.close)

    async def save(self) -> None:
        """Save what changed. Never raises."""
        changes = {kind: await self._changes(kind, part) for kind, part in self._parts.items()}
        if not any(rows or gone for rows, gone in changes.values()):
            return
        try:
            await in_thread(self._rows.save, changes)
        except NotSavedError as error:
            self.failures += 1
            self._forget(changes)
            if not self._is_failing:
                LOGGER.warning("state not saved", extra={"facts": {"reason": str(error)}})
            self._is_failing = True
        else:
            if self._is_failing:
                LOGGER.info("state is saved again")
            self._is_failing = False

    async def _run(self, over: asyncio.Event) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SAVE_SECONDS):
                    await over.wait()
            is_last = over.is_set()
            await self.save()
            if is_last:
                return

    async def _changes(self, kind: str, part: Kept) -> Changes:
        saved, rows, there = self._saved[kind], list[Row](), set[str]()
        for count, (name, mark) in enumerate(part.marks(), start=1):
            there.add(name)
            if name not in saved or saved[name] != mark:
                content = part.export(name)
                if content is not None:
                    rows.append((name, content))
                    saved[name] = mark
            if count % _BITE == 0:
                await asyncio.sleep(0)
        gone = tuple(saved.keys() - there) if len(saved) > len(there) else ()
        for name in gone:
            del saved[name]
        return Changes(rows, gone)

    def _forget(self, changes: Mapping[str, Changes]) -> None:
        """These were not saved: whatever they are next time counts as a change."""
        for kind, (rows, gone) in changes.items():
            self._saved[kind].update(dict.fromkeys([*(name for name, _ in rows), *gone], _UNSAVED))


class _Unsaved:
    """Equal to no mark."""


_UNSAVED: Final = _Unsaved()
