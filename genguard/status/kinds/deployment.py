"""Deployments: every pod is updated and available, no old pod is left, the rollout is complete.

Reads    spec.replicas, strategy, paused, progressDeadlineSeconds; status counts, conditions
         Available, Progressing, ReplicaFailure; what genguard/status/pod_replacement.py reads.
Amends   the Ready table: updatedReplicas counts too, as in kstatus and kubectl; other conditions,
         and a ReplicaFailure that is not True, do not.
Source   kubernetes pkg/controller/deployment/progress.go:syncRolloutStatus, sync.go:
         calculateStatus; kubectl pkg/polymorphichelpers/rollout_status.go.
"""

from typing import Final

from genguard.status.checked_object import (
    TRUE,
    CheckedObject,
    Conditions,
    read_conditions,
    why_not_true,
)
from genguard.status.kind_rule import (
    KindRule,
    KindRules,
    KindVerdict,
    completed_share,
    require_at_least,
    require_exactly,
)
from genguard.status.pod_replacement import (
    PodReplacement,
    fewest_pods,
    most_pods,
    read_replacement,
)
from genguard.status.view import Blocks, Reason, remark, short_word

_NO_DEADLINE: Final = 2**31 - 1
"""kubernetes pkg/controller/deployment/util/deployment_util.go:HasProgressDeadline."""


def evaluate_deployment(obj: CheckedObject) -> KindVerdict:
    """Require a complete rollout as the controller counts it; Red past the progress deadline.

    Ready    replicas, readyReplicas and availableReplicas are spec.replicas, updatedReplicas is not
             lower; Available is True, ReplicaFailure is not; Progressing is True with reason
             NewReplicaSetAvailable, unless the rollout is paused, has no deadline, or waits for
             terminating pods alone (podReplacementPolicy TerminationComplete)
    Settled  the same
    """
    replacement = read_replacement(obj)
    desired = obj.desired()
    replicas = obj.count("replicas")
    updated = obj.count("updatedReplicas")
    ready = obj.count("readyReplicas")
    available = obj.count("availableReplicas")
    conditions = read_conditions(obj)
    paused = obj.flag("paused")
    reasons: list[Reason] = []
    if not (desired == replicas == ready == available and updated >= desired):
        require_at_least(reasons, "updatedReplicas", updated, desired)
        if paused and reasons:
            note = "spec.paused true: the rollout waits until it is resumed"
            reasons[0] = reasons[0]._replace(note=note)
        elif reasons and replacement.waits_because:
            reasons[0] = reasons[0]._replace(note=replacement.waits_because)
        require_exactly(reasons, "replicas", replicas, desired)
        fewest = None if replacement.completes_later else fewest_pods(obj)
        if fewest is not None and replicas < fewest:
            # KEP-3973, Motivation. After a scale up it is so for a moment.
            note = f"{fewest - replicas} fewer than spec.replicas - maxUnavailable"
            reasons[-1] = reasons[-1]._replace(note=note)
        require_exactly(reasons, "readyReplicas", ready, desired)
        require_exactly(reasons, "availableReplicas", available, desired)
    is_complete = not reasons
    broken = False
    blocked = why_not_true(conditions, "Available", obj.generation)
    if blocked is not None:
        reasons.append(blocked)
        available_condition = conditions.get("Available")
        broken = available_condition is not None and obj.overdue(
            available_condition.since, replacement.patience
        )
    ends_later = is_complete and replacement.completes_later
    failed = _add_progressing(
        obj, conditions, reasons, replacement, paused=paused, ends_later=ends_later
    )
    failure = conditions.true("ReplicaFailure")
    if failure is not None:
        reasons.append(failure.blocking("False"))
        broken = broken or (available == 0 and desired > 0)
    if paused and not reasons:
        # Pausing only delays later changes: the controller has acted on this generation.
        note = "complete; later changes wait until it is resumed"
        reasons.append(remark("spec.paused", have=True, note=note))
    return KindVerdict(
        reasons,
        failed,
        broken,
        progress=completed_share(desired, updated, ready, available),
        patience=replacement.patience,
    )


def _add_progressing(
    obj: CheckedObject,
    conditions: Conditions,
    reasons: list[Reason],
    replacement: PodReplacement,
    *,
    paused: bool,
    ends_later: bool,
) -> bool:
    """Add why the rollout is not complete; return whether it is past its deadline.

    ends_later  every pod is there, and the controller waits for the end of old ones alone: such an
                object is ready, and settled when these are gone, as with any other policy
    """
    progressing = conditions.get("Progressing")
    if progressing is not None and progressing.reason == "ProgressDeadlineExceeded":
        exceeded = progressing.blocking(TRUE)
        if replacement.waits_because:
            # The deadline of the object has passed all the same: kubectl gives up here too.
            exceeded = exceeded._replace(note=f"{exceeded.note}; {replacement.waits_because}")
        reasons.append(exceeded)
        return True
    deadline = obj.spec.get("progressDeadlineSeconds")
    if paused or deadline is None or deadline == _NO_DEADLINE:
        return False
    blocked = why_not_true(conditions, "Progressing", obj.generation)
    whole = "NewReplicaSetAvailable"
    if blocked is None and progressing is not None and progressing.reason != whole:
        path = f"{progressing.path}.reason"
        blocked = Reason(path, short_word(progressing.reason), whole)
    if blocked is not None:
        reasons.append(blocked._replace(blocks=Blocks.SETTLED) if ends_later else blocked)
    return False


RULES: Final[KindRules] = {
    ("apps", "Deployment"): KindRule(
        evaluate_deployment,
        always_observed=True,
        counts_replicas=True,
        waits_for_terminating=True,
        most_pods=most_pods,
    ),
}
