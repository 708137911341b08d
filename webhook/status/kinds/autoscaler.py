"""HorizontalPodAutoscalers: they can count, they may scale, and have scaled.

Reads    conditions AbleToScale, ScalingActive and ScalingLimited (autoscaling/v2; v1 keeps them in
         an annotation, which is not read); status.currentReplicas and desiredReplicas.
Source   kubernetes pkg/controller/podautoscaler/horizontal.go:reconcileAutoscaler, setCondition.
"""

from typing import Final

from webhook.status.conditions import FALSE, TRUE, must_be_true, read_conditions
from webhook.status.judgement import Judgement
from webhook.status.reason import Blocks, Reason, remark
from webhook.status.subject import Subject

_SWITCHED_OFF: Final = "ScalingDisabled"
"""The target was scaled to 0 by its owner: nothing to do, and nothing wrong."""


def judge_autoscaler(subject: Subject) -> Judgement:
    """Yellow at its maximum: it would have more.

    Ready    conditions AbleToScale and, if there, ScalingActive are True, or it is switched off
    Settled  the same, and status.currentReplicas is desiredReplicas
    """
    conditions = read_conditions(subject)
    reasons: list[Reason] = []
    if subject.version != "v1":
        found = conditions.get("ScalingActive")
        if found is not None and found.reason == _SWITCHED_OFF:
            return Judgement((remark(found.path, have=FALSE, note=_SWITCHED_OFF),))
        wanted = ("AbleToScale",) if found is None else ("AbleToScale", "ScalingActive")
        blocked = (must_be_true(conditions, name, subject.generation) for name in wanted)
        reasons += [reason for reason in blocked if reason is not None]
    current, desired = subject.count("currentReplicas"), subject.count("desiredReplicas")
    if current != desired:
        path = "status.currentReplicas"
        reasons.append(Reason(path, current, str(desired), "", Blocks.SETTLED))
    limited = conditions.true("ScalingLimited")
    at_most = limited is not None and limited.reason == "TooManyReplicas"
    if limited is not None and at_most:
        note = "TooManyReplicas: spec.maxReplicas holds it back"
        reasons.append(remark(limited.path, have=TRUE, note=note))
    return Judgement(reasons, degraded=at_most)
