"""Shares acknowledgements and silences of findings among replicas: one value in the store.

Each replica reads the value every few seconds and takes what is later than what it has. What the
value lacks it writes back, if nobody else has written meanwhile. So all replicas come to hold the
same, whoever made an entry, and a store that lost everything gets it again. While the store is lost
each replica goes by its own.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from genguard.detection.silences import MOST_SILENCES, Silence, Silences
from webhook.store.circuit_breaker import Answer, Command, StoreLostError
from webhook.store.seal import Seal, UnsealedError

PAUSE_SECONDS: Final = 2.0
LARGEST_VALUE: Final = 2 * 1024 * 1024
"""Bytes of a value that is read: MOST_SILENCES of them take less than a quarter."""
_LEAST_SECONDS: Final = 60.0
# pcall: what another program put there is of another type, and is replaced.
_READ: Final = """\
local known = redis.pcall('GET', KEYS[1])
if type(known) ~= 'string' or #known > tonumber(ARGV[1]) then return '' end
return known
"""
_WRITE: Final = """\
local known = redis.pcall('GET', KEYS[1])
if type(known) ~= 'string' then known = '' end
if known ~= ARGV[1] and #known <= tonumber(ARGV[4]) then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
_decoder: Final = msgspec.msgpack.Decoder(list[Silence])


class Store(Protocol):
    """What is used of a CircuitBreaker."""

    async def ask(self, operation: str, command: Command) -> Answer:
        """Return the answer, in time; raises StoreLostError."""


class SharedSilences:
    """Keeps the silences of this replica and of the store alike. `run` it in a task."""

    def __init__(
        self,
        store: Store,
        prefix: str,
        seal: Seal,
        silences: Silences,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives Unix seconds."""
        self._store: Final = store
        self._key: Final = f"{prefix}silences1"  # 1: the form of the value
        self._seal: Final = seal
        self._silences: Final = silences
        self._clock: Final = clock

    async def run(self) -> None:
        """Share, for ever."""
        while True:
            await self.sync()
            await asyncio.sleep(PAUSE_SECONDS)

    async def sync(self) -> None:
        """Read the value, take what is later, and write what it lacks. Never raises."""
        try:
            found = await self._store.ask("silence", ("EVAL", _READ, 1, self._key, LARGEST_VALUE))
            before = found if isinstance(found, bytes) else b""
            shared = self._open(before)
            now = self._clock()
            self._silences.merge(shared, now)
            own = self._silences.all(now)
            if own == tuple(one for one in shared if one.until > now):
                return
            longest = max((one.until - now for one in own), default=0.0)
            kept = int(max(longest, _LEAST_SECONDS) * 1000)
            content = self._seal.close(self._key.encode(), msgspec.msgpack.encode(own))
            await self._store.ask(
                "silence",
                ("EVAL", _WRITE, 1, self._key, before, content, kept, LARGEST_VALUE),
            )
        except StoreLostError:
            return

    def _open(self, sealed: bytes) -> list[Silence]:
        """Return what the store has; nothing where no replica of ours can have written it."""
        if not sealed:
            return []
        try:
            found = _decoder.decode(self._seal.open(self._key.encode(), sealed))
        except (UnsealedError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return []
        return found if len(found) <= MOST_SILENCES else []
