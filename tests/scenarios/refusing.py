"""What refuses writes of a scenario: a policy that validates, a webhook that is gone, a quota."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.controlplane.client import ApiError, wait_until
from tests.controlplane.plane import ControlPlane
from tests.scenarios.scene import Json, Scene

_API = "/apis/admissionregistration.k8s.io/v1"
_POLICIES = f"{_API}/validatingadmissionpolicies"
_BINDINGS = f"{_API}/validatingadmissionpolicybindings"
_WEBHOOKS = f"{_API}/validatingwebhookconfigurations"
_REFUSED = frozenset({400, 403, 422, 500})


@contextmanager
def policy(scene: Scene, resources: list[str], expression: str) -> Iterator[None]:
    """Refuse writes for which a CEL expression is false; it must allow a ConfigMap without data."""
    name = f"refuses-{scene.namespace}"
    rules = [_rule(["*"], [*resources, "configmaps"])]
    probe = f"request.resource.resource == 'configmaps' ? !has(object.data) : ({expression})"
    spec = {
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": probe}],
        "failurePolicy": "Fail",
    }
    binding = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": _here(scene)},
    }
    client = scene.plane.client
    client.post(_POLICIES, {"metadata": {"name": name}, "spec": spec})
    client.post(_BINDINGS, {"metadata": {"name": name}, "spec": binding})
    try:
        wait_until(lambda: _is_refused(scene.plane, scene), what=f"{name} in force")
        yield
    finally:
        for path in (_BINDINGS, _POLICIES):
            client.delete(f"{path}/{name}")


@contextmanager
def webhook_that_is_gone(scene: Scene, resources: list[str]) -> Iterator[None]:
    """A validating webhook that nobody serves, with failurePolicy Fail."""
    name = f"gone-{scene.namespace}"
    hook = {
        "name": "gone.example.org",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "namespaceSelector": _here(scene),
        "rules": [_rule(["*"], [*resources, "configmaps"])],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
    }
    client = scene.plane.client
    client.post(_WEBHOOKS, {"metadata": {"name": name}, "webhooks": [hook]})
    try:
        wait_until(lambda: _is_refused(scene.plane, scene), what=f"{name} in force")
        yield
    finally:
        client.delete(f"{_WEBHOOKS}/{name}")


def quota(scene: Scene, pods: int) -> None:
    """Allow so many Pods in the namespace."""
    hard = {"pods": str(pods)}
    made = scene.create("v1/resourcequotas", {"metadata": {"name": "few"}, "spec": {"hard": hard}})
    wait_until(lambda: made.get()["status"].get("hard"), what="the quota in force")


def _rule(groups: list[str], resources: list[str]) -> Json:
    operations = ["CREATE", "UPDATE"]
    return {
        "apiGroups": groups,
        "apiVersions": ["*"],
        "resources": resources,
        "operations": operations,
    }


def _here(scene: Scene) -> Json:
    return {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}}


def _is_refused(plane: ControlPlane, scene: Scene) -> bool:
    body = {"metadata": {"name": "probe"}, "data": {"a": "b"}}
    try:
        plane.client.post(scene.collection("v1/configmaps"), body, params={"dryRun": "All"})
    except ApiError as error:
        return error.status in _REFUSED
    return False
