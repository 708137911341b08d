"""`genguard blame` on a real control plane: each field's writer, from all that can be known."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.controlplane.client import APPLY_PATCH, wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import Patch, WebhookListener
from tests.e2e.culprits import deployment
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered, rule
from tests.e2e.verbs import run
from webhook.cli import main

MASTERS = ["system:masters"]
LIMIT = "spec.revisionHistoryLimit"
WEBHOOK = "mmm-limits/reviews.example.org"


@pytest.fixture(scope="module")
def audited() -> Iterator[ControlPlane]:
    with ControlPlane(Options(controller_manager=True, audit_level="RequestResponse")) as plane:
        yield plane


def limits(request: Mapping[str, Any]) -> Patch:
    """Overwrites the revisionHistoryLimit that was asked for."""
    if request["operation"] == "DELETE":
        return ()
    return [{"op": "add", "path": "/spec/revisionHistoryLimit", "value": 2}]


def apply(plane: ControlPlane, path: str, image: str = "image:1") -> None:
    """As `kubectl apply --server-side` of alice does it; replicas are hers at first."""
    wanted = deployment("web", 1, image) | {"apiVersion": "apps/v1", "kind": "Deployment"}
    wanted["spec"]["revisionHistoryLimit"] = 7
    alice = plane.client.as_user("alice", MASTERS)
    params = {"fieldManager": "kubectl", "force": True}
    alice.patch(path, wanted, content_type=APPLY_PATCH, params=params)


def by_field(text: str) -> dict[str, dict[str, Any]]:
    return {one["field"]: one for one in json.loads(text)["fields"]}


def test_each_field_names_its_writer_and_who_deleted_it_is_in_the_audit_log(
    audited: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(audited)
    path = f"/apis/apps/v1/namespaces/{name}/deployments/web"
    bob = audited.client.as_user("bob", MASTERS)
    here = ("-n", name)
    with (
        Genguard("--audit-only", f"--kubeconfig={audited.kubeconfig}") as guard,
        WebhookListener(audited.authority, limits) as listener,
        listener.registered(audited, name, ("deployments",), name="mmm-limits"),
        registered(audited, name, guard),
    ):
        for number in range(5):
            apply(audited, path, f"image:{number}")
        scale = bob.get(f"{path}/scale").body
        bob.put(f"{path}/scale", scale | {"spec": {"replicas": 3}})
        wait_until(lambda: bob.get(path).body["status"].get("observedGeneration"), what="status")
        wait_until(lambda: "mmm-limits" in guard.ops("/api/findings")[1], what="a finding")

        found = by_field(run(audited, "blame", "deploy/web", "-o", "json", *here).out)
        replicas = found["spec.replicas"]["writer"]
        assert replicas["through"] == "Update /scale"
        assert found["spec.template.spec.containers[c].image"]["writer"]["manager"] == "kubectl"
        available = found["status.conditions[Available].status"]["writer"]
        assert available["manager"] == "kube-controller-manager"
        assert "user" not in replicas

        server = f"--server={guard.ops_url}"
        found = by_field(run(audited, "blame", "deploy/web", "-o", "json", server, *here).out)
        image = found["spec.template.spec.containers[c].image"]["writer"]
        assert (image["user"], image["manager"], image["exact"]) == ("alice", "kubectl", True)
        observed = found["status.observedGeneration"]["writer"]
        assert observed["user"].endswith("deployment-controller")
        assert found[LIMIT]["changedBy"][0]["name"] == WEBHOOK
        assert "changedBy" not in found["spec.replicas"]

        shown = run(audited, "blame", "deploy/web", LIMIT, server, *here)
        assert WEBHOOK in shown.out
        assert "spec.replicas" not in shown.out
        text = run(audited, "blame", "deploy/web", "-o", "annotated", server, *here).out
        stored = audited.client.get(path).body
        del stored["metadata"]["managedFields"]
        assert yaml.safe_load(text)["spec"] == stored["spec"]

        bob.delete(path)
        gone = run(audited, "blame", "deploy/web", server, *here, code=2)
        assert f"genguard blame -f AUDIT-LOG deployments.apps/web -n {name}" in gone.err

    log = f"--filename={audited.audit_log}"
    told = offline(log, "deploy/web", "-n", name)
    assert told["exists"] is False
    actions = [(one["what"], one["by"]["user"]) for one in told["actions"]]
    assert actions == [("created", "alice"), ("scaled", "bob"), ("deleted", "bob")]
    found = {one["field"]: one for one in told["fields"]}
    assert found["spec.replicas"]["writer"]["through"] == "update /scale"
    assert found["spec.template.spec.containers[c].image"]["writer"]["user"] == "alice"
    assert found[LIMIT]["changedBy"][0] == {
        "type": "webhook", "name": WEBHOOK, "confidence": "certain",
    }  # fmt: skip
    available = found["status.conditions[Available].status"]["writer"]
    assert available["user"].endswith("deployment-controller")


def test_who_writes_a_field_back_is_known_before_the_next_apply(
    audited: ControlPlane, namespace: NamespaceFactory, tmp_path: Path
) -> None:
    name = namespace(audited)
    path = f"/apis/apps/v1/namespaces/{name}/deployments/web"
    operator = audited.client.as_user("operator", MASTERS)
    manifest = tmp_path / "web.yaml"
    wanted = deployment("web", 1, "image:1") | {"apiVersion": "apps/v1", "kind": "Deployment"}
    wanted["spec"]["revisionHistoryLimit"] = 7
    manifest.write_text(json.dumps(wanted))
    with (
        Genguard("--audit-only", f"--kubeconfig={audited.kubeconfig}") as guard,
        registered(audited, name, guard),
    ):
        for _ in range(3):
            apply(audited, path)
            change = {"spec": {"revisionHistoryLimit": 2}}
            operator.patch(path, change, params={"fieldManager": "operator"})
        apply(audited, path)
        asked = ("converge", f"--filename={manifest}", "-n", name, "-o", "json")
        unknown = json.loads(run(audited, *asked).out)
        assert LIMIT not in [one["field"] for one in unknown["contested"]]
        for source in (f"--audit={audited.audit_log}", f"--server={guard.ops_url}"):
            found = json.loads(run(audited, *asked, source, code=1).out)["contested"]
            (fight,) = [one for one in found if one["level"] == "fight"]
            assert (fight["contest"], fight["field"]) == ("owned-by-another", LIMIT)
            assert fight["actors"][0]["name"] == "operator"
            assert fight["actors"][0]["confidence"] == "likely"


def test_what_a_webhook_takes_from_each_new_pod_is_told(
    audited: ControlPlane, namespace: NamespaceFactory, tmp_path: Path
) -> None:
    name, manifest = namespace(audited), tmp_path / "web.yaml"
    root, here = f"/api/v1/namespaces/{name}", ("-n", name)
    wait_until(lambda: audited.client.get(f"{root}/serviceaccounts/default"), what="the account")
    wanted = deployment("web", 1) | {"apiVersion": "apps/v1", "kind": "Deployment"}
    spec = wanted["spec"]["template"]["spec"]
    spec["initContainers"] = [{"name": "proxy", "image": "image:1", "restartPolicy": "Always"}]
    manifest.write_text(json.dumps(wanted))
    rules, field = [rule(["pods"], ["CREATE"])], "spec.initContainers[proxy].restartPolicy"
    path = "/spec/initContainers/0/restartPolicy"  # as a type from before sidecars does (KEP-753)
    webhook = {"type": "webhook", "name": "mmm-old-pods/reviews.example.org"}
    converge = ("converge", f"--filename={manifest}", "-o", "json", *here)
    with (
        WebhookListener(audited.authority, lambda _: [{"op": "remove", "path": path}]) as listener,
        listener.registered(audited, name, name="mmm-old-pods", rules=rules),
    ):
        (fight,) = json.loads(run(audited, *converge, code=1).out)["contested"]
        assert (fight["contest"], fight["field"]) == ("taken-from-pods", f"spec.template.{field}")
        assert fight["actors"] == [webhook | {"confidence": "certain"}]
        assert not audited.client.get(f"{root}/pods").body["items"]
        audited.client.post(f"/apis/apps/v1/namespaces/{name}/deployments", wanted)
        (pod,) = wait_until(lambda: audited.client.get(f"{root}/pods").body["items"], what="a pod")
        target = f"pod/{pod['metadata']['name']}"
        (row,) = by_field(run(audited, "blame", target, field, "-o", "json", *here).out).values()
        assert (row["removed"], row["writer"]["manager"]) == (True, "kube-controller-manager")
        assert row["changedBy"] == [webhook | {"confidence": "likely"}]
        poked = json.loads(run(audited, "trace", target, "--poke", "-o", "json", *here).out)
        fields = {"spec.initContainers[*].restartPolicy": "removed"}
        assert poked["creation"] == {"webhooks": [webhook["name"]], "fields": fields}
        assert "give --poke" in run(audited, "trace", target, *here).out
        assert len(audited.client.get(f"{root}/pods").body["items"]) == 1
        spec["serviceAccountName"] = "absent"
        manifest.write_text(json.dumps(wanted))
        assert "is not tried" in run(audited, *converge).err
    (row,) = offline(f"--filename={audited.audit_log}", target, field, *here)["fields"]
    assert row["changedBy"] == [webhook | {"confidence": "certain"}]


def offline(*arguments: str) -> dict[str, Any]:
    """Reads a log without a cluster."""
    done = CliRunner().invoke(main, ["blame", *arguments, "-o", "json"])
    assert done.exit_code == 0, (done.output, done.exception)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
