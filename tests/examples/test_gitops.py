"""The pipeline of examples/gitops: its steps run here as they would run there."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import ROOT
from tests.readme.commands import Shell

GITOPS = ROOT / "examples" / "gitops"
WORKFLOW: dict[str, Any] = yaml.safe_load((GITOPS / "workflow.yaml").read_text())
JOBS = WORKFLOW["jobs"]
NOT_HERE = ("bash -ec", "(umask 077; printf", "curl ")
"""What fetches a release, the kubeconfig and the audit log."""


def steps(job: str, *, failure: bool = False) -> list[str]:
    """The commands of a job that can run here; with `failure` those after one that failed."""
    return [
        step["run"]
        for step in JOBS[job]["steps"]
        if not step.get("run", NOT_HERE[0]).startswith(NOT_HERE)
        and (step.get("if") == "failure()") is failure
    ]


@pytest.fixture
def shell(cluster: ControlPlane, namespace: NamespaceFactory, tmp_path: Path) -> Shell:
    config = tmp_path / "config"
    config.write_bytes(cluster.kubeconfig.read_bytes())
    shutil.copytree(GITOPS / "app", tmp_path / "app")
    found = Shell(tmp_path, config)
    found.run(f"kubectl config set-context --current --namespace={namespace(cluster)}")
    return found


def test_a_pull_request_is_reviewed(shell: Shell) -> None:
    (lint,) = steps("review")
    assert "0 error, 0 warning" in shell.run(lint)
    hook = shell.folder / "app" / "webhook.yaml"
    hook.write_text(hook.read_text().replace("[deployments]", '["*/*"]'))
    shell.run(lint, code=1)


def test_what_is_merged_is_applied_and_waited_for(shell: Shell) -> None:
    apply, wait = steps("deploy")
    shell.run(apply)
    assert "reached ready and settled" in shell.run(wait)
    (status,) = steps("deploy", failure=True)
    assert "Deployment/web" in shell.run(status)


@pytest.mark.parametrize(("loops", "code"), [(True, 1), (False, 0)])
def test_a_loop_in_the_audit_log_fails_the_run(shell: Shell, *, loops: bool, code: int) -> None:
    policies, replay = steps("loops")
    shell.run(policies)
    events = [_event(turn, loops=loops) for turn in range(30)]
    (shell.folder / "audit.log").write_text("".join(f"{json.dumps(one)}\n" for one in events))
    said = shell.run(replay, code=code)
    assert ("mmm-old-operator/status.example.org" in said) is loops


def _event(turn: int, *, loops: bool) -> dict[str, Any]:
    """An update of a Deployment's status, from which a webhook takes observedGeneration."""
    where = {"resource": "deployments", "namespace": "shop", "name": "web", "uid": "u"}
    where |= {"apiGroup": "apps", "apiVersion": "v1", "subresource": "status"}
    asked = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "uid": "u",
            "generation": 2,
            "resourceVersion": str(100 + turn),
        },
        "spec": {"replicas": 3},
        "status": {"replicas": turn, "observedGeneration": 2},
    }
    stored = json.loads(json.dumps(asked))
    stored["metadata"]["resourceVersion"] = str(101 + turn)
    annotations = {}
    if loops:
        del stored["status"]["observedGeneration"]
        who = {"configuration": "mmm-old-operator", "webhook": "status.example.org"}
        key = "webhook.admission.k8s.io/round_0_index_0"
        remove = [{"op": "remove", "path": "/status/observedGeneration"}]
        annotations = {
            f"mutation.{key}": json.dumps(who | {"mutated": True}),
            f"patch.{key}": json.dumps(who | {"patch": remove, "patchType": "JSONPatch"}),
        }
    time = f"2026-11-23T08:00:{turn:02d}.000000Z"
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Event",
        "level": "RequestResponse",
        "auditID": f"event-{turn}",
        "stage": "ResponseComplete",
        "requestURI": "/apis/apps/v1/namespaces/shop/deployments/web/status",
        "verb": "update",
        "user": {"username": "system:serviceaccount:kube-system:deployment-controller"},
        "objectRef": where,
        "responseStatus": {"code": 200},
        "requestObject": asked,
        "responseObject": stored,
        "requestReceivedTimestamp": time,
        "stageTimestamp": time,
        "annotations": annotations,
    }


def test_actions_are_pinned_and_jobs_are_bounded() -> None:
    for job in JOBS.values():
        assert job["timeout-minutes"] <= 30
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            if "uses" in step:
                assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"])
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert set(WORKFLOW[True]) == {"pull_request", "push", "schedule"}  # YAML 1.1 reads `on` so


def test_the_hook_of_argo_cd_has_the_rights_that_it_needs(
    cluster: ControlPlane, namespace: NamespaceFactory, shell: Shell
) -> None:
    name = namespace(cluster)
    text = (GITOPS / "argocd-postsync.yaml").read_text().replace("shop", name)
    shell.run("kubectl apply -f -" + f" <<'E'\n{text}\nE")
    shell.run(f"kubectl -n {name} apply -f app/web.yaml")
    (job,) = (one for one in yaml.safe_load_all(text) if one["kind"] == "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    token = wait_until(lambda: shell.run(f"kubectl -n {name} create token settled").strip())
    config = json.loads(shell.run("kubectl config view --raw -o json"))
    config["users"] = [{"name": "settled", "user": {"token": token}}]
    config["contexts"][0]["context"]["user"] = "settled"
    (shell.folder / "settled").write_text(json.dumps(config))
    words = [word for word in container["args"] if word != "--kubeconfig=in-cluster"]
    said = shell.run(f"genguard {shlex.join(words)} --kubeconfig=settled")
    assert "reached ready and settled" in said
