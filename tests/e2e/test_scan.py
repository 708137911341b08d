"""`genguard scan` on a real cluster: it names who strips, who fights and what is stuck."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.beside import Again
from tests.controlplane.fixtures import NamespaceFactory, unique
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import Patch, WebhookListener
from tests.e2e.account import Account
from tests.e2e.culprits import deployment
from tests.e2e.tracing import annotates
from tests.e2e.verbs import Verb

RBAC = "/apis/rbac.authorization.k8s.io/v1"
READS = ("get", "list", "watch")
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
Json = dict[str, Any]


def strips(request: Mapping[str, Any]) -> Patch:
    """Leaves out what a type of Kubernetes 1.27 does not know."""
    return [
        {"op": "remove", "path": f"/spec/initContainers/{index}/restartPolicy"}
        for index, one in enumerate(request["object"]["spec"].get("initContainers", ()))
        if "restartPolicy" in one
    ]


@pytest.fixture
def accounts(cluster: ControlPlane, tmp_path: Path) -> Iterator[tuple[Account, Account]]:
    """Who may read everything and create it, and who may only read it."""
    found, name = [], unique("scan")
    with ExitStack() as stack:
        for who, verbs in ((f"{name}-all", (*READS, "create")), (f"{name}-read", READS)):
            rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": [*verbs]}]
            subject = {"kind": "ServiceAccount", "name": who, "namespace": "default"}
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": who}
            named = {"metadata": {"name": who}}
            for path, body in (
                ("/api/v1/namespaces/default/serviceaccounts", {}),
                (f"{RBAC}/clusterroles", {"rules": rules}),
                (f"{RBAC}/clusterrolebindings", {"roleRef": role, "subjects": [subject]}),
            ):
                cluster.client.post(path, named | body)
                stack.callback(cluster.client.delete, f"{path}/{who}")
            made = Account(cluster, "default", tmp_path / who, who)
            stack.callback(made.client.close)
            found.append(made)
        yield found[0], found[1]


def writes(plane: ControlPlane, account: Account) -> list[str]:
    """The URIs of what an account has asked to be written, as the API server has audited them."""
    user = f"system:serviceaccount:default:{account.kubeconfig.name}"
    events = map(json.loads, plane.audit_log.read_text().splitlines())
    return [
        one["requestURI"]
        for one in events
        if one["verb"] in WRITES and one["user"]["username"] == user
    ]


def test_a_scan_names_who_strips_who_fights_and_what_is_stuck_and_stores_nothing(
    cluster: ControlPlane, namespace: NamespaceFactory, accounts: tuple[Account, Account]
) -> None:
    harmed, other = namespace(cluster), namespace(cluster)
    client, path = cluster.client, f"/api/v1/namespaces/{harmed}/configmaps"
    client.post(path, {"metadata": {"name": "settings"}, "data": {"a": "0"}})
    stuck = deployment("stuck")
    stuck["spec"]["template"]["spec"]["nodeSelector"] = {"example.org/nowhere": "yes"}
    client.post(f"/apis/apps/v1/namespaces/{harmed}/deployments", stuck)

    def fight(turn: int) -> None:
        manager = {"fieldManager": ("helm", "operator")[turn % 2]}
        client.patch(f"{path}/settings", {"data": {"a": str(turn % 2)}}, params=manager)

    old, good = unique("old-injector"), unique("good")
    key = "kubernetes.io/metadata.name"
    both = {"matchExpressions": [{"key": key, "operator": "In", "values": [harmed, other]}]}
    words = ("scan", "--timeout=20s", "-o", "json")
    with (
        WebhookListener(cluster.authority, strips) as stripping,
        WebhookListener(cluster.authority, annotates) as annotating,
        stripping.registered(cluster, harmed, ["pods"], old),
        annotating.registered(cluster, harmed, ["pods"], good, namespaceSelector=both),
        Again(fight, 0.5),
        Verb(cluster, *words, f"--kubeconfig={accounts[0].kubeconfig}") as scan,
        Verb(cluster, *words, f"--kubeconfig={accounts[1].kubeconfig}") as reading,
    ):
        scan.ends(1)
        reading.ends(1)

    def named(verb: Verb) -> dict[str, Json]:
        lines = map(json.loads, verb.out.splitlines())
        mine = (one for one in lines if harmed in json.dumps(one) or old in json.dumps(one))
        return {one["found"]: one for one in mine}

    found = named(scan)
    stripped, fought = found["field-stripped"], found["spec-fight"]
    assert stripped["severity"] == "critical"
    assert [(one["name"], one["confidence"]) for one in stripped["actors"]] == [
        (f"{old}/reviews.example.org", "certain")
    ]
    assert stripped["paths"] == ["/spec/initContainers/*/restartPolicy"]
    assert stripped["message"].endswith("the API of Kubernetes 1.27 or older")
    assert {one["name"] for one in fought["actors"]} == {"helm", "operator"}
    assert fought["paths"] == ["/data/a"]
    assert found["stuck"]["about"] == f"Deployment/stuck -n {harmed}"
    assert "Unschedulable" in found["stuck"]["message"]
    assert "objects of 13 kinds as dry runs" in scan.err

    without_right = named(reading)
    assert without_right.keys() & {"field-stripped", "spec-fight", "stuck"} == {
        "spec-fight",
        "stuck",
    }
    assert "you may not create it" in reading.err

    asked = writes(cluster, accounts[0])
    assert len(asked) >= 13
    assert all("dryRun=All" in one for one in asked)


def test_a_cluster_that_cannot_be_asked_is_told_apart_from_one_that_is_well(
    apiserver: ControlPlane, tmp_path: Path
) -> None:
    nobody = apiserver.write_kubeconfig(tmp_path / "kubeconfig", "no-token")
    with Verb(apiserver, "scan", "--timeout=1s", f"--kubeconfig={nobody}") as scan:
        scan.ends(2)
    assert "log in again" in scan.err or "Unauthorized" in scan.err
