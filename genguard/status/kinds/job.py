"""Jobs, which are ready when they have completed, and CronJobs, which only start Jobs.

Reads    conditions Complete, Failed, FailureTarget and Suspended; spec.completions, parallelism;
         status.succeeded; a CronJob's spec.suspend.
Source   kubernetes pkg/controller/job/job_controller.go:finalizeJob; batch/v1 types.go.
"""

from typing import Final

from genguard.status.checked_object import FALSE, CheckedObject, read_conditions, why_not_true
from genguard.status.kind_rule import (
    NOTHING_BLOCKS,
    KindRule,
    KindRules,
    KindVerdict,
    completed_share,
)
from genguard.status.view import Blocks, remark


def evaluate_job(obj: CheckedObject) -> KindVerdict:
    """Require Complete; a Job that has failed for good is settled too, and Red.

    Ready    condition Complete is True
    Settled  Complete or Failed is True
    """
    conditions = read_conditions(obj)
    failed = conditions.true("Failed")
    if failed is not None:
        reason = failed.blocking(FALSE, Blocks.READY)
        return KindVerdict((reason,), failed=True, progress=_progress(obj), finished=True)
    complete = why_not_true(conditions, "Complete", obj.generation)
    if complete is None:
        return KindVerdict(progress=1.0, finished=True)
    progress = _progress(obj)
    # It has given up and waits until its last pods have ended (KEP-3939).
    failing = conditions.true("FailureTarget")
    if failing is not None:
        return KindVerdict((failing.blocking(FALSE),), failed=True, progress=progress)
    suspended = conditions.true("Suspended")
    reason = complete if suspended is None else suspended.blocking(FALSE)
    return KindVerdict((reason,), progress=progress)


def evaluate_cron_job(obj: CheckedObject) -> KindVerdict:
    """Accept every CronJob: its controller writes no condition.

    Ready    as soon as it is stored
    Settled  the same
    """
    if obj.flag("suspend"):
        note = "it starts no Jobs until it is resumed"
        return KindVerdict((remark("spec.suspend", have=True, note=note),))
    return NOTHING_BLOCKS


def _progress(obj: CheckedObject) -> float | None:
    """Return status.succeeded / spec.completions; None for a work queue of unknown size."""
    completions = obj.spec.get("completions")
    if completions is None and obj.desired("parallelism") != 1:
        return None
    return completed_share(obj.desired("completions"), obj.count("succeeded"))


RULES: Final[KindRules] = {
    ("batch", "CronJob"): KindRule(evaluate_cron_job, status_unwritten=True),
    ("batch", "Job"): KindRule(evaluate_job),
}
