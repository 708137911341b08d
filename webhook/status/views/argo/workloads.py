"""When Argo CD takes a workload for healthy.

Source: health_deployment.go, health_replicaset.go, health_statefulset.go, health_daemonset.go and
health_job.go in gitops-engine pkg/health. Paused, OnDelete and partitioned are each their own.
"""

from webhook.status.views.argo.health import ArgoHealth, first_condition, healthy_if, unobserved
from webhook.status.views.reading import wrap
from webhook.status.views.typed import Typed


def deployment(it: Typed) -> ArgoHealth:
    """Paused is Suspended before anything else; past its deadline Degraded."""
    spec, status = it.get("spec", {}), it.get("status", {})
    if spec.get("paused"):
        return ArgoHealth.SUSPENDED
    if unobserved(it):
        return ArgoHealth.PROGRESSING
    if first_condition(status, "Progressing").get("reason") == "ProgressDeadlineExceeded":
        return ArgoHealth.DEGRADED
    updated = status.get("updatedReplicas", 0)
    return healthy_if(
        spec.get("replicas", updated) <= updated
        and status.get("replicas", 0) <= updated <= status.get("availableReplicas", 0)
    )


def replica_set(it: Typed) -> ArgoHealth:
    """Surplus replicas are not looked at; one that cannot be made is Degraded."""
    status = it.get("status", {})
    if unobserved(it):
        return ArgoHealth.PROGRESSING
    if first_condition(status, "ReplicaFailure").get("status") == "True":
        return ArgoHealth.DEGRADED
    available = status.get("availableReplicas", 0)
    return healthy_if(available >= it.get("spec", {}).get("replicas", available))


def stateful_set(it: Typed) -> ArgoHealth:
    """With `rollingUpdate` set only the partition counts, and OnDelete only the ready Pods."""
    spec, status = it.get("spec", {}), it.get("status", {})
    if status.get("observedGeneration", 0) == 0 or unobserved(it):
        return ArgoHealth.PROGRESSING
    wanted = spec.get("replicas")
    if wanted is not None and status.get("readyReplicas", 0) < wanted:
        return ArgoHealth.PROGRESSING
    strategy = spec.get("updateStrategy", {})
    if strategy.get("type") == "RollingUpdate" and "rollingUpdate" in strategy:
        partition = strategy["rollingUpdate"].get("partition")
        if wanted is None or partition is None:
            return ArgoHealth.HEALTHY
        return healthy_if(status.get("updatedReplicas", 0) >= wrap(wanted - partition, 32))
    return healthy_if(
        strategy.get("type") == "OnDelete"
        or status.get("updateRevision", "") == status.get("currentRevision", "")
    )


def daemon_set(it: Typed) -> ArgoHealth:
    """OnDelete is healthy with nothing ready."""
    status = it.get("status", {})
    if unobserved(it):
        return ArgoHealth.PROGRESSING
    if it.get("spec", {}).get("updateStrategy", {}).get("type") == "OnDelete":
        return ArgoHealth.HEALTHY
    least = min(status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0))
    return healthy_if(least >= status.get("desiredNumberScheduled", 0))


def job(it: Typed) -> ArgoHealth:
    """Only Suspended is asked for its status; Failed=False is a failure too."""
    conditions = it.get("status", {}).get("conditions", [])
    kinds = {condition.get("type") for condition in conditions}
    if not kinds & {"Failed", "Complete", "Suspended"}:
        return ArgoHealth.PROGRESSING
    if "Failed" in kinds:
        return ArgoHealth.DEGRADED
    suspended = any(c.get("type") == "Suspended" and c.get("status") == "True" for c in conditions)
    return ArgoHealth.SUSPENDED if suspended else ArgoHealth.HEALTHY
