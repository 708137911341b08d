"""What is told of an object's writes, and where it stands in the plot."""

import re

import pytest

from genguard.detection.history import ObjectHistory
from genguard.status.tracked_state import Milestone
from tests.unit.detection.builders import INTENT, MUTATE, OUTCOME, joined, status, update
from webhook.dashboard.timeline import RIGHT, Step, Stored, plot, steps


def remembered(*reviews: tuple, stored=False):
    writes = tuple(joined(*reviews))
    return ObjectHistory(writes, writes if stored else ())


def write(sent, came, stored_after, old=None):
    """A status write in three phases."""
    old = status(observedGeneration=1) if old is None else old
    phases = zip((INTENT, MUTATE, OUTCOME), (sent, came, stored_after), strict=True)
    return [(phase, update(new, old, subresource="status")) for phase, new in phases]


SENT, CLEARED = status(observedGeneration=1, replicas=2), status(replicas=2)


@pytest.mark.parametrize(
    ("came", "result", "mended", "lost"),
    [
        (SENT, SENT, (), ()),
        (CLEARED, SENT, ("status.observedGeneration",), ()),
        (CLEARED, CLEARED, (), ("status.observedGeneration",)),
    ],
)
def test_what_was_cleared_is_mended_or_lost(came, result, mended, lost):
    (step,) = steps(remembered(*write(SENT, came, result)))
    assert (step.mended, step.lost) == (mended, lost)
    assert step.others == (() if came == SENT else ("/status/observedGeneration",))


def step(at, generation=1, observed=1, user="a", **more):
    known = {
        "field_manager": "", "subresource": "status", "stored": Stored.YES, "counted": False,
        "changed": (), "changed_count": 0, "others": (), "mended": (), "lost": (),
    }  # fmt: skip
    return Step(time=at, user=user, generation=generation, observed=observed, **{**known, **more})


def numbers(path):
    return [float(one) for one in re.findall(r"-?[0-9.]+", path)]


def test_generations_are_steps_that_never_overlap_each_other():
    drawn = plot([step(0.0), step(10.0, 2, 1), step(20.0, 2, 2)], [Milestone(20.0, 2)], 20.0)
    assert [line.name for line in drawn.lines] == [
        "generation",
        "observedGeneration",
        "reconciledGeneration",
    ]
    generation, observed, _ = (line.path for line in drawn.lines)
    assert generation.count("H") == 2  # level, up at 10, level to the end
    assert generation != observed
    assert [one.text for one in drawn.up] == ["1", "2"]
    assert [one.text for one in drawn.across] == [f"00:00:{at:02}" for at in (0, 5, 10, 15, 20)]


def test_everything_stays_within_the_plot():
    several = [step(float(at), at, at - 1, user=f"user-{at % 9}") for at in range(1, 41)]
    drawn = plot(several, [Milestone(-50.0, 1), Milestone(90.0, 39)], 1_000.0)
    for line in drawn.lines:
        assert all(0 <= one <= RIGHT for one in numbers(line.path))
    assert len(drawn.lanes) == 6
    assert drawn.lanes[-1].text == "others"
    assert len(drawn.marks) == 40
    assert all(0 < mark.y < drawn.height and 0 < mark.x <= RIGHT for mark in drawn.marks)
    assert len(drawn.up) <= 5
