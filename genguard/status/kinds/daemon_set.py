"""DaemonSets: the pod of every node that should run one is updated, ready and available.

Reads    status.desiredNumberScheduled, updatedNumberScheduled, numberReady, numberAvailable;
         spec.updateStrategy.type.
Amends   the Ready table: updated pods count too, as in kstatus and kubectl, but not with OnDelete,
         where a pod is updated only when somebody deletes it.
Source   kubernetes pkg/controller/daemon/daemon_controller.go:updateDaemonSetStatus.
"""

from typing import Final

from genguard.objects.fields import ABSENT
from genguard.status.checked_object import COUNT, CheckedObject
from genguard.status.kind_rule import (
    KindRule,
    KindRules,
    KindVerdict,
    completed_share,
    require_at_least,
    require_exactly,
)
from genguard.status.view import Reason, remark


def evaluate_daemon_set(obj: CheckedObject) -> KindVerdict:
    """Compare the counters with desiredNumberScheduled; without nodes it is complete.

    Ready    numberReady and numberAvailable are desiredNumberScheduled; updatedNumberScheduled is
             not lower, unless the strategy is OnDelete
    Settled  the same
    """
    if obj.status.get("desiredNumberScheduled") is None:
        # Never omitted by the controller (apps/v1): without it the other numbers mean nothing.
        path = "status.desiredNumberScheduled"
        return KindVerdict((Reason(path, ABSENT, COUNT),), progress=0.0)
    desired = obj.count("desiredNumberScheduled")
    updated = obj.count("updatedNumberScheduled")
    ready, available = obj.count("numberReady"), obj.count("numberAvailable")
    reasons: list[Reason] = []
    require_exactly(reasons, "numberReady", ready, desired)
    require_exactly(reasons, "numberAvailable", available, desired)
    if obj.inner("spec", "updateStrategy").get("type") != "OnDelete":
        require_at_least(reasons, "updatedNumberScheduled", updated, desired)
        return KindVerdict(reasons, progress=completed_share(desired, updated, ready, available))
    if updated < desired:
        note = "OnDelete: old pods are replaced only when somebody deletes them"
        reasons.append(remark("status.updatedNumberScheduled", have=updated, note=note))
    return KindVerdict(reasons, progress=completed_share(desired, ready, available))


RULES: Final[KindRules] = {
    ("apps", "DaemonSet"): KindRule(
        evaluate_daemon_set, always_observed=True, counts_replicas=True
    ),
}
