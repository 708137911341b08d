"""`genguard replay` on the audit log of a real API server with a clearing webhook."""

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import Patch, WebhookListener
from tests.integration.test_controlplane_pods import (
    clears_observed_generation,
    pod,
    template,
)
from webhook.cli import main

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


def labels(request: Mapping[str, Any]) -> Patch:
    return [{"op": "add", "path": "/metadata/annotations", "value": {"seen": request["uid"]}}]


@pytest.mark.parametrize("level", ["Metadata", "Request", "RequestResponse"])
def test_the_webhook_that_clears_is_named(namespace: NamespaceFactory, level: str) -> None:
    with ControlPlane(Options(audit_level=level)) as plane:
        name = namespace(plane)
        path = f"/apis/apps/v1/namespaces/{name}/deployments"
        plane.client.post(path, DEPLOYMENT)
        with (
            WebhookListener(plane.authority, clears) as culprit,
            WebhookListener(plane.authority, labels) as innocent,
            culprit.registered(plane, name, RESOURCES, name="b-culprit"),
            innocent.registered(plane, name, RESOURCES, name="a-innocent"),
            innocent.registered(plane, name, RESOURCES, name="c-innocent"),
        ):
            for number in range(4):
                body = {"status": {"observedGeneration": 1, "replicas": number}}
                plane.client.patch(f"{path}/web/status", body)
            wait_until(lambda: len(culprit.reviews) >= 4)
        found = []

        def logged() -> bool:
            found[:] = replay(plane)
            return found[-1]["webhooks"].get("b-culprit/reviews.example.org", 0) >= 4

        wait_until(logged, timeout=20)
    findings = {one["detector"]: one for one in found if one["type"] == "finding"}
    assert found[-1]["unreadable"] == 0
    assert found[-1]["webhooks"]["a-innocent/reviews.example.org"] >= 4
    if level == "Metadata":
        assert findings.keys() == {"status-clobbered"}
        assert findings["status-clobbered"]["severity"] == "info"
        return
    assert findings.keys() == {"observed-generation-cleared"}
    cleared = findings["observed-generation-cleared"]
    assert cleared["severity"] == "warning"
    assert cleared["count"] == 4
    assert cleared["paths"] == ["/status/observedGeneration"]
    assert [(one["name"], one["confidence"]) for one in cleared["actors"]] == [
        ("b-culprit/reviews.example.org", "certain")
    ]
    assert (cleared["object"]["name"], cleared["subresource"]) == ("web", "status")


def test_an_ordinary_cluster_is_no_finding_and_a_loop_in_it_is() -> None:
    options = Options(
        controller_manager=True, scheduler=True, kwok_nodes=2, audit_level="RequestResponse"
    )
    with ControlPlane(options) as plane:
        name = "default"
        path = f"/apis/apps/v1/namespaces/{name}/deployments"
        plane.client.post(path, template("web", replicas=3))
        rollout = ("rollout", "status", "deployment/web", f"--namespace={name}", "--timeout=30s")
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
            WebhookListener(plane.authority, clears_observed_generation) as culprit,
            culprit.registered(plane, name, ["pods/status"], name="culprit"),
        ):
            plane.client.post(f"/api/v1/namespaces/{name}/pods", pod("loop"))
            wait_until(lambda: len(culprit.reviews) >= 20)
        time.sleep(1)
        found = {one["detector"]: one for one in replay(plane)[:-1] if one["severity"] != "info"}
    assert found.keys() == {"observed-generation-cleared", "status-write-storm"}
    for one in found.values():
        assert one["object"]["name"] == "loop"
        assert one["actors"][0]["name"] == "culprit/reviews.example.org"
        assert one["actors"][0]["confidence"] == "certain"


def replay(plane: ControlPlane) -> list[dict[str, Any]]:
    time.sleep(0.1)
    result = CliRunner().invoke(main, ["replay", "-o", "json", str(plane.audit_log)])
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]
