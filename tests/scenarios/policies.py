"""MutatingAdmissionPolicies of a scenario, in force while a context is entered."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tests.scenarios.scene import Policy

_API = "/apis/admissionregistration.k8s.io/v1"
_POLICIES, _BINDINGS = (
    f"{_API}/mutatingadmissionpolicies",
    f"{_API}/mutatingadmissionpolicybindings",
)
_PROBE = "genguard.io/test-policy"


@contextmanager
def bound(plane: ControlPlane, namespace: str, policy: Policy) -> Iterator[None]:
    """Makes a policy and its binding; returns when the API server acts on them.

    It learns of them some time after it has stored them: a second policy, made after the first,
    labels a ConfigMap.
    """
    probe = Policy(
        f"{policy.name}-probe",
        ("configmaps",),
        "true",
        {
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {
                "expression": f'Object{{metadata: Object.metadata{{labels: {{"{_PROBE}": "on"}}}}}}'
            },
        },
    )
    for one in (policy, probe):
        plane.client.post(_POLICIES, _policy(one))
        plane.client.post(_BINDINGS, _binding(one, namespace))
    try:
        wait_until(lambda: _is_labelled(plane, namespace), what=f"{policy.name} in force")
        _delete(plane, probe)
        yield
    finally:
        _delete(plane, policy)


def _delete(plane: ControlPlane, policy: Policy) -> None:
    for path in (_BINDINGS, _POLICIES):
        plane.client.delete(f"{path}/{policy.name}")


def _is_labelled(plane: ControlPlane, namespace: str) -> bool:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    made = plane.client.post(path, {"metadata": {"name": "probe"}}, params={"dryRun": "All"}).body
    return _PROBE in made["metadata"].get("labels", {})


def _policy(policy: Policy) -> dict[str, Any]:
    rule = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": list(policy.resources),
    }
    return {
        "metadata": {"name": policy.name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "when", "expression": policy.condition}],
            "mutations": [policy.mutation],
            "reinvocationPolicy": "Never",
            "failurePolicy": "Fail",
        },
    }


def _binding(policy: Policy, namespace: str) -> dict[str, Any]:
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    return {
        "metadata": {"name": policy.name},
        "spec": {"policyName": policy.name, "matchResources": {"namespaceSelector": here}},
    }
