"""What becomes of an object over its writes: tests/cases/status/tracking."""

from typing import Any

import msgspec
import pytest

from genguard.admission.review import ReviewedObject
from genguard.objects.fields import Fields, fields_of
from genguard.status import tracking as tracking_module
from genguard.status.kind_counts import MOST_KINDS, OTHER, CountsByKind, ResourceKind
from genguard.status.state_transition import MOST_CONDITIONS, MOST_VALUES
from genguard.status.tracking import Tracked, Tracking
from genguard.status.view import Past
from tests.cases_loader import Case, table
from tests.unit.status.story import Story


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
        "waiting": found.unconfirmed,
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
    assert_counted_right(story)


def assert_counted_right(story: Story) -> None:
    """The running counts are what a walk over all objects gives."""
    for kind, counts in story.tracking.counts_by_kind:
        of_kind = [one.state for one in story.tracking.objects() if one.kind == kind]
        for health, count in counts.healths.items():
            assert count == sum(one.health is health for one in of_kind)


@pytest.mark.parametrize(
    ("new", "gone", "because"),
    [
        ({"finalizers": ["a"]}, False, "another finalizer is left"),
        ({"finalizers": []}, True, "the last finalizer goes, and the object with it"),
        ({"deletionGracePeriodSeconds": 30}, False, "its containers have time to end"),
        ({"deletionGracePeriodSeconds": 0}, True, "the time is over"),
    ],
)
def test_a_deleted_object_is_gone_with_its_last_finalizer(new, gone, because):
    story = Story("pods")
    deleted = {"deletionTimestamp": "2026-01-02T03:04:05Z"}
    story.play({"at": 0, "is_there": {"metadata": deleted | {"finalizers": ["a", "b"]}}})
    story.play({"at": 1, "watched": -1})
    assert story.now is not None
    story.play({"at": 2, "metadata": deleted | new})
    assert (story.now is None) is gone, because


@pytest.mark.parametrize(
    ("operation", "subresource", "because"),
    [
        ("CONNECT", "exec", "nothing is written"),
        ("DELETE", "exec", "not the object is deleted"),
        ("CREATE", "binding", "a Binding is shown, and no pod"),
        ("UPDATE", "approval", "nobody says that it is the whole object that is shown"),
    ],
)
def test_a_review_that_does_not_show_the_object_tells_nothing(operation, subresource, because):
    story = Story("pods")
    story.play({"at": 0, "is_there": {}})
    story.play({"at": 1, "watched": -1})
    before = story.now
    shown = {**story.stored[-1], "spec": {"a": 1}}
    new, old = (None, shown) if operation == "DELETE" else (shown, None)
    if operation == "UPDATE":
        old = shown
    story._review(operation, old, new, 2.0, subresource=subresource)
    assert story.now == before, because


@pytest.mark.parametrize(
    ("late", "because"),
    [
        ({"status": {"phase": "Failed"}}, "the last status of a kubelet"),
        ({"refused_spec": {"a": 1}}, "admitted, and then there was nothing to store it in"),
        ({"watched": -1}, "an earlier state that a rule in CEL judged meanwhile"),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else None,
)
def test_what_a_watch_says_is_deleted_is_not_revived_by_a_late_review(late, because):
    story = Story("pods")
    story.play({"at": 0, "is_there": {}})
    story.play({"at": 1, "watched": -1})
    state = story.now
    assert state is not None
    story.tracking.record_deleted("object-1")
    story.play({"at": 2, **late})
    assert story.now is None, because
    story.tracking.restore("object-1", state.kind, state.state)
    assert story.now is None, "nor by what was saved before"


def test_a_deletion_that_is_seen_before_the_creation_counts_too():
    story = Story("pods")
    story.tracking.record_deleted("object-1")
    story.play({"at": 1, "create": {"spec": {"a": 1}}})
    assert story.now is None


def test_of_deleted_objects_the_latest_are_remembered():
    tracking = Tracking()
    for number in range(tracking_module.MOST_DELETED + 5):
        tracking.record_deleted(f"gone-{number}")
    tracking.record_deleted("x" * 10_000)  # no uid: nothing of this length is tracked
    assert len(tracking._deleted) == tracking_module.MOST_DELETED
    assert tracking.bytes == tracking_module.MOST_DELETED * tracking_module._BYTES_OF_DELETED


def test_a_scale_that_changes_nothing_moves_nothing():
    story = Story()
    story.play({"at": 0, "is_there": {"spec": {"replicas": 2}}})
    story.play({"at": 1, "watched": -1})
    before = story.now
    story.play({"at": 2, "scale": 2})
    assert story.now == before


def test_a_scale_of_what_nobody_knows_makes_nothing_known():
    story = Story()
    story.play({"at": 0, "is_there": {"spec": {"replicas": 2}}})
    story.play({"at": 1, "scale": 3})
    assert story.now is None


def test_a_write_of_another_object_by_the_same_name_is_not_of_this_one():
    """Deleted and made again between: the server refuses it for its uid."""
    story = Story()
    story.play({"at": 0, "is_there": {}})
    old = story.stored[-1]
    new = {**old, "metadata": {**old["metadata"], "uid": "object-2"}, "spec": {"a": 1}}
    story._review("UPDATE", old, new, 1.0)
    assert len(story.tracking) == 0


def sight(uid: str) -> Fields:
    metadata = {"uid": uid, "name": uid, "generation": 1, "resourceVersion": "1"}
    return fields_of({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})


def test_the_longest_unseen_are_forgotten_first():
    tracking = Tracking(most_objects=3)
    for uid in ("a", "b", "c", "a", "d"):
        tracking.record_stored("", "pods", "Pod", sight(uid), 0.0)
    assert tracking.uids() == ["b", "c", "d"]  # what a watch shows again is no write
    tracking.record_stored(
        "", "pods", "Pod", fields_of({**CHANGED, "metadata": META | {"uid": "b"}}), 1.0
    )
    tracking.record_stored("", "pods", "Pod", sight("e"), 2.0)
    assert tracking.uids() == ["d", "b", "e"]


META = {"name": "b", "generation": 1, "resourceVersion": "2"}
CHANGED = {"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"}}


def test_what_waits_to_be_decided_counts_in_bytes():
    tracking = Tracking()
    tracking.record_stored("", "pods", "Pod", sight("uid"), 0.0)
    decided = tracking.bytes
    changed = fields_of({**CHANGED, "metadata": {**META, "uid": "uid"}})
    old, new = ReviewedObject.of(sight("uid")), ReviewedObject.of(changed)
    tracking.record_write(ResourceKind("", "pods", "Pod"), "v1", old, new, 1.0)
    assert tracking.bytes > decided + 350
    tracking.settle(100.0)
    assert abs(tracking.bytes - decided) < 100
    for number in range(300):
        created = ReviewedObject.of(sight(f"uid-{number}"))
        tracking.record_write(
            ResourceKind("", "pods", "Pod"), "v1", None, created, 100.0 + number / 100
        )
    waiting = tracking.bytes
    bounded = Tracking(most_bytes=waiting // 3)
    for number in range(300):
        created = ReviewedObject.of(sight(f"uid-{number}"))
        bounded.record_write(
            ResourceKind("", "pods", "Pod"), "v1", None, created, 100.0 + number / 100
        )
        assert bounded.bytes <= waiting // 3
    assert 80 < len(bounded) < 120
    for uid in bounded.uids():
        bounded.forget(uid)
    assert bounded.bytes == 0


def test_writes_that_wait_are_bounded_and_the_oldest_are_decided_early(monkeypatch):
    monkeypatch.setattr(tracking_module, "MOST_UNCONFIRMED", 2)
    tracking = Tracking()
    for number in range(5):
        new = ReviewedObject.of(sight(f"uid-{number}"))
        tracking.record_write(ResourceKind("", "pods", "Pod"), "v1", None, new, float(number))
    assert tracking.uids() == ["uid-3", "uid-4"]


def test_names_that_no_api_server_lets_through_are_not_kept():
    tracking = Tracking()
    for key, value in (
        ("uid", "u" * 129),
        ("uid", ""),
        ("name", "n" * 254),
        ("namespace", "n" * 254),
    ):
        found = fields_of({**CHANGED, "metadata": META | {"uid": "b", key: value}})
        tracking.record_stored("", "pods", "Pod", found, 0.0)
    assert len(tracking) == 0


def test_kinds_without_number_share_one_count():
    counts_by_kind = CountsByKind()
    positions = {
        counts_by_kind.position("example.org", f"things{n}", f"Thing{n}") for n in range(3_000)
    }
    assert len(positions) == MOST_KINDS + 1
    assert counts_by_kind.kind(0) is OTHER
    assert counts_by_kind.position("example.org", "things5", "Thing5") != 0


def test_evaluate_may_be_told_of_the_past():
    story = Story()
    found = {"generation": 3, "spec": {}, "status": {"observedGeneration": 3}}
    story.play({"at": 5, "is_there": found})
    story.play({"at": 10, "watched": -1})
    assert story.tracking.past("object-1", 20.0) == Past(10.0, 10.0, None, 0)
    story.play({"at": 30, "spec": {"paused": True}})
    assert story.tracking.past("object-1", 31.0) == Past(30.0, None, None, 0)
    assert story.tracking.past("nobody", 31.0) is None


def test_a_status_without_an_observed_generation_is_an_act_when_it_was_written():
    story = Story()
    story.play({"at": 5, "is_there": {"generation": 3, "spec": {}, "status": {"replicas": 0}}})
    story.play({"at": 10, "watched": -1})
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
