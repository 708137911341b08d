"""The workloads that run pods, by the counts and conditions in their status.

Amends   the Ready table: updated pods count too, as in kstatus and kubectl, but not with OnDelete,
         where a pod is updated only when somebody deletes it. With a partition, also 0,
         updatedReplicas decides. Conditions of a Deployment count that its controller sets while
         it rolls out; a ReplicaFailure that is not True does not.
"""

from collections.abc import Iterator
from typing import Final

from genguard.objects.fields import ABSENT
from genguard.status.checked_object import COUNT, CheckedObject, Conditions, WrongTypeError
from genguard.status.kind_rule import (
    NOTHING_BLOCKS,
    KindResult,
    KindRule,
    KindRules,
    completed_share,
    require_at_least,
    require_exactly,
)
from genguard.status.pod_replacement import PodReplacement, fewest_pods, most_pods, read_replacement
from genguard.status.view import Blocks, Reason, remark, short_word

_NO_DEADLINE: Final = (None, 2**31 - 1)
"""kubernetes pkg/controller/deployment/util/deployment_util.go:HasProgressDeadline."""
_ON_DELETE: Final = "OnDelete: old pods are replaced only when somebody deletes them"


def evaluate_deployment(obj: CheckedObject) -> KindResult:
    """Require a complete rollout as the controller counts it; Red past the progress deadline."""
    replacement = read_replacement(obj)
    desired = obj.desired()
    replicas, updated = obj.count("replicas"), obj.count("updatedReplicas")
    ready, available = obj.count("readyReplicas"), obj.count("availableReplicas")
    conditions = obj.conditions()
    paused = obj.flag("paused")
    reasons: list[Reason] = []
    note = "spec.paused true: the rollout waits until it is resumed" if paused else ""
    require_at_least(
        reasons, "updatedReplicas", updated, desired, note=note or replacement.waits_because
    )
    fewest = None if replicas >= desired or replacement.completes_later else fewest_pods(obj)
    too_few = fewest is not None and replicas < fewest
    # KEP-3973, Motivation. After a scale up it is so for a moment.
    note = f"{(fewest or 0) - replicas} fewer than spec.replicas - maxUnavailable"
    require_exactly(reasons, desired, note if too_few else "", replicas=replicas)
    require_exactly(reasons, desired, readyReplicas=ready, availableReplicas=available)
    ends_later = not reasons and replacement.completes_later
    broken = False
    blocked = conditions.why_not_true("Available", obj.generation)
    if blocked is not None:
        reasons.append(blocked)
        found = conditions.get("Available")
        broken = found is not None and obj.overdue(found.since, replacement.patience)
    exceeded = _why_exceeded(conditions, replacement)
    if exceeded is not None:
        reasons.append(exceeded)
    elif not paused and obj.spec.get("progressDeadlineSeconds") not in _NO_DEADLINE:
        # With every pod there, the controller waits for the end of old ones alone: it is ready,
        # and settled when these are gone, as with any other policy.
        blocks = Blocks.SETTLED if ends_later else Blocks.BOTH
        reasons += [reason._replace(blocks=blocks) for reason in _why_progressing(obj, conditions)]
    failure = conditions.true("ReplicaFailure")
    if failure is not None:
        reasons.append(failure.blocking("False"))
        broken = broken or (available == 0 and desired > 0)
    if paused and not reasons:
        # Pausing only delays later changes: the controller has acted on this generation.
        note = "complete; later changes wait until it is resumed"
        reasons.append(remark("spec.paused", have=True, note=note))
    return KindResult(
        reasons,
        exceeded is not None,
        broken,
        progress=completed_share(desired, updated, ready, available),
        patience=replacement.patience,
    )


def _why_exceeded(conditions: Conditions, replacement: PodReplacement) -> Reason | None:
    found = conditions.get("Progressing")
    if found is None or found.reason != "ProgressDeadlineExceeded":
        return None
    exceeded = found.blocking("True")
    if not replacement.waits_because:
        return exceeded
    # The deadline of the object has passed all the same: kubectl gives up here too.
    return exceeded._replace(note=f"{exceeded.note}; {replacement.waits_because}")


def _why_progressing(obj: CheckedObject, conditions: Conditions) -> list[Reason]:
    blocked = conditions.why_not_true("Progressing", obj.generation)
    if blocked is not None:
        return [blocked]
    found, done = conditions.get("Progressing"), "NewReplicaSetAvailable"
    if found is None or found.reason == done:
        return []
    return [Reason(f"{found.path}.reason", short_word(found.reason), done)]


def evaluate_replica_set(obj: CheckedObject) -> KindResult:
    """Compare the counters; Red when pods cannot be created or deleted and none is available."""
    return _compare_replicas(obj, Blocks.BOTH)


def evaluate_replication_controller(obj: CheckedObject) -> KindResult:
    """Compare the counters; ReplicaFailure is only Yellow, because the Ready table ignores it."""
    return _compare_replicas(obj, Blocks.NOTHING)


def _compare_replicas(obj: CheckedObject, failure_blocks: Blocks) -> KindResult:
    desired = obj.desired()
    counts = {key: obj.count(key) for key in ("replicas", "readyReplicas", "availableReplicas")}
    reasons: list[Reason] = []
    require_exactly(reasons, desired, **counts)
    share = completed_share(desired, counts["readyReplicas"], counts["availableReplicas"])
    failure = obj.conditions().true("ReplicaFailure")
    if failure is None:
        return KindResult(reasons, progress=share)
    reasons.append(failure.blocking("False" if failure_blocks else "", failure_blocks))
    return KindResult(reasons, broken=share == 0, degraded=not failure_blocks, progress=share)


def evaluate_stateful_set(obj: CheckedObject) -> KindResult:
    """Compare the counters as the update strategy requires."""
    desired = obj.desired()
    replicas, ready = obj.count("replicas"), obj.count("readyReplicas")
    reasons: list[Reason] = []
    require_exactly(reasons, desired, replicas=replicas, readyReplicas=ready)
    if obj.status.get("availableReplicas") is not None:
        available = obj.count("availableReplicas")
        require_at_least(reasons, "availableReplicas", available, desired, Blocks.SETTLED)
    share = completed_share(desired, ready)
    updated = obj.count("updatedReplicas")
    now, then = obj.word("status", "updateRevision"), obj.word("status", "currentRevision")
    if obj.inner("spec", "updateStrategy").get("type") == "OnDelete":
        if now != then and updated < replicas:
            reasons.append(remark("status.updatedReplicas", have=updated, note=_ON_DELETE))
        return KindResult(reasons, progress=share)
    partition = obj.inner("spec", "updateStrategy", "rollingUpdate").get("partition")
    if partition is not None:
        if type(partition) is not int or partition < 0:
            raise WrongTypeError("spec.updateStrategy.rollingUpdate.partition", partition, COUNT)
        wanted = max(0, desired - partition)
        require_at_least(reasons, "updatedReplicas", updated, wanted)
        return KindResult(reasons, progress=min(share, completed_share(wanted, updated)))
    current = obj.count("currentReplicas")
    require_exactly(reasons, desired, currentReplicas=current)
    if now != then and not reasons:
        reasons.append(Reason("status.currentRevision", "different", "status.updateRevision"))
    return KindResult(reasons, progress=completed_share(desired, ready, max(updated, current)))


def evaluate_daemon_set(obj: CheckedObject) -> KindResult:
    """Compare the counters with desiredNumberScheduled; without nodes it is complete."""
    if obj.status.get("desiredNumberScheduled") is None:
        # Never omitted by the controller (apps/v1): without it the other numbers mean nothing.
        return KindResult((Reason("status.desiredNumberScheduled", ABSENT, COUNT),), progress=0.0)
    desired, updated = obj.count("desiredNumberScheduled"), obj.count("updatedNumberScheduled")
    ready, available = obj.count("numberReady"), obj.count("numberAvailable")
    reasons: list[Reason] = []
    require_exactly(reasons, desired, numberReady=ready, numberAvailable=available)
    if obj.inner("spec", "updateStrategy").get("type") != "OnDelete":
        require_at_least(reasons, "updatedNumberScheduled", updated, desired)
        return KindResult(reasons, progress=completed_share(desired, updated, ready, available))
    if updated < desired:
        reasons.append(remark("status.updatedNumberScheduled", have=updated, note=_ON_DELETE))
    return KindResult(reasons, progress=completed_share(desired, ready, available))


def evaluate_job(obj: CheckedObject) -> KindResult:
    """Require Complete; a Job that has failed for good is settled too, and Red."""
    conditions = obj.conditions()
    failed = conditions.true("Failed")
    if failed is not None:
        reason = failed.blocking("False", Blocks.READY)
        return KindResult((reason,), failed=True, progress=_progress(obj), finished=True)
    complete = conditions.why_not_true("Complete", obj.generation)
    if complete is None:
        return KindResult(progress=1.0, finished=True)
    progress = _progress(obj)
    # It has given up and waits until its last pods have ended (KEP-3939).
    failing = conditions.true("FailureTarget")
    if failing is not None:
        return KindResult((failing.blocking("False"),), failed=True, progress=progress)
    suspended = conditions.true("Suspended")
    reason = complete if suspended is None else suspended.blocking("False")
    return KindResult((*_uncounted(obj), reason), progress=progress)


def _uncounted(obj: CheckedObject) -> Iterator[Reason]:
    """Yield the pods that have ended and are not counted: their finalizer is not removed yet."""
    found = obj.status.get("uncountedTerminatedPods")
    lists = found.values() if isinstance(found, dict) else ()
    count = sum(len(pods) for pods in lists if isinstance(pods, list))
    if count:
        note = "they are counted when their finalizer batch.kubernetes.io/job-tracking is removed"
        yield Reason("status.uncountedTerminatedPods", count, "0", note)


def evaluate_cron_job(obj: CheckedObject) -> KindResult:
    """Accept every CronJob: its controller writes no condition."""
    if obj.flag("suspend"):
        note = "it starts no Jobs until it is resumed"
        return KindResult((remark("spec.suspend", have=True, note=note),))
    return NOTHING_BLOCKS


def _progress(obj: CheckedObject) -> float | None:
    """Return status.succeeded / spec.completions; None for a work queue of unknown size."""
    if obj.spec.get("completions") is None and obj.desired("parallelism") != 1:
        return None
    return completed_share(obj.desired("completions"), obj.count("succeeded"))


_COUNTED: Final = KindRule(
    evaluate_stateful_set, always_observed=True, counts_replicas=True, replaces_pods=True
)
RULES: Final[KindRules] = {
    ("", "ReplicationController"): _COUNTED._replace(evaluate=evaluate_replication_controller),
    ("apps", "DaemonSet"): _COUNTED._replace(evaluate=evaluate_daemon_set),
    ("apps", "Deployment"): _COUNTED._replace(
        evaluate=evaluate_deployment, waits_for_terminating=True, most_pods=most_pods
    ),
    ("apps", "ReplicaSet"): _COUNTED._replace(
        evaluate=evaluate_replica_set, waits_for_terminating=True
    ),
    ("apps", "StatefulSet"): _COUNTED,
    ("batch", "CronJob"): KindRule(evaluate_cron_job, status_unwritten=True),
    ("batch", "Job"): KindRule(evaluate_job, replaces_pods=True),
}
