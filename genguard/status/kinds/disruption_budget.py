"""PodDisruptionBudgets: enough pods are healthy, in whatever way the budget is written.

Reads    status.currentHealthy, desiredHealthy; condition DisruptionAllowed.
Amends   the Ready table, which also wants desiredHealthy == spec.minAvailable. That is never true
         for a percentage or with maxUnavailable.
Source   kubernetes pkg/controller/disruption/disruption.go:updatePdbStatus.
"""

from typing import Final

from genguard.status.checked_object import CheckedObject, read_conditions
from genguard.status.kind_rule import KindRule, KindRules, KindVerdict, require_at_least
from genguard.status.view import Blocks, Reason, remark


def evaluate_disruption_budget(obj: CheckedObject) -> KindVerdict:
    """Settled once observed: its controller creates no pods, it only counts them.

    Ready    status.currentHealthy is not lower than desiredHealthy
    Settled  as soon as it is observed
    """
    desired = obj.count("desiredHealthy")
    reasons: list[Reason] = []
    require_at_least(reasons, "currentHealthy", obj.count("currentHealthy"), desired, Blocks.READY)
    allowed = read_conditions(obj).get("DisruptionAllowed")
    out_of_sync = allowed is not None and allowed.reason == "SyncFailed"
    if allowed is not None and out_of_sync:
        note = "SyncFailed: the controller cannot count the pods"
        reasons.append(remark(allowed.path, have="False", note=note))
    return KindVerdict(reasons, degraded=out_of_sync)


RULES: Final[KindRules] = {
    ("policy", "PodDisruptionBudget"): KindRule(evaluate_disruption_budget, always_observed=True)
}
