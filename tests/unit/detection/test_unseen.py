"""What is said of a finding while reviews of its object are lost, or left out."""

import dataclasses

import pytest
from msgspec.structs import replace

from genguard.admission.review import ObjectName, Phase
from genguard.detection.finding import Confidence
from genguard.detection.finding_state import QUIET_SECONDS
from genguard.detection.ledger import Ledger
from genguard.detection.mutators import Mutators
from genguard.detection.question import ChangedBy, Signal
from tests.cases_loader import table
from tests.unit.detection.builders import (
    INTENT,
    MUTATE,
    OUTCOME,
    Examining,
    feed,
    joined,
    rows_of,
    settled,
    spec,
    status,
    update,
    with_content,
)

ASKED = update(spec(replicas=2), spec(replicas=1))
(WHOLE,) = joined((INTENT, ASKED), (MUTATE, ASKED), (OUTCOME, ASKED))
PART = replace(with_content(WHOLE, requested=None, webhook=None), missing=(INTENT, MUTATE))
SIGN = Signal(ChangedBy.REQUESTER, ("/spec/replicas",), "it happened", (WHOLE.requester,))
VAGUE = dataclasses.replace(SIGN, changed_by=ChangedBy.EITHER)
START = 1_000.0


def ledger_of(*signs: tuple[Signal, object]) -> Ledger:
    ledger = Ledger(Mutators())
    for number, (sign, write) in enumerate(signs):
        ledger.add("spec-fight", sign, replace(write, time=START + number))
    return ledger


def confidence(ledger: Ledger) -> Confidence:
    (found,) = ledger.findings()
    return found.actors[0].confidence


@pytest.mark.parametrize(
    ("signs", "expected", "because"),
    [
        ([(VAGUE, PART)] * 20, "possible", "nobody saw what was asked for"),
        ([(VAGUE, PART)] * 20 + [(SIGN, WHOLE)], "certain", "a write that was seen whole decides"),
        ([(SIGN, WHOLE)] + [(VAGUE, PART)] * 20, "certain", "what is not seen refutes nothing"),
        ([(VAGUE, WHOLE)] + [(SIGN, WHOLE)] * 9, "possible", "seen whole, it may be either"),
    ],
)
def test_writes_that_were_seen_whole_decide_who_is_to_blame(signs, expected, because):
    assert confidence(ledger_of(*signs)) == expected, because


def missed_in(ledger: Ledger, *seconds: float, subresource: str = "") -> None:
    for second in seconds:
        ledger.miss(WHOLE.object, subresource, START + second)


def test_a_finding_is_not_resolved_while_reviews_of_its_object_are_missed():
    ledger = ledger_of((SIGN, WHOLE))
    missed_in(ledger, 10, 60, 110)
    assert not settled(ledger, START + 110 + QUIET_SECONDS - 1)
    (found,) = ledger.findings()
    assert found.incomplete_since == "1970-01-01T00:16:50Z"
    assert found.state == "open"
    assert not found.is_ending(START + 110), "nobody knows whether it ends"
    (resolved,) = settled(ledger, START + 110 + QUIET_SECONDS)
    assert (resolved.state, resolved.incomplete_since) == ("resolved", "")


def test_reviews_of_another_subresource_or_object_say_nothing_of_a_finding():
    ledger = ledger_of((SIGN, WHOLE))
    missed_in(ledger, 50, subresource="status")
    ledger.miss(replace(WHOLE.object, name="other", uid="other"), "", START + 50)
    assert settled(ledger, START + QUIET_SECONDS)


def test_a_scale_is_a_view_of_the_object_itself():
    ledger = ledger_of((SIGN, WHOLE))
    missed_in(ledger, 50, subresource="scale")
    assert not settled(ledger, START + QUIET_SECONDS)


def test_a_review_of_nobody_knows_which_object_holds_all_findings():
    ledger = ledger_of((SIGN, WHOLE))
    ledger.miss(None, "", START + 30)
    assert not settled(ledger, START + QUIET_SECONDS)
    assert ledger.findings()[0].incomplete_since
    assert settled(ledger, START + 30 + QUIET_SECONDS)


def test_a_finding_that_goes_on_being_seen_is_complete_again_after_a_while():
    ledger = ledger_of((SIGN, WHOLE))
    missed_in(ledger, 1)
    for second in range(2, 70):
        ledger.add("spec-fight", SIGN, replace(WHOLE, time=START + second))
        assert not settled(ledger, START + second)
    assert ledger.findings()[0].incomplete_since == ""


def test_a_restored_finding_knows_since_when_it_is_not_fully_seen():
    ledger, other = ledger_of((SIGN, WHOLE)), Ledger(Mutators())
    missed_in(ledger, 5)
    other.restore(rows_of(ledger))
    assert not settled(other, START + QUIET_SECONDS)
    assert other.findings() == ledger.findings()


def loop(detection: Examining, base: int, now: float) -> None:
    """One write of which another webhook clears what was asked for."""
    asked, made = (
        update(status(n=1, **more), status(n=0), str(base), subresource="status")
        for more in ({"observedGeneration": 1}, {})
    )
    for phase, one in ((INTENT, asked), (MUTATE, made), (OUTCOME, made)):
        feed(detection, phase, one, now)


@table("findings/held.yaml", "calls", "missed", "held")
def test_what_was_not_examined_holds_the_findings_of_its_object(case):
    detection = Examining()
    for number in range(8):
        loop(detection, number, START + number)
    last = update(status(n=1), status(n=0), "9", subresource="status")
    for phase in case.get("calls", ()):
        feed(detection, Phase(phase), last, START + 50)
    if "missed" in case.values:
        missed = case["missed"] and ObjectName("apps", "deployments", *case["missed"].split("/"))
        detection.miss(missed, START + 50)
    feed(detection, OUTCOME, update(spec(replicas=2), spec(replicas=1), "99"), START + 65)
    detection.resolve_quiet(START + 90)
    found = detection.findings()[0]
    assert bool(found.incomplete_since) is case["held"], case.because
    assert (found.state == "open") is case["held"], case.because
