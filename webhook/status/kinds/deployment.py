"""Deployments: every pod is updated and available, no old pod is left, the rollout is complete.

Reads    spec.replicas, strategy, paused, progressDeadlineSeconds; status counts, conditions
         Available, Progressing, ReplicaFailure.
Amends   the Ready table: updatedReplicas counts too, as in kstatus and kubectl; other conditions,
         and a ReplicaFailure that is not True, do not.
Source   kubernetes pkg/controller/deployment/progress.go:syncRolloutStatus, sync.go:
         calculateStatus; kubectl pkg/polymorphichelpers/rollout_status.go.
"""

import re
from typing import Final

from webhook.status.checked_object import (
    TRUE,
    CheckedObject,
    Conditions,
    WrongTypeError,
    read_conditions,
    why_not_true,
)
from webhook.status.kind_rule import (
    KindRule,
    KindRules,
    KindVerdict,
    completed_share,
    require_at_least,
    require_exactly,
)
from webhook.status.view import Reason, remark, short_word

_NO_DEADLINE: Final = 2**31 - 1
"""kubernetes pkg/controller/deployment/util/deployment_util.go:HasProgressDeadline."""
_ROLLING: Final = "RollingUpdate"
_DEFAULT_SURGE: Final = "25%"
_PERCENT: Final = re.compile(r"[0-9]{1,9}%")


def evaluate_deployment(obj: CheckedObject) -> KindVerdict:
    """Require a complete rollout as the controller counts it; Red past the progress deadline.

    Ready    replicas, readyReplicas and availableReplicas are spec.replicas, updatedReplicas is not
             lower; Available is True, ReplicaFailure is not; Progressing is True with reason
             NewReplicaSetAvailable, unless the rollout is paused or has no deadline
    Settled  the same
    """
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
        require_exactly(reasons, "replicas", replicas, desired)
        require_exactly(reasons, "readyReplicas", ready, desired)
        require_exactly(reasons, "availableReplicas", available, desired)
    broken = False
    blocked = why_not_true(conditions, "Available", obj.generation)
    if blocked is not None:
        reasons.append(blocked)
        available_condition = conditions.get("Available")
        broken = available_condition is not None and obj.overdue(available_condition.since)
    failed = _add_progressing(obj, conditions, reasons, paused=paused)
    failure = conditions.true("ReplicaFailure")
    if failure is not None:
        reasons.append(failure.blocking("False"))
        broken = broken or (available == 0 and desired > 0)
    if paused and not reasons:
        # Pausing only delays later changes: the controller has acted on this generation.
        note = "complete; later changes wait until it is resumed"
        reasons.append(remark("spec.paused", have=True, note=note))
    return KindVerdict(
        reasons, failed, broken, progress=completed_share(desired, updated, ready, available)
    )


def _add_progressing(
    obj: CheckedObject, conditions: Conditions, reasons: list[Reason], *, paused: bool
) -> bool:
    """Add why the rollout is not complete; return whether it is past its deadline."""
    progressing = conditions.get("Progressing")
    if progressing is not None and progressing.reason == "ProgressDeadlineExceeded":
        reasons.append(progressing.blocking(TRUE))
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
        reasons.append(blocked)
    return False


def most_pods(obj: CheckedObject) -> int | None:
    """Return spec.replicas + maxSurge: how many pods that do not terminate there may be.

    None where it cannot be read. The controller leaves terminating pods out of account, so there
    may be more pods than this (KEP-3973). maxSurge is 25% by default, and rounded up (kubernetes
    pkg/apis/apps/v1/defaults.go, pkg/controller/deployment/util: ResolveFenceposts).
    """
    try:
        desired = obj.desired()
        if (obj.inner("spec", "strategy").get("type") or _ROLLING) != _ROLLING:
            return desired
        surge = obj.inner("spec", "strategy", "rollingUpdate").get("maxSurge")
    except WrongTypeError:
        return None
    if surge is None:
        surge = _DEFAULT_SURGE
    if isinstance(surge, str):
        if not _PERCENT.fullmatch(surge):
            return None
        surge = -(-desired * int(surge[:-1]) // 100)
    return desired + surge if type(surge) is int and surge >= 0 else None


_DEPLOYMENT: Final = KindRule(
    evaluate_deployment,
    always_observed=True,
    counts_replicas=True,
    waits_for_terminating=True,
    most_pods=most_pods,
)
RULES: Final[KindRules] = {
    ("apps", "Deployment"): _DEPLOYMENT,
    ("extensions", "Deployment"): _DEPLOYMENT,  # until Kubernetes 1.16; kubectl still accepts it
}
