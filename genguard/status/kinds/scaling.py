"""HorizontalPodAutoscalers and PodDisruptionBudgets: how many pods others may have.

Amends   the Ready table, which also wants desiredHealthy == spec.minAvailable of a budget. That is
         never true for a percentage or with maxUnavailable.
"""

from typing import Final

from genguard.status.checked_object import CheckedObject
from genguard.status.kind_rule import KindResult, KindRule, KindRules, require_at_least
from genguard.status.view import Blocks, Reason, remark

_DISABLED: Final = "ScalingDisabled"
"""Somebody scaled the target to 0, which disables the autoscaler: nothing is wrong."""


def evaluate_autoscaler(obj: CheckedObject) -> KindResult:
    """Require that it can scale; Yellow when maxReplicas limits it."""
    conditions = obj.conditions()
    reasons: list[Reason] = []
    if obj.version != "v1":  # which keeps its conditions in an annotation, and that is not read
        found = conditions.get("ScalingActive")
        if found is not None and found.reason == _DISABLED:
            return KindResult((remark(found.path, have="False", note=_DISABLED),))
        wanted = ("AbleToScale",) if found is None else ("AbleToScale", "ScalingActive")
        blocked = (conditions.why_not_true(name, obj.generation) for name in wanted)
        reasons += [reason for reason in blocked if reason is not None]
    current, desired = obj.count("currentReplicas"), obj.count("desiredReplicas")
    if current != desired and not reasons:  # who cannot scale wants nothing
        reasons.append(Reason("status.currentReplicas", current, str(desired), "", Blocks.SETTLED))
    limited = conditions.true("ScalingLimited")
    at_most = limited is not None and limited.reason == "TooManyReplicas"
    if limited is not None and at_most:
        note = "TooManyReplicas: spec.maxReplicas limits it"
        reasons.append(remark(limited.path, have="True", note=note))
    return KindResult(reasons, degraded=at_most)


def evaluate_disruption_budget(obj: CheckedObject) -> KindResult:
    """Settled once observed: its controller creates no pods, it only counts them."""
    desired = obj.count("desiredHealthy")
    reasons: list[Reason] = []
    require_at_least(reasons, "currentHealthy", obj.count("currentHealthy"), desired, Blocks.READY)
    allowed = obj.conditions().get("DisruptionAllowed")
    out_of_sync = allowed is not None and allowed.reason == "SyncFailed"
    if allowed is not None and out_of_sync:
        note = "SyncFailed: the controller cannot count the pods"
        reasons.append(remark(allowed.path, have="False", note=note))
    return KindResult(reasons, degraded=out_of_sync)


RULES: Final[KindRules] = {
    ("autoscaling", "HorizontalPodAutoscaler"): KindRule(evaluate_autoscaler),
    ("policy", "PodDisruptionBudget"): KindRule(evaluate_disruption_budget, always_observed=True),
}
