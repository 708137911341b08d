"""What is tracked outlives the process, as far as it is known to be stored."""

from typing import Any

import msgspec
import pytest

from genguard.objects.fields import fields_of
from genguard.status.tracking import UNCONFIRMED_SECONDS, Tracking, TrackingRows
from tests.unit.status.story import Story


def told(*steps: dict[str, Any]) -> Tracking:
    story = Story()
    for at, step in enumerate(steps):
        story.play({"at": at, **step})
    return story.tracking


def restarted(tracking: Tracking) -> Tracking:
    fresh = Tracking()
    fresh.counts_by_kind.position(
        "", "pods", "Pod"
    )  # positions of kinds are others in another process
    kept = TrackingRows(tracking)
    rows = [(name, kept.export(name)) for name, _ in kept.marks()]
    TrackingRows(fresh).restore((name, content) for name, content in rows if content is not None)
    return fresh


CREATED = {"create": {"spec": {"replicas": 1}}}
READY = {
    "status": {
        "observedGeneration": 1,
        "replicas": 1,
        "readyReplicas": 1,
        "updatedReplicas": 1,
        "availableReplicas": 1,
        "conditions": [{"type": "Available", "status": "True"}],
    }
}


def test_what_was_reconciled_still_is():
    before = told(CREATED, READY)
    before.settle(UNCONFIRMED_SECONDS + 10)
    after = restarted(before)
    (one,), (same,) = before.objects(), after.objects()
    assert one.state.reconciled == 1
    assert same.kind == one.kind
    assert msgspec.structs.replace(same.state, kind=one.state.kind) == one.state
    assert (
        after.counts_by_kind.counts(same.state.kind).healths
        == before.counts_by_kind.counts(one.state.kind).healths
    )


def test_a_write_nobody_confirmed_yet_is_believed_until_the_next_sight():
    before = told(CREATED, READY)
    (one,), (same,) = before.objects(), restarted(before).objects()
    assert one.unconfirmed
    assert (same.state.reconciled, same.state.version, same.unconfirmed) == (1, 0, False)


def test_a_creation_nobody_confirmed_is_not_kept():
    assert len(restarted(told(CREATED))) == 0


def test_what_has_been_seen_since_the_start_is_newer_than_what_was_kept():
    before, now = told(CREATED, READY), told(CREATED)
    (known,) = now.objects()
    now.restore("object-1", known.kind, next(before.objects()).state)
    assert tuple(now.objects()) == (known,)


def test_an_object_that_goes_while_they_are_marked_is_left_out():
    tracking = Tracking()
    for uid in ("a", "b", "c"):
        metadata = {"uid": uid, "name": uid, "generation": 1, "resourceVersion": "1"}
        found = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        tracking.record_stored("", "pods", "Pod", fields_of(found), 0.0)
    marks = TrackingRows(tracking).marks()
    first = next(iter(marks))
    tracking.forget("b")
    assert [name for name, _ in (first, *marks)] == ["a", "c"]


def test_what_is_marked_alike_is_alike():
    tracking = told(CREATED, READY)
    kept = TrackingRows(tracking)
    marks = dict(kept.marks())
    assert dict(kept.marks()) == marks
    tracking.settle(UNCONFIRMED_SECONDS + 10)
    assert dict(kept.marks()) != marks


@pytest.mark.parametrize(
    "content",
    [b"", b"\xc1", msgspec.msgpack.encode((("apps", "deployments", "Deployment"), b"short"))],
)
def test_rows_of_another_kind_are_refused(content):
    with pytest.raises((msgspec.MsgspecError, ValueError)):
        TrackingRows(Tracking()).restore([("uid", content)])
