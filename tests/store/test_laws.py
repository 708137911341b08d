"""Whatever the order: replicas with a store remember what one process would."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from genguard.admission.review import JoinKey
from genguard.objects.intended import EVERY_OBSERVED_GENERATION, Intended
from genguard.objects.observed import Observed
from genguard.review_setup import MemoryIntents
from tests.store.proxy import Proxy
from tests.waiting import PATIENCE, patiently
from webhook.store import circuit_breaker as module
from webhook.store.address import ValkeyAddress
from webhook.store.circuit_breaker import CircuitBreaker, StoreAccess
from webhook.store.client import open_pipeline, subscribe
from webhook.store.seal import Sealed
from webhook.store.shared_writes import Scripts, SharedWrites

KEY = JoinKey("apps", "deployments", "status", "default", "a", "uid", "someone", "7", dry_run=False)
NOW = 1000.0
REPLICAS = 3


def seal() -> Sealed:
    """Each replica has read the same key."""
    found = Sealed()
    found.use(("a key for all replicas, of 32 characters",))
    return found


class Member:
    """One replica in this process: it counts what it has heard."""

    def __init__(self, address: ValkeyAddress) -> None:
        self.scripts = Scripts(address.prefix, secrets.token_bytes(8))
        access = StoreAccess(
            lambda: open_pipeline(address),
            lambda on_open, on_message: subscribe(
                address, self.scripts.channel, on_open, on_message
            ),
            self.scripts.probe(),
        )  # fmt: skip
        self.circuit = CircuitBreaker(access, lambda state: None)
        self.writes = SharedWrites(self.circuit, self.scripts, seal(), EVERY_OBSERVED_GENERATION)
        self.heard: set[bytes] = set()

    def invalidate(self, message: bytes) -> None:
        self.heard.add(message)
        self.writes.invalidate(message)

    def invalidate_all(self) -> None:
        self.writes.invalidate_all()

    async def ask(self) -> Intended | None:
        """As the handler does at /mutate."""
        if self.writes.lacks(KEY, NOW):
            await self.writes.fetch(KEY, NOW)
        return self.writes.intents.get(KEY, NOW)


steps = st.lists(
    st.tuples(
        st.integers(0, REPLICAS - 1), st.sampled_from(["put 4", "put 5", "ask", "ask", "blip"])
    ),
    min_size=1,
    max_size=12,
)


@given(steps)
@example([(0, "put 4"), (0, "put 5"), (0, "put 4"), (0, "ask")])
@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_replica_answers_as_one_process_would(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, story: list[tuple[int, str]]
):
    # A busy machine must not make the story another one: here the store is waited for.
    monkeypatch.setattr(module, "ANSWER_SECONDS", PATIENCE)
    prefix = f"{secrets.token_hex(4)}:"
    asyncio.run(_play(ValkeyAddress("127.0.0.1", proxy.port, prefix=prefix), story))


async def _play(address: ValkeyAddress, story: list[tuple[int, str]]) -> None:
    members = [Member(address) for _ in range(REPLICAS)]
    running = [asyncio.create_task(one.circuit.run(one)) for one in members]
    alone = MemoryIntents()
    try:
        await _until(lambda: all(one.circuit.up for one in members))
        for who, what in story:
            member = members[who]
            if what == "ask":
                assert await member.ask() == alone.get(KEY, NOW)
            elif what == "blip":
                member.invalidate_all()
            else:
                intended = Intended(Observed(int(what[-1]), ()))
                member.writes.intents.put(KEY, intended, NOW)
                alone.put(KEY, intended, NOW)
            await _heard(member, members)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _heard(sender: Member, members: list[Member]) -> None:
    """All that was published before this has arrived."""
    mark = secrets.token_bytes(24)
    command = ("PUBLISH", sender.scripts.channel, mark)
    await sender.circuit.ask("test", command)
    await _until(lambda: all(mark in one.heard for one in members))


async def _until(true: Callable[[], bool]) -> Awaitable[None] | None:
    async with patiently():
        while not true():
            await asyncio.sleep(0.0005)
