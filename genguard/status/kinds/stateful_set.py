"""StatefulSets: every pod is ready, and as many are updated as the update strategy requires.

Reads    spec.replicas, updateStrategy; status counts, currentRevision and updateRevision.
Amends   the Ready table: with a partition, also 0, updatedReplicas decides, as in kubectl. With
         OnDelete readyReplicas decides: a pod is updated only when somebody deletes it.
Source   kubernetes pkg/controller/statefulset/stateful_set_control.go:updateStatefulSet,
         completeRollingUpdate; kubectl pkg/polymorphichelpers/rollout_status.go.
"""

from typing import Final

from genguard.status.checked_object import COUNT, CheckedObject, WrongTypeError
from genguard.status.kind_rule import (
    KindRule,
    KindRules,
    KindVerdict,
    completed_share,
    require_at_least,
    require_exactly,
)
from genguard.status.view import Blocks, Reason, remark


def evaluate_stateful_set(obj: CheckedObject) -> KindVerdict:
    """Compare the counters as the update strategy requires.

    Ready    replicas and readyReplicas are spec.replicas; with a partition updatedReplicas is at
             least spec.replicas minus the partition, else currentReplicas is spec.replicas and
             the revisions are equal; OnDelete requires no update
    Settled  the same, and availableReplicas, if present, is not lower than spec.replicas
    """
    desired = obj.desired()
    replicas, ready = obj.count("replicas"), obj.count("readyReplicas")
    reasons: list[Reason] = []
    require_exactly(reasons, "replicas", replicas, desired)
    require_exactly(reasons, "readyReplicas", ready, desired)
    if obj.status.get("availableReplicas") is not None:
        available = obj.count("availableReplicas")
        require_at_least(reasons, "availableReplicas", available, desired, Blocks.SETTLED)
    strategy = obj.inner("spec", "updateStrategy").get("type")
    if strategy == "OnDelete":
        _remark_old_pods(obj, reasons, replicas)
        return KindVerdict(reasons, progress=completed_share(desired, ready))
    return KindVerdict(reasons, progress=_add_rolling_update(obj, reasons, desired, ready))


def _add_rolling_update(
    obj: CheckedObject, reasons: list[Reason], desired: int, ready: int
) -> float:
    """Add what the rolling update still lacks; return the completed share."""
    partition = obj.inner("spec", "updateStrategy", "rollingUpdate").get("partition")
    if partition is not None and (type(partition) is not int or partition < 0):
        path = "spec.updateStrategy.rollingUpdate.partition"
        raise WrongTypeError(path, partition, COUNT)
    updated = obj.count("updatedReplicas")
    if partition is not None:
        wanted = max(0, desired - partition)
        require_at_least(reasons, "updatedReplicas", updated, wanted)
        return min(completed_share(desired, ready), completed_share(wanted, updated))
    current = obj.count("currentReplicas")
    require_exactly(reasons, "currentReplicas", current, desired)
    now, then = obj.word("status", "updateRevision"), obj.word("status", "currentRevision")
    if now != then and not reasons:
        reasons.append(Reason("status.currentRevision", "different", "status.updateRevision"))
    return completed_share(desired, ready, max(updated, current))


def _remark_old_pods(obj: CheckedObject, reasons: list[Reason], replicas: int) -> None:
    now, then = obj.word("status", "updateRevision"), obj.word("status", "currentRevision")
    updated = obj.count("updatedReplicas")
    if now != then and updated < replicas:
        note = "OnDelete: old pods are replaced only when somebody deletes them"
        reasons.append(remark("status.updatedReplicas", have=updated, note=note))


RULES: Final[KindRules] = {
    ("apps", "StatefulSet"): KindRule(
        evaluate_stateful_set, always_observed=True, counts_replicas=True
    )
}
