"""Whatever becomes of the store: what a replica saw reaches the leader, or is counted as missed."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from genguard.admission.review import ObjectName
from genguard.detection.detection import Detection
from genguard.detection.observation import Observation, encode_observation
from genguard.objects.intended import EVERY_OBSERVED_GENERATION
from tests.store.proxy import Proxy
from tests.store.server import StoreServer
from tests.unit.cluster.objects import Leads
from tests.unit.store.test_observation_queue import ONCE
from tests.waiting import until
from webhook.store import replicas as module
from webhook.store.address import ValkeyAddress
from webhook.store.replicas import Observations, Replicas
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.metrics import Metrics

WEB = ObjectName("apps", "deployments", "default", "web")


def observation(name: str, time: float = 100.0) -> bytes:
    return encode_observation(replace(ONCE[0], key=replace(ONCE[0].key, name=name), time=time))


class Tally(Detection):
    """It only counts."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.missed = 0
        self.doubted: list[ObjectName | None] = []

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.order)

    def see(self, seen: Observation) -> None:
        if seen.key.name == "bad":
            raise ValueError
        self.order.append(seen.key.name)

    def miss(self, name: ObjectName | None, now: float) -> None:
        self.missed += 1
        self.doubted.append(name)


class Member:
    """One replica in this process."""

    def __init__(self, address: ValkeyAddress, *, leads: bool = False) -> None:
        self.leadership = Leads(is_leader=leads)
        self.tally = Tally()
        self.replicas = Replicas(address, self.tally, EVERY_OBSERVED_GENERATION)
        self.metrics, self.supervisor = Metrics(lambda group, resource: False), Supervisor()

    def put(self, name: str) -> None:
        self.replicas.observations.put(observation(name))

    @property
    def up(self) -> bool:
        return self.replicas.store.up

    def count(self, result: str) -> int:
        return dict(self.replicas._counts()).get((result,), 0)

    @asynccontextmanager
    async def joined(self) -> AsyncIterator[None]:
        async with self.replicas.joined(self.leadership, self.metrics, self.supervisor):
            await until(lambda: self.up)
            yield

    async def crash(self) -> None:
        """What it has read is neither examined nor acknowledged."""
        self.leadership.is_leader = False


@asynccontextmanager
async def members(address: ValkeyAddress, number: int) -> AsyncIterator[list[Member]]:
    """The first one leads."""
    each = [Member(address, leads=index == 0) for index in range(number)]
    async with each[0].joined() if number == 1 else _all(each):
        yield each


@asynccontextmanager
async def _all(each: list[Member]) -> AsyncIterator[None]:
    first, *others = each
    async with first.joined():
        if others:
            async with _all(others):
                yield
        else:
            yield


async def examined(leader: Member, names: Iterable[str]) -> None:
    await until(lambda: leader.tally.counts == Counter(names))


@pytest.fixture
def address(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], ValkeyAddress]]:
    """Each time of another prefix, and in a hurry."""
    monkeypatch.setattr(module, "_HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(module, "GATHER_SECONDS", 0.0)
    monkeypatch.setattr(module, "SECONDS_ON_THE_WAY", 0.02)
    monkeypatch.setattr(module, "EXAMINE_MILLISECONDS", 20)
    yield lambda: ValkeyAddress("127.0.0.1", proxy.port, prefix=f"{secrets.token_hex(4)}:")
    proxy.open()


def stream(at: ValkeyAddress) -> bytes:
    return f"{at.prefix}facts2".encode()


stories = st.lists(
    st.sampled_from(["put 0", "put 1", "put 2", "cut", "kill", "back"]), min_size=1, max_size=10
)


@given(stories)
@example(["put 0", "cut", "put 1", "put 0", "back", "put 1"])
@example(["put 0", "put 1", "kill", "put 2", "back"])
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_three_replicas_see_is_examined_once_or_counted_as_missed(
    address, proxy: Proxy, store: StoreServer, story: list[str]
):
    asyncio.run(_play(address(), proxy, store, story))


async def _play(address: ValkeyAddress, proxy: Proxy, store: StoreServer, story: list[str]) -> None:
    put: list[str] = []
    was_killed = False
    async with members(address, 3) as each:

        async def back() -> None:
            proxy.open()
            await until(lambda: all(one.up for one in each))

        for step in [*story, "back"]:
            if step == "cut":
                proxy.close()
                await until(lambda: not any(one.up for one in each))
            elif step == "kill":  # what was stored is gone with it
                was_killed = True
                await asyncio.to_thread(store.kill)
                await asyncio.to_thread(store.start)
            elif step == "back":
                await back()
            else:
                put.append(f"observation {len(put)}")
                each[int(step[-1])].put(put[-1])
        for one in each:
            put.append(f"observation {len(put)}")
            one.put(put[-1])
        seen = each[0].tally
        await until(lambda: set(put[-3:]) <= seen.counts.keys())
        if not was_killed:
            await examined(each[0], put)
        assert max(seen.counts.values()) == 1
        assert [one.tally.order for one in each[1:]] == [[], []]


async def test_while_the_store_is_away_nothing_is_examined_and_what_is_kept_comes_later(
    address, proxy
):
    async with members(address(), 2) as (leader, other):
        proxy.close()
        await until(lambda: not (leader.up or other.up))
        leader.put("of the leader")
        other.put("of the other")
        await until(lambda: leader.tally.missed, what="nothing is resolved meanwhile")
        assert leader.tally.order == []
        assert other.replicas.observations.lag() > 0.0
        proxy.open()
        await examined(leader, ["of the leader", "of the other"])
        assert (leader.count("sent"), other.count("dropped")) == (1, 0)


async def test_what_has_no_room_is_given_up_counted_and_told(address, proxy, monkeypatch):
    async with members(address(), 2) as (leader, other):
        proxy.close()
        await until(lambda: not (leader.up or other.up))
        before = leader.tally.missed
        monkeypatch.setattr(module, "MOST_UNSENT", 2)
        for number in range(5):
            other.put(f"observation {number}")
        assert other.count("dropped") >= 2
        proxy.open()
        other.put("later")
        await until(lambda: "later" in leader.tally.counts)
        await until(lambda: leader.tally.missed > before)


async def test_the_next_leader_examines_what_the_last_one_has_not_acknowledged(address, store):
    at = address()
    async with members(at, 3) as (first, second, other):
        other.put("examined")
        await examined(first, ["examined"])
        await first.crash()
        other.put("sent to nobody")
        await until(lambda: store.run("XLEN", stream(at)) >= 2)
        second.leadership.is_leader = True
        await examined(second, ["examined", "sent to nobody"])
        assert second.tally.missed == 0
        assert other.tally.order == []


async def test_what_a_replica_saw_last_and_what_the_leader_has_read_is_examined_at_the_end(
    address, monkeypatch
):
    monkeypatch.setattr(module, "GATHER_SECONDS", 60.0)
    at = address()
    leader, other = Member(at, leads=True), Member(at)
    async with leader.joined():
        async with other.joined():
            other.put("the last")
        monkeypatch.setattr(module, "SECONDS_ON_THE_WAY", 60.0)
        await until(lambda: leader.count("read") == 1)
    assert leader.tally.order == ["the last"]


async def test_what_was_trimmed_before_it_was_read_is_counted(address, store):
    """Nobody has led for longer than the stream lasts."""
    at = address()
    async with members(at, 2) as (leader, other):
        other.put("first")
        await examined(leader, ["first"])
        leader.leadership.is_leader = False
        for number in range(3):
            other.put(f"observation {number}")
            await until(lambda: not other.replicas.observations.lag())
        await until(lambda: store.run("XLEN", stream(at)) == 4)
        store.run("XTRIM", stream(at), "MAXLEN", 1)
        leader.leadership.is_leader = True
        await examined(leader, ["first", "observation 2"])
        assert leader.tally.missed


async def test_what_a_replica_did_not_look_at_is_noted_by_the_leader(address):
    large = b"x" * (module.LARGEST_OBSERVATION + 1)
    async with members(address(), 2) as (leader, other):
        other.replicas.observations.miss(None)
        await until(lambda: leader.tally.doubted == [None])
        other.replicas.observations.put(large, WEB)
        await until(lambda: leader.tally.doubted == [None, WEB], "no object but its own")
        assert other.count("dropped") == 1
        for number in range(module.MOST_NAMES + 1):
            other.replicas.observations.miss(WEB._replace(name=f"{number}"))
        other.replicas.observations.miss(WEB._replace(name="n" * module.LONGEST_NAME))
        await until(lambda: leader.tally.doubted == [None, WEB, None], "too many to name")


async def test_what_cannot_be_read_is_counted_and_passed_over(address, store):
    at = address()
    async with members(at, 1) as (one,):
        future = msgspec.msgpack.encode(["facts3", b"other", 1, [b"observation"]])
        for number, content in enumerate((b"\xc1 nonsense", future), 1):
            store.run("XADD", stream(at), "*", "m", content)
            await until(lambda number=number: one.count("unreadable") == number)
        for number, observations in enumerate(
            ((b"\xc1", observation("good")), (observation("bad"), observation("good"))), 1
        ):
            content = msgspec.msgpack.encode(Observations(b"other", number, observations))
            store.run("XADD", stream(at), "*", "m", content)
        store.run("XADD", stream(at), "*", "m", content)  # the same again
        await examined(one, ["good", "good"])
        assert one.count("unreadable") == 3
        assert one.up


async def test_another_program_may_use_the_names(address, store, caplog):
    at = address()
    store.run("SET", stream(at), "theirs")
    one = Member(at, leads=True)
    async with one.joined():
        one.put("kept")
        await until(lambda: not one.up)
        assert "give --store another ?prefix=" in caplog.records[-1].fields["reason"]
        store.run("DEL", stream(at))
        await examined(one, ["kept"])
