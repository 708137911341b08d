"""Every other kind, by the conditions that many controllers agree on.

Reads    conditions Ready, else Available, else Succeeded, Complete or Completed; Reconciling,
         Stalled, Progressing, Failed, Degraded; status.phase where none of them decides.
Relies   on each condition's own observedGeneration: a Ready=True of another generation is none.
Source   kstatus (sigs.k8s.io/cli-utils pkg/kstatus/README.md) for Reconciling and Stalled; the API
         conventions, "Typical status properties"; Improve .status, "Standardizing Conditions".
"""

from typing import Final

from webhook.objects.fields import ABSENT
from webhook.status.conditions import FALSE, TRUE, Condition, Conditions, read_conditions
from webhook.status.judgement import Judgement
from webhook.status.kinds.counts import missing, share
from webhook.status.reason import Blocks, Reason, remark, short_word
from webhook.status.subject import Subject

_DECIDING: Final = ("Ready", "Available", "Succeeded", "Complete", "Completed")
"""The first that is there decides."""
_ENDS: Final = frozenset({"Succeeded", "Complete", "Completed"})
_STEADY: Final = frozenset({"NewReplicaSetAvailable", "NewReplicationControllerAvailable"})
"""Reasons of Progressing=True that mean done (Deployment's, and those who copied it)."""
_FAILED_PHASES: Final = frozenset({"Error", "Failed", "Failure", "Lost"})
_WAITING_PHASES: Final = frozenset(
    {"Creating", "Deleting", "Initializing", "Pending", "Provisioning", "Terminating", "Updating"}
)
_COUNTS: Final = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")


def judge_generic(subject: Subject) -> Judgement:
    """Ready when the deciding condition of this generation is True."""
    if not subject.has_status:
        return Judgement((remark("status", have=ABSENT, note="nobody has reported on it"),))
    conditions = read_conditions(subject)
    reasons: list[Reason] = []
    failed = _failures(subject, conditions, reasons)
    decided = next(filter(None, map(conditions.get, _DECIDING)), None)
    if decided is None:
        failed = _by_phase(subject, reasons) or failed
    else:
        failed = _decide(subject, decided, reasons, failed=failed) or failed
    blocks = Blocks.BOTH if decided is None else Blocks.SETTLED
    _unfinished(subject, conditions, reasons, blocks)
    progress = _count(subject, reasons, blocks)
    degraded = _degraded(conditions, reasons)
    finished = decided is not None and decided.type in _ENDS and (failed or decided.status == TRUE)
    return Judgement(reasons, failed, degraded, progress, finished)


def _failures(subject: Subject, conditions: Conditions, reasons: list[Reason]) -> bool:
    """Stalled and Failed of this generation: not ready, and nothing more is planned."""
    failed = False
    for name in ("Stalled", "Failed"):
        found = conditions.true(name)
        if found is not None:
            if found.stale(subject.generation):
                reasons.append(found.stale_reason(subject.generation))
            else:
                reasons.append(found.blocking(FALSE, Blocks.READY))
                failed = True
    return failed


def _decide(subject: Subject, decided: Condition, reasons: list[Reason], *, failed: bool) -> bool:
    """Add why the deciding condition is no True of now; whether that is a failure."""
    if decided.status == TRUE:
        if decided.stale(subject.generation):
            reasons.append(decided.stale_reason(subject.generation))
        return False
    if decided.stale(subject.generation):
        reasons.append(decided.stale_reason(subject.generation))
        return False
    ended = decided.type == "Succeeded" and decided.status == FALSE
    blocks = Blocks.READY if failed or ended else Blocks.BOTH
    reasons.append(decided.blocking(TRUE, blocks))
    return ended or (decided.status == FALSE and subject.overdue(decided.since))


def _by_phase(subject: Subject, reasons: list[Reason]) -> bool:
    """Judge by status.phase where no condition decides; whether it names a failure."""
    phase = subject.status.get("phase")
    if not isinstance(phase, str):
        return False
    if phase in _FAILED_PHASES:
        reasons.append(Reason("status.phase", phase, "a phase of success", "", Blocks.READY))
        return True
    if phase in _WAITING_PHASES:
        reasons.append(Reason("status.phase", phase, "a phase of success"))
    return False


def _unfinished(
    subject: Subject, conditions: Conditions, reasons: list[Reason], blocks: Blocks
) -> None:
    """Reconciling and Progressing: the controller plans more."""
    reconciling = conditions.true("Reconciling")
    if reconciling is not None:
        reasons.append(reconciling.blocking(FALSE, blocks))
    progressing = conditions.get("Progressing")
    if progressing is not None and progressing.status != FALSE and not _steady(progressing):
        reasons.append(progressing.blocking(FALSE, blocks))
    reconciled = subject.status.get("reconciledGeneration")
    generation = subject.generation
    if type(reconciled) is int and generation is not None and reconciled != generation:
        path, want = "status.reconciledGeneration", str(generation)
        reasons.append(Reason(path, reconciled, want, "", Blocks.SETTLED))


def _steady(progressing: Condition) -> bool:
    return progressing.status == TRUE and progressing.reason in _STEADY


def _count(subject: Subject, reasons: list[Reason], blocks: Blocks) -> float | None:
    """Compare the replica counters that are there with spec.replicas; None where none is."""
    desired = subject.spec.get("replicas")
    if type(desired) is not int:
        return None
    counts = {key: value for key in _COUNTS if type(value := subject.status.get(key)) is int}
    if not counts:
        return None
    for key, value in counts.items():
        short = missing(key, value, desired, blocks)
        if short is not None:
            reasons.append(short)
    return share(desired, *counts.values())


def _degraded(conditions: Conditions, reasons: list[Reason]) -> bool:
    found = conditions.true("Degraded")
    if found is None:
        return False
    reasons.append(remark(found.path, have=TRUE, note=short_word(found.reason)))
    return True
