"""What turned between two looks, and nothing twice."""

import pytest

from genguard.detection.finding import Finding, Severity
from tests.unit.alerts.findings import finding
from webhook.alerts.change import Transition, TransitionTracker

INFO, WARNING, CRITICAL = Severity


def turned(turns: TransitionTracker, *findings: Finding):
    return [(change.transition, change.finding.id) for change in turns.since(findings)]


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ([("open", INFO)], [Transition.OPENED]),
        ([("open", CRITICAL)], [Transition.OPENED]),
        ([("open", INFO), ("open", INFO), ("open", INFO)], [Transition.OPENED, None, None]),
        ([("open", INFO), ("open", WARNING)], [Transition.OPENED, Transition.ESCALATED]),
        ([("open", INFO), ("open", CRITICAL)], [Transition.OPENED, Transition.ESCALATED]),
        ([("open", WARNING), ("open", CRITICAL)], [Transition.OPENED, Transition.ESCALATED]),
        ([("open", CRITICAL), ("open", INFO)], [Transition.OPENED, None]),
        ([("open", WARNING), ("resolved", WARNING)], [Transition.OPENED, Transition.RESOLVED]),
        ([("open", WARNING), ("resolved", CRITICAL)], [Transition.OPENED, Transition.RESOLVED]),
        (
            [("open", WARNING), ("resolved", WARNING), ("resolved", WARNING), ("open", WARNING)],
            [Transition.OPENED, Transition.RESOLVED, None, Transition.REOPENED],
        ),
        (
            [("open", INFO), ("resolved", INFO), ("open", INFO), ("open", WARNING)],
            [Transition.OPENED, Transition.RESOLVED, Transition.REOPENED, Transition.ESCALATED],
        ),
        ([("resolved", WARNING)], [None]),  # over before anybody looked
        ([("resolved", WARNING), ("open", WARNING)], [None, Transition.REOPENED]),
    ],
)
def test_only_turns_are_told(looks, told):
    turns = TransitionTracker()
    for (state, severity), turn in zip(looks, told, strict=True):
        found = [
            change.transition for change in turns.since((finding(state=state, severity=severity),))
        ]
        assert found == ([] if turn is None else [turn])


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
