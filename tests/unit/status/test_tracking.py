"""What becomes of an object over its versions: tests/cases/status/tracking."""

from typing import Any

import msgspec
import pytest

from genguard.objects.fields import Fields, fields_of
from genguard.status.tracked_state import MOST_CONDITIONS, MOST_MILESTONES, MOST_VALUES, Milestone
from genguard.status.tracking import Tracked, Tracking
from genguard.status.view import Past
from tests.cases_loader import Case, table
from tests.unit.status.story import Story, objects


def told(found: Tracked | None) -> dict[str, Any] | None:
    if found is None:
        return None
    state = found.state
    return {
        "generation": state.generation,
        "observed": state.observed,
        "reconciled": state.reconciled,
        "ready": state.ready,
        "settled": state.settled,
        "health": state.health.value,
        "flips": len(state.flips),
    }


@table("status/tracking", "resource", "steps", "measured")
def test_what_is_tracked_is_what_the_story_says(case: Case) -> None:
    story = Story(case.get("resource", "deployments"))
    for number, step in enumerate(case["steps"], start=1):
        story.play(step)
        if "is" in step:
            expected, found = step["is"], told(story.now)
            if expected is not None and found is not None:
                found = {key: found[key] for key in expected}
            assert found == expected, f"step {number}: {case.because}"
    counts = story.counts
    measured = {
        name: {"count": sum(found.counts), "seconds": found.sum}
        for name, found in (("observation", counts.observation), ("reconcile", counts.reconcile))
        if sum(found.counts)
    }
    assert measured == case.get("measured", {}), case.because


def sight(uid: str, **changes: Any) -> Fields:
    metadata = {"uid": uid, "name": uid, "generation": 1, "resourceVersion": "1", **changes}
    status = {"phase": changes.get("resourceVersion", "Running")}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}
    return fields_of(document)


def test_the_longest_unchanged_are_forgotten_first():
    tracking = Tracking(3)
    for uid in ("a", "b", "c", "a", "d"):
        tracking.record_stored("", "pods", "Pod", sight(uid), 0.0)
    assert [one.uid for one in objects(tracking)] == ["b", "c", "d"]
    tracking.record_stored("", "pods", "Pod", sight("b", resourceVersion="2"), 1.0)
    tracking.record_stored("", "pods", "Pod", sight("e"), 2.0)
    assert [one.uid for one in objects(tracking)] == ["d", "b", "e"]


def test_an_object_that_is_adopted_stands_below_its_new_owner():
    tracking = Tracking()
    tracking.record_stored("", "pods", "Pod", sight("a"), 0.0)
    owner = {"kind": "ReplicaSet", "name": "r", "uid": "owner", "controller": True}
    adopted = sight("a", resourceVersion="2", ownerReferences=[owner])
    adopted["status"] = sight("a")["status"]
    tracking.record_stored("", "pods", "Pod", adopted, 1.0)
    found = tracking.find("a")
    assert found is not None
    assert (found.state.owner, found.state.changed_at) == ("owner", 0.0)


def test_when_generations_were_reconciled_is_known_of_the_latest():
    story = Story("widgets")
    done = {"conditions": [{"type": "Ready", "status": "True"}]}
    status = {"observedGeneration": 1, **done}
    story.play({"at": 0, "is_there": {"spec": {"size": 0}, "status": status}})
    for number in range(1, MOST_MILESTONES + 3):
        story.play({"at": 2 * number, "spec": {"size": number}})
        status = {"observedGeneration": number + 1, **done}
        story.play({"at": 2 * number + 1, "status": status})
    assert story.now is not None
    milestones = story.now.state.milestones
    assert len(milestones) == MOST_MILESTONES
    assert milestones[-1] == Milestone(2 * MOST_MILESTONES + 5, MOST_MILESTONES + 3)


def test_evaluate_may_be_told_of_the_past():
    story = Story()
    found = {"generation": 3, "spec": {}, "status": {"observedGeneration": 3}}
    story.play({"at": 10, "is_there": found})
    assert story.tracking.past("object-1", 20.0) == Past(10.0, 10.0, None, 0)
    story.play({"at": 30, "spec": {"paused": True}})
    assert story.tracking.past("object-1", 31.0) == Past(30.0, None, None, 0)
    assert story.tracking.past("nobody", 31.0) is None


def test_a_status_without_an_observed_generation_is_an_act_when_it_was_written():
    story = Story()
    story.play({"at": 10, "is_there": {"generation": 3, "spec": {}, "status": {"replicas": 0}}})
    assert story.tracking.past("object-1", 20.0) == Past(10.0, 10.0, None, 0)


@pytest.mark.parametrize(
    ("status", "because"),
    [
        ({"conditions": [{}] * (MOST_CONDITIONS + 1)}, "conditions"),
        ({"items": [0] * (MOST_VALUES + 1)}, "values"),
    ],
    ids=["conditions", "values"],
)
def test_a_status_that_would_hold_the_event_loop_is_not_read(status, because):
    document = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"uid": "u", "name": "a"}, "status": status
    }  # fmt: skip
    with pytest.raises(msgspec.ValidationError, match=f"more than .* {because}"):
        Tracking().record_stored("", "pods", "Pod", fields_of(document), 1.0)


def test_a_field_of_spec_that_is_too_large_is_left_out_and_the_rest_is_read():
    document = {
        "apiVersion": "example.org/v1", "kind": "Widget",
        "metadata": {"uid": "u", "name": "a", "generation": 2},
        "spec": {"rows": [0] * (MOST_VALUES + 1)}, "status": {"observedGeneration": 2},
    }  # fmt: skip
    tracking = Tracking()
    tracking.record_stored("example.org", "widgets", "Widget", fields_of(document), 1.0)
    found = tracking.find("u")
    assert found is not None
    assert found.state.observed == 2
