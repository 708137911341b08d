"""Every other kind, by the conditions that many controllers agree on.

Reads    conditions Ready, else Available, else Succeeded, Complete or Completed; Reconciling,
         Stalled, Progressing, Failed, Degraded; where none of the first decides status.phase;
         counters of replicas against spec.replicas; status.reconciledGeneration.
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
    """By the first of five conditions that is there, or, without any, by what speaks against it.

    Ready    the first of the conditions Ready, Available, Succeeded, Complete and Completed that is
             there is True at this generation; without any, nothing in status speaks against it
    Settled  the same, nothing is Reconciling or Progressing, no counted replica is missing, and
             reconciledGeneration, where there is one, is the generation
    """
    if not subject.has_status:
        return Judgement((remark("status", have=ABSENT, note="nobody has reported on it"),))
    conditions = read_conditions(subject)
    reasons: list[Reason] = []
    failed = _given_up(subject, conditions, reasons)
    decided = next(filter(None, map(conditions.get, _DECIDING)), None)
    broken = False
    if decided is None:
        failed = _failed_phase(subject, reasons) or failed
    else:
        ended = decided.type == "Succeeded" and decided.status == FALSE
        failed = failed or (ended and not decided.stale(subject.generation))
        broken = _undecided(subject, decided, reasons, failed=failed)
    blocks = Blocks.BOTH if decided is None else Blocks.SETTLED
    _unfinished(subject, conditions, reasons, blocks)
    progress = _count(subject, reasons, blocks)
    degraded = _degraded(conditions, decided, reasons)
    if decided is None and progress is None and not reasons:
        path = "status.conditions[Ready]"
        reasons.append(remark(path, have=ABSENT, note="nothing in status speaks against it"))
    ends = decided is not None and decided.type in _ENDS
    finished = ends and (failed or not any(reason.blocks for reason in reasons))
    return Judgement(reasons, failed, broken, degraded, progress, finished)


def _given_up(subject: Subject, conditions: Conditions, reasons: list[Reason]) -> bool:
    """Stalled and Failed of this generation: not ready, and nothing more is planned."""
    failed = False
    for found in map(conditions.true, ("Stalled", "Failed")):
        if found is not None and found.stale(subject.generation):
            reasons.append(found.stale_reason(subject.generation))
        elif found is not None:
            reasons.append(found.blocking(FALSE, Blocks.READY))
            failed = True
    return failed


def _undecided(
    subject: Subject, decided: Condition, reasons: list[Reason], *, failed: bool
) -> bool:
    """Add why the deciding condition is no True of now; whether it has been False for too long."""
    if decided.stale(subject.generation):
        reasons.append(decided.stale_reason(subject.generation))
        return False
    if decided.status == TRUE:
        return False
    reasons.append(decided.blocking(TRUE, Blocks.READY if failed else Blocks.BOTH))
    return decided.status == FALSE and subject.overdue(decided.since)


def _failed_phase(subject: Subject, reasons: list[Reason]) -> bool:
    """Add a phase that is no success; whether it is a failure."""
    phase = subject.status.get("phase")
    failed = isinstance(phase, str) and phase in _FAILED_PHASES
    if failed or (isinstance(phase, str) and phase in _WAITING_PHASES):
        blocks = Blocks.READY if failed else Blocks.BOTH
        reasons.append(Reason("status.phase", phase, "another", "", blocks))
    return failed


def _unfinished(
    subject: Subject, conditions: Conditions, reasons: list[Reason], blocks: Blocks
) -> None:
    """Reconciling, Progressing, and a reconciledGeneration of before: the controller plans more."""
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
    """Compare the counters that are there with spec.replicas; None where none is."""
    desired = subject.spec.get("replicas")
    if type(desired) is not int:
        return None
    counts = {key: value for key in _COUNTS if type(value := subject.status.get(key)) is int}
    if not counts:
        return None
    for key, value in counts.items():
        missing(reasons, key, value, desired, blocks)
    return share(desired, *counts.values())


def _degraded(conditions: Conditions, decided: Condition | None, reasons: list[Reason]) -> bool:
    """Yellow for Degraded, and for Available=False beside a Ready that decides."""
    found = conditions.true("Degraded")
    if found is None and decided is not None and decided.type == "Ready":
        available = conditions.get("Available")
        found = available if available is not None and available.status == FALSE else None
    if found is None:
        return False
    note = short_word(found.reason) if found.reason else ""
    reasons.append(remark(found.path, have=short_word(found.status), note=note))
    return True
