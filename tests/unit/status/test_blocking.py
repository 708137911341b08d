"""What blocks an object is known with its time, and tells a rollout that proceeds from one stuck.

Each row tells a story as tests/unit/status/story.py plays it, and what is true at a time after it.
"""

import pytest

from genguard.status.evaluate import GRACE_SECONDS
from genguard.status.tracked_state import FAILED_SECONDS, OBSERVES_SECONDS, PROGRESS_SECONDS
from genguard.status.tracking import Tracking
from tests.cases_loader import table
from tests.unit.status.story import Story

THREE = {"replicas": 3}
AVAILABLE = [{"type": "Available", "status": "True"}]


def counts(available: int, observed: int = 1, **more):
    return {"observedGeneration": observed, **THREE, "updatedReplicas": 3, "readyReplicas": 3,
            "availableReplicas": available, "conditions": AVAILABLE, **more}  # fmt: skip


CREATED = {"at": 0, "create": {"spec": THREE}}


@table("status/stuck.yaml", "resource", "steps", "at", "stuck")
def test_an_object_is_stuck_where_the_same_value_blocks_for_too_long(case):
    story = Story(case["resource"])
    for step in case["steps"]:
        story.play(step)
    story.play({"at": case["at"], "quiet": None})
    assert is_stuck(story.tracking, case["at"]) is case["stuck"], case.because


def is_stuck(tracking: Tracking, at: float) -> bool:
    (found,) = tracking.unsettled()
    stuck_at = tracking.stuck_at(found)
    return stuck_at is not None and at >= stuck_at


def test_the_field_that_blocks_is_named_with_what_it_has_and_what_is_wanted():
    story = Story()
    story.play(CREATED)
    story.play({"at": 5, "status": counts(1)})
    (found,) = story.tracking.unsettled()
    told = found.state.blocked_since, found.state.blocked_by
    assert told == (5, "status.availableReplicas 1, want 3")


def test_what_is_settled_or_gone_blocks_nothing():
    story = Story()
    story.play(CREATED)
    story.play({"at": 5, "status": counts(3)})
    assert not list(story.tracking.unsettled())
    story.play({"at": 6, "spec": {"replicas": 4}})
    assert len(list(story.tracking.unsettled())) == 1
    story.play({"at": 7, "delete": None})
    assert not list(story.tracking.unsettled())


FAILING = {"conditions": [{"type": "Progressing", "status": "False",
                           "reason": "ProgressDeadlineExceeded"}]}  # fmt: skip


@pytest.mark.parametrize("jump", [3_600.0, -3_600.0])
@pytest.mark.parametrize(
    ("steps", "seconds", "because"),
    [
        ([CREATED], OBSERVES_SECONDS, "nobody observes it"),
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
    story.tracking.shift(3_600, 3_590)
    (found,) = story.tracking.unsettled()
    assert found.state.blocked_since == 3_590


@pytest.mark.parametrize("jump", [3_600.0, -3_600.0])
def test_after_a_jump_of_the_clock_a_controller_has_its_usual_time_to_act(jump):
    story = Story("widgets")
    done = {"conditions": [{"type": "Ready", "status": "True"}]}
    story.play({"at": 0, "is_there": {"spec": {"size": 1}, "status": done}})
    story.play({"at": 2, "spec": {"size": 2}})
    story.tracking.shift(jump, jump + 3)
    story.play({"at": jump + 2 + GRACE_SECONDS - 1, "quiet": None})
    assert list(story.tracking.unsettled())
    story.play({"at": jump + 2 + GRACE_SECONDS, "quiet": None})
    assert not list(story.tracking.unsettled())
