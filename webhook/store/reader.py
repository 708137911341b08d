"""A connection that follows the stream: it waits for messages, and nobody waits for it."""

import asyncio
from typing import Final, NamedTuple

from valkey.asyncio.connection import Connection
from valkey.exceptions import ValkeyError

from webhook.store.address import ValkeyAddress
from webhook.store.circuit import Answer, LostError
from webhook.store.line import connected, disconnect, reason_of
from webhook.store.scripts import Command
from webhook.store.stream import BEGINNING, MOST_AT_ONCE

_WAIT_MILLISECONDS: Final = 1_000
_ANSWER_SECONDS: Final = 5.0


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
        last = await self._ask(("XREVRANGE", key, "+", "-", "COUNT", 1))
        return (first[0].id, last[0][0]) if first and last else None

    async def get(self, key: bytes) -> bytes | None:
        """The value of another key."""
        found: bytes | None = await self._ask(("GET", key))
        return found

    async def close(self) -> None:
        """Free what is held."""
        await disconnect(self._connection)

    async def _read(self, key: bytes, after: bytes, block: Command, most: int) -> list[Entry]:
        found = await self._ask(("XREAD", "COUNT", most, *block, "STREAMS", key, after))
        if not found:
            return []
        ((_, entries),) = found
        return [Entry(identity, fields[1]) for identity, fields in entries]

    async def _ask(self, command: Command) -> Answer:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._connection.send_command(*command, check_health=False)
                return await self._connection.read_response(disable_decoding=True)
        except (ValkeyError, OSError) as error:
            raise LostError(reason_of(error)) from error


async def open_reader(address: ValkeyAddress) -> ValkeyReader:
    """Connect and authenticate. Raises LostError."""
    return ValkeyReader(await connected(address))
