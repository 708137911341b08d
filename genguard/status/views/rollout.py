"""The answer of `kubectl rollout status` for an object, without --revision.

Source: k8s.io/kubectl v0.36 pkg/polymorphichelpers/rollout_status.go. kubectl converts an object of
any version to its apps/v1 type. It returns an error for an object that does not fit, and for
DaemonSets and StatefulSets whose strategy is not RollingUpdate.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from genguard.status.views.go_values import (
    Document,
    Typed,
    TypeMismatchError,
    convert,
    kind_of,
    wrap,
)


class Rollout(StrEnum):
    """kubectl exits with 0, keeps watching, or exits with an error."""

    COMPLETE = "complete"
    WAITING = "waiting"
    FAILED = "failed"


def rollout(document: Document) -> Rollout | None:
    """Return the answer of kubectl; None for kinds without a viewer and where it has an error."""
    group, _, kind = kind_of(document)
    viewer = _VIEWERS.get((group, kind))
    if viewer is None:
        return None
    try:
        return viewer(convert(document, f"apps/v1.{kind}"))
    except TypeMismatchError:
        return None


def _complete_if(done: bool) -> Rollout:  # noqa: FBT001 - it is the question
    return Rollout.COMPLETE if done else Rollout.WAITING


def _deployment(it: Typed) -> Rollout:
    spec, status = it.get("spec", {}), it.get("status", {})
    if it.get("metadata", {}).get("generation", 0) > status.get("observedGeneration", 0):
        return Rollout.WAITING
    conditions = status.get("conditions", [])
    progressing: Typed = next((c for c in conditions if c.get("type") == "Progressing"), {})
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return Rollout.FAILED
    updated = status.get("updatedReplicas", 0)
    return _complete_if(
        spec.get("replicas", updated) <= updated
        and status.get("replicas", 0) <= updated <= status.get("availableReplicas", 0)
    )


def _daemon_set(it: Typed) -> Rollout | None:
    spec, status = it.get("spec", {}), it.get("status", {})
    if spec.get("updateStrategy", {}).get("type") != "RollingUpdate":
        return None
    if it.get("metadata", {}).get("generation", 0) > status.get("observedGeneration", 0):
        return Rollout.WAITING
    least = min(status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0))
    return _complete_if(least >= status.get("desiredNumberScheduled", 0))


def _stateful_set(it: Typed) -> Rollout | None:
    spec, status = it.get("spec", {}), it.get("status", {})
    strategy = spec.get("updateStrategy", {})
    if strategy.get("type") != "RollingUpdate":
        return None
    observed = status.get("observedGeneration", 0)
    if observed == 0 or it.get("metadata", {}).get("generation", 0) > observed:
        return Rollout.WAITING
    wanted = spec.get("replicas")
    if wanted is not None and status.get("readyReplicas", 0) < wanted:
        return Rollout.WAITING
    if "rollingUpdate" in strategy:
        partition = strategy["rollingUpdate"].get("partition")
        if wanted is None or partition is None:
            return Rollout.COMPLETE
        return _complete_if(status.get("updatedReplicas", 0) >= wrap(wanted - partition, 32))
    return _complete_if(status.get("updateRevision", "") == status.get("currentRevision", ""))


_VIEWERS: Final[dict[tuple[str, str], Callable[[Typed], Rollout | None]]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "StatefulSet"): _stateful_set,
}
