"""PodDisruptionBudgets: enough pods are healthy, whatever way the budget is written.

Reads    status.currentHealthy, desiredHealthy; condition DisruptionAllowed.
Amends   the Ready table, which wants desiredHealthy == spec.minAvailable: a percentage and
         maxUnavailable never meet that.
Source   kubernetes pkg/controller/disruption/disruption.go:updatePdbStatus.
"""

from webhook.status.conditions import read_conditions
from webhook.status.judgement import Judgement
from webhook.status.kinds.counts import missing
from webhook.status.reason import Blocks, Reason, remark
from webhook.status.subject import Subject


def judge_disruption_budget(subject: Subject) -> Judgement:
    """Settled once observed: its controller makes no pods, it only counts them.

    Ready    status.currentHealthy is no less than desiredHealthy
    Settled  as soon as it is observed
    """
    desired = subject.count("desiredHealthy")
    reasons: list[Reason] = []
    missing(reasons, "currentHealthy", subject.count("currentHealthy"), desired, Blocks.READY)
    allowed = read_conditions(subject).get("DisruptionAllowed")
    out_of_sync = allowed is not None and allowed.reason == "SyncFailed"
    if allowed is not None and out_of_sync:
        note = "SyncFailed: the controller cannot count the pods"
        reasons.append(remark(allowed.path, have="False", note=note))
    return Judgement(reasons, degraded=out_of_sync)
