"""Detection behind the answers: bounded, never waited for, and told only in turns."""

import asyncio
import json

import pytest

from genguard.admission.review import ObjectName, Phase
from genguard.detection.detection import Detection
from genguard.detection.finding import Finding
from genguard.detection.finding_state import QUIET_SECONDS
from genguard.detection.observation import decode_observation
from genguard.review import ReviewResult, review
from genguard.status.tracking import Tracking
from tests.reviews import make_dependencies, make_review
from tests.unit.cluster.objects import Leads
from tests.unit.detection.builders import rows_of
from tests.unit.detection.test_ledger import looping
from tests.waiting import until
from webhook.alerts.change import Change, Transition
from webhook.dashboard.rendering import parse_time
from webhook.server import detecting as module
from webhook.server.detecting import Detecting
from webhook.server.options import Limits
from webhook.tasks.clock import LONGEST_PAUSE, Clock


class Told:
    """A sink that keeps what it is told, and fails on demand."""

    def __init__(self, *, fails: bool = False) -> None:
        self.changes: list[Change] = []
        self.fails = fails

    async def tell(self, changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
        self.changes += changes
        if self.fails:
            raise RuntimeError("sink is broken")


def cleared(detecting: Detecting) -> list[Finding]:
    found = detecting.findings()
    return [one for one in found if one.detector == "observed-generation-cleared"]


class Times:
    """The time of day, the seconds that nobody can put, and the clock that they make."""

    def __init__(self) -> None:
        self.wall, self.monotonic = 1_800_000_000.0, 100.0
        self.clock = Clock(lambda: self.wall, lambda: self.monotonic)

    def go_on(self, seconds: float) -> None:
        self.wall, self.monotonic = self.wall + seconds, self.monotonic + seconds


def clobbered_write(version: int) -> list[tuple[Phase, ReviewResult]]:
    """One status write whose observedGeneration another webhook clears, in its three phases."""
    stored = {"metadata": {"generation": 2, "resourceVersion": str(version)}, "status": {}}
    asked = {**stored, "status": {"observedGeneration": 2, "replicas": version}}
    left = {**stored, "status": {"replicas": version}}
    found = []
    for phase, new in ((Phase.INTENT, asked), (Phase.MUTATE, left), (Phase.OUTCOME, left)):
        body = json.dumps(make_review("UPDATE", "deployments", new, stored, subresource="status"))
        found.append((phase, review(body.encode(), phase, make_dependencies(), 0.0).result))
    return found


async def test_a_loop_is_told_once_when_it_opens_and_a_broken_sink_stops_no_other(monkeypatch):
    monkeypatch.setattr(module, "_ADVANCE_SECONDS", 0.02)
    broken, told = Told(fails=True), Told()
    detecting = Detecting(Detection(), {"broken": broken.tell, "told": told.tell}, Tracking())
    detecting.start()
    for version in range(5):
        for phase, result in clobbered_write(version):
            detecting.put(phase, result, 1_000)
    await until(lambda: broken.changes and told.changes)
    await detecting.stop()
    assert [(one.transition, one.finding.detector) for one in told.changes] == [
        (Transition.OPENED, "observed-generation-cleared")
    ]


def small(count: int = 8, size: int = 1_000) -> Detecting:
    limits = Limits(detection_queue=count, detection_queue_bytes=size)
    return Detecting(Detection(), {}, Tracking(), limits=limits)


@pytest.mark.parametrize(
    ("sizes", "is_large", "kept", "because"),
    [
        ([10] * 15, False, 8, "entries are bounded"),
        ([999, 2], False, 1, "so are bytes"),
        ([250] * 5, True, 2, "large ones leave half of the bytes to others"),
    ],
)
async def test_what_does_not_fit_is_dropped_and_counted_and_nobody_waits(
    sizes, is_large, kept, because
):
    detecting = small()
    [(phase, result), *_] = clobbered_write(1)
    for size in sizes:
        detecting.put(phase, result, size, is_large=is_large)
    assert (len(detecting), detecting.dropped) == (kept, len(sizes) - kept), because
    assert detecting.last_shed
    await detecting.stop()


async def test_finalizers_count_as_what_they_take_in_memory():
    detecting = small(size=1_000_000)
    asked = make_review(new={"metadata": {"finalizers": ["f"] * 10_000}}, old={"metadata": {}})
    result = review(json.dumps(asked).encode(), Phase.MUTATE, make_dependencies(), 0.0).result
    for _ in range(3):
        detecting.put(Phase.MUTATE, result, 10)
    assert (len(detecting), detecting.dropped) == (1, 2)
    await detecting.stop()


@pytest.mark.parametrize("which", ["kind", "resource"])
@pytest.mark.parametrize("part", ["group", "version"])
async def test_kinds_with_names_that_no_server_lets_through_are_not_remembered(which, part):
    detecting = Detecting(Detection(), {}, Tracking())
    asked = make_review("CREATE", "deployments", {"spec": {}})
    for length in (253, 3_000):
        asked["request"][which][part] = "g" * length
        created = json.dumps(asked).encode()
        result = review(created, Phase.OUTCOME, make_dependencies(), 0.0).result
        detecting.put(Phase.OUTCOME, result, 10)
    assert (len(detecting), detecting.dropped) == (1, 1)
    await detecting.stop()


async def test_deletions_on_their_way_and_what_was_not_examined_are_not_looked_at():
    detecting = Detecting(Detection(), {}, Tracking())
    deleted = json.dumps(make_review("DELETE", "deployments", None, {"spec": {}})).encode()
    detecting.put(Phase.MUTATE, review(deleted, Phase.MUTATE, make_dependencies(), 0.0).result, 10)
    detecting.put(Phase.MUTATE, ReviewResult(), 10)
    assert len(detecting) == 0
    await detecting.stop()


class Stream:
    """What replicas share: it takes what is seen."""

    def __init__(self) -> None:
        self.observations: list[bytes] = []
        self.missed: list[ObjectName | None] = []

    def put(self, observation: bytes, name: ObjectName) -> None:
        assert name == ObjectName("apps", "deployments", "default", "thing")
        self.observations.append(observation)

    def miss(self, name: ObjectName | None) -> None:
        self.missed.append(name)


@pytest.mark.parametrize("detects", [True, False])
async def test_who_does_not_examine_resolves_nothing_and_tells_what_it_missed(detects):
    shared, detection, times = Stream(), Detection(), Times()
    active = Leads(is_leader=detects)
    detecting = Detecting(detection, {}, Tracking(), shared, active=active, clock=times.clock)
    detecting.start()
    for version in range(5):
        for phase, result in clobbered_write(version):
            detecting.put(phase, result, 1_000)
    await until(lambda: len(shared.observations) == 15)
    for observation in shared.observations:
        detection.see(decode_observation(observation))
    detecting.shed(None)
    assert shared.missed == [None]
    for found in detection.ledger.damaged() if detects else ():
        detection.ledger.look(found.object, lambda _: False, times.wall)
    quiet(detecting, times, 3 * QUIET_SECONDS)
    assert (cleared(detecting)[0].state == "resolved") is detects
    await detecting.stop()


async def test_what_another_replica_has_told_is_no_news(monkeypatch):
    monkeypatch.setattr(module, "_ADVANCE_SECONDS", 0.01)
    told = Told()
    detecting = Detecting(Detection(), {"told": told.tell}, Tracking())
    detecting.start()
    detecting.take_over(rows_of(looping().ledger))
    await asyncio.sleep(0.1)
    await detecting.stop()
    assert len(detecting.findings()) == 1
    assert Transition.OPENED not in {one.transition for one in told.changes}


def quiet(detecting: Detecting, times: Times, seconds: float) -> None:
    """So many seconds in which the server runs, and nobody writes."""
    for _ in range(int(seconds)):
        times.go_on(1.0)
        detecting.advance()


class Looping:
    """A server to which a loop of one write a second is sent, and its times."""

    def __init__(self, phases: int = 3) -> None:
        self.times = Times()
        self.detecting = Detecting(Detection(), {}, Tracking(), clock=self.times.clock)
        self._phases, self._version = phases, 0

    def write(self, seconds: int) -> None:
        for _ in range(seconds):
            self._version += 1
            for phase, result in clobbered_write(self._version)[: self._phases]:
                self.detecting.put(phase, result, 1_000)
            self.times.go_on(1.0)

    async def loop(self, seconds: int) -> None:
        for _ in range(seconds):
            self.write(1)
            await until(lambda: not len(self.detecting))
            self.detecting.advance()

    @property
    def known(self) -> list[tuple[str, bool]]:
        return [(one.state, one.is_ending(self.times.wall)) for one in cleared(self.detecting)]

    @property
    def is_going_on(self) -> bool:
        return self.known == [("open", False)]


@pytest.fixture
async def looping_server(request):
    server = Looping(getattr(request, "param", 3))
    server.detecting.start()
    yield server
    await server.detecting.stop()


@pytest.mark.parametrize("jump", [3_600.0, -3_600.0, 86_400.0])
@pytest.mark.parametrize(
    ("looping_server", "after"),
    [(3, "quiet"), (2, "resolved")],
    ids=["damage stays", "no damage is known"],
    indirect=["looping_server"],
)
async def test_a_loop_goes_on_through_a_jump_of_the_clock_and_ends_in_its_usual_time(
    jump, looping_server, after
):
    server, times = looping_server, looping_server.times
    await server.loop(20)
    (begun,) = cleared(server.detecting)
    for step in (jump, -jump):
        times.wall += step
        assert server.is_going_on, "before it is settled"
        server.detecting.advance()
        assert server.is_going_on
        await server.loop(20)
        assert server.is_going_on
    (found,) = cleared(server.detecting)
    assert (found.id, found.first_seen) == (begun.id, begun.first_seen)
    quiet(server.detecting, times, QUIET_SECONDS - (times.wall - parse_time(found.last_seen)) - 1)
    assert [state for state, _ in server.known] == ["open"]
    quiet(server.detecting, times, 4)  # a write without an outcome is examined some seconds later
    assert [state for state, _ in server.known] == [after]


@pytest.mark.parametrize(
    ("pauses", "ran"),
    [([75.0], 0.2), ([3_600.0], 0.2), ([20.0] * 40, 0.5), ([LONGEST_PAUSE + 0.1] * 100, 0.1)],
    ids=["frozen", "asleep", "stopped again and again", "stopped for a little"],
)
async def test_a_process_that_is_stopped_takes_nothing_for_silence(looping_server, pauses, ran):
    server = looping_server
    await server.loop(20)
    for pause in pauses:
        server.times.go_on(pause)
        server.detecting.advance()
        assert server.is_going_on
        server.times.go_on(ran)
    await server.loop(5)
    assert server.is_going_on
    quiet(server.detecting, server.times, QUIET_SECONDS + 2)
    assert not server.is_going_on


async def test_a_backlog_is_no_silence():
    server = Looping(phases=2)
    server.write(20)
    server.detecting.start()
    await until(lambda: not len(server.detecting))
    await server.detecting.stop()
    server.write(1)  # nobody examines it
    quiet(server.detecting, server.times, 5 * QUIET_SECONDS)
    assert [state for state, _ in server.known] == ["open"]
    server.detecting.start()
    await until(lambda: not len(server.detecting))
    quiet(server.detecting, server.times, QUIET_SECONDS - 1)
    assert [state for state, _ in server.known] == ["open"], "its last sign was read just now"
    quiet(server.detecting, server.times, 2)
    assert [state for state, _ in server.known] == ["resolved"]
    await server.detecting.stop()


@pytest.mark.parametrize("how", ["show", "take_over"])
async def test_time_in_which_no_server_ran_is_no_silence(looping_server, how):
    await looping_server.loop(20)
    rows, times = rows_of(looping_server.detecting.detection.ledger), Times()
    times.go_on(86_000.0)
    next_one = Detecting(Detection(), {}, Tracking(), clock=Clock(times.clock.wall, lambda: 5.0))
    getattr(next_one, how)(rows)
    next_one.advance()
    (found,), (before,) = cleared(next_one), cleared(looping_server.detecting)
    assert (found.state, found.last_seen) == ("open", before.last_seen)
