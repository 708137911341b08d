"""Recorded scenarios with hours between their turns: found at any pace, and quiet at any pace."""

import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

import pytest

from tests.scenarios import recording
from tests.scenarios.distorting import Line, encoded, writes_of
from tests.scenarios.expecting import Result, complaints, examine, expectations

EXPECTED = expectations()
Pace = Callable[[int], timedelta]
"""When the turn of this number begins."""
_TURNS_TO_FIND = 10
"""The first two are about nothing, or are not compared; then there are four of each."""


def each(**pause: float) -> Pace:
    """So long after the turn before."""
    return lambda turn: turn * timedelta(**pause)


def nightly(turn: int) -> timedelta:
    """One turn a night, and its answer five minutes later."""
    return timedelta(days=turn // 2, minutes=5 * (turn % 2))


def slowed(lines: Iterable[Line], turns_of: tuple[str, ...], pace: Pace) -> list[Line]:
    """Give each turn of these users its time; what others write follows the turn before it."""
    start: datetime | None = None
    turn, began, moved = -1, datetime.min, datetime.min
    found: list[Line] = []
    for write in writes_of(lines):
        first = datetime.fromisoformat(write[0]["time"])
        start = start or first
        request = write[0]["review"]["request"]
        if request["userInfo"]["username"] in turns_of and request["operation"] == "UPDATE":
            turn += 1
            began, moved = first, start + pace(turn)
        elif turn < 0:
            began = moved = first
        for line in write:
            at = moved + (datetime.fromisoformat(line["time"]) - began)
            found.append({**line, "time": at.isoformat()})
    return sorted(found, key=lambda line: line["time"])


def result_of(name: str, turns_of: tuple[str, ...], pace: Pace) -> Result:
    lines = [json.loads(line) for line in recording.read_lines(name)]
    return examine(encoded(slowed(lines, turns_of, pace)), recording.webhooks_of(name))


REPLICAS = ("replicas-of-two-wills", ("gitops", "autoscaler"))
LABEL = ("label-of-two-wills", ("gitops", "operator"))


@pytest.mark.parametrize(
    ("name", "users", "pace"),
    [
        (*REPLICAS, each(minutes=30)),
        (*REPLICAS, each(hours=2)),
        (*LABEL, each(minutes=30)),
        (*LABEL, each(hours=2)),
        (*LABEL, nightly),
    ],
)
def test_a_slow_loop_is_found_after_four_turns_of_each(name, users, pace):
    result = result_of(name, users, pace)
    (wanted,) = EXPECTED[name].find
    (found,) = [one for one in result.findings if one["detector"] == wanted["detector"]]
    assert found["severity"] != "info"
    assert {one["name"] for one in found["actors"]} == {*users}
    assert result.warned[found["id"]].seconds <= pace(_TURNS_TO_FIND).total_seconds() + 1
    assert not result.resolved_too_early()


@pytest.mark.parametrize("pace", [each(minutes=30), each(hours=2), nightly])
@pytest.mark.parametrize(
    ("name", "users"),
    [
        ("a-person-edits-to-and-fro", ("alice",)),
        ("to-zero-and-back", ("autoscaler",)),
        ("own-fields-by-turns", ("red", "blue")),
        ("canary-weights-of-one-writer", ("rollouts",)),
    ],
)
def test_what_is_quiet_stays_quiet_at_any_pace(name, users, pace):
    assert not list(complaints(result_of(name, users, pace), EXPECTED[name]))


def test_two_who_each_come_half_a_day_after_the_other_follow_a_timetable():
    result = result_of(*REPLICAS, each(hours=12))
    assert not [one for one in result.findings if one["severity"] != "info"]
