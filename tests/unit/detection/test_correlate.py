"""Which reviews make one write."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis.strategies import data, lists, permutations, sampled_from

from genguard.admission.review import Phase
from genguard.detection.correlate import (
    MOST_AT_ONCE,
    MOST_OF_KEY,
    MOST_PENDING,
    SECONDS_WAITED,
    SECONDS_WITHOUT_OUTCOMES,
    Correlator,
)
from genguard.detection.diff import NO_DIFF, NOT_COMPARED, Compared
from genguard.detection.fact import decode_fact, encode_fact
from genguard.detection.suspects import Suspects, read_configurations
from genguard.detection.write import NOBODY
from genguard.generation import CustomResource, StatusSubresource
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
    status,
    update,
    with_content,
)
from tests.unit.detection.evaluating import CONDITIONS
from tests.unit.detection.test_suspects import hook

PRESENT, ABSENT, UNKNOWN = StatusSubresource
OLD, NEW, OTHER = spec(replicas=1), spec(replicas=2), spec(replicas=3)
EARLIER = (OUTCOME, update(NEW, OLD, "6"))
"""An earlier write: since it had an outcome, the outcomes of later writes are awaited."""


def test_three_phases_make_one_write():
    one = update(NEW, OLD)
    (write,) = joined((INTENT, one), (MUTATE, one), (OUTCOME, one))
    assert write.content.requested == write.content.admitted
    assert write.content.webhook == NO_DIFF
    assert [change.pointer for change in write.content.admitted] == ["/spec/replicas"]


def test_the_content_hash_of_a_write_is_that_of_what_was_requested():
    one = update(NEW, OLD)
    (write,) = joined((OUTCOME, one))
    assert write.content_hash == write.content.admitted.content_hash is not None


def test_what_other_webhooks_changed_stands_between_intent_and_mutate():
    asked, made = update(NEW, OLD), update(OTHER, OLD)
    (write,) = joined((INTENT, asked), (MUTATE, made), (OUTCOME, made))
    assert [change.pointer for change in write.content.webhook or ()] == ["/spec/replicas"]


def test_a_second_mutate_call_is_round_one():
    one, other = update(NEW, OLD), update(OTHER, OLD)
    (write,) = joined((INTENT, one), (MUTATE, one), (MUTATE, other), (OUTCOME, other))
    assert [change.pointer for change in write.content.reinvocation] == ["/spec/replicas"]


@pytest.mark.parametrize(
    ("before", "after", "is_told", "because"),
    [
        ([INTENT], [OUTCOME], True, "all three phases are seen"),
        ([INTENT], [], True, "an intent begins a write"),
        ([], [OUTCOME], True, "an outcome ends one"),
        ([], [], False, "a PATCH is run again: two writes, for all that is known"),
    ],
)
def test_rounds_are_told_from_writes_by_where_a_write_begins_or_ends(
    before, after, is_told, because
):
    one, other = update(NEW, OLD), update(OTHER, OLD)
    calls = [*((phase, one) for phase in before), (MUTATE, one), (MUTATE, other)]
    (write,) = joined(*calls, *((phase, other) for phase in after))
    assert bool(write.content.reinvocation) is is_told, because


READY = {"type": "Ready"}


@pytest.mark.parametrize(
    ("first", "second", "told", "because"),
    [
        ({}, {"observedGeneration": 1}, [], "genguard put it back"),
        (
            {"conditions": [READY]},
            {"conditions": [{**READY, "observedGeneration": 1}]},
            [],
            "genguard put it back in a condition",
        ),
        (
            {"observedGeneration": 1},
            {"observedGeneration": 2},
            ["/status/observedGeneration"],
            "what is there it does not change",
        ),
        ({}, {"phase": "x"}, ["/status/phase"], "it adds nothing else"),
    ],
)
def test_what_genguard_repaired_itself_is_no_change_of_round_one(first, second, told, because):
    phases = (INTENT, first), (MUTATE, first), (MUTATE, second), (OUTCOME, second)
    (write,) = joined(
        *(
            (phase, update(status(n=1, **new), status(n=0), subresource="status"))
            for phase, new in phases
        )
    )
    assert [change.pointer for change in write.content.reinvocation] == told, because


def test_three_mutate_calls_are_several_writes_and_no_rounds():
    one, other = update(NEW, OLD), update(OTHER, OLD)
    calls = [(MUTATE, one), (MUTATE, other), (MUTATE, one)]
    (write,) = joined((INTENT, one), *calls, (OUTCOME, one))
    assert write.content.reinvocation == NO_DIFF


def test_any_number_of_mutate_calls_is_counted_as_what_is_kept_of_them():
    correlator, asked = Correlator(), (update(spec(replicas=number), OLD) for number in range(9))
    for one in asked:
        correlator.see(fact(MUTATE, one))
    correlator.see(fact(OUTCOME, update(NEW, OLD)))
    assert correlator.bytes == 0


def test_a_reinvocation_that_was_not_compared_is_a_change_without_leaves():
    correlator = Correlator()
    for phase, new in ((INTENT, NEW), (MUTATE, NEW), (MUTATE, OTHER), (OUTCOME, OTHER)):
        one = fact(phase, update(new, OLD))
        compared = msgspec.structs.replace(one.compared, diff=NOT_COMPARED)
        writes = correlator.see(msgspec.structs.replace(one, compared=compared))
    (write,) = writes
    assert write.content.reinvocation == NOT_COMPARED
    assert write.is_changed


@pytest.mark.parametrize(
    ("first", "second", "joined", "because"),
    [
        (None, None, True, "the same content"),
        (Compared(1, 2, NO_DIFF), Compared(1, 2, NO_DIFF), True, "the same status, too"),
        (Compared(1, 2, NO_DIFF), Compared(1, 3, NO_DIFF), False, "another status"),
        (Compared(1, 2, NO_DIFF), None, True, "one of them shows no status, as the outcome does"),
    ],
)
def test_an_outcome_is_joined_with_an_intent_that_shows_the_same_status(
    first, second, joined, because
):
    correlator = Correlator()
    for of_status in (first, second):
        one = msgspec.structs.replace(fact(INTENT, update(NEW, OLD)), compared_status=of_status)
        correlator.see(one)
    (write,) = correlator.see(fact(OUTCOME, update(NEW, OLD)))
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
        (((MUTATE, {"replicas": 4}), (OUTCOME, {"replicas": 4})), None, "it is as far from both"),
        (
            ((MUTATE, {"replicas": 2, "paused": True}), (OUTCOME, {"replicas": 2, "paused": True})),
            NEW,
            "of one it shows one field more, of the other two",
        ),
        (((OUTCOME, OTHER),), OTHER, "the mutate call of one was lost"),
    ],
)
def test_of_two_writes_at_once_each_call_is_joined_with_the_one_that_it_resembles(
    calls, asked, because
):
    shown = [(phase, update(one if "spec" in one else spec(**one), OLD)) for phase, one in calls]
    begun = (INTENT, update(NEW, OLD)), (INTENT, update(OTHER, OLD))
    write = joined(EARLIER, *begun, *shown)[1]
    wanted = None if asked is None else fact(INTENT, update(asked, OLD)).compared.diff
    assert write.content.requested == wanted, because


def test_a_dry_run_is_no_write():
    one = update(NEW, OLD, dry_run=True)
    assert not joined((INTENT, one), (MUTATE, one), (OUTCOME, one))


def test_a_stale_put_is_no_write():
    one = update(NEW, OLD, "8", sent="7")
    assert not joined((INTENT, one), (MUTATE, one))


def test_without_outcomes_the_mutate_call_is_the_write():
    one = update(NEW, OLD)
    (write,) = joined((MUTATE, one))
    assert write.has_outcome is False
    assert (write.generation_after, write.generation_predicted) == (2, None)  # nobody has seen it


def test_without_outcomes_an_intent_after_a_mutate_call_begins_another_write():
    first, second = (update(spec(replicas=number), OLD) for number in (2, 3))
    begun = (INTENT, first), (MUTATE, first), (INTENT, second)
    (write,) = joined(*begun, (MUTATE, second))
    assert write.content.requested == write.content.admitted == fact(INTENT, second).compared.diff


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


def learnt(phases_status, phases=(INTENT, MUTATE, OUTCOME), **more):
    """The writes that come of some phases, where the definition is learnt in between."""
    detection = Judging()
    for phase, known in zip(phases, phases_status, strict=True):
        custom = [CustomResource(*KINDS["widgets"], known)]
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
    assert (write.content.requested, write.content.webhook) == (None, None)


def test_a_mutate_call_that_was_is_not_compared_with_its_intent():
    (write,) = learnt((PRESENT, UNKNOWN, PRESENT), **BOTH)
    assert write.content.requested is not None
    assert write.content.webhook is None


def test_a_status_that_the_server_took_was_no_subresource_whatever_was_known_before():
    (write,) = learnt((PRESENT, PRESENT, UNKNOWN), **BOTH)
    assert write.writes_status
    assert [one.pointer for one in write.content.admitted] == ["/spec/a", "/status/b"]


def test_a_status_that_the_server_took_was_taken_of_every_phase():
    (write,) = learnt((UNKNOWN, UNKNOWN, UNKNOWN), **BOTH)
    assert write.content.requested == write.content.admitted
    assert write.content.webhook == NO_DIFF
    assert [one.pointer for one in write.content.admitted] == ["/spec/a", "/status/b"]


def test_mutate_calls_that_were_judged_by_two_definitions_are_not_compared():
    new, old = {"spec": {"a": 2}, "status": {"b": 2}}, {"spec": {"a": 1}}
    phases = MUTATE, MUTATE, OUTCOME
    (write,) = learnt((PRESENT, ABSENT, ABSENT), phases, new=new, old=old)
    assert write.content.reinvocation == NO_DIFF


@pytest.mark.parametrize(
    ("definition", "subresource", "counts", "because"),
    [
        (ABSENT, "", True, "without the subresource any field is"),
        (PRESENT, "", False, "with it the status that is sent is not even taken"),
        (PRESENT, "status", False, "nor does a write of the subresource count"),
        (ABSENT, "scale", False, "nor one of another"),
    ],
)
def test_whether_a_status_is_part_of_what_is_counted(definition, subresource, counts, because):
    detection = Judging()
    custom = [CustomResource(*KINDS["widgets"], definition)]
    one = update(BOTH["new"], BOTH["old"], resource="widgets", subresource=subresource)
    see(detection, OUTCOME, reviewed(one, OUTCOME, judge(audit_only=True, custom=custom)), 100.0)
    assert [write.status_counts for write in detection.writes] == [counts], because


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
        msgspec.structs.replace(seen, key=msgspec.structs.replace(seen.key, resource=f"r{number}"))
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
        assert (detection.writes[-1].content.webhook is not None) is is_joined


def test_an_outcome_joins_its_mutate_call_where_the_intent_was_not_seen():
    sent, made = (
        update(status(n=1, **observes), status(n=0), "7", subresource="status")
        for observes in ({"observedGeneration": 1}, {})
    )
    detection = Judging()
    feed(detection, OUTCOME, update(NEW, OLD, "6"), 100.0)
    feed(detection, MUTATE, sent, 100.0)
    feed(detection, OUTCOME, made, 99.9 + SECONDS_WAITED)
    last = detection.writes[-1]
    assert (last.observed_sent.own, last.observed_after.own) == (1, None)


@pytest.mark.parametrize(("subresource", "more"), [("", True), ("scale", True), ("status", False)])
def test_more_than_status_is_written_unless_it_is_status_that_is_written(subresource, more):
    (write,) = joined((OUTCOME, update(NEW, OLD, subresource=subresource)))
    assert write.writes_more is more


def test_an_outcome_alone_is_a_write_of_which_only_the_result_is_known():
    detection = Judging()
    feed(detection, OUTCOME, update(NEW, OLD), 100.0)
    (write,) = detection.writes
    assert (write.content.requested, write.content.webhook) == (None, None)


def test_of_an_outcome_alone_those_are_suspects_whom_rules_call():
    detection = Judging(Suspects(read_configurations([hook("aaa", ("*",))]), conditions=CONDITIONS))
    feed(detection, OUTCOME, update(NEW, OLD), 100.0)
    assert [write.called.first for write in detection.writes] == [("aaa/h.example.org",)]


def test_an_outcome_of_another_replica_need_not_tell_what_is_stored_nor_who_was_called():
    seen = msgspec.structs.replace(fact(OUTCOME, update(NEW, OLD)), states=None, called=None)
    (write,) = Correlator().see(seen)
    assert (write.state_before, write.state_after, write.called) == (0, 0, NOBODY)


def test_what_phases_have_in_common_is_kept_once():
    correlator, one = Correlator(), status(observedGeneration=1)
    for phase in (INTENT, MUTATE, OUTCOME):
        seen = fact(phase, update(one, status(), subresource="status"))
        writes = correlator.see(decode_fact(encode_fact(seen)))  # each apart, as of another replica
    (write,) = writes
    assert write.observed_asked.own == 1
    assert write.observed_asked is write.observed_sent is write.observed_after


@pytest.mark.parametrize("observing", [INTENT, MUTATE, OUTCOME])
def test_a_status_observes_when_it_does_so_in_any_phase(observing):
    phases = INTENT, MUTATE, OUTCOME
    shown = [{"observedGeneration": 0} if phase is observing else {} for phase in phases]
    (write,) = joined(
        *(
            (phase, update(status(n=1, **more), status(n=0), subresource="status"))
            for phase, more in zip(phases, shown, strict=True)
        )
    )
    assert write.observes


def test_of_too_many_writes_that_wait_the_oldest_are_judged_early(monkeypatch):
    monkeypatch.setattr("genguard.detection.correlate.MOST_PENDING", 2)
    detection = Judging()
    for base in ("1", "2", "3", "4"):
        feed(detection, MUTATE, update(NEW, OLD, base), 100.0)
    assert [write.base for write in detection.writes] == ["1"]


def test_whether_an_outcome_is_awaited_is_known_by_its_resource():
    correlator, seen = Correlator(), fact(OUTCOME, update(NEW, OLD))
    assert correlator.known(seen.key).awaits_outcome is False
    correlator.see(seen)
    assert correlator.known(seen.key).awaits_outcome is True


@given(data())
def test_writes_of_one_client_at_once_are_not_taken_for_a_webhook_or_a_reinvocation(draw):
    contents = draw.draw(lists(sampled_from([2, 3, 4]), min_size=1, max_size=4))
    phases = [phase for number in range(len(contents)) for phase in [number] * len(Phase)]
    calls = [[(phase, update(spec(replicas=one), OLD)) for phase in Phase] for one in contents]
    in_any_order = [calls[number].pop(0) for number in draw.draw(permutations(phases))]
    detection = Judging()
    for phase, asked in (EARLIER, *in_any_order):
        feed(detection, phase, asked, 100.0)
    detection.finish(100.0)
    _, *writes = detection.writes
    assert len(writes) == len(contents)
    assert not detection.completeness.missing
    for write in writes:
        assert write.content.reinvocation == NO_DIFF
        assert not write.content.webhook
        assert write.missing == ()


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
    asked = [fact(INTENT, one).compared.diff for one in (first, second)]
    assert [write.content.requested for write in writes] == asked


def test_a_mutate_call_without_an_intent_is_not_joined_with_the_intent_of_another_request():
    first, second = (update(spec(replicas=number), OLD) for number in (2, 3))
    begun = EARLIER, (MUTATE, first), (INTENT, second), (OUTCOME, first)
    _, *writes = joined(*begun, (MUTATE, second), (OUTCOME, second))
    asked = fact(INTENT, second).compared.diff
    assert [write.content.requested for write in writes] == [None, asked]


@pytest.mark.parametrize(("subresource", "fields"), [("status", ("/status",)), ("", ("/spec",))])
def test_of_a_write_that_was_not_compared_only_the_fields_are_known(subresource, fields):
    new, old = ({"spec": {"n": 1}, "status": {"n": n}} for n in (1, 2))
    new = {**new, "spec": {"n": 2}} if not subresource else new
    (write,) = joined((OUTCOME, update(new, old, subresource=subresource)))
    assert len(write.pointers()) == 1
    assert with_content(write, admitted=NOT_COMPARED).pointers() == fields


def lossy(*calls: tuple[Phase, dict[str, Any]]) -> Judging:
    """What is known after these calls, half a second apart."""
    detection = Judging()
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
    detection = Judging()
    feed(detection, *SHOWN, 99.0)
    feed(detection, MUTATE, MADE, 100.0)
    for number in range(60):
        feed(detection, INTENT, ASKED, 100.5 + number / 4)
    assert detection._correlator.bytes < 3 * 60 * 2_000
    assert len(detection._correlator._open) <= MOST_OF_KEY
    begun = [one.since for one in detection._correlator._open.values()]
    assert min(begun) > 115.25 - SECONDS_WAITED - 1


def test_an_outcome_that_comes_twice_is_one_write():
    detection = lossy(SHOWN, *WHOLE, WHOLE[-1])
    assert len(detection.writes) == 3, "the two before it, and this one once"


def test_where_only_outcomes_are_registered_two_that_are_equal_are_two_writes():
    outcomes = [(OUTCOME, MADE)] * 2
    assert len(lossy(*outcomes).writes) == 3
