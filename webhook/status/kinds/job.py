"""Jobs, which are ready and settled by completing, and CronJobs, which only start them.

Reads    conditions Complete, Failed, FailureTarget and Suspended; spec.completions, parallelism;
         status.succeeded; a CronJob's spec.suspend.
Source   kubernetes pkg/controller/job/job_controller.go:finalizeJob; batch/v1 types.go.
"""

from webhook.status.conditions import FALSE, must_be_true, read_conditions
from webhook.status.judgement import GOOD, Judgement
from webhook.status.kinds.counts import share
from webhook.status.reason import Blocks, remark
from webhook.status.subject import Subject


def judge_job(subject: Subject) -> Judgement:
    """Failed for good is settled too, and Red.

    Ready    condition Complete is True
    Settled  Complete or Failed is True
    """
    conditions = read_conditions(subject)
    failed = conditions.true("Failed")
    if failed is not None:
        reason = failed.blocking(FALSE, Blocks.READY)
        return Judgement((reason,), failed=True, progress=_progress(subject), finished=True)
    complete = must_be_true(conditions, "Complete", subject.generation)
    if complete is None:
        return Judgement(progress=1.0, finished=True)
    progress = _progress(subject)
    # It has given up and waits for its last pods to end (KEP-3939).
    failing = conditions.true("FailureTarget")
    if failing is not None:
        return Judgement((failing.blocking(FALSE),), failed=True, progress=progress)
    suspended = conditions.true("Suspended")
    reason = complete if suspended is None else suspended.blocking(FALSE)
    return Judgement((reason,), progress=progress)


def judge_cron_job(subject: Subject) -> Judgement:
    """Ready as soon as it is stored: the controller writes no condition.

    Ready    as soon as it is stored
    Settled  the same
    """
    if subject.flag("suspend"):
        note = "it starts no Jobs until it is resumed"
        return Judgement((remark("spec.suspend", have=True, note=note),))
    return GOOD


def _progress(subject: Subject) -> float | None:
    """status.succeeded over spec.completions; a work queue does not say how much there is."""
    completions = subject.spec.get("completions")
    if completions is None and subject.desired("parallelism") != 1:
        return None
    return share(subject.desired("completions"), subject.count("succeeded"))
