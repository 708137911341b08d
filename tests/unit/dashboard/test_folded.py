"""Findings that follow from another are shown beneath it."""

from tests.unit.alerts.findings import finding
from webhook.dashboard.findings import parse, select
from webhook.dashboard.rendering import render
from webhook.dashboard.runbook import runbook_of
from webhook.detection.causes import by_cause
from webhook.detection.finding import Severity

ROOT = finding(id="root", detector="spec-fight", evidence=())
CHILD = finding(
    id="child",
    detector="generation-storm",
    severity=Severity.INFO,
    caused_by="root",
    evidence=(),
)
ASKED = parse({}, state="open", limit=100)
ABOUT = {"mode": "enforcing", "version": "1", "instance": "here", "store": "memory"}


def shown(template, model, **values):
    common = {"now": 1_800_000_000.0, "path": "/", "last_review": 1.0, "about": ABOUT}
    return render(template, {"model": model, **values, **common}).decode()


def test_a_page_lists_it_beneath_its_cause_and_not_by_itself():
    page = select((ROOT, CHILD), ASKED, folds=True)
    assert [one.id for one in page.findings] == ["root"]
    assert by_cause((ROOT, CHILD)) == {"root": [CHILD]}
    choices = {"states": (), "detectors": (), "severities": ("warning",)}
    text = shown("findings.html", page, asked=ASKED, follows={"root": [CHILD]}, **choices)
    assert "1 finding follows from it" in text
    assert text.index("/findings/root") < text.index("/findings/child")


def test_as_json_it_is_listed_by_itself():
    assert [one.id for one in select((ROOT, CHILD), ASKED).findings] == ["root", "child"]


def test_where_its_cause_is_filtered_out_it_is_shown():
    asked = parse({"detector": "generation-storm"}, state="open", limit=100)
    assert [one.id for one in select((ROOT, CHILD), asked, folds=True).findings] == ["child"]


def page_of(model, **values):
    return shown("finding.html", model, page=runbook_of(model, "enforcing"), **values)


def test_the_page_of_each_links_the_other():
    assert "/findings/root" in page_of(CHILD, cause=ROOT, follows=())
    assert "/findings/child" in page_of(ROOT, cause=None, follows=[CHILD])
