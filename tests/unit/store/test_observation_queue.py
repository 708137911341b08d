"""What replicas observe comes nearly in order, and is examined as if it came in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from genguard.detection.observation import Observation
from tests.unit.detection.builders import (
    INTENT,
    MUTATE,
    OUTCOME,
    Examining,
    observation,
    status,
    update,
)
from webhook.store.replicas import SECONDS_ON_THE_WAY, ObservationQueue

OLD, SENT, LEFT = status(n=0), status(n=1, observedGeneration=1), status(n=1)


def write(base: str, *, rounds: int = 1) -> list[Observation]:
    """A status write that another webhook changes, once or twice."""
    left = [(MUTATE, LEFT), (MUTATE, status(n=2))][:rounds]
    phases = [(INTENT, SENT), *left, (OUTCOME, left[-1][1])]
    return [
        observation(phase, update(new, OLD, base, subresource="status")) for phase, new in phases
    ]


ONCE, TWICE, AGAIN = write("7"), write("7", rounds=2), write("8")


def at(observations: list[Observation], *times: float) -> list[Observation]:
    return [replace(one, time=time) for one, time in zip(observations, times, strict=True)]


def examined(came: list[tuple[float, Observation]]) -> Examining:
    """By a leader that looks at its queue whenever something comes in, and then once more."""
    detection, queue = Examining(), ObservationQueue()
    for now, one in came:
        queue.put(one, now)
        for due in queue.due(now):
            detection.see(due)
    for due in queue.due(float("inf")):
        detection.see(due)
    assert len(queue) == 0
    return detection


STORY = [
    *at(ONCE, 100.0, 100.01, 100.02),
    *at(TWICE, 100.1, 100.11, 100.12, 100.13),  # the same key: nothing was stored before
    *at(AGAIN, 100.6, 100.61, 100.62),
    *at(ONCE, 103.0, 103.01, 103.02),
]
DELAYS = st.floats(0, SECONDS_ON_THE_WAY, exclude_max=True)


@given(st.lists(DELAYS, min_size=len(STORY), max_size=len(STORY)))
def test_observations_that_are_late_by_less_than_is_waited_are_examined_as_if_in_order(delays):
    in_order = Examining()
    late = sorted(
        [(one.time + delay, one) for one, delay in zip(STORY, delays, strict=True)],
        key=lambda pair: pair[0],
    )
    for one in STORY:
        in_order.see(one)
    found = examined(late)
    for detection in (in_order, found):
        detection.finish(104.0)
    assert found.writes == in_order.writes
    assert found.findings() == in_order.findings()
    assert [(one.base, len(one.content.reinvocation)) for one in found.writes] == [
        ("7", 0),
        ("7", 1),
        ("8", 0),
        ("7", 0),
    ]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_observations_of_one_time_stand_in_the_order_of_their_phases(order):
    found = examined([(100.0, ONCE[place]) for place in order])
    found.finish(101.0)
    (one,) = found.writes
    assert [change.pointer for change in one.content.webhook or ()] == [
        "/status/observedGeneration"
    ]


def test_what_waits_is_due_by_the_clock_of_the_leader_whatever_the_other_clocks_say():
    ahead, behind = at(AGAIN, 200.0, 200.01, 200.02), at(ONCE, 100.0, 100.01, 100.02)
    for observations in (ahead, behind):
        queue = ObservationQueue()
        for one in observations:
            queue.put(one, 150.0)
        assert list(queue.due(150.0 + SECONDS_ON_THE_WAY - 0.01)) == []
        assert list(queue.due(150.0 + SECONDS_ON_THE_WAY)) == observations
