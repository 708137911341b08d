"""StatefulSets: every pod ready, and as many updated as the update strategy asks for.

Reads    spec.replicas, updateStrategy; status counts, currentRevision and updateRevision.
Amends   the Ready table: where a partition is given, 0 too, updatedReplicas decides, as in kubectl;
         under OnDelete the ready count, for nothing more is updated until somebody deletes pods.
Source   kubernetes pkg/controller/statefulset/stateful_set_control.go:updateStatefulSet,
         completeRollingUpdate; kubectl pkg/polymorphichelpers/rollout_status.go.
"""

from webhook.status.judgement import Judgement
from webhook.status.kinds.counts import inexact, missing, share
from webhook.status.reason import Blocks, Reason, remark
from webhook.status.subject import COUNT, Subject, UnreadableError


def judge_stateful_set(subject: Subject) -> Judgement:
    """Settled also needs the pods available, where the controller counts that.

    Ready    replicas and readyReplicas are spec.replicas; with a partition updatedReplicas are
             those above it, else currentReplicas are all, of updateRevision; OnDelete asks for
             neither
    Settled  the same, and availableReplicas are no less, where they are counted
    """
    desired = subject.desired()
    replicas, ready = subject.count("replicas"), subject.count("readyReplicas")
    reasons: list[Reason] = []
    inexact(reasons, "replicas", replicas, desired)
    inexact(reasons, "readyReplicas", ready, desired)
    if subject.status.get("availableReplicas") is not None:
        available = subject.count("availableReplicas")
        missing(reasons, "availableReplicas", available, desired, Blocks.SETTLED)
    strategy = subject.inner("spec", "updateStrategy").get("type")
    if strategy == "OnDelete":
        _remark_old(subject, reasons, replicas)
        return Judgement(reasons, progress=share(desired, ready))
    return Judgement(reasons, progress=_judge_update(subject, reasons, desired, ready))


def _judge_update(subject: Subject, reasons: list[Reason], desired: int, ready: int) -> float:
    """Add what the rolling update still lacks; the share that is done."""
    partition = subject.inner("spec", "updateStrategy", "rollingUpdate").get("partition")
    if partition is not None and (type(partition) is not int or partition < 0):
        path = "spec.updateStrategy.rollingUpdate.partition"
        raise UnreadableError(path, partition, COUNT)
    updated = subject.count("updatedReplicas")
    if partition is not None:
        wanted = max(0, desired - partition)
        missing(reasons, "updatedReplicas", updated, wanted)
        return min(share(desired, ready), share(wanted, updated))
    current = subject.count("currentReplicas")
    inexact(reasons, "currentReplicas", current, desired)
    now, then = subject.word("status", "updateRevision"), subject.word("status", "currentRevision")
    if now != then and not reasons:
        reasons.append(Reason("status.currentRevision", "another", "status.updateRevision"))
    return share(desired, ready, max(updated, current))


def _remark_old(subject: Subject, reasons: list[Reason], replicas: int) -> None:
    now, then = subject.word("status", "updateRevision"), subject.word("status", "currentRevision")
    updated = subject.count("updatedReplicas")
    if now != then and updated < replicas:
        note = "OnDelete: the others are updated when somebody deletes them"
        reasons.append(remark("status.updatedReplicas", have=updated, note=note))
