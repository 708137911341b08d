"""Events on the object: what they say, how many, and that trouble with them is nobody else's."""

import asyncio

import pytest
from msgspec import structs

from genguard.detection.finding import Actor, Confidence, Severity
from tests.cases_loader import read_beside
from tests.unit.alerts.findings import CANARY, Clock, change, on
from tests.waiting import patiently
from webhook.alerts.change import Change, Transition
from webhook.cluster import event as kube_event
from webhook.cluster.event import BURST, REFILL_SECONDS, KubeEventSink

LOOPING = (Transition.RESOLVED, Transition.REOPENED)


class Cluster:
    """Keeps the Events that are created."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict]] = []

    async def call(self, method, path, event):
        assert method == "POST"
        namespace = path.removeprefix("/apis/events.k8s.io/v1/namespaces/").removesuffix("/events")
        self.events.append((namespace, event))

    @property
    def last(self) -> dict:
        return self.events[-1][1]


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sink(cluster, clock):
    return KubeEventSink(cluster, lambda where: "Deployment", clock)


async def tell(sink, *changes: Change):
    await sink.tell(changes, tuple(one.finding for one in changes))


async def test_an_event_is_one_that_the_api_server_takes(sink, cluster):
    await tell(sink, change(Transition.OPENED))
    namespace, event = cluster.events[0]
    assert namespace == "shop"
    assert event == read_beside(__file__, "event.yaml")
    assert CANARY not in str(event)


@pytest.mark.parametrize("turn", Transition)
async def test_every_turn_of_a_loop_is_told(sink, cluster, turn):
    await tell(sink, change(turn))
    assert cluster.last["action"] == turn.value.capitalize()
    assert cluster.last["type"] == ("Normal" if turn is Transition.RESOLVED else "Warning")


@pytest.mark.parametrize("turn", Transition)
async def test_an_anomaly_that_happened_once_makes_no_event(sink, cluster, turn):
    await tell(sink, change(turn, severity=Severity.INFO))
    assert cluster.events == []


async def test_one_object_gets_a_burst_and_then_one_in_five_minutes(sink, cluster, clock):
    for number in range(2 * BURST):
        await tell(sink, change(LOOPING[number % 2]))
    assert len(cluster.events) == BURST == 25
    clock.go(REFILL_SECONDS - 1)
    await tell(sink, change(Transition.REOPENED))
    assert len(cluster.events) == BURST
    clock.go(1)
    await tell(sink, change(Transition.REOPENED), change(Transition.RESOLVED))
    assert len(cluster.events) == BURST + 1
    clock.go(1000 * REFILL_SECONDS)
    for _ in range(2 * BURST):
        await tell(sink, change(Transition.REOPENED))
    assert len(cluster.events) == 2 * BURST + 1, "what was not used is kept up to one burst"


@pytest.mark.parametrize("letter", ["x", "ä", "語", "🔁"])
async def test_a_note_is_no_longer_than_the_api_server_allows(sink, cluster, letter):
    """1,024 bytes: Go's len. A name of a user may hold any character."""
    actors = tuple(Actor("user", letter * 300, "", Confidence.CERTAIN) for _ in range(9))
    await tell(sink, change(Transition.OPENED, actors=actors))
    note = cluster.last["note"]
    assert 1_020 < len(note.encode()) <= 1_024
    assert note.startswith("observed-generation-cleared opened: ")
    assert "\N{REPLACEMENT CHARACTER}" not in note


async def test_an_event_that_is_refused_is_logged_and_the_next_one_is_made(clock, caplog):
    class Refusing(Cluster):
        async def call(self, method, path, event):
            await super().call(method, path, event)
            if len(self.events) == 1:
                raise PermissionError(CANARY)

    cluster = Refusing()
    sink = KubeEventSink(cluster, lambda where: "", clock)
    await tell(sink, change(Transition.OPENED), change(Transition.OPENED, id="other"))
    assert len(cluster.events) == 2
    (line,) = caplog.records
    assert line.message == "event not created"
    assert line.fields == {"finding": "0123456789abcdef", "reason": "PermissionError"}


async def test_an_api_server_that_hangs_holds_up_the_other_sinks_once_and_not_for_each_event(
    clock, caplog, monkeypatch
):
    monkeypatch.setattr(kube_event, "_SECONDS", 0.05)

    class Hanging(Cluster):
        async def call(self, method, path, event):
            await super().call(method, path, event)
            await asyncio.sleep(3_600)

    cluster = Hanging()
    sink = KubeEventSink(cluster, lambda where: "", clock)
    async with patiently():
        await tell(sink, *(change(Transition.OPENED, object=on(str(n))) for n in range(100)))
    assert len(cluster.events) == 1
    assert [line.message for line in caplog.records] == ["event not created", "events not created"]


async def test_a_namespace_that_is_no_name_leads_an_event_nowhere_else(sink, cluster):
    there = structs.replace(on("web"), namespace="../../pods")
    await tell(sink, change(Transition.OPENED, object=there))
    assert [namespace for namespace, _ in cluster.events] == ["..%2F..%2Fpods"]
