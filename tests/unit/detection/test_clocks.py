"""Detection while the clock is put forth and back by hours and by years."""

import itertools

import pytest

from tests.unit.detection.builders import INTENT, MUTATE, OUTCOME, feed, status, update
from webhook.detection.detection import Detection
from webhook.detection.finding_state import QUIET_SECONDS

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
def test_a_jump_makes_no_finding(jump, phases):
    detection = Detection()
    for since in (NOW, NOW + 20 + jump, NOW + 40):
        for second in range(10):
            write(detection, phases, since + second, clears=False)
    detection.finish(NOW + 100)
    assert detection.findings() == ()
