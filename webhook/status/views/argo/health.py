"""The words of Argo CD, and how its checks read a converted object."""

from enum import StrEnum

from webhook.status.views.typed import Typed


class ArgoHealth(StrEnum):
    """Argo CD's own words; Missing is said of what is not in the cluster."""

    HEALTHY = "Healthy"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    SUSPENDED = "Suspended"
    MISSING = "Missing"
    UNKNOWN = "Unknown"


def healthy_if(done: bool) -> ArgoHealth:  # noqa: FBT001 - it is the question
    """What most checks end with."""
    return ArgoHealth.HEALTHY if done else ArgoHealth.PROGRESSING


def first_condition(status: Typed, kind: str) -> Typed:
    """The first condition of a type, as Argo CD looks for it; empty if there is none."""
    return next((c for c in status.get("conditions", []) if c.get("type") == kind), {})


def unobserved(it: Typed) -> bool:
    """Whether the spec is newer than the status; a status ahead of its spec is accepted."""
    generation = it.get("metadata", {}).get("generation", 0)
    return bool(generation > it.get("status", {}).get("observedGeneration", 0))
