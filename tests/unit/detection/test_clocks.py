"""Detection while the clock is put forth and back by hours and by years."""

import itertools

import pytest

from genguard.detection.correlate import SECONDS_WAITED
from genguard.detection.detection import Detection
from genguard.detection.finding_state import QUIET_SECONDS
from tests.unit.detection.builders import INTENT, MUTATE, OUTCOME, feed, status, update

NOW = 1_800_000_000.0
HOUR, YEAR = 3_600.0, 365 * 86_400.0
JUMPS = pytest.mark.parametrize("jump", [HOUR, -HOUR, YEAR, -YEAR, 10 * YEAR, -10 * YEAR])
PHASES = pytest.mark.parametrize("phases", [(INTENT, MUTATE, OUTCOME), (INTENT, MUTATE)])
"""With outcomes, and where none is registered."""
_bases = itertools.count(1)


def write(detection, phases, now, *, name="web", clears=True):
    """A status write of which another webhook clears observedGeneration, or that is left alone."""
    base = next(_bases)
    asked = status(observedGeneration=1, replicas=base)
    left = status(replicas=base) if clears else asked
    for phase in phases:
        new = asked if phase is INTENT else left
        review = update(new, status(), f"{base}", subresource="status", name=name)
        for side in ("object", "oldObject"):
            review["request"][side]["metadata"]["uid"] = name
        feed(detection, phase, review, now)


def loop(detection, phases, since, name):
    for second in range(10):
        write(detection, phases, since + second, name=name)


def others(detection, phases, since):
    """What goes on in a cluster: it ends the wait of writes that have no outcome."""
    for second in range(15):
        write(detection, phases, since + second, name="other", clears=False)


CLEARED = "observed-generation-cleared"


def known(detection):
    return {one.id: one for one in detection.findings() if one.object.name == "web"}


def state(detection, name):
    found = [one.state for one in detection.findings() if one.object.name == name]
    return found[-1] if found else None


@JUMPS
@PHASES
def test_a_loop_is_found_after_the_clock_was_put_and_after_it_was_put_right(jump, phases):
    detection = Detection()
    loop(detection, phases, NOW, "before")
    loop(detection, phases, NOW + 20 + jump, "meanwhile")
    others(detection, phases, NOW + 30 + jump)
    assert state(detection, "meanwhile") == "open"
    loop(detection, phases, NOW + 50, "after")
    others(detection, phases, NOW + 60)
    assert state(detection, "after") == "open"


@JUMPS
@PHASES
def test_a_finding_ends_as_soon_as_it_is_quiet_whatever_the_clock_said(jump, phases):
    detection = Detection()
    others(detection, phases, NOW - 20)
    loop(detection, phases, NOW + jump, "web")
    others(detection, phases, NOW + 10 + jump)
    detection.settle(NOW + 30 + jump)
    assert state(detection, "web") == "open"
    quiet = 0.0
    while state(detection, "web") == "open" and quiet < 100 * QUIET_SECONDS:
        detection.settle(NOW + 30 + quiet)
        quiet += 1.0
    assert quiet < 100 * QUIET_SECONDS


@JUMPS
@PHASES
def test_a_loop_that_goes_on_through_a_jump_and_back_stays_open_and_ends_in_its_usual_time(
    jump, phases
):
    detection = Detection()
    loop(detection, phases, NOW, "web")
    others(detection, phases, NOW + 11)
    begun = known(detection)
    assert {one.state for one in begun.values()} == {"open"}
    for at, step in ((NOW + 30 + jump, jump), (NOW + 60, -jump)):
        detection.shift(step, at)
        assert detection.settle(at) == ()
        loop(detection, phases, at, "web")
        others(detection, phases, at + 11)
        write(detection, phases, at + 25, name="web", clears=False)  # the damage is gone
        assert detection.settle(at + 26) == ()
    (cleared,) = [one for one in known(detection).values() if one.detector == CLEARED]
    assert cleared.first_seen == begun[cleared.id].first_seen
    assert detection.settle(NOW + 69 + QUIET_SECONDS - 1) == ()
    detection.settle(NOW + 69 + QUIET_SECONDS)
    assert known(detection)[cleared.id].state == "resolved"


@JUMPS
def test_a_finding_of_which_reviews_were_missed_waits_for_as_long_as_without_a_jump(jump):
    detection = Detection()
    loop(detection, (INTENT, MUTATE, OUTCOME), NOW, "web")
    write(detection, (INTENT, MUTATE, OUTCOME), NOW + 9.5, clears=False)  # the damage is gone
    detection.ledger.miss(None, "", NOW + 10)
    detection.settle(NOW + 11)
    detection.shift(jump, NOW + 12 + jump)
    assert detection.settle(NOW + 10 + QUIET_SECONDS - 1 + jump) == ()
    (found,) = [one for one in detection.findings() if one.detector == CLEARED]
    assert (found.state, bool(found.incomplete_since)) == ("open", True)
    found = detection.settle(NOW + 10 + QUIET_SECONDS + jump)
    assert CLEARED in {one.detector for one in found}
    assert not any(one.incomplete_since for one in found)


@JUMPS
def test_a_write_that_waits_for_its_outcome_is_not_given_up_by_a_jump(jump):
    detection = Detection()
    loop(detection, (INTENT, MUTATE, OUTCOME), NOW, "web")
    write(detection, (INTENT, MUTATE), NOW + 10, name="waits")
    detection.shift(jump, NOW + 10 + jump)
    write(detection, (INTENT, MUTATE, OUTCOME), NOW + 11 + jump, name="other", clears=False)
    assert detection.completeness.missing[OUTCOME] == 0
    others(detection, (INTENT, MUTATE, OUTCOME), NOW + 10 + SECONDS_WAITED + jump)
    assert detection.completeness.missing[OUTCOME] == 1


@JUMPS
@PHASES
def test_a_jump_makes_no_finding(jump, phases):
    detection = Detection()
    for since in (NOW, NOW + 20 + jump, NOW + 40):
        for second in range(10):
            write(detection, phases, since + second, clears=False)
    detection.finish(NOW + 100)
    assert detection.findings() == ()


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_write_that_a_later_one_shows_to_be_stored_belongs_to_the_loop_that_goes_on(jump):
    detection = Detection()

    def fight(at):
        for second in range(10):
            base, replicas = next(_bases), 2 + second % 2
            old = {"metadata": {"uid": "web"}, "spec": {"replicas": 5 - replicas}}
            new = {"metadata": {"uid": "web"}, "spec": {"replicas": replicas}}
            for phase in (INTENT, MUTATE, OUTCOME):
                feed(
                    detection, phase, update(new, old, f"{base}", user=f"u{replicas}"), at + second
                )

    fight(NOW)
    (before,) = [one for one in detection.findings() if one.detector == "spec-fight"]
    detection.shift(jump, NOW + 10 + jump)
    fight(NOW + 10 + jump)
    (found,) = [one for one in detection.findings() if one.detector == "spec-fight"]
    assert found.count >= before.count + 7, "else it is another loop"
    assert found.resolves_after == QUIET_SECONDS, "as for a loop that turns each second"
