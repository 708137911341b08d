"""`genguard replay` on the audit log of a real API server with a clearing webhook."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tests.controlplane.client import wait_until
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import Patch, WebhookListener
from tests.integration.test_controlplane import pod
from tests.scenarios.recording import DEFINITIONS
from webhook.cli import main

ROOT = Path(__file__).parents[2]

RESOURCES = ["deployments/status"]
DEPLOYMENT = {
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "image:1"}]},
        },
    },
}


def clears(request: Mapping[str, Any]) -> Patch:
    if "observedGeneration" not in (request["object"].get("status") or {}):
        return ()
    return [{"op": "remove", "path": "/status/observedGeneration"}]


def template(name: str, **spec: Any) -> dict[str, Any]:
    inner = pod()
    inner["spec"].pop("restartPolicy")
    selector = {"matchLabels": {"app": "a"}}
    return {"metadata": {"name": name}, "spec": {"selector": selector, "template": inner, **spec}}


def test_an_ordinary_cluster_is_no_finding_and_a_loop_in_it_is() -> None:
    options = Options(
        controller_manager=True, scheduler=True, kwok_nodes=2, audit_level="RequestResponse"
    )
    with ControlPlane(options) as plane:
        name = "default"
        path = f"/apis/apps/v1/namespaces/{name}/deployments"
        plane.client.post(path, template("web", replicas=3))
        rollout = ("rollout", "status", "deployment/web", f"--namespace={name}", "--timeout=120s")
        for replicas in (3, 5, 2):
            plane.client.patch(f"{path}/web", {"spec": {"replicas": replicas}})
            plane.kubectl(*rollout)
        plane.kubectl("rollout", "restart", "deployment/web", f"--namespace={name}")
        plane.kubectl(*rollout)
        time.sleep(1)
        *findings, summary = replay(plane)
        assert summary["events"] > 300
        assert not [one for one in findings if one["severity"] != "info"]

        with (
            WebhookListener(plane.authority, clears) as culprit,
            culprit.registered(plane, name, ["pods/status"], name="culprit"),
        ):
            plane.client.post(f"/api/v1/namespaces/{name}/pods", pod("loop"))
            wait_until(lambda: len(culprit.reviews) >= 20)
        time.sleep(1)
        found = {one["detector"]: one for one in replay(plane)[:-1] if one["severity"] != "info"}
    # With many writes, it is also reported as stalled, as in reviews.
    found.pop("observed-generation-stalled", None)
    assert found.keys() == {"observed-generation-cleared", "status-write-storm"}
    for one in found.values():
        assert one["object"]["name"] == "loop"
        assert one["actors"][0]["name"] == "culprit/reviews.example.org"
        assert one["actors"][0]["confidence"] == "certain"


def test_the_documented_policy_and_command_find_a_loop(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "audit-logs.md").read_text()
    (policy,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    command, _ = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    (tmp_path / "policy.yaml").write_text(policy)
    shutil.copy(DEFINITIONS, tmp_path / "crds.yaml")
    (tmp_path / "policies.yaml").write_text("kind: List\nitems: []\n")
    flag = f"--audit-policy-file={tmp_path}/policy.yaml"
    with ControlPlane(Options(audit_level="Metadata", apiserver_flags=(flag,))) as plane:
        path = "/apis/apps/v1/namespaces/default/deployments"
        plane.client.post(path, DEPLOYMENT)
        plane.client.post("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
        with (
            WebhookListener(plane.authority, clears) as culprit,
            culprit.registered(plane, "default", RESOURCES, name="culprit"),
        ):
            for number in range(4):
                body = {"status": {"observedGeneration": 1, "replicas": number}}
                plane.client.patch(f"{path}/web/status", body)
        log = plane.audit_log.read_bytes()
    begin = log.index(b"\n", len(log) // 2) + 1
    (tmp_path / "audit-2026-11-20.log.gz").write_bytes(gzip.compress(log[:begin]))
    (tmp_path / "audit.log").write_bytes(log[begin:])
    events = [json.loads(line) for line in log.splitlines()]
    levels = {one["objectRef"]["resource"]: one["level"] for one in events if "objectRef" in one}
    assert (levels["deployments"], levels["secrets"]) == ("RequestResponse", "Metadata")
    assert "get" not in {one["verb"] for one in events}
    assert b"managedFields" not in log
    done = subprocess.run(
        ["bash", "-c", command.replace("genguard", f"{sys.executable} -m webhook", 1)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert "culprit/reviews.example.org (certain)" in done.stdout
    assert "4x" in done.stdout


def replay(plane: ControlPlane) -> list[dict[str, Any]]:
    time.sleep(0.1)
    result = CliRunner().invoke(main, ["replay", "-o", "json", str(plane.audit_log)])
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]
