"""What turned between two looks, and nothing twice."""

from genguard.detection.finding import Finding, Severity
from tests.cases_loader import Case, table
from tests.unit.alerts.findings import finding
from webhook.alerts.change import Transition, TransitionTracker

INFO, WARNING, CRITICAL = Severity


def turned(turns: TransitionTracker, *findings: Finding):
    return [(change.transition, change.finding.id) for change in turns.since(findings)]


@table("alerts/turns.yaml", "looks", "told")
def test_only_turns_are_told(case: Case) -> None:
    turns = TransitionTracker()
    for look, turn in zip(case["looks"], case["told"], strict=True):
        state, severity = look.split()
        seen = turns.since((finding(state=state, severity=Severity(severity)),))
        told = [change.transition.value for change in seen]
        assert told == ([] if turn is None else [turn]), case.because


def test_a_warning_that_follows_from_another_finding_is_folded_and_may_come_back():
    turns = TransitionTracker()
    looks = [(WARNING, ""), (INFO, "root"), (INFO, "root"), (WARNING, "")]
    found = [
        [one for one, _ in turned(turns, finding(severity=severity, caused_by=cause))]
        for severity, cause in looks
    ]
    assert found == [[Transition.OPENED], [Transition.FOLDED], [], [Transition.ESCALATED]]


def test_what_somebody_else_has_told_is_no_news_and_its_end_is():
    turns = TransitionTracker()
    turns.know([finding(id="a"), finding(id="b")])
    both = finding(id="a"), finding(id="b", severity=Severity.CRITICAL)
    assert turned(turns, *both) == [("escalated", "b")]
    assert turned(turns, finding(id="a", state="resolved"), both[1]) == [("resolved", "a")]
