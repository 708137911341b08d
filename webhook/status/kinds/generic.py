"""Every kind without a rule of its own, by the conditions that many controllers write.

Reads    conditions Ready, or else Available, Succeeded, Complete or Completed; Reconciling,
         Stalled, Progressing, Failed, Degraded; status.phase when none of the first five is
         present; counters of replicas against spec.replicas; reconciledGeneration of status,
         status.meta or metadata.status.
Relies   on the observedGeneration of each condition: Ready=True of another generation is old.
Source   kstatus (sigs.k8s.io/cli-utils pkg/kstatus/README.md) for Reconciling and Stalled; the API
         conventions, "Typical status properties"; Improve .status, "Standardizing Conditions".
"""

from typing import Final

from webhook.objects.fields import ABSENT
from webhook.status.checked_object import (
    FALSE,
    TRUE,
    CheckedObject,
    Condition,
    Conditions,
    read_conditions,
    read_reconciled_generation,
)
from webhook.status.kind_rule import (
    KindRule,
    KindRules,
    KindVerdict,
    completed_share,
    require_at_least,
)
from webhook.status.view import Blocks, Reason, remark, short_word

_DECIDING: Final = ("Ready", "Available", "Succeeded", "Complete", "Completed")
"""The first one that is present decides."""
_ENDS: Final = frozenset({"Succeeded", "Complete", "Completed"})
_COMPLETE: Final = frozenset({"NewReplicaSetAvailable", "NewReplicationControllerAvailable"})
"""Reasons of Progressing=True that mean done (Deployment's, and those who copied it)."""
_FAILED_PHASES: Final = frozenset({"Error", "Failed", "Failure", "Lost"})
_WAITING_PHASES: Final = frozenset(
    {"Creating", "Deleting", "Initializing", "Pending", "Provisioning", "Terminating", "Updating"}
)
_COUNTS: Final = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")


def evaluate_generic(obj: CheckedObject) -> KindVerdict:
    """Decide by the first of five conditions, or else by phase, counters and other conditions.

    Ready    the first of the conditions Ready, Available, Succeeded, Complete and Completed that is
             present is True at this generation; without any, nothing in status says otherwise
    Settled  the same, it is not Reconciling or Progressing, no counted replica is missing, and
             reconciledGeneration, if there is one, is the generation
    """
    if not obj.has_status:
        return KindVerdict(
            (remark("status", have=ABSENT, note="no controller has written a status"),)
        )
    conditions = read_conditions(obj)
    reasons: list[Reason] = []
    failed = _add_failures(obj, conditions, reasons)
    decided = next(filter(None, map(conditions.get, _DECIDING)), None)
    broken = False
    if decided is None:
        failed = _add_phase(obj, reasons) or failed
    else:
        ended = decided.type == "Succeeded" and decided.status == FALSE
        failed = failed or (ended and not decided.stale(obj.generation))
        broken = _add_deciding_condition(obj, decided, reasons, failed=failed)
    blocks = Blocks.BOTH if decided is None else Blocks.SETTLED
    _add_unfinished(obj, conditions, reasons, blocks)
    progress = _add_counters(obj, reasons, blocks)
    degraded = _add_degraded(conditions, decided, reasons)
    if decided is None and progress is None and not reasons:
        path = "status.conditions[Ready]"
        reasons.append(
            remark(path, have=ABSENT, note="nothing in status says that it is not ready")
        )
    ends = decided is not None and decided.type in _ENDS
    finished = ends and (failed or not any(reason.blocks for reason in reasons))
    return KindVerdict(reasons, failed, broken, degraded, progress, finished)


def _add_failures(obj: CheckedObject, conditions: Conditions, reasons: list[Reason]) -> bool:
    """Add Stalled and Failed; return whether one of them is for the current generation."""
    failed = False
    for found in map(conditions.true, ("Stalled", "Failed")):
        if found is not None and found.stale(obj.generation):
            reasons.append(found.stale_reason(obj.generation))
        elif found is not None:
            reasons.append(found.blocking(FALSE, Blocks.READY))
            failed = True
    return failed


def _add_deciding_condition(
    obj: CheckedObject, decided: Condition, reasons: list[Reason], *, failed: bool
) -> bool:
    """Add why the deciding condition is not True; return whether it has been False for too long."""
    if decided.stale(obj.generation):
        reasons.append(decided.stale_reason(obj.generation))
        return False
    if decided.status == TRUE:
        return False
    reasons.append(decided.blocking(TRUE, Blocks.READY if failed else Blocks.BOTH))
    return decided.status == FALSE and obj.overdue(decided.since)


def _add_phase(obj: CheckedObject, reasons: list[Reason]) -> bool:
    """Add a phase that is not a success; return whether it is a failure."""
    phase = obj.status.get("phase")
    failed = isinstance(phase, str) and phase in _FAILED_PHASES
    if failed or (isinstance(phase, str) and phase in _WAITING_PHASES):
        blocks = Blocks.READY if failed else Blocks.BOTH
        reasons.append(Reason("status.phase", phase, "another phase", "", blocks))
    return failed


def _add_unfinished(
    obj: CheckedObject, conditions: Conditions, reasons: list[Reason], blocks: Blocks
) -> None:
    """Add Reconciling, Progressing and an old reconciledGeneration: the controller plans more."""
    reconciling = conditions.true("Reconciling")
    if reconciling is not None:
        reasons.append(reconciling.blocking(FALSE, blocks))
    progressing = conditions.get("Progressing")
    if progressing is not None and progressing.status != FALSE and not _is_complete(progressing):
        reasons.append(progressing.blocking(FALSE, blocks))
    reconciled = read_reconciled_generation(obj)
    if reconciled is not None and obj.generation is not None and reconciled[1] != obj.generation:
        path, value = reconciled
        reasons.append(Reason(path, value, str(obj.generation), "", Blocks.SETTLED))


def _is_complete(progressing: Condition) -> bool:
    return progressing.status == TRUE and progressing.reason in _COMPLETE


def _add_counters(obj: CheckedObject, reasons: list[Reason], blocks: Blocks) -> float | None:
    """Compare the present counters with spec.replicas; return the completed share, None if none."""
    desired = obj.spec.get("replicas")
    if type(desired) is not int:
        return None
    counts = {key: value for key in _COUNTS if type(value := obj.status.get(key)) is int}
    if not counts:
        return None
    for key, value in counts.items():
        require_at_least(reasons, key, value, desired, blocks)
    return completed_share(desired, *counts.values())


def _add_degraded(conditions: Conditions, decided: Condition | None, reasons: list[Reason]) -> bool:
    """Add Degraded, or Available=False beside a deciding Ready; return whether it is Yellow."""
    found = conditions.true("Degraded")
    if found is None and decided is not None and decided.type == "Ready":
        available = conditions.get("Available")
        found = available if available is not None and available.status == FALSE else None
    if found is None:
        return False
    note = short_word(found.reason) if found.reason else ""
    reasons.append(remark(found.path, have=short_word(found.status), note=note))
    return True


GENERIC: Final = KindRule(evaluate_generic, needs_spec=False, decides_alone=True)
RULES: Final[KindRules] = {}
"""None: GENERIC is for every kind that no module of this folder names."""
