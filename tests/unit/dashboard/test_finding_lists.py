"""Findings are filtered by who is to blame and by time."""

import pytest

from genguard.detection.finding import Actor, Confidence
from tests.unit.alerts.findings import finding, on
from webhook.dashboard.finding_lists import parse
from webhook.dashboard.findings import select
from webhook.dashboard.page import BadQueryError

NOW = 1_767_323_100.0  # a minute after the last sign of tests/unit/alerts/findings.py


def shown(found, **asked):
    return [one.id for one in select(found, parse(asked, state="open", limit=100), NOW).findings]


def test_a_time_range_is_counted_back_from_now():
    found = [finding(id="old", last_seen="2026-01-02T01:05:00Z"), finding(id="new")]
    for since, ids in (("", ["new", "old"]), ("300s", ["new"]), ("3h", ["new", "old"])):
        assert shown(found, since=since) == ids


@pytest.mark.parametrize("query", [{"severity": "red"}, {"sort": "count"}, {"page": "0"}])
def test_what_cannot_be_asked_is_refused(query):
    with pytest.raises(BadQueryError):
        parse(query, state="open", limit=1)


def test_those_of_one_culprit_are_found_by_its_name():
    other = (Actor("webhook", "other/hook", "", Confidence.CERTAIN),)
    found = [finding(id="a"), finding(id="b", actors=other), finding(id="c", actors=())]
    assert shown(found, culprit="old-operator") == ["a"]
    assert shown(found, culprit="not known") == ["c"]


@pytest.mark.parametrize("q", ["shop/web", "WEB quiet", "old-operator quiet"])
def test_words_are_searched_in_names_states_and_actors(q):
    found = [finding(id="a", state="quiet"), finding(id="b", object=on("cart"))]
    assert shown(found, q=q) == ["a"]
