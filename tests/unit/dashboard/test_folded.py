"""Findings that follow from another are linked with it; tests/unit/dashboard/test_grouping.py."""

from genguard.detection.finding import Severity
from tests.unit.alerts.findings import finding
from webhook.dashboard.finding_query import parse
from webhook.dashboard.findings import select
from webhook.dashboard.headlines import headline, kinds
from webhook.dashboard.rendering import render
from webhook.dashboard.runbook import runbook_of

ROOT = finding(id="root", detector="spec-fight", evidence=())
CHILD = finding(
    id="child",
    detector="generation-storm",
    severity=Severity.INFO,
    caused_by="root",
    evidence=(),
)
NOW = 1_800_000_000.0
ASKED = parse({}, state="open", limit=100)
ABOUT = {"mode": "enforcing", "version": "1", "instance": "here", "store": "memory"}


def of_any_kind(one):
    return headline(one, kinds(()))


def shown(template, model, **values):
    common = {"now": NOW, "path": "/", "last_review": 1.0, "about": ABOUT, "headline": of_any_kind}
    return render(template, {"model": model, **values, **common}).decode()


def test_as_json_it_is_listed_by_itself():
    assert [one.id for one in select((ROOT, CHILD), ASKED, NOW).findings] == ["root", "child"]


def page_of(model, **values):
    return shown("finding.html", model, page=runbook_of(model, "enforcing"), **values)


def test_the_page_of_each_links_the_other():
    assert "/findings/root" in page_of(CHILD, cause=ROOT, follows=())
    assert "/findings/child" in page_of(ROOT, cause=None, follows=[CHILD])
