"""A connection that follows the stream: it waits for messages, and nobody waits for it."""

import asyncio
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from valkey.asyncio.connection import Connection
from valkey.exceptions import ValkeyError

from webhook.store.address import ValkeyAddress
from webhook.store.circuit import LostError
from webhook.store.line import (
    UNKNOWN_FORM,
    connected,
    disconnect,
    next_answer,
    reason_of,
    shaped,
)
from webhook.store.scripts import Command
from webhook.store.stream import BEGINNING, MOST_AT_ONCE, order

_WAIT_MILLISECONDS: Final = 1_000
_ANSWER_SECONDS: Final = 5.0
_Fields = Annotated[tuple[bytes, ...], msgspec.Meta(min_length=2)]
_Entries = tuple[tuple[bytes, _Fields], ...]
_Streams = tuple[tuple[bytes, _Entries]] | None


class Entry(NamedTuple):
    """One message of the stream, and its id there."""

    id: bytes
    raw: bytes


class ValkeyReader:
    """Asks one thing after the other. Everything raises LostError when there is no answer."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Final = connection

    async def read(self, key: bytes, after: bytes, *, wait: bool) -> list[Entry]:
        """The next messages; with `wait` it waits a second for one."""
        block = ("BLOCK", _WAIT_MILLISECONDS) if wait else ()
        return await self._read(key, after, block, MOST_AT_ONCE)

    async def ends(self, key: bytes) -> tuple[bytes, bytes] | None:
        """The ids of the first and the last message; None where there is none."""
        first = await self._read(key, BEGINNING, (), 1)
        last = _messages(await self._ask(("XREVRANGE", key, "+", "-", "COUNT", 1), _Entries))
        return (first[0].id, last[0].id) if first and last else None

    async def get(self, key: bytes) -> bytes | None:
        """The value of another key."""
        found: bytes | None = await self._ask(("GET", key), bytes | None)
        return found

    async def close(self) -> None:
        """Free what is held."""
        await disconnect(self._connection)

    async def _read(self, key: bytes, after: bytes, block: Command, most: int) -> list[Entry]:
        command = ("XREAD", "COUNT", most, *block, "STREAMS", key, after)
        found: _Streams = await self._ask(command, _Streams)
        if found is None:
            return []
        ((_, entries),) = found
        return _messages(entries)

    async def _ask(self, command: Command, form: Any) -> Any:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._connection.send_command(*command, check_health=False)
                answer = await next_answer(self._connection)
        except (ValkeyError, OSError) as error:
            raise LostError(reason_of(error)) from error
        return shaped(answer, form)


def _messages(entries: _Entries) -> list[Entry]:
    try:
        for identity, _ in entries:
            order(identity)
    except ValueError as error:
        raise LostError(UNKNOWN_FORM) from error
    return [Entry(identity, fields[1]) for identity, fields in entries]


async def open_reader(address: ValkeyAddress) -> ValkeyReader:
    """Connect and authenticate. Raises LostError."""
    return ValkeyReader(await connected(address))
