"""Findings that follow from another are linked with it; tests/unit/dashboard/test_grouping.py."""

from genguard.detection.causes import fold
from genguard.detection.finding import Severity
from tests.unit.alerts.findings import finding
from tests.unit.detection.test_culprits import many
from webhook.dashboard.finding_lists import parse
from webhook.dashboard.headlines import count_objects, headline, kinds
from webhook.dashboard.rendering import render
from webhook.dashboard.runbook import runbook_of

ROOT = finding(id="root", detector="spec-fight", evidence=())
CHILD = finding(
    id="child", detector="generation-storm", severity=Severity.INFO, caused_by="root", evidence=()
)
NOW = 1_800_000_000.0
ASKED = parse({}, state="open", limit=100)
ABOUT = {"mode": "enforcing", "version": "1", "instance": "here", "store": "memory"}


def of_any_kind(one):
    return headline(one, kinds(()))


def objects_of(one):
    return count_objects((one,), kinds(()))


def shown(template, model, **values):
    common = {"now": NOW, "path": "/", "last_review": 1.0, "about": ABOUT, "headline": of_any_kind}
    common["objects_of"] = objects_of
    return render(template, {"model": model, **values, **common}).decode()


def page_of(model, **values):
    page = runbook_of(model, "enforcing")
    return shown("finding.html", model, page=page, again="", **values)


def test_the_page_of_each_links_the_other():
    assert "/findings/root" in page_of(CHILD, cause=ROOT, consequences=())
    assert "/findings/child" in page_of(ROOT, cause=None, consequences=[CHILD])


WHOLE, *PARTS = fold(
    many(
        60,
        detector="observed-generation-cleared",
        paths=("/status/observedGeneration",),
        evidence=(),
    )
)


def test_a_finding_about_many_objects_says_how_many_and_links_the_first():
    text = page_of(WHOLE, cause=None, consequences=PARTS)
    assert "clears observedGeneration of 60 " in text
    assert f"/findings/{PARTS[0].id}" in text
    assert "and 10 more" in text
    assert f"/findings/{PARTS[55].id}" not in text
