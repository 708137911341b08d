"""The findings that the leader publishes in the shared store: the others show them.

They are split into parts, of which only those are written that have changed: each time under a key
of its own, which no other leader writes. The head is written last, and names the version of each
part. What the leader has taken from the stream is in the head too, so that the next leader goes on
from there.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Final, Protocol
from zlib import crc32

import msgspec

from genguard.detection.finding import Finding
from genguard.detection.ledger import Row
from webhook.store.circuit_breaker import Command
from webhook.store.seal import Seal, UnsealedError
from webhook.store.stream import BEGINNING, KEPT_MILLISECONDS, MOST_SENDERS, order

PUBLISH_SECONDS: Final = 1.0
PARTS: Final = 64
_EMPTY: Final = 0
"""The version of a part without findings; others are random."""
_VERSION_BITS: Final = 60
_REFRESH_SECONDS: Final = 600.0
"""Parts that have not changed are written again before they expire."""
_LEAST_PAUSE_FACTOR: Final = 50
"""The pause after publishing lasts at least so many times as long as it took."""

Get = Callable[[bytes], Awaitable[bytes | None]]
"""Returns the value of a key."""


class Head(msgspec.Struct, frozen=True, array_like=True, tag="head2"):
    """What the leader knew at one moment.

    at        id of the last message of the stream that it had taken
    taken     the number of the last message of each sender
    versions  of each part
    """

    at: bytes
    taken: Annotated[dict[bytes, int], msgspec.Meta(max_length=MOST_SENDERS)]
    versions: Annotated[tuple[int, ...], msgspec.Meta(min_length=PARTS, max_length=PARTS)]


NO_HEAD: Final = Head(BEGINNING, {}, (_EMPTY,) * PARTS)


class _Part(msgspec.Struct, frozen=True, array_like=True, tag="part2"):
    version: int
    rows: tuple[Row, ...]


_heads: Final = msgspec.msgpack.Decoder(Head)
_parts: Final = msgspec.msgpack.Decoder(_Part)


class Snapshots:
    """Builds the commands that write findings, and reads them, under one prefix."""

    def __init__(self, prefix: str, seal: Seal) -> None:
        self._prefix: Final = f"{prefix}found2"
        self._seal: Final = seal

    def write_part(self, number: int, version: int, rows: Iterable[Row]) -> Command:
        """Return the command that writes a part."""
        return self._put(self._key(number, version), _Part(version, tuple(rows)))

    def write_head(self, head: Head) -> Command:
        """Return the command after which the parts that the head names are to be read."""
        return self._put(self._prefix, head)

    async def head(self, get: Get) -> Head | None:
        """Return the head, if it is of this version. Raises as `get` does."""
        try:
            found = await self._get(get, self._prefix)
            head = None if found is None else _heads.decode(found)
            if head is not None:
                order(head.at)
        except (UnsealedError, msgspec.MsgspecError, ValueError, RecursionError):
            return None
        return head

    async def part(self, get: Get, number: int, version: int) -> tuple[Row, ...] | None:
        """Return the findings of a part in this version; None where it is not there."""
        if version == _EMPTY:
            return ()
        try:
            found = await self._get(get, self._key(number, version))
            part = None if found is None else _parts.decode(found)
        except (UnsealedError, msgspec.MsgspecError, ValueError, RecursionError):
            return None
        return None if part is None or part.version != version else part.rows

    def delete_part(self, number: int, version: int) -> Command:
        """Return the command that deletes a part: no head has named it for a while."""
        return ("DEL", self._key(number, version))

    async def _get(self, get: Get, key: str) -> bytes | None:
        encoded = key.encode()
        found = await get(encoded)
        return None if found is None else self._seal.open(encoded, found)

    def _key(self, number: int, version: int) -> str:
        return f"{self._prefix}:{number}:{version:x}"

    def _put(self, key: str, value: Head | _Part) -> Command:
        content = self._seal.close(key.encode(), msgspec.msgpack.encode(value))
        return ("SET", key, content, "PX", KEPT_MILLISECONDS)


class ShownFindings(Protocol):
    """The findings of the leader; see Ledger."""

    def shown(self) -> Mapping[str, Finding]:
        """Return each finding by its name, the same one as long as nothing changed."""

    def export_shown(self, name: str) -> bytes | None:
        """Return a finding as bytes; None when it is gone by now."""


class SnapshotWriter:
    """Publishes the findings of the leader.

    Between parts other tasks get their turn. The more there is to write, the rarer it is written:
    that takes a fiftieth of the time at most.

    It runs no task of its own, unlike StatePersister: findings and the position in the stream must
    be of one moment, so the task that judges publishes, and judges nothing meanwhile. A write that
    fails is not repeated either: it ends the connection, and on the next all is written again.
    """

    def __init__(
        self, publish: Callable[[Command], None], snapshots: Snapshots, findings: ShownFindings
    ) -> None:
        """`publish` sends a command, if the store is connected."""
        self._publish: Final = publish
        self._snapshots: Final = snapshots
        self._findings: Final = findings
        self._due = 0.0
        self._versions = list(NO_HEAD.versions)
        self._older = list(NO_HEAD.versions)
        self.write_all()

    def go_on(self, head: Head) -> None:
        """Write everything next, after what an earlier leader has published last."""
        self._versions = list(head.versions)
        self.write_all()

    def write_all(self) -> None:
        """Write everything next: nobody knows what the store has."""
        self._written: list[dict[str, Finding]] = [{} for _ in range(PARTS)]
        self._refresh = time.monotonic() + _REFRESH_SECONDS

    async def write(self, at: bytes, taken: dict[bytes, int], *, is_last: bool = False) -> bool:
        """Publish if it is due, and return whether it was; nothing may be judged meanwhile."""
        now = time.monotonic()
        if now < self._due and not is_last:
            return False
        if now >= self._refresh:
            self.write_all()
        for number, part in enumerate(_split(self._findings.shown())):
            if _is_same(part, self._written[number]) and (part or not self._versions[number]):
                continue
            self._write_part(number, part)
            await asyncio.sleep(0)
        self._publish(self._snapshots.write_head(Head(at, taken, tuple(self._versions))))
        self._due = now + max(PUBLISH_SECONDS, _LEAST_PAUSE_FACTOR * (time.monotonic() - now))
        return True

    def _write_part(self, number: int, part: dict[str, Finding]) -> None:
        rows = [(name, self._findings.export_shown(name)) for name in part]
        version = secrets.randbits(_VERSION_BITS) + 1 if part else _EMPTY
        if part:
            good = [(name, row) for name, row in rows if row is not None]
            self._publish(self._snapshots.write_part(number, version, good))
        if self._older[number]:  # the last one may be read just now
            self._publish(self._snapshots.delete_part(number, self._older[number]))
        self._older[number], self._versions[number] = self._versions[number], version
        self._written[number] = part


def _split(shown: Mapping[str, Finding]) -> list[dict[str, Finding]]:
    parts: list[dict[str, Finding]] = [{} for _ in range(PARTS)]
    for name, finding in shown.items():
        parts[crc32(name.encode()) % PARTS][name] = finding
    return parts


def _is_same(one: Mapping[str, Finding], other: Mapping[str, Finding]) -> bool:
    return len(one) == len(other) and all(other.get(name) is found for name, found in one.items())
