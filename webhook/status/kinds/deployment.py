"""Deployments: every pod updated and available, none too many, and the rollout not given up.

Reads    spec.replicas, paused, progressDeadlineSeconds; status counts, conditions Available,
         Progressing, ReplicaFailure.
Amends   the Ready table: updatedReplicas count too (as kstatus and kubectl); other conditions than
         these three, and a ReplicaFailure that is not True, do not.
Source   kubernetes pkg/controller/deployment/progress.go:syncRolloutStatus, sync.go:
         calculateStatus; kubectl pkg/polymorphichelpers/rollout_status.go.
"""

from typing import Final

from webhook.status.conditions import TRUE, Conditions, must_be_true, read_conditions
from webhook.status.judgement import Judgement
from webhook.status.kinds.counts import inexact, missing, share
from webhook.status.reason import Reason, remark, short_word
from webhook.status.subject import Subject

_NO_DEADLINE: Final = 2**31 - 1
"""kubernetes pkg/controller/deployment/util/deployment_util.go:HasProgressDeadline."""


def judge_deployment(subject: Subject) -> Judgement:
    """Ready when complete as the controller counts; Red past the progress deadline.

    Ready    replicas, readyReplicas and availableReplicas are spec.replicas, updatedReplicas no
             less; Available is True, ReplicaFailure is not; Progressing is True with
             NewReplicaSetAvailable, unless paused or without a deadline
    Settled  the same
    """
    desired = subject.desired()
    replicas = subject.count("replicas")
    updated = subject.count("updatedReplicas")
    ready = subject.count("readyReplicas")
    available = subject.count("availableReplicas")
    conditions = read_conditions(subject)
    paused = subject.flag("paused")
    reasons: list[Reason] = []
    if not (desired == replicas == ready == available and updated >= desired):
        missing(reasons, "updatedReplicas", updated, desired)
        if paused and reasons:
            note = "spec.paused true: nothing goes on until it is resumed"
            reasons[0] = reasons[0]._replace(note=note)
        inexact(reasons, "replicas", replicas, desired)
        inexact(reasons, "readyReplicas", ready, desired)
        inexact(reasons, "availableReplicas", available, desired)
    broken = False
    blocked = must_be_true(conditions, "Available", subject.generation)
    if blocked is not None:
        reasons.append(blocked)
        available_condition = conditions.get("Available")
        broken = available_condition is not None and subject.overdue(available_condition.since)
    failed = _judge_progress(subject, conditions, reasons, paused=paused)
    failure = conditions.true("ReplicaFailure")
    if failure is not None:
        reasons.append(failure.blocking("False"))
        broken = broken or (available == 0 and desired > 0)
    if paused and not reasons:
        # What a person asks is whether what was rolled out is whole; the controller holds back
        # only changes to come, so it has acted on this generation and plans no more.
        note = "complete; later changes wait until it is resumed"
        reasons.append(remark("spec.paused", have=True, note=note))
    return Judgement(reasons, failed, broken, progress=share(desired, updated, ready, available))


def _judge_progress(
    subject: Subject, conditions: Conditions, reasons: list[Reason], *, paused: bool
) -> bool:
    """Add why the rollout goes on; whether it is past its deadline."""
    progressing = conditions.get("Progressing")
    if progressing is not None and progressing.reason == "ProgressDeadlineExceeded":
        reasons.append(progressing.blocking(TRUE))
        return True
    deadline = subject.spec.get("progressDeadlineSeconds")
    if paused or deadline is None or deadline == _NO_DEADLINE:
        return False
    blocked = must_be_true(conditions, "Progressing", subject.generation)
    whole = "NewReplicaSetAvailable"
    if blocked is None and progressing is not None and progressing.reason != whole:
        path = f"{progressing.path}.reason"
        blocked = Reason(path, short_word(progressing.reason), whole)
    if blocked is not None:
        reasons.append(blocked)
    return False
