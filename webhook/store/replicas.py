"""Joins this replica to the others through a Valkey or Redis store."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from webhook.alerts.leader import Leadership
from webhook.running import running
from webhook.store.address import ValkeyAddress
from webhook.store.circuit import Circuit, Turn, Way
from webhook.store.lock import StoreLock
from webhook.store.scripts import REPLICA_BYTES, Scripts
from webhook.store.shared import SharedWrites
from webhook.store.sharing import Place, Sharer, Sharing, Teller
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

Tell = Callable[[bool, str], Awaitable[None]]
"""Is told when the store was lost, and why, and when it is back."""


class Replicas:
    """What the replicas of one store have in common. Until `joined`, each has its own."""

    def __init__(self, address: ValkeyAddress, judge: Sharer) -> None:
        """Connect to nothing yet. `judge` is to see what all replicas see."""
        # Imported when wanted: the client is of no use to a server without a shared store.
        from webhook.store.line import listen, open_line  # noqa: PLC0415
        from webhook.store.reader import open_reader  # noqa: PLC0415

        self._address: Final = address
        self._turns: Final[asyncio.Queue[Turn]] = asyncio.Queue()
        replica = secrets.token_bytes(REPLICA_BYTES)
        scripts = Scripts(address.prefix, replica)
        way = Way(
            lambda: open_line(address),
            lambda on_open, on_message: listen(address, scripts.channel, on_open, on_message),
            scripts.probe(),
        )
        self.circuit: Final = Circuit(way, self._turns.put_nowait)
        self.writes: Final = SharedWrites(self.circuit, scripts)
        place = Place(
            lambda: open_reader(address),
            lambda: open_line(address),
            scripts.probe(),
            address.prefix,
            replica,
        )
        self.sharing: Final = Sharing(place, judge)
        self.lock: Final = StoreLock(self.circuit, address.prefix, replica)

    @asynccontextmanager
    async def joined(self, metrics: Metrics, tell: Tell | None) -> AsyncIterator[None]:
        """Keep up the connection; does not wait for it, for a webhook must come up without."""
        metrics.gauge(
            "store_up", "1 while the shared store is asked.", lambda: float(self.circuit.up)
        )
        metrics.counts(
            "store_requests",
            "Commands for the shared store, by what became of them.",
            ("operation", "result"),
            self.circuit.requests.items,
        )
        metrics.gauge(
            "store_shared",
            "1 while all replicas judge what this one sees.",
            lambda: float(self.sharing.is_shared),
        )
        metrics.counts(
            "store_facts",
            "What detection learns of reviews, by what became of it in the shared store.",
            ("result",),
            self.sharing.counts,
        )
        metrics.gauge(
            "store_lag_seconds",
            "For how long the oldest message to the shared store has not come back.",
            self.sharing.lag,
        )
        LOGGER.info("joining replicas", extra={"facts": {"store": str(self._address)}})
        async with running((self.circuit.run(self.writes), self._pass_on(tell))):
            yield

    @asynccontextmanager
    async def shared(self, teller: Teller, leadership: Leadership) -> AsyncIterator[None]:
        """Have one detection with the others; `joined` lasts longer, for what is sent last."""
        async with running((self.sharing.run(teller, lambda: leadership.is_leader),)):
            try:
                yield
            finally:
                await self.sharing.finish()

    async def _pass_on(self, tell: Tell | None) -> None:
        while True:
            turn = await self._turns.get()
            if tell is not None:
                await tell(turn.up, turn.reason)
