"""The answer of Argo CD for an object: gitops-engine pkg/health, GetResourceHealth without Lua.

Source: github.com/argoproj/argo-cd/gitops-engine on 2026-09-14, health_*.go. Most kinds are
converted to their Go type first. An object that does not fit its type is Unknown, and so is one of
a version that Argo CD does not know.
"""

import json
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

from genguard.status.names import NAMES
from genguard.status.views import go_values as go
from genguard.status.views import rollout


class ArgoHealth(StrEnum):
    """The answers of Argo CD; Missing is for objects that are not in the cluster."""

    HEALTHY = "Healthy"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    SUSPENDED = "Suspended"
    MISSING = "Missing"
    UNKNOWN = "Unknown"


def _healthy_if(done: bool) -> ArgoHealth:  # noqa: FBT001 - it is the question
    """Return Healthy when done, else Progressing: the result of most checks."""
    return ArgoHealth.HEALTHY if done else ArgoHealth.PROGRESSING


def _named(table: str, word: str | None) -> ArgoHealth:
    """Return the answer for a phase, or for what kubectl says; Unknown for any other word."""
    return ArgoHealth(NAMES[f"argo {table}"].get(word or "", ArgoHealth.UNKNOWN))


def _first_condition(status: go.Typed, kind: str) -> go.Typed:
    """Return the first condition of a type, the one that Argo CD reads; {} if there is none."""
    return next((c for c in status.get("conditions", []) if c.get("type") == kind), {})


_ANNOTATION: Final = "autoscaling.alpha.kubernetes.io/conditions"
_PATH: Final = f"metadata.annotations[{_ANNOTATION!r}]"
_LONG_S: Final = "\u017f"
"""The only other letter that Go folds into one of these names."""
_ANNOTATED: Final[go.Types] = {
    "list": {"conditions": "[]condition"},
    "condition": dict.fromkeys(("type", "status", "reason", "message"), "string"),
}


def _scaling(conditions: list[go.Typed]) -> ArgoHealth:
    unscalable = NAMES["argo unscalable"].items()
    if any((c.get("reason"), c.get("type")) in unscalable for c in conditions):
        return ArgoHealth.DEGRADED
    scaling = (c for c in conditions if c.get("status") == "True")
    return _healthy_if(any(c.get("type") in ("AbleToScale", "ScalingLimited") for c in scaling))


def _annotated(it: go.Typed) -> list[go.Typed]:
    """Return the conditions that v1 has as JSON in an annotation; raises TypeMismatchError."""
    written = it.get("metadata", {}).get("annotations", {}).get(_ANNOTATION)
    try:
        # The standard decoder takes lone surrogates and numbers of any size, as Go's does.
        found = json.loads(
            "null" if written is None else written,
            object_pairs_hook=_object,
            parse_int=float,
            parse_constant=_refuse,
        )
    except (ValueError, RecursionError) as error:
        raise go.TypeMismatchError(_PATH) from error
    return list(go.convert({"conditions": found}, "list", _ANNOTATED).get("conditions", []))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in pairs:
        name = key.replace(_LONG_S, "s").lower()
        if value is not None and isinstance(fields.get(name, ""), str):
            fields[name] = value
    return fields


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _pod(it: go.Typed) -> ArgoHealth:
    """With restartPolicy Always healthy when ready; otherwise only when it has succeeded."""
    policy = it.get("spec", {}).get("restartPolicy")
    status = it.get("status", {})
    if policy == "Always" and any(map(_cannot_start, status.get("containerStatuses", []))):
        return ArgoHealth.DEGRADED
    phase = status.get("phase")
    if phase != "Running":
        return _named("Pod", phase)
    if policy == "Always":
        return _running(status)
    once = policy in ("OnFailure", "Never")
    return ArgoHealth.PROGRESSING if once else ArgoHealth.UNKNOWN


def _cannot_start(container: go.Typed) -> bool:
    reason = container.get("state", {}).get("waiting", {}).get("reason", "")
    return bool(reason.startswith("Err") or reason.endswith(("Error", "BackOff")))


def _running(status: go.Typed) -> ArgoHealth:
    if _first_condition(status, "Ready").get("status") == "True":
        return ArgoHealth.HEALTHY
    containers = status.get("containerStatuses", [])
    ended_before = any("terminated" in c.get("lastState", {}) for c in containers)
    return ArgoHealth.DEGRADED if ended_before else ArgoHealth.PROGRESSING


def _deployment(it: go.Typed) -> ArgoHealth:
    """Suspended when paused, whatever else holds."""
    is_paused = it.get("spec", {}).get("paused")
    return ArgoHealth.SUSPENDED if is_paused else _named("rollout", rollout.deployment(it))


def _replica_set(it: go.Typed) -> ArgoHealth:
    """Degraded when a replica cannot be created; surplus replicas do not matter."""
    status = it.get("status", {})
    if rollout.unobserved(it):
        return ArgoHealth.PROGRESSING
    if _first_condition(status, "ReplicaFailure").get("status") == "True":
        return ArgoHealth.DEGRADED
    available = status.get("availableReplicas", 0)
    return _healthy_if(available >= it.get("spec", {}).get("replicas", available))


def _job(it: go.Typed) -> ArgoHealth:
    """Degraded if a condition Failed exists, even with status False; Suspended must be True."""
    conditions = it.get("status", {}).get("conditions", [])
    kinds = {condition.get("type") for condition in conditions}
    if not kinds & {"Failed", "Complete", "Suspended"}:
        return ArgoHealth.PROGRESSING
    if "Failed" in kinds:
        return ArgoHealth.DEGRADED
    suspended = any(c.get("type") == "Suspended" and c.get("status") == "True" for c in conditions)
    return ArgoHealth.SUSPENDED if suspended else ArgoHealth.HEALTHY


_HOOK_FINALIZER: Final = "argocd.argoproj.io/hook-finalizer"
"""Argo CD ignores the deletion of an object that has this finalizer."""


def argo(document: go.Document) -> ArgoHealth | None:
    """Return the answer of Argo CD for a decoded object; None for kinds without a check."""
    try:
        return assess(document)
    except go.TypeMismatchError:
        return ArgoHealth.UNKNOWN


def assess(document: go.Document) -> ArgoHealth | None:
    """Return the answer as argo() does; raises TypeMismatchError where the check has an error."""
    deleted = go.unix_seconds(go.text(document, "metadata", "deletionTimestamp"))
    if deleted not in (None, go.ZERO_TIME) and not is_hook(document):
        return ArgoHealth.PROGRESSING
    group, version, kind = go.kind_of(document)
    plain = _PLAIN.get((group, kind))
    if plain is not None:
        return plain(document)
    versions = _TYPED.get((group, kind))
    if versions is None:
        return None
    if version not in versions:
        raise go.TypeMismatchError("apiVersion")
    package = (group or "core").removesuffix(".k8s.io")
    return versions[version](go.convert(document, f"{package}/{version}.{kind}"))


def is_hook(document: go.Document) -> bool:
    """Whether the object has the finalizer of Argo CD's hooks, and all finalizers are strings."""
    finalizers = go.nested_or_absent(document, "metadata", "finalizers")
    return (
        isinstance(finalizers, list)
        and all(isinstance(name, str) for name in finalizers)
        and _HOOK_FINALIZER in finalizers
    )


def _claim(it: go.Typed) -> ArgoHealth:
    return _named("PersistentVolumeClaim", it.get("status", {}).get("phase"))


def _service(it: go.Typed) -> ArgoHealth:
    balanced = it.get("spec", {}).get("type") == "LoadBalancer"
    return _healthy_if(
        not balanced or bool(it.get("status", {}).get("loadBalancer", {}).get("ingress"))
    )


def _api_service(it: go.Typed) -> ArgoHealth:
    return _healthy_if(_first_condition(it.get("status", {}), "Available").get("status") == "True")


_TYPED: Final[dict[tuple[str, str], dict[str, Callable[[go.Typed], ArgoHealth]]]] = {
    ("apps", "Deployment"): {"v1": _deployment},
    ("apps", "StatefulSet"): {"v1": lambda it: _named("rollout", rollout.stateful_set(it))},
    ("apps", "ReplicaSet"): {"v1": _replica_set},
    ("apps", "DaemonSet"): {"v1": lambda it: _named("rollout", rollout.daemon_set(it))},
    ("", "Service"): {"v1": _service},
    ("", "PersistentVolumeClaim"): {"v1": _claim},
    ("", "Pod"): {"v1": _pod},
    ("batch", "Job"): {"v1": _job},
    ("apiregistration.k8s.io", "APIService"): {"v1": _api_service, "v1beta1": _api_service},
    ("autoscaling", "HorizontalPodAutoscaler"): {
        "v1": lambda it: _scaling(_annotated(it)),
        "v2": lambda it: _scaling(it.get("status", {}).get("conditions", [])),
    },
}
"""By group and kind, then by version."""


def _ingress(document: go.Document) -> ArgoHealth:
    balancer = go.nested_or_absent(document, "status", "loadBalancer", "ingress")
    return _healthy_if(isinstance(balancer, list) and bool(balancer))


_PLAIN: Final[dict[tuple[str, str], Callable[[go.Document], ArgoHealth]]] = {
    ("networking.k8s.io", "Ingress"): _ingress,
    ("argoproj.io", "Workflow"): lambda document: _named(
        "Workflow", go.text(document, "status", "phase")
    ),
}
"""Not converted to a Go type, in any version: a field of another type counts as absent."""
