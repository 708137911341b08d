"""install and uninstall on a real API server, also interrupted by a signal and run again."""

import json
import shlex
import signal
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from genguard.linting.hook import GENGUARD
from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.cert_manager import CertManager
from tests.e2e.genguard import Genguard
from tests.e2e.installations import (
    REGISTRATIONS,
    left_as_it_was,
    outside,
    registered,
    there,
    webhook,
)
from tests.e2e.kubelet import PLANE, SYSTEM, Kubelet
from tests.e2e.verbs import Verb, run
from tests.nightly import by_day
from tests.store.proxy import Proxy
from tests.store.server import StoreServer
from webhook.cluster.standby import ACTIVE

PHASES = ("1/3", "2/3", "3/3")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(PLANE) as plane, Kubelet(plane):
        yield plane


@pytest.fixture(scope="module")
def guard() -> Iterator[Genguard]:
    """A server outside the cluster."""
    with Genguard() as guard:
        yield guard


def pods_of(plane: ControlPlane) -> list[dict[str, Any]]:
    found = plane.client.get(f"/api/v1/namespaces/{SYSTEM}/pods").body
    items: list[dict[str, Any]] = found["items"]
    return items


@pytest.fixture
def clean(plane: ControlPlane) -> Iterator[ControlPlane]:
    with left_as_it_was(plane):
        yield plane


def test_it_is_installed_in_three_phases_and_then_there_is_nothing_to_do(
    clean: ControlPlane,
) -> None:
    first = run(clean, "install", "--yes", "--audit-only")
    assert [line[:3] for line in first.err.splitlines() if line[1:3] == "/3"] == list(PHASES)
    assert all(line.split()[0] == "create" for line in first.out.splitlines())
    assert registered(clean) == list(REGISTRATIONS)
    assert "matchExpressions" in webhook(clean, "mutate")["namespaceSelector"]
    again = run(clean, "install", "--dry-run", "--audit-only")
    assert {line.split()[0] for line in again.out.splitlines()} == {"unchanged"}
    enforcing = run(clean, "install", "--dry-run")
    changed = [line for line in enforcing.out.splitlines() if "unchanged" not in line]
    assert changed == [
        "  create    clusterrole/genguard-heal",
        "  create    clusterrolebinding/genguard-heal",
        f"  update    deployment/genguard -n {SYSTEM}  (spec.template.spec.containers[0].args[22])",
    ]


def test_after_a_change_of_mode_nobody_answers_in_the_other_and_no_right_is_left(
    clean: ControlPlane,
) -> None:
    for flags, mode, heals in (((), "enforcing", True), (("--audit-only",), "audit-only", False)):
        told = run(clean, "install", "--yes", *flags)
        assert f"every pod that answers is {mode}" in told.err
        pods = pods_of(clean)
        assert len(pods) == 2
        for pod in pods:
            assert ("--audit-only" in pod["spec"]["containers"][0]["args"]) is not heals
        assert (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/genguard-heal" in there(clean)
        ) is (heals)
        lines = [json.loads(line) for line in run(clean, "doctor", "-o", "json").out.splitlines()]
        told_by = {line["id"]: line["message"] for line in lines if "id" in line}
        assert told_by["mode"] == f"every pod that answers is {mode}, as deployed"
        assert told_by["phases"] == "20 of 20 dry runs were seen in all phases by one pod"


def test_a_service_of_before_changes_when_all_pods_have_what_it_selects(
    clean: ControlPlane,
) -> None:
    run(clean, "install", "--yes", "--audit-only")
    path = f"/api/v1/namespaces/{SYSTEM}/services/genguard"
    clean.client.patch(path, {"spec": {"selector": {ACTIVE: None}}})
    before = {one["metadata"]["name"] for one in pods_of(clean)}
    run(clean, "install", "--yes")
    found = clean.client.get(path).body
    assert ACTIVE in found["spec"]["selector"]
    new = [one for one in pods_of(clean) if one["metadata"]["name"] not in before]
    assert len(new) == 2
    created = max(one["metadata"]["creationTimestamp"] for one in new)
    (changed,) = {
        one["time"] for one in found["metadata"]["managedFields"] if one["manager"] == GENGUARD
    }
    assert changed >= created, "the pods that have the label were there before; whole seconds"


def test_a_second_one_is_refused_and_each_verb_says_where_the_first_is(clean: ControlPlane) -> None:
    run(clean, "install", "--yes", "--audit-only")
    before = there(clean)
    asked = webhook(clean, "mutate")["clientConfig"]
    for flags in (("--yes",), ("--dry-run",)):
        refused = run(clean, "install", "-n", "elsewhere", *flags, code=1)
        assert f"Take it out first: genguard uninstall -n {SYSTEM}" in refused.err
    refused = run(clean, "uninstall", "-n", "elsewhere", "--yes", code=1)
    assert f"the registrations lead to namespace {SYSTEM} and not to elsewhere" in refused.err
    lines = [
        json.loads(line)
        for line in run(clean, "doctor", "-n", "elsewhere", "-o", "json", code=1).out.splitlines()
    ]
    (alone,) = (line for line in lines if line.get("id") == "alone")
    assert (alone["level"], alone["fix"]) == ("fail", f"genguard doctor -n {SYSTEM}")
    assert there(clean) == before
    assert webhook(clean, "mutate")["clientConfig"] == asked


def copied(plane: ControlPlane) -> dict[str, Any]:
    """Register the server under other names as well; returns the webhooks by path."""
    made = {}
    for phase, path in REGISTRATIONS.items():
        found = plane.client.get(path).body
        folder, name = path.rpartition("/")[0], f"zzzzzz-team-{phase}"
        metadata = {"name": name, "labels": found["metadata"]["labels"]}
        plane.client.post(folder, {"metadata": metadata, "webhooks": found["webhooks"]})
        made[f"{folder}/{name}"] = found["webhooks"]
    return made


def test_uninstall_leaves_another_genguard_whole(clean: ControlPlane, guard: Genguard) -> None:
    run(clean, "install", "--yes", *outside(guard))
    others = copied(clean)
    run(clean, "uninstall", "--yes")
    assert registered(clean) == []
    for path, webhooks in others.items():
        assert clean.client.get(path).body["webhooks"] == webhooks
        clean.client.delete(path)


def test_one_of_another_name_is_found_by_its_label_and_taken_out_by_what_is_advised(
    clean: ControlPlane,
) -> None:
    run(clean, "install", "--yes", "--audit-only")
    copied(clean)
    refused = run(clean, "install", "--yes", "--audit-only", code=1)
    assert "another genguard is in this cluster" in refused.err
    told = run(clean, "doctor", "-o", "json", code=1).out
    examined = {line["id"]: line for line in map(json.loads, told.splitlines()) if "id" in line}
    alone = examined["alone"]
    assert (alone["level"], examined["order"]["level"]) == ("warn", "ok")
    _, *words = shlex.split(alone["fix"])
    assert words[0] == "delete"
    clean.kubectl(*words)
    run(clean, "install", "--yes", "--audit-only")


def test_a_dry_run_changes_nothing(plane: ControlPlane) -> None:
    before = there(plane)
    found = run(plane, "install", "--dry-run")
    assert found.out.count("create") == 21
    assert there(plane) == before


def test_without_yes_and_a_terminal_nothing_is_done(plane: ControlPlane) -> None:
    before = there(plane)
    found = run(plane, "install", code=1)
    assert "nobody is asked: give --yes" in found.err
    assert there(plane) == before


@pytest.mark.parametrize("number", by_day([signal.SIGINT, signal.SIGTERM], every=2))
def test_interrupted_while_it_registers_it_puts_everything_back(
    clean: ControlPlane, number: signal.Signals
) -> None:
    with ExitStack() as stack:
        guard = stack.enter_context(Genguard())
        # So that the phase does not end by itself.
        verb = Verb(clean, "install", "--yes", *outside(guard), at=("3/3", guard.pause))
        interrupted = stack.enter_context(verb)
        interrupted.says("3/3")
        wait_until(lambda: registered(clean), what="registered")
        interrupted.send(number)
        assert interrupted.end().code == 128 + number
        assert registered(clean) == []
        guard.go_on()


def test_what_was_registered_before_is_put_back_when_the_new_is_not_proven(
    clean: ControlPlane,
) -> None:
    with Genguard() as guard:
        run(clean, "install", "--yes", *outside(guard))
        path = REGISTRATIONS["mutate"]
        edit = [{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 7}]
        clean.client.patch(path, edit)
        flags = ("--yes", "--timeout=3s", *outside(guard))
        with Verb(clean, "install", *flags, at=("3/3", guard.pause)) as failing:
            failing.says("3/3")
            assert failing.end().code == 1
            guard.go_on()
        assert "put back" in failing.err
        assert "after 3 s: a dry run in default passed, not seen by" in failing.err
        assert webhook(clean, "mutate")["timeoutSeconds"] == 7
        run(clean, "install", "--yes", *outside(guard))
        assert webhook(clean, "mutate")["timeoutSeconds"] == 2


def test_the_api_server_says_itself_why_it_cannot_reach_the_server(
    clean: ControlPlane, guard: Genguard
) -> None:
    wrong = clean.folder / "ca.crt"  # the API server's own authority
    flags = [f"--url={guard.url('')}", f"--ca-file={wrong}", "--timeout=2s"]
    refused = run(clean, "install", "--yes", *flags, code=1)
    assert "certificate signed by unknown authority" in refused.err
    assert registered(clean) == []
    nobody = ["--url=https://127.0.0.1:9", f"--ca-file={wrong}", "--timeout=2s"]
    assert "connection refused" in run(clean, "install", "--yes", *nobody, code=1).err
    assert registered(clean) == []


def test_rules_for_custom_resources_are_kept_and_wildcards_are_not(
    clean: ControlPlane, guard: Genguard
) -> None:
    run(clean, "install", "--yes", *outside(guard))
    mine = {
        "apiGroups": ["example.com"],
        "apiVersions": ["v1"],
        "resources": ["widgets"],
        "operations": ["UPDATE"],
        "scope": "*",
    }
    wild = mine | {"apiGroups": ["*"], "resources": ["*/*"]}
    for rule in (mine, wild):
        edit = [{"op": "add", "path": "/webhooks/0/rules/-", "value": rule}]
        clean.client.patch(REGISTRATIONS["outcome"], edit)
    run(clean, "install", "--yes", *outside(guard))
    rules = webhook(clean, "outcome")["rules"]
    assert mine in rules
    assert wild not in rules


def test_a_probe_that_is_refused_after_all_have_seen_it_is_proof_enough(
    clean: ControlPlane, guard: Genguard
) -> None:
    refuse = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
    refuse["spec"] = {"hard": {"count/podtemplates": "0"}}
    quotas = "/api/v1/namespaces/default/resourcequotas"
    clean.client.post(quotas, refuse)
    try:
        wait_until(
            lambda: clean.client.get(f"{quotas}/none").body.get("status"), what="a quota in force"
        )
        done = run(clean, "install", "--yes", *outside(guard))
    finally:
        clean.client.delete(f"{quotas}/none")
    # A quota is asked after every webhook.
    assert "not proven" not in done.err
    assert registered(clean) == list(REGISTRATIONS)


def test_cert_manager_may_see_to_the_certificate(clean: ControlPlane) -> None:
    absent = run(clean, "install", "--cert-manager", "--yes", code=1)
    assert "cert-manager is not in this cluster" in absent.err
    with CertManager(clean):
        run(clean, "install", "--cert-manager", "--yes")
        assert webhook(clean, "mutate")["clientConfig"]["caBundle"]
        again = run(clean, "install", "--cert-manager", "--dry-run")
        assert {line.split()[0] for line in again.out.splitlines()} == {"unchanged"}
        assert "give --cert-manager" in run(clean, "install", "--yes", code=1).err
        run(clean, "uninstall", "--yes")


@pytest.mark.nightly
def test_a_valkey_is_installed_with_a_password_that_is_made_once_and_never_shown(
    clean: ControlPlane,
) -> None:
    planned = run(clean, "install", "--ha", "--dry-run")
    assert f"create    statefulset/genguard-valkey -n {SYSTEM}" in planned.out
    made = f"secret/genguard-store -n {SYSTEM}  (a password, not shown)"
    assert made in planned.out
    assert "secret/genguard-store" not in run(clean, "install", "--dry-run").out
    done = run(clean, "install", "--ha", "--yes")
    path = f"/api/v1/namespaces/{SYSTEM}/secrets/genguard-store"
    data = clean.client.get(path).body["data"]
    secret = b64decode(data["password"]).decode()
    assert len(secret) >= 32
    assert secret not in done.out + done.err
    sets = f"/apis/apps/v1/namespaces/{SYSTEM}/statefulsets"
    assert clean.client.get(f"{sets}/genguard-valkey").body["status"]["readyReplicas"] == 1
    again = run(clean, "install", "--ha", "--dry-run")
    assert {line.split()[0] for line in again.out.splitlines()} == {"unchanged"}
    run(clean, "install", "--ha", "--yes")
    assert clean.client.get(path).body["data"] == data
    alone = run(clean, "install", "--yes")
    assert f"delete    statefulset/genguard-valkey -n {SYSTEM}" in alone.out
    assert clean.client.get(sets).body["items"] == []
    run(clean, "install", "--ha", "--yes")
    left = run(clean, "uninstall", "--yes")
    assert f"delete    secret/genguard-store -n {SYSTEM}" in left.out
    assert "it holds" not in left.out
    *_, waited, gone = left.err.splitlines()
    assert waited.startswith("deleted; ")
    assert f"namespace/{SYSTEM} must end, half a minute or more" in waited
    assert gone == "gone"


def test_replicas_that_share_a_store_are_installed_examined_and_taken_out(
    clean: ControlPlane,
) -> None:
    with StoreServer() as server, Proxy(server.socket) as proxy:
        store = f"--store=valkey://127.0.0.1:{proxy.port}/0"
        run(clean, "install", "--ha", store, "--replicas=4", "--yes")
        path = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/genguard"
        assert clean.client.get(path).body["spec"]["replicas"] == 4
        lines = [json.loads(line) for line in run(clean, "doctor", "-o", "json").out.splitlines()]
        told = {line["id"]: line for line in lines if "id" in line}
        # No kubelet forwards a port here, so the findings could not be asked for.
        odd = {name: line["level"] for name, line in told.items() if line["level"] != "ok"}
        assert odd == {"culprits": "unknown"}
        assert told["store"]["message"] == "shared by all replicas"
        clean.client.delete(REGISTRATIONS["intent"])
        lines = [
            json.loads(line) for line in run(clean, "doctor", "-o", "json", code=1).out.splitlines()
        ]
        (fix,) = {line["fix"] for line in lines if line.get("level") == "fail"}
        assert fix == f"genguard install --ha --store {store[8:]} --replicas 4"
        run(clean, *shlex.split(fix)[1:], "--yes")
        assert registered(clean) == list(REGISTRATIONS)
        run(clean, "uninstall", "--yes")


def test_uninstall_takes_registrations_alone_when_it_is_to_be_off(clean: ControlPlane) -> None:
    run(clean, "install", "--yes")
    gone = run(clean, "uninstall", "--registrations-only", "--yes")
    assert len(gone.out.splitlines()) == 3
    assert registered(clean) == []
    assert clean.client.get(f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/genguard").body


def test_uninstall_leaves_a_namespace_that_others_use(clean: ControlPlane) -> None:
    run(clean, "install", "--yes")
    path = f"/api/v1/namespaces/{SYSTEM}/configmaps"
    clean.client.post(path, {"metadata": {"name": "somebody-elses"}})
    left = run(clean, "uninstall", "--yes")
    assert "namespace/genguard-system  (it holds configmap/somebody-elses)" in left.out
    assert clean.client.get(f"{path}/somebody-elses").body
    assert registered(clean) == []


def test_uninstall_takes_the_findings_that_the_server_has_kept(clean: ControlPlane) -> None:
    run(clean, "install", "--yes")
    path = f"/api/v1/namespaces/{SYSTEM}/configmaps"
    clean.client.post(path, {"metadata": {"name": "genguard-findings"}})
    left = run(clean, "uninstall", "--yes")
    assert f"delete    configmap/genguard-findings -n {SYSTEM}" in left.out
    assert "it holds" not in left.out
    *_, waited, gone = left.err.splitlines()
    assert waited.startswith("deleted; ")
    assert f"namespace/{SYSTEM} must end, half a minute or more" in waited
    assert gone == "gone"


def test_uninstall_of_nothing_says_so(clean: ControlPlane) -> None:
    assert "there is nothing of genguard's" in run(clean, "uninstall", "--yes").err
