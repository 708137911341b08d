"""Facts that replicas share come nearly in order, and are judged as if they came in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from genguard.detection import correlate as module
from genguard.detection.correlate import SECONDS_ON_THE_WAY, FactQueue
from genguard.detection.fact import Fact, encode_fact
from tests.unit.detection.builders import INTENT, MUTATE, OUTCOME, Judging, fact, status, update

OLD, SENT, LEFT = status(n=0), status(n=1, observedGeneration=1), status(n=1)


def write(base: str, *, rounds: int = 1) -> list[Fact]:
    """A status write that another webhook changes, once or twice."""
    left = [(MUTATE, LEFT), (MUTATE, status(n=2))][:rounds]
    phases = [(INTENT, SENT), *left, (OUTCOME, left[-1][1])]
    return [fact(phase, update(new, OLD, base, subresource="status")) for phase, new in phases]


ONCE, TWICE, AGAIN = write("7"), write("7", rounds=2), write("8")


def at(facts: list[Fact], *times: float) -> list[Fact]:
    return [replace(one, time=time) for one, time in zip(facts, times, strict=True)]


def judged(facts: list[Fact]) -> Judging:
    detection = Judging()
    for one in facts:
        detection.see_encoded(encode_fact(one))
    return detection


STORY = [
    *at(ONCE, 100.0, 100.01, 100.02),
    *at(TWICE, 100.1, 100.11, 100.12, 100.13),  # the same key: nothing was stored before
    *at(AGAIN, 100.4, 100.41, 100.42),
    *at(ONCE, 103.0, 103.01, 103.02),
]
DELAYS = st.floats(0, SECONDS_ON_THE_WAY, exclude_max=True)


@given(st.lists(DELAYS, min_size=len(STORY), max_size=len(STORY)))
def test_facts_that_are_late_by_less_than_is_waited_are_judged_as_if_in_order(delays):
    in_order, late = (
        Judging(),
        sorted(zip(STORY, delays, strict=True), key=lambda x: x[0].time + x[1]),
    )
    for one in STORY:
        in_order.see(one)
    found = judged([one for one, _ in late])
    for detection in (in_order, found):
        detection.finish(104.0)
    assert found.writes == in_order.writes
    assert found.findings() == in_order.findings()
    assert [(one.base, len(one.reinvocation_diff)) for one in found.writes] == [
        ("7", 0),
        ("7", 1),
        ("8", 0),
        ("7", 0),
    ]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_facts_of_one_time_stand_in_the_order_of_their_phases(order):
    found = judged([ONCE[place] for place in order])
    found.finish(101.0)
    (one,) = found.writes
    assert [change.pointer for change in one.webhook_diff or ()] == ["/status/observedGeneration"]


def test_facts_of_one_process_wait_for_nothing():
    detection = Judging()
    for one in ONCE:
        detection.see(one)
    assert len(detection.writes) == 1


def test_where_no_fact_is_on_its_way_nothing_is_waited_for():
    detection = judged(ONCE)
    assert not detection.writes
    detection.end_wait()
    assert len(detection.writes) == 1


@pytest.mark.parametrize("waits", [True, False])
def test_who_is_new_judges_once_what_waited_elsewhere(waits):
    """And not at all what was judged there, but for what it has to know of the past."""
    leader, late = judged(STORY[-6:]), judged(STORY[-6:])
    if not waits:
        leader.end_wait()
    before = list(leader.rows()), leader.waiting()
    late.restore(*before)
    for detection in (leader, late):
        for one in at(write("9"), 103.5, 103.51, 103.52):
            detection.see_encoded(encode_fact(one))
        detection.finish(104.0)
    assert late.findings() == leader.findings()
    assert [one.base for one in late.writes] == [one.base for one in leader.writes]


def test_what_waits_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "MOST_WAITING", 5)
    waiting = FactQueue()
    for number in range(8):
        waiting.put(replace(ONCE[0], time=100.0 + number / 1_000))
    assert [one.time for one in waiting.due()] == [100.0, 100.001, 100.002]
    assert len(waiting) == 5


def test_what_comes_of_one_time_and_phase_stays_as_it_came():
    waiting, facts = (
        FactQueue(),
        [
            replace(ONCE[0], key=replace(ONCE[0].key, resource_version=str(number)))
            for number in range(20)
        ],
    )
    for one in facts:
        waiting.put(one)
    assert list(waiting) == facts
    assert list(waiting.until(ONCE[0].time - 0.1)) == []
    assert list(waiting.until(ONCE[0].time)) == facts


def test_a_replica_whose_clock_is_behind_ends_nobodys_wait():
    ahead, behind = at(AGAIN, 200.0, 200.01, 200.02), at(ONCE, 100.0, 100.01, 100.02)
    facts = [one for pair in zip(ahead, behind, strict=True) for one in pair]
    found = judged(facts)
    found.finish(300.0)
    assert [(one.base, one.webhook_diff is None) for one in found.writes] == [
        ("7", False),
        ("8", False),
    ]
