"""The commands that end a loop are taken by the real kubectl and the real API server."""

import itertools
import shlex
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from genguard.admission.matching import read_configurations
from genguard.detection.finding import Actor, Confidence, Finding, FoundObject, Severity
from genguard.detection.fix import with_fix
from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from tests.e2e.culprits import deployment

PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
N = itertools.count()
KEPT = {"name": "kept", "expression": "true"}


def finding(detector: str, sort: str = "webhook", subresource: str = "status") -> Finding:
    name = "mmm-old/two.example.org" if sort == "webhook" else "pins"
    return Finding(
        id="f1",
        detector=detector,
        severity=Severity.WARNING,
        state="open",
        object=FoundObject("apps", "v1", "deployments", "shop", "web", "u"),
        subresource=subresource,
        paths=("/status/observedGeneration",),
        actors=(Actor(sort, name, "", Confidence.CERTAIN),),
        count=9,
        first_seen="2026-11-23T08:00:00Z",
        last_seen="2026-11-23T08:01:00Z",
        message="m",
        evidence=(),
    )


def hook(name: str, resources: list[str], **more: Any) -> dict[str, Any]:
    rule = {"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["UPDATE"]}
    return {
        "name": name,
        "rules": [{**rule, "resources": ["replicasets"]}, {**rule, "resources": resources}],
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


@pytest.fixture
def configuration(apiserver: ControlPlane) -> Iterator[dict[str, Any]]:
    body = {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "mmm-old"},
        "webhooks": [
            hook("one.example.org", ["deployments", "deployments/status"]),
            hook(
                "two.example.org",
                ["deployments", "deployments/status"],
                matchConditions=[KEPT],
                reinvocationPolicy="IfNeeded",
            ),
        ],
    }
    yield apiserver.client.post(PATH, body).body
    apiserver.client.delete(f"{PATH}/mmm-old")


def run(plane: ControlPlane, command: str) -> None:
    program, *words = shlex.split(command)
    assert program == "kubectl"
    plane.kubectl(*words)


def hooks(plane: ControlPlane) -> tuple[dict[str, Any], dict[str, Any]]:
    one, two = plane.client.get(f"{PATH}/mmm-old").body["webhooks"]
    return one, two


def test_the_rule_for_status_is_taken_out_of_this_webhook_alone(
    apiserver: ControlPlane, configuration: dict[str, Any]
) -> None:
    known = read_configurations([configuration | {"kind": "MutatingWebhookConfiguration"}])
    step, _ = with_fix(finding("observed-generation-cleared"), known).fix
    run(apiserver, step.command)
    one, two = hooks(apiserver)
    assert one["rules"] == configuration["webhooks"][0]["rules"]
    assert [each["resources"] for each in two["rules"]] == [["replicasets"], ["deployments"]]
    done = apiserver.kubectl(*shlex.split(step.command)[1:], check=False)
    assert done.returncode != 0, "the rule is another one by now"


@pytest.mark.parametrize("subresource", ["status", ""])
def test_a_condition_is_added_to_those_of_this_webhook_alone(
    apiserver: ControlPlane, configuration: dict[str, Any], subresource: str
) -> None:
    step, _ = with_fix(finding("status-clobbered", subresource=subresource)).fix
    run(apiserver, step.command)
    one, two = hooks(apiserver)
    assert one == configuration["webhooks"][0]
    names = {each["name"] for each in two["matchConditions"]}
    added = "not-status-of-deployments" if subresource else "not-deployments-shop-web"
    assert names == {"kept", added}


@pytest.mark.parametrize("subresource", ["status", ""])
def test_with_the_condition_a_webhook_whose_failure_refuses_writes_refuses_none(
    apiserver: ControlPlane, namespace: NamespaceFactory, subresource: str
) -> None:
    where, client = namespace(apiserver), apiserver.client
    found = finding("status-clobbered", subresource=subresource)
    found = replace(found, object=replace(found.object, namespace=where))
    step, _ = with_fix(found).fix
    resources = ["deployments", "deployments/status"]
    with (
        WebhookListener(apiserver.authority) as listener,
        listener.registered(apiserver, where, resources, name="mmm-old", failurePolicy="Fail"),
    ):
        run(apiserver, step.command.replace("two.example.org", "reviews.example.org"))
        path = f"/apis/apps/v1/namespaces/{where}/deployments"
        client.post(path, deployment("web"))
        made = deployment("made")
        client.post(path, made | {"metadata": {"generateName": "made-"}})
        client.post(path, deployment("other"))

        def asked() -> set[tuple[str, str]]:
            del listener.reviews[:]
            for name, below in product(("web", "other"), ("", "/status")):
                client.patch(f"{path}/{name}{below}", {"metadata": {"labels": {"n": str(next(N))}}})
            requests = [one["request"] for one in listener.reviews]
            return {(one["name"], one.get("subResource", "")) for one in requests}

        left = {"": {("other", ""), ("other", "status")}, "status": {("web", ""), ("other", "")}}
        wait_until(lambda: asked() == left[subresource], what="the condition in force")


def test_a_webhook_is_not_called_again(
    apiserver: ControlPlane, configuration: dict[str, Any]
) -> None:
    step, _ = with_fix(finding("unstable-mutation", subresource="")).fix
    run(apiserver, step.command)
    one, two = hooks(apiserver)
    assert one == configuration["webhooks"][0]
    assert two["reinvocationPolicy"] == "Never"
    assert two["rules"] == configuration["webhooks"][1]["rules"]
