"""Whatever becomes of the store: what one replica sees counts once, and at every replica."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from genguard.detection import correlate
from genguard.detection.fact import encode_fact
from genguard.detection.ledger import Row
from genguard.detection.life_fact import AnyFact
from tests.store.proxy import Proxy
from tests.store.server import StoreServer
from tests.unit.detection.test_fact_queue import ONCE
from tests.waiting import PATIENCE, until
from webhook.store import client, snapshot, stream
from webhook.store import shared_detection as module
from webhook.store.address import ValkeyAddress
from webhook.store.client import open_pipeline, open_stream_client
from webhook.store.seal import Sealed
from webhook.store.shared_detection import SharedDetection, SharedStore
from webhook.store.shared_writes import Scripts
from webhook.store.snapshot import Head, Snapshots
from webhook.store.stream import Facts, Stream
from webhook.tasks.supervisor import Supervisor

SEAL = Sealed()
"""By a key that all replicas of a test have."""


def fact(name: str, time: float = 100.0) -> bytes:
    return encode_fact(replace(ONCE[0], key=replace(ONCE[0].key, name=name), time=time))


@dataclass(frozen=True)
class Counted:
    """In place of a finding."""

    id: str
    count: int


class Tally:
    """In place of a Detection and of its ledger: it counts."""

    def __init__(self) -> None:
        self.found: dict[str, Counted] = {}
        self.missed = 0
        self.order: list[str] = []
        self.leads = False

    @property
    def ledger(self) -> Any:
        return self

    @property
    def counts(self) -> Counter[str]:
        return Counter({name: one.count for name, one in self.found.items()})

    def see(self, seen: AnyFact) -> None:
        assert self.leads
        name = seen.key.name
        if name == "bad":
            raise ValueError
        self.order.append(name)
        before = self.found.get(name)
        self.found[name] = Counted(name, 1 if before is None else before.count + 1)

    def miss(self, request: object, now: float) -> None:
        assert request is None
        self.missed += 1

    def shown(self) -> dict[str, Any]:
        return dict(self.found)

    def export_shown(self, name: str) -> bytes | None:
        return b"%d" % self.found[name].count

    def follow(self, rows: Iterable[Row], gone: Iterable[str] | None = None) -> None:
        taken = {name: Counted(name, int(row)) for name, row in rows}
        if gone is None:
            self.found = {}
        for name in gone or ():
            self.found.pop(name, None)
        self.found |= taken
        self.leads = False

    def lead(self) -> None:
        self.leads = True


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
        self.known: list[set[str]] = []
        self._running: list[asyncio.Task[None]] = []

    def know(self, ids: Collection[str]) -> None:
        self.known.append(set(ids))

    def put(self, name: str) -> None:
        self.sharing.put(fact(name))

    async def begin(self) -> None:
        work = (
            self.sharing.keep_connected(self, lambda: self.leads),
            self.sharing.keep_judging(lambda: self.leads, Supervisor()),
        )
        self._running = [asyncio.create_task(one) for one in work]
        await until(lambda: self.sharing.is_shared)

    async def end(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def count(self, result: str) -> int:
        return dict(self.sharing.counts()).get((result,), 0)


async def settled(each: Iterable[Member]) -> None:
    """What was sent is judged and published."""
    for one in each:
        one.sharing.flush()
    await until(lambda: all(one.sharing.lag() == 0.0 for one in each))
    await asyncio.sleep(5 * correlate.SECONDS_ON_THE_WAY)


async def agreed(each: Iterable[Member], expected: Counter[str]) -> None:
    await until(lambda: all(one.tally.counts == expected for one in each))


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
    monkeypatch.setattr(module, "FOLLOW_SECONDS", 0.02)
    monkeypatch.setattr(module, "JUDGE_SECONDS", 0.01)
    monkeypatch.setattr(module, "GATHER_SECONDS", 0.0)
    monkeypatch.setattr(snapshot, "PUBLISH_SECONDS", 0.02)
    monkeypatch.setattr(snapshot, "_LEAST_PAUSE_FACTOR", 1)
    monkeypatch.setattr(correlate, "SECONDS_ON_THE_WAY", 0.02)
    monkeypatch.setattr(stream, "MOST_SECONDS", PATIENCE)
    monkeypatch.setattr(stream, "KEPT_SECONDS", PATIENCE)
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
                name = f"fact {len(put)}"
                put[name] += 1
                each[int(step[-1])].put(name)
        await agreed(each, put)
        await until(lambda: all(one.sharing.lag() == 0.0 for one in each))
        assert [one.tally.missed for one in each] == [0] * 3
        late = Member(address)
        try:
            await late.begin()
            await agreed([late], put)
        finally:
            await late.end()


async def test_while_the_store_is_lost_the_leader_goes_on_and_the_others_keep_what_they_see(
    address, proxy
):
    async with members(address(), 2) as each:
        proxy.close()
        await until(lambda: not any(one.sharing.is_shared for one in each))
        for number, one in enumerate(each):
            one.put(f"of {number}")
        await agreed(each[:1], Counter({"of 0": 1}))
        assert each[1].tally.counts == Counter()
        assert each[0].count("alone") == 1
        proxy.open()
        await agreed(each, Counter({"of 0": 1, "of 1": 1}))


async def test_where_nobody_is_elected_each_judges_what_it_sees_and_later_all_of_it_counts_once(
    address, proxy
):
    """As by the lock in the store: while it is lost, and a moment longer, each of them leads."""
    async with members(address(), 3) as each:
        each[0].put("before")
        await agreed(each, Counter(["before"]))
        proxy.close()
        await until(lambda: not any(one.sharing.is_shared for one in each))
        for one in each:
            one.leads = True
        for number, one in enumerate(each):
            one.put(f"of {number}")
        for number, one in enumerate(each):
            await agreed([one], Counter(["before", f"of {number}"]))
        proxy.open()
        await until(lambda: all(one.sharing.is_shared for one in each))
        for one in each:
            one.put("again")
        await asyncio.sleep(0.1)  # meanwhile all of them read, and publish
        each[0].leads = each[1].leads = False
        everything = Counter(["before", "of 0", "of 1", "of 2", *["again"] * 3])
        await agreed(each, everything)


async def test_a_new_leader_goes_on_after_what_the_one_before_has_taken(address):
    async with members(address(), 3) as each:
        put: Counter[str] = Counter()
        for turn in range(5):
            for number in (0, 1, 2, 1):
                each[number].put(f"fact {turn}")
                put[f"fact {turn}"] += 1
            await agreed(each, put)
            await settled(each)
            for number, one in enumerate(each):
                one.leads = number == (turn + 1) % 3
        # Each of them notices at its own next look who leads.
        await until(lambda: [one.sharing.judges for one in each] == [False, False, True])


async def test_after_a_crash_of_the_leader_what_the_others_have_sent_is_judged(address):
    async with members(address(), 2) as (leader, other):
        other.put("seen")
        await agreed([leader, other], Counter(["seen"]))
        await leader.end()
        other.put("sent to nobody")
        other.sharing.flush()
        other.leads = True
        await agreed([other], Counter(["seen", "sent to nobody"]))


async def test_what_was_seen_last_is_still_judged_when_one_ends(address, monkeypatch):
    monkeypatch.setattr(module, "GATHER_SECONDS", 60.0)
    async with members(address(), 2) as (leader, other):
        other.put("the last")
        await other.sharing.finish(Supervisor())
        await agreed([leader, other], Counter(["the last"]))


async def test_what_the_leader_has_queued_at_its_end_is_judged_and_published(address, monkeypatch):
    async with members(address(), 2) as (leader, other):
        monkeypatch.setattr(correlate, "SECONDS_ON_THE_WAY", 60.0)
        other.put("the last")
        await until(lambda: leader.count("read") == 1)
        assert leader.tally.counts == Counter()
        await leader.sharing.finish(Supervisor())
        await agreed([leader, other], Counter(["the last"]))


async def test_what_nobody_has_acknowledged_counts_once_whether_it_was_stored_or_not(
    address, proxy, store
):
    async with members(address(), 2) as each:
        store.pause()
        each[1].put("in doubt")
        each[1].sharing.flush()
        await asyncio.sleep(0.05)  # so that it may be in the store's hands, or may not
        proxy.close()
        await until(lambda: not any(one.sharing.is_shared for one in each))
        store.go_on()
        proxy.open()
        each[1].put("later")
        await agreed(each, Counter(["in doubt", "later"]))


async def test_what_is_lost_with_the_store_before_it_was_read_is_sent_again(address, proxy, store):
    at = address()
    async with members(at, 2) as (leader, other):
        leader.leads = False
        other.put("stored")
        await until(lambda: store.run("XLEN", Stream(at.prefix, SEAL).key) == 1)
        store.run("DEL", Stream(at.prefix, SEAL).key, f"{at.prefix}found2")
        proxy.drop()
        await until(lambda: not other.sharing.is_shared)
        leader.leads = True
        await agreed([leader, other], Counter(["stored"]))


async def test_facts_are_judged_in_the_order_of_their_times(address, monkeypatch):
    async with members(address(), 3) as each:
        monkeypatch.setattr(correlate, "SECONDS_ON_THE_WAY", 0.3)
        for number in (3, 1, 2, 0):
            each[number % 3].sharing.put(fact(f"fact {number}", 100.0 + number))
        await until(lambda: len(each[0].tally.order) == 4)
        assert each[0].tally.order == [f"fact {number}" for number in range(4)]


async def test_one_that_is_new_begins_with_what_the_others_know_and_tells_none_of_it(
    address, store
):
    at = address()
    async with members(at, 2) as each:
        for number in range(5):
            each[number % 2].put(f"fact {number}")
        await until(lambda: each[1].tally.counts.total() == 5)
        store.run("DEL", Stream(at.prefix, SEAL).key)  # as when all of it was trimmed by now
        late = Member(at)
        try:
            await late.begin()
            await agreed([late], each[0].tally.counts)
            assert late.known == [set(each[0].tally.found)]
            each[1].put("fact 5")
            await until(lambda: late.tally.counts.total() == 6)
            assert len(late.known) == 1
        finally:
            await late.end()


async def test_what_was_trimmed_before_it_was_read_is_counted_and_noted(address, store):
    """Nobody has led for longer than the stream lasts."""
    at = address()
    async with members(at, 2) as (leader, other):
        other.put("first")
        await settled([leader, other])
        leader.leads = False
        await until(lambda: not leader.sharing.judges)
        for number in range(3):
            other.put(f"fact {number}")
            other.sharing.flush()
        key = Stream(at.prefix, SEAL).key
        await until(lambda: store.run("XLEN", key) == 4)
        store.run("XTRIM", key, "MAXLEN", 1)
        leader.leads = True
        await agreed([leader, other], Counter(["first", "fact 2"]))
        assert leader.count("missed") == 2
        assert leader.tally.missed == 1


async def test_what_a_replica_did_not_look_at_is_noted_by_the_leader(address):
    async with members(address(), 2) as (leader, other):
        other.sharing.miss()
        await until(lambda: leader.tally.missed == 1)
        other.sharing.put(b"x" * (stream.LARGEST_FACT + 1))
        await until(lambda: leader.tally.missed == 2)
        assert other.count("dropped") == 1


async def test_what_cannot_be_read_is_counted_and_passed_over(address, store):
    at = address()
    async with members(at, 1) as (one,):
        key = Stream(at.prefix, SEAL).key
        future = msgspec.msgpack.encode(["facts2", b"other", 1, [b"fact"]])
        unsealed = msgspec.msgpack.encode(Facts(b"other", 1, (fact("forged"),)))
        stranger = Stream(at.prefix, Sealed()).append(Facts(b"other", 2, (fact("forged"),)))
        elsewhere = Stream("another:", SEAL).append(Facts(b"other", 3, (fact("forged"),)))
        store.run("XADD", key, "*", "m", SEAL.close(key, b"\xc1 nonsense"))
        store.run("XADD", key, "*", "m", SEAL.close(key, future))
        store.run("XADD", key, "*", "m", unsealed)
        store.run("XADD", key, "*", "m", b"\xc1")
        store.run(*stranger)
        store.run("XADD", key, "*", "m", elsewhere[-2])
        for number, facts in enumerate(((b"\xc1", fact("good")), (fact("bad"), fact("good"))), 1):
            store.run(*Stream(at.prefix, SEAL).append(Facts(b"other", number, facts)))
        await agreed([one], Counter({"good": 2}))
        assert one.count("unreadable") == 3
        assert one.count("unsealed") == 4
        assert one.sharing.is_shared


async def test_findings_that_cannot_be_read_are_counted_and_shown_once_they_can(address, store):
    at = address()
    async with members(at, 2) as (leader, other):
        leader.leads = False
        await until(lambda: not leader.sharing.judges)
        snapshots = Snapshots(at.prefix, SEAL)
        store.run(*snapshots.write_part(0, 7, [("name", b"no number")]))
        store.run(*snapshots.write_head(Head(b"1-0", {}, (7, *[0] * (snapshot.PARTS - 1)))))
        await until(lambda: other.count("unreadable") == 1)
        leader.leads = True
        leader.put("good")
        await agreed([leader, other], Counter(["good"]))


async def test_who_cannot_read_all_that_is_published_leads_all_the_same(address, store):
    at = address()
    head = Head(b"1-0", {}, (7, *[0] * (snapshot.PARTS - 1)))
    store.run(*Snapshots(at.prefix, SEAL).write_head(head))
    async with members(at, 2) as each:
        each[1].put("good")
        await agreed(each, Counter(["good"]))


async def test_a_store_whose_clock_is_behind_is_read_from_its_beginning(address, proxy, store):
    """As when another one has taken over that was empty."""
    at = address()
    async with members(at, 2) as each:
        key = Stream(at.prefix, SEAL).key
        store.run("XADD", key, "99999999999999-0", "m", b"from the future")
        await until(lambda: each[0].count("unsealed"))
        store.run("DEL", key)
        proxy.drop()
        await until(lambda: not any(one.sharing.is_shared for one in each))
        each[1].put("meanwhile")
        await until(lambda: all(one.sharing.is_shared for one in each))
        each[1].put("together")
        await agreed(each, Counter(["meanwhile", "together"]))
