"""Each thing that can be wrong, found alone, with how bad it is and the command that fixes it."""

from copy import deepcopy
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from certs import installed_names, issue, issue_authority
from genguard.admission.matching import read_configurations
from genguard.detection.finding import Actor, Confidence, Finding, FoundObject, Severity
from genguard.detection.mutators import Mutators
from genguard.linting.hook import FOLLOWED
from genguard.needed_phases import needs_of, rules_of
from tests.cases_loader import table
from tests.unit.doctor.healthy import (
    NOW,
    PAIR,
    healthy,
    with_bundle,
    with_deployment,
    with_hook,
    with_said,
    with_service,
    with_split,
    without_argument,
    worst,
)
from tests.unit.test_needed_phases import hook
from webhook.doctor.checks import CHECKS, diagnose
from webhook.doctor.facts import Level, Right
from webhook.manifest.documents import FOLLOW

WELL = healthy()
SHARED = healthy(ha=True)
INSTALL = "genguard install"
OLD_LEAF = issue(
    names=installed_names("genguard", "genguard-system"),
    at=NOW - timedelta(days=300),
    leaf_lifetime=timedelta(days=365),
)


FOUND = Finding(
    id="f1",
    detector="observed-generation-cleared",
    severity=Severity.CRITICAL,
    state="open",
    object=FoundObject("apps", "v1", "deployments", "shop", "web", "u"),
    subresource="status",
    paths=("/status/observedGeneration",),
    actors=(Actor("webhook", "mmm-old/two.example.org", "", Confidence.CERTAIN),),
    count=9,
    first_seen="2026-04-30T23:00:00Z",
    last_seen="2026-04-30T23:59:00Z",
    message="m",
    evidence=(),
)
RULES = [
    {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["*"], "operations": ["UPDATE"]}
]


def named(facts, part, name):
    """Another registration like that of a phase."""
    found = next(one for one in facts.configurations if part in one["metadata"]["name"])
    return found | {"metadata": {"name": name, "labels": {"app.kubernetes.io/name": "genguard"}}}


def without(facts, kind):
    live = {path: None if one["kind"] == kind else one for path, one in facts.live.items()}
    return replace(facts, live=live)


def test_all_is_well_after_an_installation():
    lines = diagnose(WELL)
    assert {line.level for line in lines} == {Level.OK}
    assert [line.id for line in lines] == list(dict.fromkeys(check.id for check in CHECKS))
    assert not any(line.fix for line in lines)


@table("doctor/unread.yaml", "unread", "emptied", "unknown")
def test_what_rests_on_something_unread_is_neither_well_nor_missing(case):
    unread = case["unread"]
    lines = diagnose(replace(WELL, unread={unread: "no (403)"}, **case["emptied"]))
    missed = [line for line in lines if line.level is Level.UNKNOWN]
    assert {line.id for line in missed} == {*case["unknown"]}, case.because
    assert {line.message for line in missed} == {f"not checked, for {unread} could not be read"}
    (line,) = (line for line in lines if line.level.rank)
    assert (line.level, line.id) == (Level.WARN, "api-server")
    assert line.message == f"{unread} could not be read: no (403)"


def test_whether_it_is_installed_is_not_known_without_its_registrations():
    nothing = dict.fromkeys(WELL.live)
    lines = diagnose(
        replace(WELL, configurations=(), live=nothing, unread={"the registrations": "no (403)"})
    )
    assert not any("not installed" in line.message for line in lines)


def test_registrations_that_ask_the_genguard_of_another_namespace_are_a_failure():
    line = worst(replace(WELL, namespace="team-b"))["alone"]
    assert line.level is Level.FAIL
    assert "genguard in namespace genguard-system, not the one in team-b" in line.message
    assert line.fix == "genguard doctor -n genguard-system"


OF = {"shared": SHARED, "audit-only": healthy(audit_only=True)}
STEPS = {
    "set": lambda facts, changes: replace(facts, **changes),
    "second": lambda facts, name: replace(
        facts, configurations=(*facts.configurations, named(facts, "mutate", name))
    ),
    "without": without,
    "left": lambda facts, name: replace(facts, leftovers=({"metadata": {"name": name}},)),
    "deployment": lambda facts, parts: with_deployment(facts, *parts),
    "argument": without_argument,
    "hook": lambda facts, change: with_hook(facts, change[0], **change[1]),
    "bundle": lambda facts, text: with_bundle(
        facts, issue_authority(at=NOW).cert_pem if " " in text else text.encode()
    ),
    "unprobed": lambda facts, why: replace(facts, probe={}, probes=(), refusal=why),
    "said": lambda facts, said: with_said(facts, **said),
    "split": with_split,
    "split_said": lambda facts, said: with_split(facts, 1, **said),
    "missed": lambda facts, phase: replace(
        facts, probes=({phase: facts.probe[phase]}, *facts.probes[1:])
    ),
    "service": with_service,
    "right": lambda facts, parts: replace(
        facts, rights=(Right(*parts[:3], allowed=False, name=parts[3]),)
    ),
}


def given(case):
    """The facts of a case: an installation, and each step that makes it different."""
    facts = OF.get(case.get("of"), WELL)
    for step, change in case.get("given", {}).items():
        facts = STEPS[step](facts, change)
    return facts


@table("doctor/wrong.yaml", "of", "given", "id", "level", "told", "fix")
def test_one_thing_is_wrong_and_nothing_else_is_said(case):
    (line,) = worst(given(case)).values()
    assert (line.id, line.level, line.fix) == (case["id"], case["level"], case["fix"])
    assert case["told"] in line.message, case.because


@table("doctor/well.yaml", "of", "given", "id", "told")
def test_what_is_well_is_said_with_its_figure(case):
    lines = [line for line in diagnose(given(case)) if line.id == case["id"]]
    assert [line.level for line in lines] == [Level.OK] * ("told" in case.values), case.because
    assert all(case["told"] in line.message for line in lines)


@table("doctor/nodes.yaml", "given", "id", "told")
def test_doctor_says_on_which_nodes_the_numbers_of_pods_can_be_trusted(case):
    (line,) = (line for line in diagnose(given(case)) if line.id == case["id"])
    assert (line.level, line.message) == (Level.OK, case["told"]), case.because


def test_an_open_finding_is_told_with_its_culprit_and_its_consequence_is_not():
    findings = (FOUND, msgspec.structs.replace(FOUND, id="f2", caused_by="f1"))
    (line,) = worst(replace(WELL, findings=findings)).values()
    assert (line.id, line.level, line.fix) == (
        "culprits", Level.WARN, "genguard explain finding/f1",
    )  # fmt: skip
    assert "shop/web /status: mmm-old/two.example.org (certain): m (9x)" in line.message


def test_a_split_for_want_of_affinity_is_mended_by_an_installation():
    lines = diagnose(with_service(with_split(WELL, 9), "None"))
    (split, affinity) = (line for line in lines if line.id == "phases")
    assert split.level is affinity.level is Level.FAIL
    assert split.fix == affinity.fix == INSTALL


def test_a_certificate_that_is_due_is_a_warning_before_it_is_an_outage():
    facts = replace(with_bundle(WELL, PAIR.ca_pem + OLD_LEAF.ca_pem), pair=OLD_LEAF)
    found = worst(facts)
    assert found["certificate"].level is Level.WARN
    assert "due for renewal" in found["certificate"].message
    late = worst(replace(WELL, at=NOW + timedelta(days=3640)))
    assert "the caBundle of" in late["ca-bundle"].message
    assert late["ca-bundle"].level is Level.WARN


def test_where_genguard_is_not_that_is_all_that_is_said():
    nowhere = replace(WELL, live=dict.fromkeys(WELL.live), configurations=(), probe={}, probes=())
    assert [line.id for line in diagnose(nowhere)] == ["api-server", "installed"]


def test_what_is_registered_but_not_installed_is_no_noise():
    """A registration that is gone is told once, not again by all that follows from it."""
    facts = replace(WELL, configurations=(), probe={}, probes=())
    assert set(worst(facts)) == {"registered"}


@pytest.mark.slow
@table("doctor/commands.yaml", "choices", "flags")
def test_the_command_installs_it_as_it_was_installed(case):
    choices = {
        name: tuple(one) if isinstance(one, list) else one for name, one in case["choices"].items()
    }
    assert healthy(**choices).install == f"{INSTALL} {case['flags']}".strip(), case.because


@pytest.mark.parametrize(
    ("labels", "level"),
    [({}, Level.WARN), ({"genguard.io/trace": "1453bee5"}, Level.OK)],
    ids=["a webhook of somebody", "an observer of trace"],
)
def test_only_an_observer_of_trace_may_stand_before_the_first_registration(labels, level):
    name = "0---before"
    hook = {"name": "x.example.org", "clientConfig": {"url": "https://192.0.2.1/x"}, "rules": RULES}
    before = {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name, "labels": labels},
        "webhooks": [hook],
    }
    facts = replace(WELL, configurations=(*WELL.configurations, before))
    (line,) = (line for line in diagnose(facts) if line.id == "order")
    assert line.level is level
    assert (name in line.message) is (level is Level.WARN)


def test_where_no_server_answers_doctor_does_not_say_that_no_finding_is_open():
    unasked = diagnose(replace(WELL, findings=None, unasked="no answer"))
    (line,) = [line for line in unasked if line.id == "culprits"]
    assert line.level is Level.UNKNOWN
    assert line.message == "the server was not asked whether findings are open: no answer"
    assert line.fix == "genguard doctor --server URL"
    assert line.level.rank == 0, "what is not known does not make it fail"


def test_more_findings_than_fit_are_counted():
    many = tuple(msgspec.structs.replace(FOUND, id=f"f{number}") for number in range(5))
    *_, last = [line for line in diagnose(replace(WELL, findings=many)) if line.id == "culprits"]
    assert (last.message, last.fix) == ("2 more open findings", "genguard findings")


def followed(facts, *others: dict):
    """The registrations as `serve --registrations follow` leaves them, beside other webhooks."""
    outcome = facts.registered["outcome"].hook.body["rules"]
    changed_by = Mutators(read_configurations(others)).may_change
    needs = needs_of(outcome, changed_by, enforcing=True)
    documents = deepcopy(facts.configurations)
    for phase in ("intent", "mutate"):
        (one,) = (one for one in documents if phase in one["metadata"]["name"])
        one["metadata"]["annotations"] = {FOLLOWED: "follow"}
        one["webhooks"][0]["rules"] = rules_of(phase, outcome, [], needs)
    return replace(facts, configurations=(*documents, *others))


@pytest.mark.parametrize("others", [(), (hook("deployments/status"),)], ids=["alone", "another"])
def test_phases_that_nobody_needs_may_be_left_out(others):
    assert not worst(followed(WELL, *others))


def test_a_phase_that_is_left_out_and_needed_is_missing():
    facts = followed(WELL)
    late = replace(facts, configurations=(*facts.configurations, hook("deployments/status")))
    line = worst(late)["rules"]
    assert line.level is Level.FAIL
    assert "zzzzzz-genguard-mutate is not called for UPDATE deployments/status.apps" in line.message


def test_phases_are_missing_where_the_server_does_not_follow_any_more():
    line = worst(without_argument(followed(WELL), FOLLOW))["reverted"]
    assert line.level is Level.FAIL
    assert FOLLOW in line.message


def test_who_writes_the_rules_back_is_named():
    facts = followed(WELL)
    documents = deepcopy(facts.configurations)
    (one,) = (one for one in documents if "intent" in one["metadata"]["name"])
    owned = {'k:{"name":"intent.genguard.io"}': {"f:rules": {}}}
    entry = {"manager": "argocd-controller", "fieldsV1": {"f:webhooks": owned}}
    one["metadata"]["managedFields"] = [entry]
    line = worst(replace(facts, configurations=documents))["reverted"]
    assert line.level is Level.WARN
    assert "are written by argocd-controller too" in line.message
    assert line.fix == f"{INSTALL} --registrations fixed"
