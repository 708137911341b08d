"""What is broken now: findings, objects that are stuck, and who is to blame for them."""

from collections.abc import Sequence
from datetime import UTC, datetime

from genguard.detection.detection import Detection
from genguard.detection.finding import Actor, Confidence, Finding, FoundObject, Severity
from genguard.detection.mutators import Mutators
from genguard.status.counts import ResourceKind
from genguard.status.tracked_state import Milestone, TrackedState
from genguard.status.tracking import Tracking
from genguard.status.view import Health
from tests.cases_loader import table
from tests.unit.alerts.findings import finding
from tests.unit.status.story import put
from webhook.dashboard.broken import Broken, OverallState, find_broken, is_broken
from webhook.dashboard.objects import find_stuck
from webhook.dashboard.page import PageQueue, Sources
from webhook.dashboard.rendering import parse_time
from webhook.server.detecting import Detecting
from webhook.server.watching import Watching
from webhook.tasks.clock import Clock
from webhook.telemetry.metrics import Metrics

NOW = 1_800_000_000.0
DEPLOYMENT = ResourceKind("apps", "deployments", "Deployment")
REPLICA_SET = ResourceKind("apps", "replicasets", "ReplicaSet")
POD = ResourceKind("", "pods", "Pod")


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def about(kind: ResourceKind, name: str, **changes) -> Finding:
    """A finding about an object that has begun a minute ago and just gave a sign."""
    where = FoundObject(kind.group, "v1", kind.resource, "shop", name, f"uid-{name}")
    times = {"first_seen": stamp(NOW - 60), "last_seen": stamp(NOW)}
    return finding(**{"id": f"f-{name}", "object": where, **times, **changes})


class Scene:
    """Objects that are tracked, and a server that knows them."""

    def __init__(self) -> None:
        self.tracking = Tracking()
        metrics = Metrics(lambda *_: True)
        metrics.last_review = NOW
        self.watching = Watching(("pods",), self.tracking)
        self.watching.current("pods", is_current=True)
        mutators = Mutators()
        clock = Clock(lambda: NOW - 30, lambda: 0.0)
        detecting = Detecting(Detection(mutators), {}, self.tracking, clock=clock)
        self.sources = Sources(detecting, mutators, self.watching, metrics, dict, connected=True)

    def put(
        self,
        kind: ResourceKind,
        name: str,
        *,
        owner: str = "",
        seconds: float = 3_600.0,
        settled: bool = False,
        observed: int = 1,
        health: str = Health.YELLOW,
        ready: bool | None = False,
        blocks: str = "status.replicas 1, want 2",
    ) -> None:
        """Track an object of generation 2 that has been as it is for so many seconds."""
        gap = f"status.observedGeneration {observed}, want 2"
        began = NOW - seconds
        state = TrackedState(
            kind=0, namespace="shop", name=name, version=1, digest=1, generation=2,
            observed=observed, intent_at=began, intent_seen=True, observed_at=None,
            changed_at=began, ready=ready, settled=settled, health=Health(health),
            has_been_ready=True, flips=(), milestones=(Milestone(began, 1),),
            owner=f"uid-{owner}" if owner else "",
            blocked_by="" if settled else gap if observed < 2 else blocks,
            blocked_since=began, application="", images=b"",
        )  # fmt: skip
        put(self.tracking, f"uid-{name}", kind, state)

    async def broken(self, *findings: Finding, now: float = NOW) -> Broken:
        queue = PageQueue()
        try:
            return await find_broken(self.sources, findings, queue, now)
        finally:
            queue.close()


@table("dashboard/broken_findings.yaml", "changes", "broken")
async def test_a_finding_is_broken_while_its_damage_is_there(case):
    """`first` and `last` are how many seconds ago its signs were."""
    names = {"first": "first_seen", "last": "last_seen"}
    changes = dict(case["changes"])
    changes |= {names[key]: stamp(NOW - changes.pop(key)) for key in names.keys() & changes.keys()}
    if "severity" in changes:
        changes["severity"] = Severity(changes["severity"])
    found = about(DEPLOYMENT, "web", **changes)
    assert is_broken(found, NOW) is case["broken"], case.because
    state = (await Scene().broken(found)).state
    assert (state is OverallState.BROKEN) is case["broken"], case.because


async def test_what_only_waits_for_its_end_is_amber_and_says_when_that_is():
    quiet = {"resolves_after": 60.0, "last_seen": stamp(NOW - 26)}
    found = await Scene().broken(about(DEPLOYMENT, "web", **quiet), about(POD, "a", state="quiet"))
    assert (found.state, found.findings, found.ending) == (OverallState.BROKEN, 1, 1)
    found = await Scene().broken(about(DEPLOYMENT, "web", **quiet))
    assert (found.state, found.findings, found.ending) == (OverallState.ENDING, 0, 1)
    assert parse_time(found.ends_at or "") == NOW + 34
    assert (found.since, found.objects) == (None, 0)
    info = about(DEPLOYMENT, "web", **quiet, severity=Severity.INFO)
    assert (await Scene().broken(info)).state is OverallState.GOOD, "info is never red"


@table("dashboard/right_again.yaml", "quiet", "overall")
async def test_an_object_that_is_right_again_is_green_before_its_finding_is_resolved(case):
    """Three signs, one each 10 s, the last of them `quiet` seconds ago."""
    quiet = case["quiet"]
    seen = {"first_seen": stamp(NOW - quiet - 20), "last_seen": stamp(NOW - quiet), "count": 3}
    right = about(DEPLOYMENT, "web", repaired=True, resolves_after=60.0, **seen)
    assert (await Scene().broken(right)).state == case["overall"], case.because


@table("dashboard/stuck_objects.yaml", "state", "stuck")
async def test_an_object_that_is_not_settled_is_red_once_nothing_changes(case):
    scene, state, stuck = Scene(), case["state"], case["stuck"]
    scene.put(DEPLOYMENT, "web", **state)
    found = await scene.broken()
    assert (found.state is OverallState.BROKEN) is stuck, case.because
    assert found.stuck == stuck
    assert found.in_progress == (not stuck and not state.get("settled", False))
    assert [one.name for one in found.not_settled] == ["web"] * stuck
    broken = find_stuck(scene.tracking, ["uid-web", "uid-gone"], frozenset(), NOW)
    assert broken == {"uid-web"} if stuck else not broken, "the page of objects says the same"


@table("dashboard/slow_objects.yaml", "state", "overall")
async def test_home_is_not_green_while_something_is_not_ready(case):
    scene = Scene()
    scene.put(DEPLOYMENT, "web", **case["state"])
    scene.put(DEPLOYMENT, "older", observed=2, seconds=590, ready=True)
    found = await scene.broken()
    assert found.state == case["overall"], case.because
    assert found.not_ready == (case["overall"] == "waiting")
    if found.not_ready:
        assert [one.name for one in found.proceeding] == ["web", "older"]


async def test_it_says_since_when_it_is_broken_without_a_break():
    scene = Scene()
    scene.put(DEPLOYMENT, "web", seconds=600)
    found = await scene.broken(about(DEPLOYMENT, "cart", first_seen=stamp(NOW - 120)))
    assert found.since is not None
    assert datetime.fromisoformat(found.since).timestamp() == NOW - 600
    assert (found.objects, found.findings, found.stuck) == (2, 1, 1)


async def test_objects_that_own_each_other_are_one_entry_with_the_one_that_blocks():
    scene = Scene()
    scene.put(DEPLOYMENT, "web", observed=2)
    scene.put(REPLICA_SET, "web-1", owner="web", observed=2)
    scene.put(POD, "web-1-a", owner="web-1", observed=2, health=Health.RED, seconds=60)
    found = await scene.broken()
    (web,) = found.not_settled
    assert (web.kind, web.name, web.blocked_object) == ("Deployment", "web", "Pod web-1-a")
    assert (web.more, web.health, found.objects) == (1, Health.RED, 1)


async def test_the_finding_about_it_or_what_it_owns_is_to_blame():
    scene = Scene()
    scene.put(DEPLOYMENT, "web")
    scene.put(REPLICA_SET, "web-1", owner="web")
    scene.put(POD, "web-1-a", owner="web-1")
    scene.put(POD, "web-1-b", owner="web-1", settled=True)
    relations = [(DEPLOYMENT, "web", "object"), (REPLICA_SET, "web-1", "owned")]
    for kind, name, relation in (*relations, (POD, "web-1-a", "owned"), (POD, "web-1-b", "owned")):
        (web,) = (await scene.broken(about(kind, name))).not_settled
        assert (web.name, web.culprit, web.relation) == ("web", "old-operator", relation)


async def test_the_finding_about_its_owner_is_to_blame():
    scene = Scene()
    scene.put(DEPLOYMENT, "web", settled=True)
    scene.put(REPLICA_SET, "web-1", owner="web")
    (found,) = (await scene.broken(about(DEPLOYMENT, "web"))).not_settled
    assert (found.name, found.relation) == ("web-1", "owner")


async def test_where_a_finding_follows_from_another_that_one_is_to_blame():
    scene = Scene()
    scene.put(DEPLOYMENT, "web")
    by_alice = (Actor("user", "alice", "", Confidence.CERTAIN),)
    cause = about(DEPLOYMENT, "cart", actors=by_alice)
    follows = about(DEPLOYMENT, "web", caused_by=cause.id, severity=Severity.INFO)
    (found,) = (await scene.broken(cause, follows)).not_settled
    assert (found.finding, found.culprit) == (cause.id, "alice")


async def test_of_what_nobody_is_blamed_for_that_is_said():
    scene = Scene()
    scene.put(DEPLOYMENT, "web")
    (found,) = (await scene.broken(about(DEPLOYMENT, "cart"))).not_settled
    assert (found.finding, found.culprit, found.relation) == ("", "", "")


def lose(scene: Scene, what: str) -> None:
    """Take away what the server would have to know."""
    match what:
        case "writes":
            scene.sources.metrics.last_review = 0.0
        case "cluster":
            scene.sources = scene.sources._replace(connected=False)
        case "watch":
            scene.watching.current("pods", is_current=False)
        case "file":
            scene.sources = scene.sources._replace(about=lambda: {"store": "sqlite-corrupt"})
        case "reviews":
            scene.sources.detecting.shed(None)
        case "findings":
            scene.sources.detecting.detection.ledger.dropped = 1_234


@table("dashboard/unknown.yaml", "lost", "words")
async def test_what_the_server_cannot_know_is_not_green_and_what_is_broken_stays_red(case):
    scene = Scene()
    lose(scene, case["lost"])
    found = await scene.broken()
    assert found.state is OverallState.UNKNOWN
    assert case["words"] in found.missing[0], case.because
    assert (await scene.broken(about(DEPLOYMENT, "web"))).state is OverallState.BROKEN


async def test_of_many_those_that_wait_for_longest_are_listed_and_all_are_counted():
    scene = Scene()
    names: Sequence[str] = [f"web-{number}" for number in range(150)]
    for number, name in enumerate(names):
        scene.put(DEPLOYMENT, name, seconds=1_000 + number)
    found = await scene.broken()
    assert (found.stuck, len(found.not_settled)) == (150, 100)
    assert found.not_settled[0].name == "web-149"
