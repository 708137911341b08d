"""What turned between two looks, and nothing twice."""

import pytest

from tests.unit.alerts.findings import finding
from webhook.alerts.change import Turn, Turns
from webhook.detection.finding import Finding, Severity

INFO, WARNING, CRITICAL = Severity


def turned(turns: Turns, *findings: Finding):
    return [(change.turn, change.finding.id) for change in turns.since(findings)]


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ([("open", INFO)], [Turn.OPENED]),
        ([("open", CRITICAL)], [Turn.OPENED]),
        ([("open", INFO), ("open", INFO), ("open", INFO)], [Turn.OPENED, None, None]),
        ([("open", INFO), ("open", WARNING)], [Turn.OPENED, Turn.ESCALATED]),
        ([("open", INFO), ("open", CRITICAL)], [Turn.OPENED, Turn.ESCALATED]),
        ([("open", WARNING), ("open", CRITICAL)], [Turn.OPENED, Turn.ESCALATED]),
        ([("open", CRITICAL), ("open", INFO)], [Turn.OPENED, None]),
        ([("open", WARNING), ("resolved", WARNING)], [Turn.OPENED, Turn.RESOLVED]),
        ([("open", WARNING), ("resolved", CRITICAL)], [Turn.OPENED, Turn.RESOLVED]),
        (
            [("open", WARNING), ("resolved", WARNING), ("resolved", WARNING), ("open", WARNING)],
            [Turn.OPENED, Turn.RESOLVED, None, Turn.REOPENED],
        ),
        (
            [("open", INFO), ("resolved", INFO), ("open", INFO), ("open", WARNING)],
            [Turn.OPENED, Turn.RESOLVED, Turn.REOPENED, Turn.ESCALATED],
        ),
        ([("resolved", WARNING)], [None]),  # over before anybody looked
        ([("resolved", WARNING), ("open", WARNING)], [None, Turn.REOPENED]),
    ],
)
def test_only_turns_are_told(looks, told):
    turns = Turns()
    for (state, severity), turn in zip(looks, told, strict=True):
        found = [change.turn for change in turns.since((finding(state=state, severity=severity),))]
        assert found == ([] if turn is None else [turn])


def test_a_count_that_grows_is_no_turn():
    turns = Turns()
    turns.since((finding(count=3),))
    assert not turns.since((finding(count=30, message="more", last_seen="later"),))


def test_findings_turn_each_by_itself():
    turns = Turns()
    assert turned(turns, finding(id="a"), finding(id="b")) == [("opened", "a"), ("opened", "b")]
    assert turned(turns, finding(id="a"), finding(id="b", state="resolved")) == [("resolved", "b")]
    assert turned(turns, finding(id="c")) == [("opened", "c")]


def test_what_is_forgotten_opens_anew():
    turns = Turns()
    turns.since((finding(),))
    assert not turns.since(())
    assert [one.turn for one in turns.since((finding(),))] == [Turn.OPENED]


def test_what_somebody_else_has_told_is_no_news_and_its_end_is():
    turns = Turns()
    turns.know([finding(id="a"), finding(id="b")])
    both = finding(id="a"), finding(id="b", severity=Severity.CRITICAL)
    assert turned(turns, *both) == [("escalated", "b")]
    assert turned(turns, finding(id="a", state="resolved"), both[1]) == [("resolved", "a")]
