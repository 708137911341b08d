"""HorizontalPodAutoscalers: metrics can be read, scaling is possible, and is done.

Reads    conditions AbleToScale, ScalingActive and ScalingLimited (autoscaling/v2; v1 keeps them in
         an annotation, which is not read); status.currentReplicas and desiredReplicas.
Source   kubernetes pkg/controller/podautoscaler/horizontal.go:reconcileAutoscaler, setCondition.
"""

from typing import Final

from genguard.status.checked_object import FALSE, TRUE, CheckedObject, read_conditions, why_not_true
from genguard.status.kind_rule import KindRule, KindRules, KindVerdict
from genguard.status.view import Blocks, Reason, remark

_DISABLED: Final = "ScalingDisabled"
"""Somebody scaled the target to 0, which disables the autoscaler: nothing is wrong."""


def evaluate_autoscaler(obj: CheckedObject) -> KindVerdict:
    """Require that it can scale; Yellow when maxReplicas limits it.

    Ready    conditions AbleToScale and, if present, ScalingActive are True, or it is disabled by
             scaling the target to 0
    Settled  the same, and status.currentReplicas is desiredReplicas
    """
    conditions = read_conditions(obj)
    reasons: list[Reason] = []
    if obj.version != "v1":
        found = conditions.get("ScalingActive")
        if found is not None and found.reason == _DISABLED:
            return KindVerdict((remark(found.path, have=FALSE, note=_DISABLED),))
        wanted = ("AbleToScale",) if found is None else ("AbleToScale", "ScalingActive")
        blocked = (why_not_true(conditions, name, obj.generation) for name in wanted)
        reasons += [reason for reason in blocked if reason is not None]
    current, desired = obj.count("currentReplicas"), obj.count("desiredReplicas")
    if current != desired:
        path = "status.currentReplicas"
        reasons.append(Reason(path, current, str(desired), "", Blocks.SETTLED))
    limited = conditions.true("ScalingLimited")
    at_most = limited is not None and limited.reason == "TooManyReplicas"
    if limited is not None and at_most:
        note = "TooManyReplicas: spec.maxReplicas limits it"
        reasons.append(remark(limited.path, have=TRUE, note=note))
    return KindVerdict(reasons, degraded=at_most)


RULES: Final[KindRules] = {
    ("autoscaling", "HorizontalPodAutoscaler"): KindRule(evaluate_autoscaler)
}
