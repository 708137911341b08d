"""Each thing that can be wrong, found alone, with how bad it is and the command that fixes it."""

from copy import deepcopy
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from certs import installed_names, issue_authority, renew
from genguard.detection.finding import Actor, Confidence, Finding, FoundObject, Severity
from genguard.detection.suspects import Suspects, read_configurations
from genguard.linting.hook import FOLLOWED
from genguard.needed_phases import needs_of, rules_of
from tests.unit.doctor.healthy import (
    NOW,
    PAIR,
    healthy,
    served,
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
from webhook.doctor.diagnose import CHECKS, diagnose
from webhook.doctor.facts import Level, Right
from webhook.manifest.documents import FOLLOW
from webhook.manifest.rendering import SharedStore

WELL = healthy()
SHARED = healthy(ha=True)
INSTALL = "genguard install"
GATE = "feature gate PodObservedGenerationTracking"
KUBECTL = "kubectl -n genguard-system"
FAIL_OPEN = "kubectl get --raw /metrics | grep 'webhook_fail_open_count.*genguard'"
TEMPLATE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "genguard-test-0a1b"}}
SECOND = next(one for one in WELL.configurations if "mutate" in one["metadata"]["name"]) | {
    "metadata": {"name": "zzzzzz-team-b", "labels": {"app.kubernetes.io/name": "genguard"}}
}
OLD_LEAF = renew(
    None, names=installed_names("genguard", "genguard-system"), at=NOW - timedelta(days=300)
).pair


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


def without(facts, kind):
    live = {path: None if one["kind"] == kind else one for path, one in facts.live.items()}
    return replace(facts, live=live)


def test_all_is_well_after_an_installation():
    lines = diagnose(WELL)
    assert {line.level for line in lines} == {Level.OK}
    assert [line.id for line in lines] == list(dict.fromkeys(check.id for check in CHECKS))
    assert not any(line.fix for line in lines)


@pytest.mark.parametrize(
    ("unread", "emptied", "unknown"),
    [
        (
            "the registrations",
            {"configurations": ()},
            {
                "installed", "pods", "certificate", "registered", "alone", "rules",
                "reverted", "settings", "ca-bundle", "order", "reached", "rights",
            },
        ),
        ("the Deployment", {}, {"pods", "mode", "heal"}),
        ("the Secret", {"pair": None}, {"certificate", "ca-bundle"}),
        ("the endpoints", {"endpoints": 0}, {"pods"}),
        ("rights", {"rights": ()}, {"rights", "heal"}),
        ("custom resources", {"custom": ()}, {"kinds"}),
        ("service/genguard -n genguard-system", {}, {"installed"}),
    ],
)  # fmt: skip
def test_what_rests_on_something_unread_is_neither_well_nor_missing(unread, emptied, unknown):
    lines = diagnose(replace(WELL, unread={unread: "no (403)"}, **emptied))
    assert {line.id for line in lines if line.level is Level.UNKNOWN} == unknown
    told = {line.message for line in lines if line.level is Level.UNKNOWN}
    assert told == {f"not checked, for {unread} could not be read"}
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


@pytest.mark.parametrize(
    ("facts", "name", "level", "told", "fix"),
    [
        (
            replace(WELL, configurations=(*WELL.configurations, SECOND)),
            "alone",
            "warn",
            "another genguard is registered: mutatingwebhookconfiguration/zzzzzz-team-b;",
            "kubectl delete mutatingwebhookconfiguration/zzzzzz-team-b",
        ),
        (replace(WELL, version="v1.29.15"), "api-server", "fail", "too old", "kubectl version"),
        (without(WELL, "NetworkPolicy"), "installed", "fail", "networkpolicy/genguard", INSTALL),
        (
            with_deployment(SHARED, {}, {"availableReplicas": 2}),
            "pods",
            "warn",
            "2 of 3 are ready",
            f"{KUBECTL} describe pods",
        ),
        (with_deployment(WELL, {}, {}), "pods", "fail", "none of 2", f"{KUBECTL} describe pods"),
        (
            with_deployment(WELL, {"replicas": 0}, {}),
            "pods",
            "fail",
            "scaled to 0",
            f"{KUBECTL} scale deployment/genguard --replicas=2",
        ),
        (
            with_deployment(SHARED, {"replicas": 0}, {}),
            "pods",
            "fail",
            "scaled to 0",
            f"{KUBECTL} scale deployment/genguard --replicas=3",
        ),
        (
            without_argument(WELL, "--standby"),
            "pods",
            "fail",
            "2 replicas that all answer, without a shared store: each sees only parts of a write",
            INSTALL,
        ),
        (replace(WELL, endpoints=0), "pods", "fail", "the Service has no endpoint", INSTALL),
        (
            replace(WELL, endpoints=0, unready=1),
            "pods",
            "warn",
            "its readiness probe fails or is slow; it still answers dry runs",
            f"{KUBECTL} describe pods",
        ),
        (
            replace(WELL, pair=None),
            "certificate",
            "fail",
            "the Secret with the certificate is missing",
            INSTALL,
        ),
        (replace(WELL, leftovers=(TEMPLATE,)), "registered", "warn", "genguard-test-0a1b", INSTALL),
        (
            with_hook(WELL, "intent", rules=[]),
            "rules",
            "fail",
            "is not called for CREATE namespaces, UPDATE namespaces, ",
            INSTALL,
        ),
        (with_hook(WELL, "mutate", failurePolicy="Fail"), "settings", "fail", "Fail", INSTALL),
        (with_hook(WELL, "mutate", timeoutSeconds=30), "settings", "warn", "30", INSTALL),
        (
            with_hook(WELL, "intent", reinvocationPolicy="IfNeeded"),
            "settings",
            "warn",
            "has reinvocationPolicy IfNeeded instead of Never",
            INSTALL,
        ),
        (
            with_hook(WELL, "outcome", objectSelector={"matchLabels": {"a": "b"}}),
            "settings",
            "warn",
            "a writer who sets labels can avoid it",
            INSTALL,
        ),
        (
            with_hook(WELL, "mutate", matchConditions=[]),
            "settings",
            "warn",
            "has lost the matchCondition not-genguard",
            INSTALL,
        ),
        (
            with_hook(
                WELL, "mutate", matchConditions=[{"name": "not-genguard", "expression": "true"}]
            ),
            "settings",
            "warn",
            "has a changed matchCondition not-genguard",
            INSTALL,
        ),
        (with_bundle(WELL, b"garbage"), "ca-bundle", "fail", "is not base64 of", INSTALL),
        (with_bundle(WELL, b""), "ca-bundle", "fail", "is empty", INSTALL),
        (
            with_bundle(WELL, issue_authority(at=NOW).cert_pem),
            "ca-bundle",
            "fail",
            "does not verify the server's certificate",
            INSTALL,
        ),
        (
            replace(WELL, probe={}, probes=()),
            "reached",
            "fail",
            "without intent, mutate, outcome",
            INSTALL,
        ),
        (
            replace(WELL, probe={}, probes=(), refusal="denied by policy"),
            "reached",
            "warn",
            "a dry run is refused: denied by policy",
            f"{INSTALL} --dry-run",
        ),
        (
            with_said(WELL, version="0.0.9"),
            "reached",
            "warn",
            "version 0.0.9, this command",
            INSTALL,
        ),
        (
            with_split(WELL, 3),
            "phases",
            "fail",
            "17 of 20 dry runs were seen in all phases by one pod; the others were split",
            f"{KUBECTL} scale deployment/genguard --replicas=1",
        ),
        (
            replace(with_split(WELL, 20), leaving=("genguard-2",)),
            "phases",
            "warn",
            "0 of 20 dry runs were seen in all phases by one pod, while genguard-2 terminates",
            f"{KUBECTL} rollout status deployment/genguard",
        ),
        (
            replace(WELL, probes=({"intent": WELL.probe["intent"]}, *WELL.probes[1:])),
            "phases",
            "warn",
            "19 of 20 dry runs were seen in all phases by one pod; 1 missed a phase",
            FAIL_OPEN,
        ),
        (
            with_service(WELL, "None"),
            "phases",
            "fail",
            "service/genguard has sessionAffinity None instead of ClientIP",
            INSTALL,
        ),
        (
            with_service(SHARED, "None"),
            "phases",
            "warn",
            "service/genguard has sessionAffinity None instead of ClientIP",
            f"{INSTALL} --ha",
        ),
        (
            with_said(WELL, mode="audit-only"),
            "mode",
            "fail",
            "genguard-1 runs as audit-only, but enforcing is deployed",
            f"{KUBECTL} rollout restart deployment/genguard",
        ),
        (
            replace(with_said(WELL, mode="audit-only"), leaving=("genguard-1",)),
            "mode",
            "warn",
            "but enforcing is deployed, and terminates soon",
            f"{KUBECTL} rollout status deployment/genguard",
        ),
        (
            with_said(WELL, incomplete="2/100"),
            "incomplete",
            "warn",
            "2 of 100 writes missed one of their phases",
            FAIL_OPEN,
        ),
        (
            with_said(WELL, failing="watch-pods,detection"),
            "tasks",
            "warn",
            "watch-pods,detection of",
            f"{KUBECTL} logs deployment/genguard | grep 'task failed'",
        ),
        (
            with_said(WELL, costly="2"),
            "conditions",
            "warn",
            "2 matchConditions cost too much to evaluate, so their webhooks stay possible",
            f"{KUBECTL} logs deployment/genguard | grep matchCondition",
        ),
        (
            with_said(WELL, store="valkey-lost"),
            "store",
            "warn",
            "each replica uses its own memory, and no loop is found until it is back",
            f"{KUBECTL} logs deployment/genguard | grep store",
        ),
        (
            with_said(WELL, store="sqlite-damaged"),
            "store",
            "warn",
            "it was moved aside, and what was known before is missing",
            f"{KUBECTL} logs deployment/genguard | grep 'moved aside'",
        ),
        (
            with_said(WELL, last="2026-04-29T00:00:00Z"),
            "last-seen",
            "warn",
            "172800 s ago",
            FAIL_OPEN,
        ),
        (
            replace(WELL, rights=(Right("list", "apps", "deployments", allowed=False),)),
            "rights",
            "fail",
            "the server may not list deployments.apps",
            INSTALL,
        ),
        (
            replace(WELL, rights=(Right("update", "", "secrets", False, "genguard-tls"),)),
            "rights",
            "fail",
            "the server may not update secrets/genguard-tls",
            INSTALL,
        ),
        (
            replace(WELL, skew=41.2),
            "clock",
            "warn",
            "41 s ahead of",
            "sudo timedatectl set-ntp true",
        ),
        (
            replace(WELL, skew=-50.0),
            "clock",
            "warn",
            "50 s behind",
            "sudo timedatectl set-ntp true",
        ),
        (
            replace(
                WELL, findings=(FOUND, msgspec.structs.replace(FOUND, id="f2", caused_by="f1"))
            ),
            "culprits",
            "warn",
            "deployments.apps shop/web /status: mmm-old/two.example.org (certain): m (9x)",
            "genguard explain finding/f1",
        ),
    ],
)
def test_one_thing_is_wrong_and_nothing_else_is_said(facts, name, level, told, fix):
    (line,) = worst(facts).values()
    assert (line.id, line.level, line.fix) == (name, level, fix)
    assert told in line.message


@pytest.mark.parametrize(
    ("facts", "name", "told"),
    [
        (WELL, "phases", "20 of 20 dry runs were seen in all phases by one pod"),
        (
            with_split(SHARED, 15),
            "phases",
            "5 of 20 dry runs were seen in all phases by one pod; the others were joined through",
        ),
        (healthy(audit_only=True), "mode", "every pod that answers is audit-only, as deployed"),
        (WELL, "heal", "the leader restores lost values"),
        (healthy(heal=False), "heal", "off: a lost value stays lost"),
        (
            with_split(SHARED, 1, incomplete="9/9000"),
            "incomplete",
            "9 of 10000 writes missed one of their phases",
        ),
        (with_said(WELL, incomplete="50/99"), "incomplete", "50 of 99 writes"),
        (WELL, "conditions", "every matchCondition could be evaluated"),
        (with_said(WELL, role="active", active="genguard-1"), "store", "pod genguard-1 is active"),
    ],
)
def test_what_is_well_is_said_with_its_figure(facts, name, told):
    (line,) = (line for line in diagnose(facts) if line.id == name)
    assert line.level is Level.OK
    assert told in line.message


def test_a_split_for_want_of_affinity_is_mended_by_an_installation():
    lines = diagnose(with_service(with_split(WELL, 9), "None"))
    (split, affinity) = (line for line in lines if line.id == "phases")
    assert split.level is affinity.level is Level.FAIL
    assert split.fix == affinity.fix == INSTALL


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("heal", healthy(audit_only=True)),
        ("incomplete", with_said(WELL, incomplete="")),
        ("conditions", with_said(WELL, costly="")),
        ("phases", replace(WELL, probes=())),
    ],
)
def test_a_line_that_says_nothing_is_left_out(name, facts):
    assert name not in {line.id for line in diagnose(facts)}


def test_a_certificate_that_is_due_is_a_warning_before_it_is_an_outage():
    facts = replace(with_bundle(WELL, PAIR.ca_pem + OLD_LEAF.ca_pem), pair=OLD_LEAF)
    found = worst(facts)
    assert found["certificate"].level is Level.WARN
    assert "due for renewal" in found["certificate"].message
    late = worst(replace(WELL, at=NOW + timedelta(days=350)))
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
@pytest.mark.parametrize(
    ("choices", "command"),
    [
        ({}, "genguard install"),
        ({"audit_only": True}, "genguard install --audit-only"),
        ({"namespace": "guards"}, "genguard install -n guards"),
        ({"cert_manager": True}, "genguard install --cert-manager"),
        ({"image": "r.example.org/g:2"}, "genguard install --image r.example.org/g:2"),
        ({"replicas": 1}, "genguard install --replicas 1"),
        ({"heal": False}, "genguard install --no-heal"),
        (
            {"alertmanagers": ("http://a:9093", "http://b:9093")},
            "genguard install --alertmanager http://a:9093 --alertmanager http://b:9093",
        ),
        (
            {"api_servers": ("10.0.0.0/28", "192.0.2.7/32")},
            "genguard install --api-server-cidr 10.0.0.0/28,192.0.2.7/32",
        ),
        ({"ha": True}, "genguard install --ha"),
        ({"ha": True, "replicas": 5}, "genguard install --ha --replicas 5"),
        (
            {"ha": True, "store_image": "r.example.org/v:8"},
            "genguard install --ha --store-image r.example.org/v:8",
        ),
        ({"ha": True, "audit_only": True}, "genguard install --ha --audit-only"),
        (
            {"ha": True, "store": SharedStore("valkey://db:1/0?prefix=a", "db", 1), "replicas": 4},
            "genguard install --ha --store 'valkey://db:1/0?prefix=a' --replicas 4",
        ),
    ],
)
def test_the_command_installs_it_as_it_was_installed(choices, command):
    assert healthy(**choices).install == command


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


def test_kinds_are_told_as_this_server_has_them():
    (now,) = (line.message for line in diagnose(WELL) if line.id == "kinds")
    assert "not" not in now
    few = replace(WELL, served=served("servicecidrs"), custom=(("example.com", "widgets"),))
    (then,) = (line.message for line in diagnose(few) if line.id == "kinds")
    assert "; not served here: servicecidrs; " in then
    assert then.endswith("custom resources that are not watched: widgets.example.com")


@pytest.mark.parametrize(
    ("nodes", "trusted", "told"),
    [
        ({"a": "v1.35.0", "b": "v1.36.3-gke.1"}, "2 of 2", ""),
        ({"a": "v1.35.0", "b": "v1.34.2"}, "1 of 2", f"; unless {GATE} is off on b (1.34)"),
        ({"a": "v1.33.9+k3s1"}, "0 of 1", f"; only with {GATE} on a (1.33)"),
        (
            {"a": "v1.32.1", "b": "v1.36.0"},
            "1 of 2",
            "; never on a (before 1.33): pods there have none, or an old one that stays",
        ),
        (
            {"virtual": "acme-7", "new": ""},
            "0 of 2",
            "; not known of new, virtual, whose version is none of a kubelet",
        ),
    ],
)
def test_doctor_says_on_which_nodes_the_numbers_of_pods_can_be_trusted(nodes, trusted, told):
    (line,) = (one for one in diagnose(replace(WELL, nodes=nodes)) if one.id == "nodes")
    message = f"observedGeneration of pods can be trusted on {trusted}{told}"
    assert (line.level, line.message) == (Level.OK, message)


@pytest.mark.parametrize("nodes", [None, {}])
def test_where_no_node_can_be_read_doctor_says_nothing_of_them(nodes):
    assert "nodes" not in {one.id for one in diagnose(replace(WELL, nodes=nodes))}


def test_a_write_that_was_never_seen_is_no_fault_of_a_fresh_server():
    (line,) = (one for one in diagnose(with_said(WELL, last="never")) if one.id == "last-seen")
    assert (line.level, line.message) == (
        Level.OK,
        "no write since this replica started",
    )


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
    changed_by = Suspects(read_configurations(others)).may_change
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
    assert "0--genguard-intent is not called for UPDATE deployments/status.apps" in line.message


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
