"""Joins this replica to the others through a Valkey or Redis store."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from genguard.objects.intended import Restored
from webhook.election.leader import Leadership
from webhook.store.address import ValkeyAddress
from webhook.store.circuit_breaker import CircuitBreaker, StoreAccess, StoreLostError, StoreState
from webhook.store.leader_lock import LeaderLock
from webhook.store.seal import KeyFile, Plain, Seal
from webhook.store.shared_detection import (
    ReplicatedDetection,
    Reporter,
    SharedDetection,
    SharedStore,
)
from webhook.store.shared_writes import REPLICA_BYTES, Scripts, SharedWrites
from webhook.tasks.supervisor import Run, Supervisor
from webhook.telemetry import declarations
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

T = TypeVar("T")

_KEY_SECONDS: Final = 10.0
_UNSEALED: Final = {
    "effect": "who can write to the store chooses what is put back into a cleared field, and what "
    "is found; who can read it learns names, and can guess short values",
    "action": "--store ...?key-file=FILE, with a key for all replicas: openssl rand -hex 32",
}
Tell = Callable[[bool, str], Awaitable[None]]
"""Called with False and the reason when the store is lost, with True when it is back."""


class Replicas:
    """What the replicas of one store share. Before `joined`, nothing is shared."""

    def __init__(
        self,
        address: ValkeyAddress,
        detection: ReplicatedDetection,
        restored: Restored,
    ) -> None:
        """Prepare without connecting.

        detection  the leader has it judge what all replicas see
        restored   the fields that this server restores
        """
        # Imported when needed: a server without a shared store does without valkey-py.
        from webhook.store.client import open_pipeline, open_stream_client, subscribe  # noqa: PLC0415

        self._address: Final = address
        self._states: Final[asyncio.Queue[StoreState]] = asyncio.Queue()
        replica = secrets.token_bytes(REPLICA_BYTES)
        scripts = Scripts(address.prefix, replica)
        self._keys: Final = None if address.key_file is None else KeyFile(address.key_file)
        seal: Seal = Plain() if self._keys is None else self._keys.seal
        access = StoreAccess(
            lambda: self._with_key(open_pipeline),
            lambda on_open, on_message: subscribe(address, scripts.channel, on_open, on_message),
            scripts.probe(),
        )
        self.circuit: Final = CircuitBreaker(access, self._states.put_nowait)
        self.writes: Final = SharedWrites(self.circuit, scripts, seal, restored)
        store = SharedStore(
            lambda: self._with_key(open_stream_client),
            lambda: self._with_key(open_pipeline),
            scripts.probe(),
            address.prefix,
            replica,
            seal,
        )
        self.sharing: Final = SharedDetection(store, detection)
        self.lock: Final = LeaderLock(self.circuit, address.prefix, replica)

    @asynccontextmanager
    async def joined(
        self, metrics: Metrics, tell: Tell | None, supervisor: Supervisor
    ) -> AsyncIterator[None]:
        """Keep the store connected while the context is entered.

        Does not wait for the connection: a webhook must start without its store.
        """
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
        work: dict[str, Run] = {
            "shared store": lambda: self.circuit.run(self.writes),
            "news of the store": lambda: self._pass_on(tell),
        }
        if self._keys is not None:
            work["key of the store"] = self._renew_keys
        async with supervisor.running(work):
            yield

    @asynccontextmanager
    async def shared(
        self, reporter: Reporter, leadership: Leadership, supervisor: Supervisor
    ) -> AsyncIterator[None]:
        """Share detection while the context is entered, within `joined`.

        At the end, what was gathered last is still sent.
        """

        def leads() -> bool:
            return leadership.is_leader

        sharing: dict[str, Run] = {
            "shared detection": lambda: self.sharing.keep_connected(reporter, leads),
            "judging for all": lambda: self.sharing.keep_judging(leads, supervisor),
        }
        async with supervisor.running(sharing):
            try:
                yield
            finally:
                await self.sharing.finish(supervisor)

    async def _with_key(self, open_connection: Callable[[ValkeyAddress], Awaitable[T]]) -> T:
        """Open a connection once there is a key. Raises StoreLostError."""
        if self._keys is not None:
            await self._keys.read()
        return await open_connection(self._address)

    async def _renew_keys(self) -> None:
        """Read the key file again and again; without a key in it, the keys before stay in use."""
        while self._keys is not None:
            await asyncio.sleep(_KEY_SECONDS)
            with contextlib.suppress(StoreLostError):  # the next connection reports it
                await self._keys.read()

    async def _pass_on(self, tell: Tell | None) -> None:
        while True:
            state = await self._states.get()
            if tell is not None:
                await tell(state.up, state.reason)
