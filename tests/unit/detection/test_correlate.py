"""Which reviews make one write."""

import msgspec

from tests.reviews import KINDS, judge
from tests.unit.detection.builders import (
    INTENT,
    MUTATE,
    OUTCOME,
    Judging,
    fact,
    feed,
    joined,
    reviewed,
    see,
    spec,
    update,
)
from webhook.detection.correlate import (
    MOST_AT_ONCE,
    MOST_PENDING,
    SECONDS_WAITED,
    SECONDS_WITHOUT_OUTCOMES,
    Correlator,
)
from webhook.detection.difference import NO_DIFFERENCE
from webhook.generation import CustomResource, StatusSubresource

PRESENT, ABSENT, UNKNOWN = StatusSubresource
OLD, NEW, OTHER = spec(replicas=1), spec(replicas=2), spec(replicas=3)


def test_three_phases_make_one_write():
    one = update(NEW, OLD)
    (write,) = joined((INTENT, one), (MUTATE, one), (OUTCOME, one))
    assert write.asked == write.result
    assert write.others == NO_DIFFERENCE
    assert [change.pointer for change in write.result] == ["/spec/replicas"]


def test_what_other_webhooks_changed_stands_between_intent_and_mutate():
    asked, made = update(NEW, OLD), update(OTHER, OLD)
    (write,) = joined((INTENT, asked), (MUTATE, made), (OUTCOME, made))
    assert [change.pointer for change in write.others or ()] == ["/spec/replicas"]


def test_a_second_mutate_call_is_round_one():
    one, other = update(NEW, OLD), update(OTHER, OLD)
    (write,) = joined((INTENT, one), (MUTATE, one), (MUTATE, other), (OUTCOME, other))
    assert [change.pointer for change in write.again] == ["/spec/replicas"]


def test_three_mutate_calls_are_several_writes_and_no_rounds():
    one, other = update(NEW, OLD), update(OTHER, OLD)
    calls = [(MUTATE, one), (MUTATE, other), (MUTATE, one)]
    (write,) = joined((INTENT, one), *calls, (OUTCOME, one))
    assert write.again == NO_DIFFERENCE


def test_a_conflict_runs_admission_again_upon_a_newer_object_and_is_one_write():
    first, second = update(NEW, OLD, "7"), update(NEW, OLD, "8")
    writes = joined(
        (INTENT, first),
        (MUTATE, first),
        *((p, second) for p in (INTENT, MUTATE)),
        (OUTCOME, second),
    )
    assert [write.base for write in writes] == ["8"]


def test_two_intents_with_one_key_that_differ_are_not_joined():
    one, other = update(NEW, OLD), update(OTHER, OLD)
    (write,) = joined(
        (INTENT, one), (INTENT, other), (MUTATE, one), (MUTATE, other), (OUTCOME, one)
    )
    assert write.asked is None
    assert write.others is None
    assert write.again == NO_DIFFERENCE


def test_a_dry_run_is_no_write():
    one = update(NEW, OLD, dry_run=True)
    assert not joined((INTENT, one), (MUTATE, one), (OUTCOME, one))


def test_a_stale_put_is_no_write():
    one = update(NEW, OLD, "8", sent="7")
    assert not joined((INTENT, one), (MUTATE, one))


def test_without_outcomes_the_mutate_call_is_the_write():
    one = update(NEW, OLD)
    (write,) = joined((MUTATE, one))
    assert not write.has_outcome
    assert write.generation_after == 2  # as predicted


def test_where_outcomes_are_seen_a_mutate_call_alone_is_forgotten():
    one, refused = update(NEW, OLD, "7"), update(OTHER, OLD, "8")
    assert len(joined((INTENT, one), (MUTATE, one), (OUTCOME, one), (MUTATE, refused))) == 1


def test_a_create_with_a_generated_name_is_not_joined():
    one = update(NEW, OLD)
    one["request"] |= {"operation": "CREATE", "oldObject": None, "name": ""}
    assert not joined((INTENT, one), (MUTATE, one), (OUTCOME, one))


def test_after_a_burst_a_review_ends_only_some_of_the_writes_that_have_waited():
    detection = Judging()
    for number in range(3 * MOST_AT_ONCE):
        feed(detection, MUTATE, update(NEW, OLD, str(number)), 0.0)
    assert not detection.writes
    late, ended = SECONDS_WITHOUT_OUTCOMES + 1.0, []
    for turn in range(4):
        feed(detection, MUTATE, update(NEW, OLD, f"late-{turn}"), late)
        ended.append(len(detection.writes))
    assert ended == [MOST_AT_ONCE, 2 * MOST_AT_ONCE, 3 * MOST_AT_ONCE, 3 * MOST_AT_ONCE]
    assert [write.base for write in detection.writes] == list(map(str, range(3 * MOST_AT_ONCE)))


def learnt(phases_status, **more):
    """The writes that come of three phases, where the definition is learnt in between."""
    detection = Judging()
    for phase, status in zip((INTENT, MUTATE, OUTCOME), phases_status, strict=True):
        custom = [CustomResource(*KINDS["widgets"], status)]
        one = update(more["new"], more["old"], resource="widgets")
        see(detection, phase, reviewed(one, phase, judge(audit_only=True, custom=custom)), 100.0)
    detection.finish(100.0)
    return detection.writes


BOTH = {
    "new": {"spec": {"a": 2}, "status": {"b": 2}},
    "old": {"spec": {"a": 1}, "status": {"b": 1}},
}


def test_an_intent_that_was_judged_by_another_definition_is_as_good_as_none():
    (write,) = learnt((UNKNOWN, PRESENT, PRESENT), **BOTH)
    assert (write.asked, write.others) == (None, None)


def test_a_mutate_call_that_was_is_not_compared_with_its_intent():
    (write,) = learnt((PRESENT, UNKNOWN, PRESENT), **BOTH)
    assert write.asked is not None
    assert write.others is None


def test_a_status_that_the_server_took_was_no_subresource_whatever_was_known_before():
    (write,) = learnt((PRESENT, PRESENT, UNKNOWN), **BOTH)
    assert write.writes_status
    assert [one.pointer for one in write.result] == ["/spec/a", "/status/b"]


def test_a_call_that_waits_for_its_outcome_ends_no_other_before_its_time():
    detection = Judging()
    one, other = update(NEW, OLD, "7"), update(NEW, OLD, "8")
    for phase, asked, now in (
        (OUTCOME, one, 0.0),
        (MUTATE, other, 1.0),
        (INTENT, one, 1.0 + SECONDS_WITHOUT_OUTCOMES),
        (OUTCOME, other, 1.0 + SECONDS_WITHOUT_OUTCOMES),
    ):
        feed(detection, phase, asked, now)
    assert [write.base for write in detection.writes] == ["7", "8"]


def test_resources_with_outcomes_are_remembered_up_to_a_bound():
    correlator, seen = Correlator(), fact(OUTCOME, update(NEW, OLD))
    of = [
        msgspec.structs.replace(seen, object=seen.object._replace(resource=f"r{number}"))
        for number in range(MOST_PENDING + 1)
    ]
    for one in of:
        correlator.see(one)
    known = [correlator.known(one.key).awaits_outcome for one in (of[0], of[-1])]
    assert known == [True, False]


def waited(first: float, then: float, *, with_outcomes: bool) -> int:
    """How many writes there are when another object is written `then`."""
    detection = Judging()
    if with_outcomes:
        feed(detection, OUTCOME, update(NEW, OLD, "6"), first)
    feed(detection, MUTATE, update(NEW, OLD, "7"), first)
    feed(detection, MUTATE, update(NEW, OLD, "8"), then)
    return sum(write.base == "7" for write in detection.writes)


def test_without_outcomes_a_write_is_judged_when_no_round_can_follow():
    assert waited(100.0, 100.0 + SECONDS_WITHOUT_OUTCOMES, with_outcomes=False) == 1
    assert waited(100.0, 99.9 + SECONDS_WITHOUT_OUTCOMES, with_outcomes=False) == 0


def test_where_outcomes_are_seen_a_write_without_one_is_forgotten_and_never_judged():
    for seconds in (SECONDS_WITHOUT_OUTCOMES, SECONDS_WAITED, 2 * SECONDS_WAITED):
        assert waited(100.0, 100.0 + seconds, with_outcomes=True) == 0


def test_an_outcome_joins_its_mutate_call_as_long_as_that_is_waited_for():
    asked, made = update(NEW, OLD, "7"), update(OTHER, OLD, "7")
    for seconds, is_joined in ((SECONDS_WAITED - 0.1, True), (SECONDS_WAITED, False)):
        detection = Judging()
        feed(detection, OUTCOME, update(NEW, OLD, "6"), 100.0)
        feed(detection, INTENT, asked, 100.0)
        feed(detection, MUTATE, made, 100.0)
        feed(detection, OUTCOME, made, 100.0 + seconds)
        assert (detection.writes[-1].others is not None) is is_joined


def test_an_outcome_alone_is_a_write_of_which_only_the_result_is_known():
    detection = Judging()
    feed(detection, OUTCOME, update(NEW, OLD), 100.0)
    (write,) = detection.writes
    assert (write.asked, write.others) == (None, None)


def test_of_too_many_writes_that_wait_the_oldest_are_judged_early(monkeypatch):
    monkeypatch.setattr("webhook.detection.correlate.MOST_PENDING", 2)
    detection = Judging()
    for base in ("1", "2", "3", "4"):
        feed(detection, MUTATE, update(NEW, OLD, base), 100.0)
    assert [write.base for write in detection.writes] == ["1"]


def test_whether_an_outcome_is_awaited_is_known_by_its_resource():
    correlator, seen = Correlator(), fact(OUTCOME, update(NEW, OLD))
    assert correlator.known(seen.key).awaits_outcome is False
    correlator.see(seen)
    assert correlator.known(seen.key).awaits_outcome is True


def test_writes_that_cannot_be_told_apart_stay_so_when_an_earlier_one_ends():
    first, second, third = (update(spec(replicas=number), OLD) for number in (2, 3, 4))
    begun = (INTENT, first), (MUTATE, first), (INTENT, second), (INTENT, third)
    ended = (OUTCOME, first), (MUTATE, second), (MUTATE, third), (OUTCOME, second)
    for write in joined(*begun, *ended, (OUTCOME, third)):
        assert write.again == NO_DIFFERENCE, "they are two writes, and no reinvocation"
