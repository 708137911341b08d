"""What blocks an object is known with its time, and tells a rollout that proceeds from one stuck.

Each row tells a story as tests/unit/status/story.py plays it, and what is true at a time after it.
"""

import pytest

from genguard.status.blocking import FAILED_SECONDS, OBSERVES_SECONDS, PROGRESS_SECONDS
from genguard.status.tracking import UNCONFIRMED_SECONDS, Tracking, TrackingRows
from tests.unit.status.story import Story

THREE = {"replicas": 3}
PULLING = {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ErrImagePull"}}}]}
NOT_READY = {"conditions": [{"type": "Ready", "status": "False"}], **PULLING}
AVAILABLE = [{"type": "Available", "status": "True"}]


def counts(available: int, observed: int = 1, **more):
    return {"observedGeneration": observed, **THREE, "updatedReplicas": 3, "readyReplicas": 3,
            "availableReplicas": available, "conditions": AVAILABLE, **more}  # fmt: skip


CREATED = {"at": 0, "create": {"spec": THREE}}
STORED = {"at": 0, "watched": -1}
RUNNING = {"at": 0, "create": {"spec": {"completions": 1}}}

HOUR = {**THREE, "template": {"spec": {"terminationGracePeriodSeconds": 3600, "containers": []}}}
LEAVING = counts(3, terminatingReplicas=1)
WAITS = counts(2, updatedReplicas=2, replicas=2, terminatingReplicas=2)

ROWS = [
    ("deployments", [CREATED, STORED], OBSERVES_SECONDS - 1, False, "its controller will act"),
    ("deployments", [CREATED, STORED], OBSERVES_SECONDS, True, "nobody observes it"),
    (
        "deployments",
        [CREATED, {"at": 5, "status": counts(1)}],
        5 + PROGRESS_SECONDS - 1,
        False,
        "a slow start takes minutes",
    ),
    (
        "deployments",
        [CREATED, {"at": 5, "status": counts(1)}],
        5 + PROGRESS_SECONDS,
        True,
        "nothing has come since",
    ),
    (
        "deployments",
        [CREATED, {"at": 5, "status": counts(1)}, {"at": 500, "status": counts(2)}],
        5 + PROGRESS_SECONDS,
        False,
        "one more replica has come",
    ),
    (
        "deployments",
        [
            CREATED,
            {"at": 5, "status": counts(1)},
            {"at": 500, "status": counts(1, collisionCount=1)},
        ],
        5 + PROGRESS_SECONDS,
        True,
        "status is written, and the same field still blocks with the same value",
    ),
    (
        "deployments",
        [
            CREATED,
            {"at": 5, "status": counts(3)},
            {"at": 900, "spec": {"replicas": 4}},
        ],
        900 + OBSERVES_SECONDS - 1,
        False,
        "a new spec begins anew, however old the object is",
    ),
    ("jobs", [RUNNING, {"at": 1, "status": {"active": 1}}], 86_400, False, "a Job runs for hours"),
    (
        "pods",
        [{"at": 0, "create": {}}, {"at": 1, "status": NOT_READY}],
        FAILED_SECONDS,
        False,
        "an image is often there at the second try",
    ),
    (
        "pods",
        [{"at": 0, "create": {}}, {"at": 1, "status": NOT_READY}],
        1 + FAILED_SECONDS,
        True,
        "it does not come",
    ),
    (
        "deployments",
        [CREATED, {"at": 5, "status": LEAVING}],
        5 + PROGRESS_SECONDS,
        True,
        "a pod has half a minute to stop",
    ),
    (
        "deployments",
        [{"at": 0, "create": {"spec": HOUR}}, {"at": 5, "status": LEAVING}],
        5 + PROGRESS_SECONDS + 3_599,
        False,
        "a pod of this Deployment has an hour to stop",
    ),
    (
        "deployments",
        [{"at": 0, "create": {"spec": HOUR}}, {"at": 5, "status": LEAVING}],
        5 + PROGRESS_SECONDS + 3_600,
        True,
        "that hour is over",
    ),
    (
        "deployments",
        [
            {"at": 0, "create": {"spec": {**HOUR, "podReplacementPolicy": "TerminationComplete"}}},
            {"at": 5, "status": WAITS},
        ],
        5 + PROGRESS_SECONDS + 3_599,
        False,
        "a new pod waits for old ones, as it is asked to",
    ),
    (
        "deployments",
        [
            {"at": 0, "create": {"spec": {**HOUR, "podReplacementPolicy": "TerminationStarted"}}},
            {"at": 5, "status": WAITS},
        ],
        5 + PROGRESS_SECONDS,
        True,
        "new pods do not wait, so something else holds them back",
    ),
    (
        "widgets",
        [{"at": 0, "create": {}}, {"at": 1, "status": {"observedGeneration": -1}}],
        OBSERVES_SECONDS,
        False,
        "some controllers observe only what they have finished",
    ),
]


@pytest.mark.parametrize(("resource", "steps", "at", "stuck", "because"), ROWS)
def test_an_object_is_stuck_where_the_same_value_blocks_for_too_long(
    resource, steps, at, stuck, because
):
    story = Story(resource)
    for step in steps:
        story.play(step)
    story.play({"at": at, "quiet": None})
    assert is_stuck(story.tracking, at) is stuck, because


def is_stuck(tracking: Tracking, at: float) -> bool:
    ((uid, blocking),) = tracking.unsettled()
    found = tracking.find(uid)
    assert found is not None
    stuck_at = tracking.stuck_at(found, blocking)
    return stuck_at is not None and at >= stuck_at


def test_the_field_that_blocks_is_named_with_what_it_has_and_what_is_wanted():
    story = Story()
    story.play(CREATED)
    story.play({"at": 5, "status": counts(1)})
    ((_, blocking),) = story.tracking.unsettled()
    assert (blocking.since, blocking.text) == (5, "status.availableReplicas 1, want 3")


def test_what_is_settled_or_gone_blocks_nothing_and_takes_no_memory():
    story = Story()
    story.play(CREATED)
    story.play({"at": 5, "status": counts(3)})
    assert not list(story.tracking.unsettled())
    story.play({"at": 6, "spec": {"replicas": 4}})
    assert len(list(story.tracking.unsettled())) == 1
    story.play({"at": 7, "delete": None})
    assert not list(story.tracking.unsettled())
    assert story.tracking.bytes == 0


def test_after_a_restart_it_is_known_since_when_and_what_numbers_tell():
    story = Story()
    story.play(CREATED)
    story.play({"at": 5, "status": counts(3)})
    story.play({"at": 20, "spec": {"replicas": 4}})
    story.play({"at": 40, "quiet": None})
    rows = TrackingRows(story.tracking)
    after = Tracking()
    data = rows.export("object-1")
    assert data is not None
    TrackingRows(after).restore([("object-1", data)])
    ((_, blocking),) = after.unsettled()
    assert blocking.text == "status.observedGeneration 1, want 2"
    assert is_stuck(after, 20 + OBSERVES_SECONDS)
    assert not is_stuck(after, 20 + OBSERVES_SECONDS - 1)


FAILING = {"conditions": [{"type": "Progressing", "status": "False",
                           "reason": "ProgressDeadlineExceeded"}]}  # fmt: skip


@pytest.mark.parametrize("jump", [3_600.0, -3_600.0])
@pytest.mark.parametrize(
    ("steps", "seconds", "because"),
    [
        ([CREATED, STORED], OBSERVES_SECONDS, "nobody observes it"),
        ([CREATED, {"at": 0, "status": counts(1)}], PROGRESS_SECONDS, "nothing has come since"),
        ([CREATED, {"at": 0, "status": counts(1, **FAILING)}], FAILED_SECONDS, "it has failed"),
    ],
)
def test_after_a_jump_of_the_clock_an_object_is_stuck_after_its_usual_time(
    jump, steps, seconds, because
):
    story = Story()
    for step in steps:
        story.play(step)
    story.tracking.shift(jump, jump + 10)
    story.play({"at": jump + 20, "quiet": None})
    assert not is_stuck(story.tracking, jump + seconds - 1), because
    assert is_stuck(story.tracking, jump + seconds), because


def test_after_a_jump_of_the_clock_no_time_lies_ahead():
    story = Story()
    story.play(CREATED)
    story.play({"at": 3_600, "watched": -1})
    story.tracking.shift(3_600, 3_610)
    ((_, blocking),) = story.tracking.unsettled()
    assert (blocking.since, blocking.seen_at) == (3_600, 3_610)


@pytest.mark.parametrize("jump", [3_600.0, -3_600.0])
def test_a_write_that_is_not_known_to_be_stored_is_decided_on_in_its_usual_time(jump):
    story = Story()
    story.play(CREATED)
    story.play(STORED)
    story.play({"at": 1, "status": counts(3)})
    story.play({"at": 2, "spec": {"replicas": 4}})
    story.tracking.shift(jump, jump + 3)
    story.tracking.settle(jump + 2 + UNCONFIRMED_SECONDS - 1)
    assert story.now is not None
    assert story.now.unconfirmed
    story.tracking.settle(jump + 2 + UNCONFIRMED_SECONDS)
    assert not story.now.unconfirmed
