"""What a replica that is new begins with: the findings of the others, and as of which message.

The one that leads writes them in parts, into two slots by turns; the head comes last and names the
slot. A part that is of another moment than its head is as good as none.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from webhook.store.scripts import Command
from webhook.store.seal import Seal, UnsealedError
from webhook.store.stream import KEPT_MILLISECONDS, Row, by_size

_SLOTS: Final = 2


class Snapshot(NamedTuple):
    """Findings after the message `at`, and facts that wait to be judged; see Detection.restore."""

    at: bytes
    rows: tuple[Row, ...]
    waiting: tuple[bytes, ...]


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
    """Commands that write them, and the way to read one, under one prefix."""

    def __init__(self, prefix: str, seal: Seal) -> None:
        self._prefix: Final = f"{prefix}found1"
        self._seal: Final = seal
        self._slot = 0

    def write(self, snapshot: Snapshot) -> Iterator[Command]:
        """One after the other; the last one makes it the one to be read."""
        self._slot = (self._slot + 1) % _SLOTS
        at, number = snapshot.at, 0
        for number, part in enumerate(_split(snapshot), start=1):
            yield self._put(self._part(self._slot, number), part)
        yield self._put(self._prefix, _Head(at, self._slot, number))

    async def read(self, get: Callable[[bytes], Awaitable[bytes | None]]) -> Snapshot | None:
        """The latest, if it is whole and of this version. Raises what `get` does."""
        try:
            found = await self._get(get, self._prefix)
            if found is None:
                return None
            head, rows, waiting = _heads.decode(found), list[Row](), list[bytes]()
            for number in range(1, head.parts + 1):
                found = await self._get(get, self._part(head.slot, number))
                part = None if found is None else _parts.decode(found)
                if part is None or part.at != head.at:
                    return None
                rows += part.rows
                waiting += part.waiting
        except (msgspec.MsgspecError, UnicodeDecodeError, UnsealedError):
            return None
        return Snapshot(head.at, tuple(rows), tuple(waiting))

    async def _get(self, get: Callable[[bytes], Awaitable[bytes | None]], key: str) -> bytes | None:
        place = key.encode()
        found = await get(place)
        return None if found is None else self._seal.open(place, found)

    def _part(self, slot: int, number: int) -> str:
        return f"{self._prefix}:{slot}:{number}"

    def _put(self, key: str, value: _Head | _Part) -> Command:
        content = self._seal.close(key.encode(), msgspec.msgpack.encode(value))
        return ("SET", key, content, "PX", KEPT_MILLISECONDS)


def _split(snapshot: Snapshot) -> Iterator[_Part]:
    for rows in by_size(snapshot.rows, lambda row: len(row[1])):
        yield _Part(snapshot.at, rows=tuple(rows))
    for facts in by_size(snapshot.waiting, len):
        yield _Part(snapshot.at, waiting=tuple(facts))
