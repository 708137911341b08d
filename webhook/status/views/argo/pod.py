"""When Argo CD takes a Pod for healthy: ready, or ended well.

Source: health_pod.go in gitops-engine pkg/health.
"""

from typing import Final

from webhook.status.views.argo.health import ArgoHealth, first_condition
from webhook.status.views.typed import Typed


def pod(it: Typed) -> ArgoHealth:
    """What restarts for ever may fail early; what ends is healthy only at its end, as a hook."""
    policy = it.get("spec", {}).get("restartPolicy")
    status = it.get("status", {})
    if policy == "Always" and any(map(_cannot_start, status.get("containerStatuses", []))):
        return ArgoHealth.DEGRADED
    phase = status.get("phase")
    if phase != "Running":
        return _PHASES.get(phase, ArgoHealth.UNKNOWN)
    if policy == "Always":
        return _running(status)
    once = policy in ("OnFailure", "Never")
    return ArgoHealth.PROGRESSING if once else ArgoHealth.UNKNOWN


_PHASES: Final = {
    "Pending": ArgoHealth.PROGRESSING,
    "Succeeded": ArgoHealth.HEALTHY,
    "Failed": ArgoHealth.DEGRADED,
}


def _cannot_start(container: Typed) -> bool:
    reason = container.get("state", {}).get("waiting", {}).get("reason", "")
    return bool(reason.startswith("Err") or reason.endswith(("Error", "BackOff")))


def _running(status: Typed) -> ArgoHealth:
    if first_condition(status, "Ready").get("status") == "True":
        return ArgoHealth.HEALTHY
    containers = status.get("containerStatuses", [])
    ended_before = any("terminated" in c.get("lastState", {}) for c in containers)
    return ArgoHealth.DEGRADED if ended_before else ArgoHealth.PROGRESSING
