"""What is told of an object's writes, and where it stands in the plot."""

import re

import pytest

from genguard.detection.diff import diff_of
from genguard.detection.history import ObjectHistory
from genguard.status.tracked_state import Milestone
from tests.unit.detection.builders import (
    INTENT,
    MUTATE,
    OUTCOME,
    joined,
    spec,
    status,
    update,
    with_content,
)
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


def test_a_write_says_who_and_what_and_no_value():
    (step,) = steps(remembered(*write(SENT, SENT, SENT), stored=True))
    assert step.actor == step.user == "someone"
    assert step.subresource == "status"
    assert step.changed == ("/status/replicas",)
    assert step.stored is Stored.YES


def test_of_a_write_whose_leaves_are_not_known_the_fields_are_shown():
    seen = remembered(*write(SENT, SENT, SENT))
    (one,) = seen.writes
    seen.writes = (with_content(one, admitted=diff_of((), differs=True)),)
    (step,) = steps(seen)
    assert (step.changed, step.changed_count) == (("/status",), 1)


def test_without_an_intent_nobody_knows_what_others_did():
    (step,) = steps(remembered((MUTATE, update(spec(replicas=2), spec(replicas=1)))))
    assert step.others is None
    assert step.stored is Stored.UNKNOWN
    assert step.counted


def test_a_write_that_changes_nothing_is_not_stored():
    (step,) = steps(remembered(*write(SENT, SENT, SENT, old=SENT)))
    assert step.stored is Stored.NO


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


def test_where_nothing_is_observed_there_is_a_gap():
    drawn = plot([step(0.0), step(5.0, 1, None), step(10.0)], [], 10.0)
    assert drawn.lines[1].path.count("M") == 2


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


def test_a_single_write_and_an_observed_generation_in_digits_are_drawn():
    drawn = plot([step(5.0, 3, "3")], [], 5.0)
    assert [line.name for line in drawn.lines] == ["generation", "observedGeneration"]
    assert plot([step(5.0, 3, "")], [], 5.0).lines[0].name == "generation"


def test_marks_say_what_became_of_a_write():
    drawn = plot([step(1.0), step(2.0, mended=("x",)), step(3.0, lost=("x",))], [], 3.0)
    assert [mark.kind for mark in drawn.marks] == ["write", "mended", "lost"]
    assert drawn.marks[1].title == "a: /status, generation 1, restored"


@pytest.mark.parametrize(
    ("seconds", "texts"),
    [
        (4.0, ["00:00:00.0", "00:00:01.0", "00:00:02.0", "00:00:03.0", "00:00:04.0"]),
        (7_200.0, ["00:00:00", "00:30:00", "01:00:00", "01:30:00", "02:00:00"]),
        (
            172_800.0,
            [
                f"01-0{day} {hour}:00"
                for day, hour in ((1, "00"), (1, 12), (2, "00"), (2, 12), (3, "00"))
            ],
        ),
    ],
)
def test_the_axis_shows_clock_times_as_fine_as_the_range(seconds, texts):
    drawn = plot([step(0.0), step(seconds)], [], seconds)
    assert [one.text for one in drawn.across] == texts
