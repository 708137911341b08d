"""Laws of tracking, over versions in any order, doubled and late."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from genguard.objects.fields import fields_of
from genguard.objects.metadata import LONGEST_UID
from genguard.status.counts import ResourceKind
from genguard.status.tracked_state import Milestone, TrackedState, pack, unpack
from genguard.status.tracking import Tracking
from genguard.status.view import Health
from tests.property.strategies import JSON
from tests.unit.status.story import objects

DEPLOYMENTS = ResourceKind("apps", "deployments", "Deployment")
UIDS = ("a", "b", "c")
NUMBERS = st.integers(0, 4)
COUNTS = st.none() | st.integers(0, 2)
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "observedGeneration": NUMBERS | st.just(-1) | st.just("2"),
        "replicas": COUNTS,
        "readyReplicas": COUNTS,
        "availableReplicas": COUNTS,
        "updatedReplicas": COUNTS,
        "conditions": st.lists(
            st.fixed_dictionaries(
                {"type": st.sampled_from(["Available", "Ready"]), "status": st.just("True")}
            ),
            max_size=1,
        ),
    },
)


@st.composite
def sights(draw: st.DrawFn) -> dict[str, Any]:
    """An object with any generation and any resourceVersion, as nobody would ever store them."""
    metadata = {
        "uid": draw(st.sampled_from(UIDS)),
        "generation": draw(NUMBERS),
        "resourceVersion": draw(st.integers(0, 6).map(str) | st.just("x")),
    }
    status = draw(STATUSES | JSON)
    spec = {"replicas": draw(st.integers(0, 2))}
    identity = {"apiVersion": "apps/v1", "kind": draw(st.sampled_from(["Deployment", "Widget"]))}
    return {**identity, "metadata": metadata, "spec": spec, "status": status}


STEPS = st.tuples(
    st.sampled_from(["see", "create", "forget", "settle"]), sights(), st.floats(-20, 40)
)


def take(tracking: Tracking, step: str, new: Any, at: float) -> None:
    kind = DEPLOYMENTS._replace(kind=new["kind"], resource=f"{new['kind'].lower()}s")
    if step == "settle":
        tracking.advance(at)
    elif step == "forget":
        tracking.forget(new["metadata"]["uid"])
    else:
        tracking.record_stored(*kind, fields_of(new), at, created=step == "create")


def assert_counted_right(tracking: Tracking) -> None:
    """The running counts are what a walk over all objects gives."""
    walked = Counter((one.kind, one.state.health) for one in objects(tracking))
    for kind, counts in tracking.counts_by_kind:
        assert counts.healths == {health: walked[kind, health] for health in Health}
        assert len(counts.behind_since) <= sum(counts.healths.values())
    unsettled = {one.uid for one in objects(tracking) if not one.state.settled}
    assert {one.uid for one in tracking.unsettled()} == unsettled


@given(st.lists(STEPS, max_size=25))
def test_reconciled_generation_never_exceeds_generation_and_never_goes_back(steps):
    tracking = Tracking()
    reached = dict.fromkeys(UIDS, 0)
    at = 100.0
    for step, new, passed in steps:
        at += passed  # clocks are set back, too
        take(tracking, step, new, at)
        for uid in UIDS:
            found = tracking.find(uid)
            if found is None:
                reached[uid] = 0
                continue
            state = found.state
            reconciled = state.reconciled or 0
            assert reached[uid] <= reconciled <= state.generation
            assert not (state.settled and state.generation) or reconciled == state.generation
            reached[uid] = reconciled
        assert_counted_right(tracking)


@given(st.lists(STEPS, max_size=20))
def test_each_generation_is_measured_at_most_once(steps):
    tracking = Tracking()
    at = 100.0
    generations = set()
    for step, new, passed in steps:
        at += abs(passed)
        take(tracking, step, new, at)
        generations |= {
            (uid, found.state.generation)
            for uid in UIDS
            if (found := tracking.find(uid)) is not None
        }
    for measured in ("observation", "reconcile"):
        times = sum(sum(getattr(counts, measured).counts) for _, counts in tracking.counts_by_kind)
        assert times <= len(generations)


@given(st.lists(STEPS, max_size=20), st.integers(1, 2))
def test_memory_is_bounded_in_objects(steps, objects):
    tracking = Tracking(objects)
    for step, new, _ in steps:
        take(tracking, step, new, 100.0)
        assert len(tracking) <= objects
        assert_counted_right(tracking)


TIMES = st.floats(0, 2**40)
INT64 = st.integers(0, 2**63 - 1)
REMEMBERED = st.builds(
    TrackedState,
    kind=st.integers(0, 2_000),
    namespace=st.text(max_size=253),
    name=st.text(max_size=253),
    version=INT64,
    digest=st.integers(0, 2**32 - 1),
    generation=INT64,
    observed=st.none() | st.integers(-(2**63) + 1, 2**63 - 1),
    intent_at=TIMES,
    intent_seen=st.booleans(),
    observed_at=st.none() | TIMES,
    changed_at=TIMES,
    ready=st.none() | st.booleans(),
    settled=st.booleans(),
    health=st.sampled_from(Health),
    has_been_ready=st.booleans(),
    flips=st.lists(st.integers(0, 2**40 - 1), max_size=20).map(tuple),
    milestones=st.lists(st.builds(Milestone, TIMES, INT64), max_size=16).map(tuple),
    blocked_by=st.text(max_size=200),
    blocked_since=TIMES,
    application=st.text(max_size=63),
    images=st.binary(max_size=240),
    owner=st.text(max_size=40).filter(lambda text: len(text.encode()) <= LONGEST_UID),
)


@given(REMEMBERED)
def test_what_is_packed_is_unpacked(one):
    assert unpack(pack(one)) == one
