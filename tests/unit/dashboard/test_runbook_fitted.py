"""On the page of a finding its runbook has what applies, with names instead of placeholders."""

import re
from itertools import product

import pytest

from genguard.detection.questions import FINDINGS
from tests.unit.dashboard.pages_text import text
from tests.unit.detection.test_fix import finding
from webhook.dashboard.runbook import read, runbook_of, source

ENFORCE = "genguard install --ha --image registry.example.org/genguard:1"


def found(detector, actor, **more):
    return finding({"detector": detector, "actors": [actor], **more})


def test_the_page_fits_the_mode_and_the_actor():
    for detector, mode, confidence, sort in product(
        [*FINDINGS],
        ["enforcing", "audit-only"],
        ["certain", "likely", "possible"],
        ["webhook", "user", "policy"],
    ):
        name = "mmm/old.example.org" if sort == "webhook" else "somebody"
        page = runbook_of(found(detector, f"{sort} {name} {confidence}"), mode, ENFORCE)
        shown = text(page)
        case = detector, mode, confidence, sort, shown
        leads = {line.partition(" ")[0] for line in shown.splitlines()}
        others = {"webhook", "user", "policy"} - {sort}
        assert not any(f"Type {one}" in shown for one in others), case
        assert "Enforcing:" not in leads or mode == "enforcing", case
        assert "Audit-only:" not in leads or mode == "audit-only", case
        can_wait = "this can wait" in shown and "If not, this can wait" not in shown
        assert not can_wait or mode == "enforcing", case
        for lead, of in (("Webhook:", "webhook"), ("User:", "user"), ("Policy:", "policy")):
            assert lead not in leads or (sort == of and confidence != "possible"), case
        left = set(re.findall(r"\b[A-Z][A-Z_]{3,}\b", shown))
        assert not left & {"NAMESPACE", "KIND", "RESOURCE", "NAME"}, case
        assert sort != "webhook" or "WEBHOOK_CONFIGURATION" not in left, case


def test_each_lead_is_used_and_the_whole_page_has_all_of_them():
    told = "\n".join(text(read(source(one))) for one in FINDINGS)
    for lead in ("Audit-only:", "Enforcing:", "Webhook:", "User:"):
        assert lead in told


def test_the_command_that_enforces_is_that_of_the_installation():
    cleared = found("observed-generation-cleared", "webhook mmm/old.example.org certain")
    assert ENFORCE in text(runbook_of(cleared, "audit-only", ENFORCE))


def test_an_object_outside_of_namespaces_needs_no_flag_for_one():
    where = {
        "group": "",
        "version": "v1",
        "resource": "nodes",
        "namespace": "",
        "name": "n1",
        "uid": "u",
    }
    told = text(runbook_of(found("status-clobbered", "user a certain", object=where), "enforcing"))
    assert "-n NAMESPACE" not in told
    assert "kubectl get nodes n1" in told


@pytest.mark.parametrize("name", ["$(reboot)", "a;b", "--all", "a b", "w\x1b[2J"])
def test_a_name_that_means_something_to_a_shell_is_not_filled_in(name):
    where = {
        "group": "apps",
        "version": "v1",
        "resource": "deployments",
        "namespace": "shop",
        "name": name,
        "uid": "u",
    }
    told = text(runbook_of(found("status-clobbered", "user a certain", object=where), "enforcing"))
    assert name not in told
    assert " NAME " in told
