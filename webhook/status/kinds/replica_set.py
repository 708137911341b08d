"""ReplicaSets and ReplicationControllers: exactly the pods that are wanted, all available.

Reads    spec.replicas; status.replicas, readyReplicas, availableReplicas; condition ReplicaFailure.
Amends   nothing of the Ready table.
Source   kubernetes pkg/controller/replicaset/replica_set_utils.go:calculateStatus.
"""

from webhook.status.conditions import FALSE, read_conditions
from webhook.status.judgement import Judgement
from webhook.status.kinds.counts import inexact, share
from webhook.status.reason import Reason
from webhook.status.subject import Subject


def judge_replica_set(subject: Subject) -> Judgement:
    """Red where pods cannot be made or deleted and none is available."""
    desired = subject.desired()
    replicas = subject.count("replicas")
    ready = subject.count("readyReplicas")
    available = subject.count("availableReplicas")
    reasons: list[Reason] = []
    if not desired == replicas == ready == available:
        inexact(reasons, "replicas", replicas, desired)
        inexact(reasons, "readyReplicas", ready, desired)
        inexact(reasons, "availableReplicas", available, desired)
    failure = read_conditions(subject).true("ReplicaFailure")
    if failure is not None:
        reasons.append(failure.blocking(FALSE))
    broken = failure is not None and available == 0 and desired > 0
    return Judgement(reasons, broken=broken, progress=share(desired, ready, available))
