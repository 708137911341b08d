"""Whatever becomes of the store: what one replica sees counts once, and at every replica."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from genguard.detection.fact import UnreadableFactError
from tests.store.proxy import Proxy
from tests.store.server import StoreServer
from tests.waiting import PATIENCE, until
from webhook.store import client, snapshot
from webhook.store import shared_detection as module
from webhook.store.address import ValkeyAddress
from webhook.store.client import open_pipeline, open_stream_client
from webhook.store.seal import Sealed
from webhook.store.shared_detection import SharedDetection, SharedStore
from webhook.store.shared_writes import Scripts
from webhook.store.stream import Facts, Found, Row, Stream

pytestmark = pytest.mark.xdist_group("store")

_BAD = b"bad"
SEAL = Sealed()
"""By a key that all replicas of a test have."""


class Tally:
    """In place of a Detection: it counts."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.alone: Counter[str] = Counter()

    def see_encoded(self, fact: bytes) -> None:
        if fact == _BAD:
            raise UnreadableFactError
        self.counts[fact.decode()] += 1

    def see_alone(self, fact: bytes) -> None:
        self.see_encoded(fact)
        self.alone[fact.decode()] += 1

    def found_alone(self) -> list[Row]:
        alone, self.alone = +self.alone, Counter()
        return [(name, b"%d" % count) for name, count in alone.items()]

    def absorb(self, rows: Iterable[Row]) -> None:
        self.counts.update({name: int(count) for name, count in rows})

    def restore(self, rows: Iterable[Row], waiting: Collection[bytes]) -> None:
        self.counts = Counter()
        self.absorb(rows)

    def waiting(self) -> list[bytes]:
        return []

    def end_wait(self) -> None:
        """Nothing waits."""

    def rows(self) -> Iterator[Row]:
        yield from [(name, b"%d" % count) for name, count in self.counts.items()]


class Member:
    """One replica in this process."""

    def __init__(self, address: ValkeyAddress, *, leads: bool = False) -> None:
        me = secrets.token_bytes(8)
        scripts = Scripts(address.prefix, me)
        self.leads = leads
        self.tally = Tally()
        shared = SharedStore(
            lambda: open_stream_client(address),
            lambda: open_pipeline(address),
            scripts.probe(),
            address.prefix,
            me,
            SEAL,
        )
        self.sharing = SharedDetection(shared, self.tally)
        self.told: list[str] = []
        self._running: asyncio.Task[None] | None = None

    def hold(self) -> None:
        self.told.append("hold")

    def go_on(self) -> None:
        self.told.append("go on")

    def put(self, fact: str) -> None:
        """As Detecting does."""
        if not self.sharing.put(fact.encode()):
            self.tally.see_alone(fact.encode())

    async def begin(self) -> None:
        self._running = asyncio.create_task(self.sharing.run(self, lambda: self.leads))
        await until(lambda: self.sharing.is_shared)

    async def end(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def count(self, result: str) -> int:
        return dict(self.sharing.counts()).get((result,), 0)


async def saved(leader: Member) -> None:
    """What a new one begins with is in the store."""
    await until(lambda: leader.sharing.is_saved)
    await leader.sharing.finish()


@asynccontextmanager
async def members(address: ValkeyAddress, number: int) -> AsyncIterator[list[Member]]:
    """The first one leads."""
    each = [Member(address, leads=index == 0) for index in range(number)]
    try:
        for one in each:
            await one.begin()
        yield each
    finally:
        for one in each:
            await one.end()


@pytest.fixture
def address(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], ValkeyAddress]]:
    """Each time of another prefix. A busy machine must not make the story another one."""
    monkeypatch.setattr(module, "_ANSWER_SECONDS", PATIENCE)
    monkeypatch.setattr(client, "_ANSWER_SECONDS", PATIENCE)
    monkeypatch.setattr(module, "_SHORTEST_PAUSE", 0.01)
    monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.02)
    monkeypatch.setattr(snapshot, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(module, "GATHER_SECONDS", 0.0)
    yield lambda: ValkeyAddress("127.0.0.1", proxy.port, prefix=f"{secrets.token_hex(4)}:")
    proxy.open()


stories = st.lists(
    st.sampled_from(["put 0", "put 1", "put 2", "cut", "kill", "back"]), min_size=1, max_size=12
)


@given(stories)
@example(["put 0", "cut", "put 1", "put 0", "back", "put 1"])
@example(["put 0", "put 1", "kill", "put 2", "back"])
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_fact_counts_once_at_every_replica(
    address, proxy: Proxy, store: StoreServer, story: list[str]
):
    asyncio.run(_play(address(), proxy, store, story))


async def _play(address: ValkeyAddress, proxy: Proxy, store: StoreServer, story: list[str]) -> None:
    put: Counter[str] = Counter()
    async with members(address, 3) as each:

        async def back() -> None:
            proxy.open()
            await until(lambda: all(one.sharing.is_shared for one in each))

        for step in [*story, "back"]:
            if step == "cut":
                proxy.close()
                await until(lambda: not any(one.sharing.is_shared for one in each))
            elif step == "kill":  # what was stored is gone with it
                await asyncio.to_thread(store.kill)
                await asyncio.to_thread(store.start)
            elif step == "back":
                await back()
            else:
                fact = f"fact {len(put)}"
                put[fact] += 1
                each[int(step[-1])].put(fact)
        await until(lambda: all(one.tally.counts == put for one in each))
        assert [one.sharing.lag() for one in each] == [0.0] * 3
        if put:
            await saved(each[0])
        late = Member(address)
        try:
            await late.begin()
            await until(lambda: late.tally.counts == put)
        finally:
            await late.end()


async def test_what_was_seen_last_is_still_told_by_who_ends(address, monkeypatch):
    monkeypatch.setattr(module, "GATHER_SECONDS", 60.0)
    async with members(address(), 2) as (one, other):
        one.put("the last")
        await one.sharing.finish()
        await one.end()
        await until(lambda: other.tally.counts == {"the last": 1})


async def test_what_nobody_has_acknowledged_counts_once_whether_it_was_stored_or_not(
    address, proxy, store
):
    async with members(address(), 2) as each:
        store.pause()
        each[0].put("in doubt")
        each[0].sharing.flush()
        await asyncio.sleep(0.05)  # so that it may be in the store's hands, or may not
        proxy.close()
        await until(lambda: not any(one.sharing.is_shared for one in each))
        store.go_on()
        proxy.open()
        each[0].put("alone")
        await until(lambda: all(one.tally.counts.total() == 2 for one in each))


async def test_what_is_lost_with_the_store_before_all_have_read_it_is_sent_again(
    address, proxy, store
):
    at = address()
    async with members(at, 1) as (one,):
        one.put("stored")
        await until(lambda: one.tally.counts.total() == 1)
        await saved(one)
        store.run("DEL", Stream(at.prefix, SEAL).key, f"{at.prefix}found1")
        proxy.drop()
        await until(lambda: not one.sharing.is_shared)
        one.leads = False
        other = Member(at)
        try:
            await other.begin()
            await until(lambda: other.tally.counts == one.tally.counts)
        finally:
            await other.end()


async def test_all_judge_in_one_order(address):
    async with members(address(), 3) as each:
        for number in range(60):
            each[number % 3].put(f"fact {number}")
            await asyncio.sleep(0.003)
        await until(lambda: all(one.tally.counts.total() == 60 for one in each))
        (order,) = {tuple(one.tally.counts) for one in each}
        for sender in range(3):
            own = [int(fact.split()[1]) for fact in order if int(fact.split()[1]) % 3 == sender]
            assert own == sorted(own)


async def test_one_that_is_new_begins_with_what_the_others_know_and_tells_none_of_it(
    address, store
):
    at = address()
    async with members(at, 2) as each:
        for number in range(5):
            each[number % 2].put(f"fact {number}")
        await until(lambda: each[0].tally.counts.total() == 5)
        stream = Stream(at.prefix, SEAL)
        await saved(each[0])
        store.run("DEL", stream.key)  # as when all of it was trimmed by now
        late = Member(at)
        try:
            await late.begin()
            await until(lambda: late.tally.counts == each[0].tally.counts)
            each[1].put("fact 5")
            await until(lambda: late.tally.counts.total() == 6)
            assert late.told[0] == "hold"
            await until(lambda: "go on" in late.told)
        finally:
            await late.end()


async def test_what_was_trimmed_meanwhile_is_taken_from_the_leader_and_counted(
    address, store, monkeypatch
):
    """One was away for longer than the stream lasts."""
    at = address()
    async with members(at, 1) as (leader,):
        away = Member(at)
        await away.begin()
        leader.put("seen by both")
        await until(lambda: away.tally.counts.total() == 1)
        await away.end()
        away.put("found alone")
        for number in range(3):
            leader.put(f"missed {number}")
            leader.sharing.flush()
        await until(lambda: leader.tally.counts.total() == 4)
        stream = Stream(at.prefix, SEAL)
        await saved(leader)
        store.run("XTRIM", stream.key, "MAXLEN", 1)
        try:
            await away.begin()
            await until(lambda: away.tally.counts == leader.tally.counts)
            assert away.tally.counts.total() == 5
            assert away.count("missed") == 2
        finally:
            await away.end()


async def test_what_cannot_be_read_is_counted_and_passed_over(address, store):
    at = address()
    async with members(at, 1) as (one,):
        stream = Stream(at.prefix, SEAL)
        future = msgspec.msgpack.encode(["facts2", b"other", 1, [b"fact"]])
        unsealed = msgspec.msgpack.encode(Facts(b"other", 1, (b"forged",)))
        stranger = Stream(at.prefix, Sealed()).append(Facts(b"other", 2, (b"forged",)))
        elsewhere = Stream("another:", SEAL).append(Facts(b"other", 3, (b"forged",)))
        store.run("XADD", stream.key, "*", "m", SEAL.close(stream.key, b"\xc1 nonsense"))
        store.run("XADD", stream.key, "*", "m", SEAL.close(stream.key, future))
        store.run("XADD", stream.key, "*", "m", unsealed)
        store.run("XADD", stream.key, "*", "m", b"\xc1")
        store.run(*stranger)
        store.run("XADD", stream.key, "*", "m", elsewhere[-2])
        store.run(*stream.append(Facts(b"other", 1, (_BAD, b"good"))))
        store.run(*stream.append(Found(b"other", 2, (("good", b"no number"),))))
        store.run(*stream.append(Facts(b"other", 3, (b"good",))))
        await until(lambda: one.tally.counts == {"good": 2})
        assert one.count("unreadable") == 4
        assert one.count("unsealed") == 4
        assert one.sharing.is_shared


async def test_a_store_whose_clock_is_behind_is_read_from_its_beginning(address, proxy, store):
    """As when another one has taken over that was empty."""
    at = address()
    async with members(at, 2) as each:
        stream = Stream(at.prefix, SEAL)
        store.run("XADD", stream.key, "99999999999999-0", "m", b"from the future")
        await until(lambda: all(one.count("unsealed") for one in each))
        store.run("DEL", stream.key)
        proxy.drop()
        await until(lambda: not any(one.sharing.is_shared for one in each))
        each[0].put("alone")
        await until(lambda: all(one.sharing.is_shared for one in each))
        each[0].put("together")
        await until(lambda: all(one.tally.counts.total() == 2 for one in each))
