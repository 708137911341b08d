"""What Argo CD says of an object: gitops-engine pkg/health, GetResourceHealth without Lua checks.

Read at github.com/argoproj/argo-cd/gitops-engine of 2026-09-14. Most kinds are converted to their
Go type first; what does not fit, and a version that Argo CD does not know, is Unknown.
"""

from collections.abc import Callable
from typing import Final

from webhook.status.views.argo.autoscaler import autoscaler_v1, autoscaler_v2
from webhook.status.views.argo.health import ArgoHealth, first_condition, healthy_if
from webhook.status.views.argo.pod import pod
from webhook.status.views.argo.workloads import (
    daemon_set,
    deployment,
    job,
    replica_set,
    stateful_set,
)
from webhook.status.views.reading import (
    ZERO_TIME,
    Document,
    TypeMismatchError,
    kind_of,
    text,
    tolerant,
    unix_nanoseconds,
)
from webhook.status.views.typed import Typed, convert

_HOOK_FINALIZER: Final = "argocd.argoproj.io/hook-finalizer"
"""With it an object that is being deleted is judged as if it were not."""


def argo(document: Document) -> ArgoHealth | None:
    """Argo CD's word for a decoded object; None for kinds that its engine has no check for."""
    try:
        return assess(document)
    except TypeMismatchError:
        return ArgoHealth.UNKNOWN


def assess(document: Document) -> ArgoHealth | None:
    """As argo(), but raises TypeMismatchError where the health check returns an error."""
    if _deleted(document) and not is_hook(document):
        return ArgoHealth.PROGRESSING
    group, version, kind = kind_of(document)
    plain = _PLAIN.get((group, kind))
    if plain is not None:
        return plain(document)
    versions = _TYPED.get((group, kind))
    if versions is None:
        return None
    if version not in versions:
        raise TypeMismatchError("apiVersion")
    package = (group or "core").removesuffix(".k8s.io")
    return versions[version](convert(document, f"{package}/{version}.{kind}"))


def _deleted(document: Document) -> bool:
    return unix_nanoseconds(text(document, "metadata", "deletionTimestamp")) not in (
        None,
        ZERO_TIME,
    )


def is_hook(document: Document) -> bool:
    """Whether the finalizer of Argo CD's hooks stands in a list of nothing but texts."""
    finalizers = tolerant(document, "metadata", "finalizers")
    return (
        isinstance(finalizers, list)
        and all(isinstance(name, str) for name in finalizers)
        and _HOOK_FINALIZER in finalizers
    )


def _claim(it: Typed) -> ArgoHealth:
    phases = {
        "Lost": ArgoHealth.DEGRADED,
        "Pending": ArgoHealth.PROGRESSING,
        "Bound": ArgoHealth.HEALTHY,
    }
    return phases.get(it.get("status", {}).get("phase"), ArgoHealth.UNKNOWN)


def _service(it: Typed) -> ArgoHealth:
    balanced = it.get("spec", {}).get("type") == "LoadBalancer"
    return healthy_if(
        not balanced or bool(it.get("status", {}).get("loadBalancer", {}).get("ingress"))
    )


def _api_service(it: Typed) -> ArgoHealth:
    return healthy_if(first_condition(it.get("status", {}), "Available").get("status") == "True")


_TYPED: Final[dict[tuple[str, str], dict[str, Callable[[Typed], ArgoHealth]]]] = {
    ("apps", "Deployment"): {"v1": deployment},
    ("apps", "StatefulSet"): {"v1": stateful_set},
    ("apps", "ReplicaSet"): {"v1": replica_set},
    ("apps", "DaemonSet"): {"v1": daemon_set},
    ("", "Service"): {"v1": _service},
    ("", "PersistentVolumeClaim"): {"v1": _claim},
    ("", "Pod"): {"v1": pod},
    ("batch", "Job"): {"v1": job},
    ("apiregistration.k8s.io", "APIService"): {"v1": _api_service, "v1beta1": _api_service},
    ("autoscaling", "HorizontalPodAutoscaler"): {
        "v1": autoscaler_v1,
        "v2": autoscaler_v2,
    },
}
"""By group and kind, then by version."""


def _ingress(document: Document) -> ArgoHealth:
    balancer = tolerant(document, "status", "loadBalancer", "ingress")
    return healthy_if(isinstance(balancer, list) and bool(balancer))


def _workflow(document: Document) -> ArgoHealth:
    return _WORKFLOWS.get(text(document, "status", "phase"), ArgoHealth.UNKNOWN)


_WORKFLOWS: Final = {
    "": ArgoHealth.PROGRESSING,
    "Pending": ArgoHealth.PROGRESSING,
    "Running": ArgoHealth.PROGRESSING,
    "Succeeded": ArgoHealth.HEALTHY,
    "Failed": ArgoHealth.DEGRADED,
    "Error": ArgoHealth.DEGRADED,
}
_PLAIN: Final[dict[tuple[str, str], Callable[[Document], ArgoHealth]]] = {
    ("extensions", "Ingress"): _ingress,
    ("networking.k8s.io", "Ingress"): _ingress,
    ("argoproj.io", "Workflow"): _workflow,
}
"""Read without a Go type, in any version; what has another type counts as absent."""
