"""DaemonSets: on every node that wants the pod it is updated, ready and available.

Reads    status.desiredNumberScheduled, updatedNumberScheduled, numberReady, numberAvailable;
         spec.updateStrategy.type.
Amends   the Ready table: updated pods count too, as in kstatus and kubectl, but not under OnDelete,
         where nothing more is updated until somebody deletes pods.
Source   kubernetes pkg/controller/daemon/daemon_controller.go:updateDaemonSetStatus.
"""

from webhook.objects.fields import ABSENT
from webhook.status.judgement import Judgement
from webhook.status.kinds.counts import inexact, missing, share
from webhook.status.reason import Reason, remark
from webhook.status.subject import COUNT, Subject


def judge_daemon_set(subject: Subject) -> Judgement:
    """Without nodes it is complete.

    Ready    numberReady and numberAvailable are desiredNumberScheduled; updatedNumberScheduled is
             no less, unless OnDelete
    Settled  the same
    """
    if subject.status.get("desiredNumberScheduled") is None:
        # Never omitted by the controller (apps/v1): without it the other numbers mean nothing.
        path = "status.desiredNumberScheduled"
        return Judgement((Reason(path, ABSENT, COUNT),), progress=0.0)
    desired = subject.count("desiredNumberScheduled")
    updated = subject.count("updatedNumberScheduled")
    ready, available = subject.count("numberReady"), subject.count("numberAvailable")
    reasons: list[Reason] = []
    inexact(reasons, "numberReady", ready, desired)
    inexact(reasons, "numberAvailable", available, desired)
    if subject.inner("spec", "updateStrategy").get("type") != "OnDelete":
        missing(reasons, "updatedNumberScheduled", updated, desired)
        return Judgement(reasons, progress=share(desired, updated, ready, available))
    if updated < desired:
        note = "OnDelete: the others are updated when somebody deletes them"
        reasons.append(remark("status.updatedNumberScheduled", have=updated, note=note))
    return Judgement(reasons, progress=share(desired, ready, available))
