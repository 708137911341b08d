"""MutatingAdmissionPolicies and their bindings, as the API has them."""

from datetime import UTC, datetime
from typing import Any

BEGAN = 1_800_000_000.0
"""When a loop begins, in seconds since the epoch."""


def apply(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def rule(*resources: str, **fields: Any) -> dict[str, Any]:
    given = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"]}
    return given | {"resources": list(resources or ("deployments",))} | fields


def policy(
    name: str = "pins",
    *mutations: dict[str, Any],
    rules: list[dict[str, Any]] | None = None,
    conditions: tuple[str, ...] = (),
    constraints: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": rules or [rule()], **(constraints or {})},
            "matchConditions": [
                {"name": f"c{number}", "expression": one} for number, one in enumerate(conditions)
            ],
            "mutations": list(mutations or (apply(PINS_REPLICAS),)),
            **spec,
        },
    }


def binding(policy_name: str = "pins", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": f"{policy_name}-everywhere"},
        "spec": {"policyName": policy_name, **spec},
    }


PINS_REPLICAS = "Object{spec: Object.spec{replicas: 2}}"


def born(document: dict[str, Any], created: float, *managed: tuple[float, Any]) -> dict[str, Any]:
    """The document with its times; `managed` are times and what managers own since then."""
    entries = [{"manager": "m", "time": _at(one), "fieldsV1": owned} for one, owned in managed]
    times = {"creationTimestamp": _at(created), "managedFields": entries}
    return {**document, "metadata": {**document["metadata"], **times}}


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
