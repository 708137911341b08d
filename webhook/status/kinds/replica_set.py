"""ReplicaSets and ReplicationControllers: exactly the pods that are wanted, all available.

Reads    spec.replicas; status.replicas, readyReplicas, availableReplicas; condition ReplicaFailure.
Amends   nothing of the Ready table.
Source   kubernetes pkg/controller/replicaset/replica_set_utils.go:calculateStatus.
"""

from webhook.status.conditions import FALSE, read_conditions
from webhook.status.judgement import Judgement
from webhook.status.kinds.counts import inexact, share
from webhook.status.reason import Blocks, Reason
from webhook.status.subject import Subject


def judge_replica_set(subject: Subject) -> Judgement:
    """Red where pods cannot be made or deleted and none is available.

    Ready    replicas, readyReplicas and availableReplicas are spec.replicas; ReplicaFailure is not
             True
    Settled  the same
    """
    judgement, reasons = _count(subject)
    failure = read_conditions(subject).true("ReplicaFailure")
    if failure is None:
        return judgement
    reasons.append(failure.blocking(FALSE))
    return judgement._replace(broken=judgement.progress == 0)


def judge_replication_controller(subject: Subject) -> Judgement:
    """The table asks for no condition here; a ReplicaFailure beside whole counts is Yellow.

    Ready    replicas, readyReplicas and availableReplicas are spec.replicas
    Settled  the same
    """
    judgement, reasons = _count(subject)
    failure = read_conditions(subject).true("ReplicaFailure")
    if failure is None:
        return judgement
    reasons.append(failure.blocking("", Blocks.NOTHING))
    return judgement._replace(broken=judgement.progress == 0, degraded=True)


def _count(subject: Subject) -> tuple[Judgement, list[Reason]]:
    desired = subject.desired()
    replicas = subject.count("replicas")
    ready = subject.count("readyReplicas")
    available = subject.count("availableReplicas")
    reasons: list[Reason] = []
    if not desired == replicas == ready == available:
        inexact(reasons, "replicas", replicas, desired)
        inexact(reasons, "readyReplicas", ready, desired)
        inexact(reasons, "availableReplicas", available, desired)
    return Judgement(reasons, progress=share(desired, ready, available)), reasons
