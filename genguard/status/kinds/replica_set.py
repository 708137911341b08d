"""ReplicaSets and ReplicationControllers: exactly spec.replicas pods, all available.

Reads    spec.replicas; status.replicas, readyReplicas, availableReplicas; condition ReplicaFailure.
Source   kubernetes pkg/controller/replicaset/replica_set_utils.go:calculateStatus.
"""

from typing import Final

from genguard.status.checked_object import FALSE, CheckedObject, read_conditions
from genguard.status.kind_rule import (
    KindRule,
    KindRules,
    KindVerdict,
    completed_share,
    require_exactly,
)
from genguard.status.view import Blocks, Reason


def evaluate_replica_set(obj: CheckedObject) -> KindVerdict:
    """Compare the counters; Red when pods cannot be created or deleted and none is available.

    Ready    replicas, readyReplicas and availableReplicas are spec.replicas; ReplicaFailure is not
             True
    Settled  the same
    """
    verdict, reasons = _compare_counters(obj)
    failure = read_conditions(obj).true("ReplicaFailure")
    if failure is None:
        return verdict
    reasons.append(failure.blocking(FALSE))
    return verdict._replace(broken=verdict.progress == 0)


def evaluate_replication_controller(obj: CheckedObject) -> KindVerdict:
    """Compare the counters; ReplicaFailure is only Yellow, because the Ready table ignores it.

    Ready    replicas, readyReplicas and availableReplicas are spec.replicas
    Settled  the same
    """
    verdict, reasons = _compare_counters(obj)
    failure = read_conditions(obj).true("ReplicaFailure")
    if failure is None:
        return verdict
    reasons.append(failure.blocking("", Blocks.NOTHING))
    return verdict._replace(broken=verdict.progress == 0, degraded=True)


def _compare_counters(obj: CheckedObject) -> tuple[KindVerdict, list[Reason]]:
    desired = obj.desired()
    replicas = obj.count("replicas")
    ready = obj.count("readyReplicas")
    available = obj.count("availableReplicas")
    reasons: list[Reason] = []
    if not desired == replicas == ready == available:
        require_exactly(reasons, "replicas", replicas, desired)
        require_exactly(reasons, "readyReplicas", ready, desired)
        require_exactly(reasons, "availableReplicas", available, desired)
    return KindVerdict(reasons, progress=completed_share(desired, ready, available)), reasons


RULES: Final[KindRules] = {
    ("", "ReplicationController"): KindRule(
        evaluate_replication_controller, always_observed=True, counts_replicas=True
    ),
    ("apps", "ReplicaSet"): KindRule(
        evaluate_replica_set,
        always_observed=True,
        counts_replicas=True,
        waits_for_terminating=True,
    ),
}
