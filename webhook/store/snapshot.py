"""Snapshots of the findings in the shared store, with which a new replica begins.

The leader writes one every few seconds, in parts, into two slots in turn. The head is written last
and names the slot. A part that belongs to another message of the stream than its head is not used.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Protocol

import msgspec

from webhook.store.circuit_breaker import Command
from webhook.store.seal import Seal
from webhook.store.stream import (
    BEGINNING,
    KEPT_MILLISECONDS,
    Row,
    Snapshot,
    order,
    split_by_size,
)

SAVE_SECONDS: Final = 3.0
_SLOTS: Final = 2
_IDLE_SECONDS: Final = 600.0
"""An unchanged snapshot is written again before it expires."""
_LEAST_PAUSE_FACTOR: Final = 50
"""The pause after a save lasts at least so many times as long as the save took."""
_BATCH: Final = 50
"""Rows between which other tasks get their turn."""


class _Head(msgspec.Struct, frozen=True, array_like=True, tag="head1"):
    at: bytes
    slot: int
    parts: int


class _Part(msgspec.Struct, frozen=True, array_like=True, tag="part1"):
    at: bytes
    rows: tuple[Row, ...] = ()
    waiting: tuple[bytes, ...] = ()


_heads: Final = msgspec.msgpack.Decoder(_Head)
_parts: Final = msgspec.msgpack.Decoder(_Part)


class Snapshots:
    """Builds the commands that write a snapshot, and reads it, under one prefix."""

    def __init__(self, prefix: str, seal: Seal) -> None:
        self._prefix: Final = f"{prefix}found1"
        self._seal: Final = seal
        self._slot = 0

    def write(self, snapshot: Snapshot) -> Iterator[Command]:
        """Yield the commands in order; the last one makes this the snapshot to be read."""
        self._slot = (self._slot + 1) % _SLOTS
        at, number = snapshot.at, 0
        for number, part in enumerate(_split(snapshot), start=1):
            yield self._put(self._part_key(self._slot, number), part)
        yield self._put(self._prefix, _Head(at, self._slot, number))

    async def read(self, get: Callable[[bytes], Awaitable[bytes | None]]) -> Snapshot | None:
        """Return the latest snapshot, if it is whole and of this version. Raises as `get` does."""
        try:
            found = await self._get(get, self._prefix)
            if found is None:
                return None
            head, rows, waiting = _heads.decode(found), list[Row](), list[bytes]()
            for number in range(1, head.parts + 1):
                found = await self._get(get, self._part_key(head.slot, number))
                part = None if found is None else _parts.decode(found)
                if part is None or part.at != head.at:
                    return None
                rows += part.rows
                waiting += part.waiting
            order(head.at)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        return Snapshot(head.at, tuple(rows), tuple(waiting))

    async def _get(self, get: Callable[[bytes], Awaitable[bytes | None]], key: str) -> bytes | None:
        encoded = key.encode()
        found = await get(encoded)
        return None if found is None else self._seal.open(encoded, found)

    def _part_key(self, slot: int, number: int) -> str:
        return f"{self._prefix}:{slot}:{number}"

    def _put(self, key: str, value: _Head | _Part) -> Command:
        content = self._seal.close(key.encode(), msgspec.msgpack.encode(value))
        return ("SET", key, content, "PX", KEPT_MILLISECONDS)


class KnownFindings(Protocol):
    """What is used of a Detection."""

    def rows(self) -> Iterator[Row]:
        """Yield every current finding."""

    def waiting(self) -> list[bytes]:
        """Return the facts that are not judged yet."""


class SnapshotWriter:
    """Writes snapshots of the findings, as of the message that was read last.

    Rows are collected in batches, between which other tasks get their turn. The larger a snapshot
    is, the rarer it is written: writing takes a fiftieth of the time at most.
    """

    def __init__(
        self, publish: Callable[[Command], None], snapshots: Snapshots, known: KnownFindings
    ) -> None:
        """`publish` sends a command, if the store is connected."""
        self._publish: Final = publish
        self._known: Final = known
        self._due = 0.0
        self.snapshots: Final = snapshots
        self.saved = BEGINNING
        """Message of the latest snapshot; BEGINNING after a loss: the store may have lost it."""

    async def save(self, at: bytes) -> None:
        """Write a snapshot as of the message `at` if it is due; nothing may be judged meanwhile."""
        now = time.monotonic()
        extra_wait = _IDLE_SECONDS if at == self.saved else 0.0
        if at == BEGINNING or now < self._due + extra_wait:
            return
        rows = list[Row]()
        for count, row in enumerate(self._known.rows(), start=1):
            rows.append(row)
            if count % _BATCH == 0:
                await asyncio.sleep(0)
        snapshot = Snapshot(at, tuple(rows), tuple(self._known.waiting()))
        for command in self.snapshots.write(snapshot):  # an unfinished one is never read
            self._publish(command)
            await asyncio.sleep(0)
        self.saved = at
        self._due = now + max(SAVE_SECONDS, _LEAST_PAUSE_FACTOR * (time.monotonic() - now))


def _split(snapshot: Snapshot) -> Iterator[_Part]:
    for rows in split_by_size(snapshot.rows, lambda row: len(row[1])):
        yield _Part(snapshot.at, rows=tuple(rows))
    for facts in split_by_size(snapshot.waiting, len):
        yield _Part(snapshot.at, waiting=tuple(facts))
