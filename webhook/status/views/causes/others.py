"""Causes of disagreement about Pods, Jobs, Services, claims and budgets."""

from typing import Final

from webhook.status.views.causes.cause import Cause
from webhook.status.views.evidence import Evidence, Outcome, Tool
from webhook.status.views.reading import text

_POD: Final = frozenset({"Pod"})
_JOB: Final = frozenset({"batch/Job"})
_SERVICE: Final = frozenset({"Service"})


def _cannot_start(it: Evidence) -> bool:
    statuses = it.at("status", "containerStatuses")
    containers = [s for s in statuses if isinstance(s, dict)] if isinstance(statuses, list) else []
    reasons = [text(container, "state", "waiting", "reason") for container in containers]
    return any(r.startswith("Err") or r.endswith(("Error", "BackOff")) for r in reasons)


OTHERS: Final = (
    Cause(
        _POD,
        Tool.KSTATUS,
        lambda it: it.text("status", "phase") == "Failed",
        "the Pod has failed: kstatus takes a Pod that has ended for Current, whatever its end",
    ),
    Cause(
        _POD,
        Tool.ARGO,
        _cannot_start,
        "a container cannot start: Argo CD calls that Degraded whatever the reason, kstatus Failed "
        "only in CrashLoopBackOff",
    ),
    Cause(
        _POD,
        Tool.KSTATUS,
        lambda it: it.condition("PodScheduled").get("reason") == "Unschedulable",
        "the Pod cannot be scheduled: kstatus calls that Failed after 15 seconds, Argo CD "
        "Progressing for ever",
    ),
    Cause(
        _POD,
        Tool.ARGO,
        lambda it: it.text("spec", "restartPolicy") in ("OnFailure", "Never"),
        "its restartPolicy is not Always: Argo CD takes the Pod for a hook, healthy only once it "
        "has succeeded",
    ),
    Cause(
        _POD,
        Tool.ARGO,
        lambda it: (
            it.text("status", "phase") == "Running" and it.text("spec", "restartPolicy") != "Always"
        ),
        "Argo CD judges no running Pod without a restartPolicy",
    ),
    Cause(
        _POD,
        Tool.ARGO,
        lambda it: it.outcome(Tool.ARGO) is Outcome.FAILED,
        "a container has ended before and the Pod is not ready: Argo CD calls that Degraded, "
        "kstatus InProgress",
    ),
    Cause(
        _SERVICE,
        Tool.KSTATUS,
        lambda it: it.text("spec", "type") == "LoadBalancer",
        "a LoadBalancer: kstatus asks for a clusterIP alone, Argo CD for an ingress in its status",
    ),
    Cause(
        frozenset({"PersistentVolumeClaim"}),
        Tool.ARGO,
        lambda it: it.text("status", "phase") == "Lost",
        "its volume is lost: Argo CD calls that Degraded, kstatus InProgress like any phase but "
        "Bound",
    ),
    Cause(
        _JOB,
        Tool.ARGO,
        lambda it: it.true("Suspended"),
        "it is suspended: Argo CD says so, kstatus goes by status.startTime",
    ),
    Cause(
        _JOB,
        Tool.ARGO,
        lambda it: any(
            it.condition(kind) and not it.true(kind) for kind in ("Complete", "Failed", "Suspended")
        ),
        "a condition is not True, and Argo CD takes Complete and Failed by their mere presence",
    ),
    Cause(
        _JOB,
        Tool.KSTATUS,
        lambda it: it.true("Complete") and it.true("Failed"),
        "it is both Complete and Failed: the first one counts for kstatus, Failed for Argo CD",
    ),
    Cause(
        _JOB,
        Tool.KSTATUS,
        lambda it: it.outcome(Tool.KSTATUS) is Outcome.DONE and not it.true("Complete"),
        "the Job has started and not ended: kstatus takes a running Job for Current",
    ),
    Cause(
        frozenset({"policy/PodDisruptionBudget"}),
        Tool.KSTATUS,
        lambda it: it.outcome(Tool.KSTATUS) is Outcome.DONE,
        "kstatus takes a budget for Current as soon as it is observed, healthy Pods or not",
    ),
)
