"""The answer of `kubectl rollout status` for an object, without --revision.

Source: k8s.io/kubectl v0.36 pkg/polymorphichelpers/rollout_status.go. kubectl converts an object of
any version to its apps/v1 type. It returns an error for an object that does not fit, and for
DaemonSets and StatefulSets whose strategy is not RollingUpdate.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from genguard.status.views import go_values as go


class Rollout(StrEnum):
    """kubectl exits with 0, keeps watching, or exits with an error."""

    COMPLETE = "complete"
    WAITING = "waiting"
    FAILED = "failed"


def rollout(document: go.Document) -> Rollout | None:
    """Return the answer of kubectl; None for kinds without a viewer and where it has an error."""
    group, _, kind = go.kind_of(document)
    viewer = _VIEWERS.get((group, kind))
    if viewer is None:
        return None
    try:
        it = go.convert(document, f"apps/v1.{kind}")
    except go.TypeMismatchError:
        return None
    if viewer is not deployment and _strategy(it).get("type") != "RollingUpdate":
        return None
    return viewer(it)


def _complete_if(done: bool) -> Rollout:  # noqa: FBT001 - it is the question
    return Rollout.COMPLETE if done else Rollout.WAITING


def _strategy(it: go.Typed) -> go.Typed:
    return it.get("spec", {}).get("updateStrategy", {})  # type: ignore[no-any-return]  # a struct


def unobserved(it: go.Typed) -> bool:
    """Whether status is behind spec; an observedGeneration that is ahead is accepted."""
    generation = it.get("metadata", {}).get("generation", 0)
    return bool(generation > it.get("status", {}).get("observedGeneration", 0))


def deployment(it: go.Typed) -> Rollout:
    """Return how far a converted Deployment is; FAILED past its progress deadline."""
    spec, status = it.get("spec", {}), it.get("status", {})
    if unobserved(it):
        return Rollout.WAITING
    conditions = status.get("conditions", [])
    progressing: go.Typed = next((c for c in conditions if c.get("type") == "Progressing"), {})
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return Rollout.FAILED
    updated = status.get("updatedReplicas", 0)
    return _complete_if(
        spec.get("replicas", updated) <= updated
        and status.get("replicas", 0) <= updated <= status.get("availableReplicas", 0)
    )


def daemon_set(it: go.Typed) -> Rollout:
    """Return how far a converted DaemonSet is; with OnDelete it is complete once observed."""
    status = it.get("status", {})
    if unobserved(it) or _strategy(it).get("type") == "OnDelete":
        return _complete_if(not unobserved(it))
    least = min(status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0))
    return _complete_if(least >= status.get("desiredNumberScheduled", 0))


def stateful_set(it: go.Typed) -> Rollout:
    """Return how far a converted StatefulSet is: with `rollingUpdate` the partition decides."""
    status, strategy, wanted = (
        it.get("status", {}),
        _strategy(it),
        it.get("spec", {}).get("replicas"),
    )
    if status.get("observedGeneration", 0) == 0 or unobserved(it):
        return Rollout.WAITING
    if wanted is not None and status.get("readyReplicas", 0) < wanted:
        return Rollout.WAITING
    if strategy.get("type") == "RollingUpdate" and "rollingUpdate" in strategy:
        partition = strategy["rollingUpdate"].get("partition")
        if wanted is None or partition is None:
            return Rollout.COMPLETE
        return _complete_if(status.get("updatedReplicas", 0) >= go.wrap(wanted - partition, 32))
    return _complete_if(
        strategy.get("type") == "OnDelete"
        or status.get("updateRevision", "") == status.get("currentRevision", "")
    )


_VIEWERS: Final[dict[tuple[str, str], Callable[[go.Typed], Rollout]]] = {
    ("apps", "Deployment"): deployment,
    ("apps", "DaemonSet"): daemon_set,
    ("apps", "StatefulSet"): stateful_set,
}
