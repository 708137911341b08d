"""Joins this replica to the others through a Valkey or Redis store."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from webhook.alerts.leader import Leadership
from webhook.objects.intended import Restored
from webhook.running import running
from webhook.store.address import ValkeyAddress
from webhook.store.circuit import Circuit, LostError, Turn, Way
from webhook.store.lock import StoreLock
from webhook.store.scripts import REPLICA_BYTES, Scripts
from webhook.store.seal import KeyFile, Plain, Seal
from webhook.store.shared import SharedWrites
from webhook.store.sharing import Place, Sharer, Sharing, Teller
from webhook.telemetry import declarations
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

T = TypeVar("T")

_KEY_SECONDS: Final = 10.0
_UNSEALED: Final = {
    "effect": "who can write to the store chooses what is put back into a cleared field, and what "
    "is found; who can read it learns names, and can guess short values",
    "mend": "--store ...?key-file=FILE, with a key for all replicas: openssl rand -hex 32",
}
Tell = Callable[[bool, str], Awaitable[None]]
"""Is told when the store was lost, and why, and when it is back."""


class Replicas:
    """What the replicas of one store have in common. Until `joined`, each has its own."""

    def __init__(self, address: ValkeyAddress, judge: Sharer, restored: Restored) -> None:
        """Connect to nothing yet. `judge` is to see what all replicas see.

        `restored` are the fields that this server puts back.
        """
        # Imported when wanted: the client is of no use to a server without a shared store.
        from webhook.store.line import listen, open_line  # noqa: PLC0415
        from webhook.store.reader import open_reader  # noqa: PLC0415

        self._address: Final = address
        self._turns: Final[asyncio.Queue[Turn]] = asyncio.Queue()
        replica = secrets.token_bytes(REPLICA_BYTES)
        scripts = Scripts(address.prefix, replica)
        self._keys: Final = None if address.key_file is None else KeyFile(address.key_file)
        seal: Seal = Plain() if self._keys is None else self._keys.seal
        way = Way(
            lambda: self._with_key(open_line),
            lambda on_open, on_message: listen(address, scripts.channel, on_open, on_message),
            scripts.probe(),
        )
        self.circuit: Final = Circuit(way, self._turns.put_nowait)
        self.writes: Final = SharedWrites(self.circuit, scripts, seal, restored)
        place = Place(
            lambda: self._with_key(open_reader),
            lambda: self._with_key(open_line),
            scripts.probe(),
            address.prefix,
            replica,
            seal,
        )
        self.sharing: Final = Sharing(place, judge)
        self.lock: Final = StoreLock(self.circuit, address.prefix, replica)

    @asynccontextmanager
    async def joined(self, metrics: Metrics, tell: Tell | None) -> AsyncIterator[None]:
        """Keep up the connection; does not wait for it, for a webhook must come up without."""
        metrics.gauge(declarations.STORE_UP, lambda: float(self.circuit.up))
        metrics.counts(declarations.STORE_REQUESTS, self.circuit.requests.items)
        metrics.gauge(declarations.STORE_SHARED, lambda: float(self.sharing.is_shared))
        metrics.counts(declarations.STORE_FACTS, self.sharing.counts)
        metrics.gauge(declarations.STORE_LAG, self.sharing.lag)
        metrics.counts(
            declarations.STORE_DROPPED,
            lambda: (((reason,), count) for reason, count in self.writes.dropped.items()),
        )
        LOGGER.info("joining replicas", extra={"facts": {"store": str(self._address)}})
        if self._keys is None:
            LOGGER.warning("what replicas share is not sealed", extra={"facts": _UNSEALED})
        work = (self.circuit.run(self.writes), self._pass_on(tell), self._renew_keys())
        async with running(work):
            yield

    @asynccontextmanager
    async def shared(self, teller: Teller, leadership: Leadership) -> AsyncIterator[None]:
        """Have one detection with the others; `joined` lasts longer, for what is sent last."""
        async with running((self.sharing.run(teller, lambda: leadership.is_leader),)):
            try:
                yield
            finally:
                await self.sharing.finish()

    async def _with_key(self, opened: Callable[[ValkeyAddress], Awaitable[T]]) -> T:
        """A connection, once there is a key. Raises LostError."""
        if self._keys is not None:
            await self._keys.read()
        return await opened(self._address)

    async def _renew_keys(self) -> None:
        """Go by the keys of the file, as long as it holds any."""
        while self._keys is not None:
            await asyncio.sleep(_KEY_SECONDS)
            with contextlib.suppress(LostError):  # told by the next connection, if it lasts
                await self._keys.read()

    async def _pass_on(self, tell: Tell | None) -> None:
        while True:
            turn = await self._turns.get()
            if tell is not None:
                await tell(turn.up, turn.reason)
