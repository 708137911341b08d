"""Which reviews make one write."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis.strategies import data, integers, lists, permutations, sampled_from

from genguard.admission.review import Phase
from genguard.detection.correlate import (
    MOST_AT_ONCE,
    MOST_OF_KEY,
    SECONDS_WAITED,
    SECONDS_WITHOUT_OUTCOMES,
    Correlator,
)
from genguard.detection.diff import NO_DIFF, Diff
from genguard.generation import CustomResource, StatusSubresource
from tests.cases_loader import table
from tests.reviews import KINDS, make_dependencies
from tests.unit.detection.builders import (
    INTENT,
    MUTATE,
    OUTCOME,
    Examining,
    feed,
    joined,
    observation,
    reviewed,
    see,
    spec,
    status,
    update,
)

PRESENT, ABSENT, UNKNOWN = StatusSubresource
OLD, NEW, OTHER = spec(replicas=1), spec(replicas=2), spec(replicas=3)
EARLIER = (OUTCOME, update(NEW, OLD, "6"))
"""An earlier write: since it had an outcome, the outcomes of later writes are awaited."""


def test_a_second_mutate_call_is_round_one():
    one, other = update(NEW, OLD), update(OTHER, OLD)
    (write,) = joined((INTENT, one), (MUTATE, one), (MUTATE, other), (OUTCOME, other))
    assert [change.pointer for change in write.content.reinvocation] == ["/spec/replicas"]


@table("observations/repaired.yaml", "first", "second", "told")
def test_what_genguard_repaired_itself_is_no_change_of_round_one(case):
    first, second = case["first"], case["second"]
    phases = (INTENT, first), (MUTATE, first), (MUTATE, second), (OUTCOME, second)
    (write,) = joined(
        *(
            (phase, update(status(n=1, **new), status(n=0), subresource="status"))
            for phase, new in phases
        )
    )
    assert [change.pointer for change in write.content.reinvocation] == case["told"], case.because


@pytest.mark.parametrize(
    ("first", "second", "joined", "because"),
    [
        (None, None, True, "the same content"),
        (Diff(1, 2), Diff(1, 2), True, "the same status, too"),
        (Diff(1, 2), Diff(1, 3), False, "another status"),
        (Diff(1, 2), None, True, "one of them shows no status, as the outcome does"),
    ],
)
def test_an_outcome_is_joined_with_an_intent_that_shows_the_same_status(
    first, second, joined, because
):
    correlator = Correlator()
    for of_status in (first, second):
        one = msgspec.structs.replace(
            observation(INTENT, update(NEW, OLD)), compared_status=of_status
        )
        assert not [*correlator.see(one)]
    ((write, _),) = correlator.see(observation(OUTCOME, update(NEW, OLD)))
    assert (write.content.requested is not None) is joined, because


def test_a_conflict_runs_admission_again_upon_a_newer_object_and_is_one_write():
    first, second = update(NEW, OLD, "7"), update(NEW, OLD, "8")
    writes = joined(
        (INTENT, first),
        (MUTATE, first),
        *((p, second) for p in (INTENT, MUTATE)),
        (OUTCOME, second),
    )
    assert [write.base for write in writes] == ["8"]


@pytest.mark.parametrize(
    ("calls", "asked", "because"),
    [
        (((MUTATE, NEW), (MUTATE, OTHER), (OUTCOME, NEW)), NEW, "each call shows what one asked"),
        (((MUTATE, OTHER), (MUTATE, NEW), (OUTCOME, OTHER)), OTHER, "in any order"),
        (((MUTATE, {"replicas": 4}), (OUTCOME, {"replicas": 4})), None, "it shows neither"),
        (((OUTCOME, OTHER),), OTHER, "the mutate call of one was lost"),
    ],
)
def test_of_two_writes_at_once_each_call_is_joined_with_the_one_that_it_shows(
    calls, asked, because
):
    shown = [(phase, update(one if "spec" in one else spec(**one), OLD)) for phase, one in calls]
    begun = (INTENT, update(NEW, OLD)), (INTENT, update(OTHER, OLD))
    write = joined(EARLIER, *begun, *shown)[1]
    wanted = None if asked is None else observation(INTENT, update(asked, OLD)).compared()
    assert write.content.requested == wanted, because


def test_a_dry_run_is_no_write():
    one = update(NEW, OLD, dry_run=True)
    assert not joined((INTENT, one), (MUTATE, one), (OUTCOME, one))


def test_a_stale_put_is_no_write():
    one = update(NEW, OLD, "8", sent="7")
    assert not joined((INTENT, one), (MUTATE, one))


def test_after_a_burst_a_review_ends_only_some_of_the_writes_that_have_waited():
    detection = Examining()
    for number in range(3 * MOST_AT_ONCE):
        feed(detection, MUTATE, update(NEW, OLD, str(number)), 0.0)
    assert not detection.writes
    late, ended = SECONDS_WITHOUT_OUTCOMES + 1.0, []
    for turn in range(4):
        feed(detection, MUTATE, update(NEW, OLD, f"late-{turn}"), late)
        ended.append(len(detection.writes))
    assert ended == [MOST_AT_ONCE, 2 * MOST_AT_ONCE, 3 * MOST_AT_ONCE, 3 * MOST_AT_ONCE]
    assert [write.base for write in detection.writes] == list(map(str, range(3 * MOST_AT_ONCE)))


def learnt(phases_status, phases=(INTENT, MUTATE, OUTCOME), **more):
    """The writes that come of some phases, where the definition is learnt in between."""
    detection = Examining()
    for phase, known in zip(phases, phases_status, strict=True):
        custom = [CustomResource(*KINDS["widgets"], known)]
        one = update(more["new"], more["old"], resource="widgets")
        see(
            detection,
            phase,
            reviewed(one, phase, make_dependencies(audit_only=True, custom=custom)),
            100.0,
        )
    detection.finish(100.0)
    return detection.writes


BOTH = {
    "new": {"spec": {"a": 2}, "status": {"b": 2}},
    "old": {"spec": {"a": 1}, "status": {"b": 1}},
}


def test_a_status_that_the_server_took_was_no_subresource_whatever_was_known_before():
    (write,) = learnt((PRESENT, PRESENT, UNKNOWN), **BOTH)
    assert write.writes_status
    assert [one.pointer for one in write.content.admitted] == ["/spec/a", "/status/b"]


def test_without_outcomes_a_write_is_examined_when_no_round_can_follow():
    wait = SECONDS_WITHOUT_OUTCOMES
    for seconds, is_examined in ((wait, True), (wait - 0.1, False)):
        detection = Examining()
        feed(detection, MUTATE, update(NEW, OLD, "7"), 100.0)
        feed(detection, MUTATE, update(NEW, OLD, "8"), 100.0 + seconds)
        assert [one.base for one in detection.writes] == ["7"] * is_examined


def test_an_outcome_joins_its_mutate_call_as_long_as_that_is_waited_for():
    asked, made = update(NEW, OLD, "7"), update(OTHER, OLD, "7")
    for seconds, is_joined in ((SECONDS_WAITED - 0.1, True), (SECONDS_WAITED, False)):
        detection = Examining()
        feed(detection, OUTCOME, update(NEW, OLD, "6"), 100.0)
        feed(detection, INTENT, asked, 100.0)
        feed(detection, MUTATE, made, 100.0)
        feed(detection, OUTCOME, made, 100.0 + seconds)
        assert (detection.writes[-1].content.webhook is not None) is is_joined


def _calls(draw: Any, contents: list[dict[str, Any]]) -> list[tuple[Phase, dict[str, Any]]]:
    """The calls of one user's writes upon one version, in any order."""
    order = [number for number in range(len(contents)) for _ in Phase]
    calls = [[(phase, update(spec(**one), OLD)) for phase in Phase] for one in contents]
    return [calls[number].pop(0) for number in draw.draw(permutations(order))]


def _seen(calls: list[tuple[Phase, dict[str, Any]]]) -> Examining:
    detection = Examining()
    for phase, asked in (EARLIER, *calls):
        feed(detection, phase, asked, 100.0)
    detection.finish(100.0)
    return detection


@given(data())
def test_writes_of_one_client_at_once_are_not_taken_for_a_webhook_or_a_reinvocation(draw):
    values = draw.draw(lists(sampled_from([2, 3, 4]), min_size=1, max_size=4))
    detection = _seen(_calls(draw, [{"replicas": one} for one in values]))
    _, *writes = detection.writes
    assert len(writes) == len(values)
    assert not detection.completeness.missing
    assert not any(one.is_mutated or one.missing for one in writes)


@given(data())
def test_whatever_is_lost_of_them_or_comes_twice_no_webhook_is_blamed(draw):
    """Each asks for a field of its own: that is enough to tell a call of another write."""
    count = draw.draw(integers(2, 5))
    calls = _calls(draw, [{"replicas": 1, f"field{one}": 2} for one in range(count)])
    times = draw.draw(lists(sampled_from([0, 1, 1, 2]), min_size=len(calls), max_size=len(calls)))
    arrived = [call for call, many in zip(calls, times, strict=True) for _ in range(many)]
    assert not any(one.is_mutated for one in _seen(arrived).writes)


def test_of_more_writes_at_once_than_are_remembered_nobody_is_blamed():
    """All ask for the same field; the oldest are dropped, and a webhook changed none."""
    asked = [update(spec(replicas=number), OLD) for number in range(2, 2 * MOST_OF_KEY)]
    calls = [(phase, one) for phase in Phase for one in asked]
    assert not any(one.is_mutated for one in _seen(calls).writes)


def test_a_call_of_a_writer_who_was_busy_a_moment_ago_blames_nobody_unless_it_shows_what_is_asked():
    first, second, third = (update(spec(replicas=number), OLD) for number in (2, 3, 4))
    busy = [(INTENT, first), (INTENT, second), (MUTATE, first), (MUTATE, second), (OUTCOME, first)]
    for then, is_mutated in ((100.0, False), (100.0 + SECONDS_WAITED, True)):
        detection = Examining()
        for phase, asked in (EARLIER, *busy):
            feed(detection, phase, asked, 100.0)
        for phase, asked in ((INTENT, first), (MUTATE, third), (OUTCOME, third)):
            feed(detection, phase, asked, then + 0.1)
        assert detection.writes[-1].is_mutated is is_mutated


def test_a_second_mutate_call_without_an_intent_is_no_reinvocation():
    one, other = update(NEW, OLD), update(OTHER, OLD)
    calls = (MUTATE, one), (MUTATE, other), (OUTCOME, other)
    assert not any(write.is_mutated for write in joined(*calls))


def test_the_same_request_twice_at_once_is_two_complete_writes():
    one = update(NEW, OLD)
    begun = (INTENT, one), (MUTATE, one), (INTENT, one), (OUTCOME, one)
    for write in joined(EARLIER, *begun, (MUTATE, one), (OUTCOME, one))[1:]:
        assert write.content.requested == write.content.admitted
        assert write.content.webhook == NO_DIFF, "its own mutate call, or an equal one"


def test_a_write_that_begins_before_the_outcome_of_another_is_joined_with_its_own():
    first, second = (update(spec(replicas=number), OLD) for number in (2, 3))
    begun = EARLIER, (INTENT, first), (MUTATE, first), (INTENT, second)
    _, *writes = joined(*begun, (OUTCOME, first), (MUTATE, second), (OUTCOME, second))
    asked = [observation(INTENT, one).compared() for one in (first, second)]
    assert [write.content.requested for write in writes] == asked


def test_a_mutate_call_without_an_intent_is_not_joined_with_the_intent_of_another_request():
    first, second = (update(spec(replicas=number), OLD) for number in (2, 3))
    begun = EARLIER, (MUTATE, first), (INTENT, second), (OUTCOME, first)
    _, *writes = joined(*begun, (MUTATE, second), (OUTCOME, second))
    asked = observation(INTENT, second).compared()
    assert [write.content.requested for write in writes] == [None, asked]


def lossy(*calls: tuple[Phase, dict[str, Any]]) -> Examining:
    """What is known after these calls, half a second apart."""
    detection = Examining()
    for number, (phase, asked) in enumerate((EARLIER, *calls)):
        feed(detection, phase, asked, 100.0 + number / 2)
    return detection


ASKED, MADE = (
    update(status(n=1, **more), status(n=0), "7", subresource="status")
    for more in ({"observedGeneration": 2}, {})
)
WHOLE = (INTENT, ASKED), (MUTATE, MADE), (OUTCOME, MADE)
SHOWN = (OUTCOME, update(status(n=0), status(n=1), "6", subresource="status"))
"""Outcomes of this resource are seen."""


@pytest.mark.parametrize("phase", Phase)
def test_a_write_seen_in_one_phase_spoils_none_of_the_writes_after_it(phase):
    seen = lossy(SHOWN, (phase, MADE if phase is not INTENT else ASKED), *WHOLE * 3)
    whole = [one for one in seen.writes if one.content.webhook]
    assert len(whole) == 3
    assert all(not one.missing and one.observed_asked.own == 2 for one in whole)


def test_waiting_ends_by_time_whatever_arrives():
    detection = Examining()
    feed(detection, *SHOWN, 99.0)
    feed(detection, MUTATE, MADE, 100.0)
    for number in range(60):
        feed(detection, INTENT, ASKED, 100.5 + number / 4)
    assert len(detection._correlator._open[True]) <= MOST_OF_KEY
    begun = [one.since for one in detection._correlator._open[True]]
    assert min(begun) > 115.25 - SECONDS_WAITED - 1


def test_an_outcome_that_comes_twice_is_one_write():
    detection = lossy(SHOWN, *WHOLE, WHOLE[-1])
    past = detection.history.find(detection.writes[-1].object)
    assert len(past.writes) == 3, "the two before it, and this one once"


def test_where_only_outcomes_are_registered_two_that_are_equal_are_two_writes():
    outcomes = [(OUTCOME, MADE)] * 2
    assert len(lossy(*outcomes).writes) == 3
