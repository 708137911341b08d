"""Every kind without a rule of its own, by the conditions that many controllers write.

Reads    conditions Ready, or else Available, Succeeded, Complete or Completed; Reconciling,
         Stalled, Progressing, Failed, Degraded; status.phase when none of the first five is
         present; counters of replicas against spec.replicas; the fields and conditions of
         standard_fields.py and reconciledGeneration. Conditions and standard fields may be in
         status, status.meta or metadata.status.
Relies   on the observedGeneration of each condition: Ready=True of another generation is old.
"""

from typing import Final

from genguard.objects.fields import ABSENT, text
from genguard.status import standard_fields
from genguard.status.checked_object import CheckedObject, Condition, Conditions, Sections
from genguard.status.kind_rule import (
    KindResult,
    KindRule,
    KindRules,
    completed_share,
    require_at_least,
)
from genguard.status.names import NAMES
from genguard.status.view import Blocks, Health, Reason, remark, short_word

_DECIDING: Final = ("Ready", "Available", "Succeeded", "Complete", "Completed")
"""The first one that is present decides."""
_ENDS: Final = frozenset({"Succeeded", "Complete", "Completed"})
_COMPLETE: Final = frozenset({"NewReplicaSetAvailable", "NewReplicationControllerAvailable"})
"""Reasons of Progressing=True that mean done (Deployment's, and those who copied it)."""
_COUNTS: Final = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")


def evaluate_generic(obj: CheckedObject) -> KindResult:
    """Decide by what the controller says, or else by phase, counters and other conditions."""
    if not obj.has_status and not isinstance(obj.metadata.get("status"), dict):
        return KindResult(
            (remark("status", have=ABSENT, note="no controller has written a status"),)
        )
    sections, reasons = standard_fields.current_sections(obj, obj.sections)
    conditions = Conditions.of(*sections)
    failed = _add_failures(obj, conditions, reasons)
    decided = next(filter(None, map(conditions.get, _DECIDING)), None)
    ready = standard_fields.read_ready(sections)
    settled = standard_fields.read_settled(obj, conditions, sections)
    is_said = decided is not None or ready.said
    unfinished = Blocks.SETTLED if is_said else Blocks.BOTH
    broken = False
    if decided is None:
        failed = _add_phase(obj, reasons, unfinished) or failed
    else:
        ended = decided.type == "Succeeded" and decided.status == "False"
        failed = failed or (ended and not decided.stale(obj.generation))
    # Who is not ready has not settled either, unless the controller says that it plans no more.
    unready = Blocks.READY if failed or settled.holds else Blocks.BOTH
    if decided is not None:
        broken = _add_deciding_condition(obj, decided, reasons, unready)
    reasons += [reason._replace(blocks=unready) for reason in ready.reasons]
    reasons += settled.reasons
    _add_unfinished(obj, conditions, reasons, unfinished)
    progress = _add_counters(obj, reasons, unfinished)
    if progress is None:
        progress = _add_progress(sections, reasons, failed=failed)
    red = Blocks.NOTHING if is_said else unready
    health, why = standard_fields.read_health(obj, conditions, sections, red)
    reasons += why
    degraded = _add_degraded(conditions, decided, reasons) or health is Health.YELLOW
    reasons += [*ready.remarks, *settled.remarks]
    is_silent = not (is_said or settled.said or health or degraded)
    if is_silent and progress is None and not any(reason.blocks for reason in reasons):
        path = "status.conditions[Ready]"
        reasons.append(
            remark(path, have=ABSENT, note="nothing in status says that it is not ready")
        )
    ends = decided is not None and decided.type in _ENDS
    finished = ends and (failed or not any(reason.blocks for reason in reasons))
    broken = broken or health is Health.RED
    return KindResult(reasons, failed, broken, degraded, progress, finished)


def _add_failures(obj: CheckedObject, conditions: Conditions, reasons: list[Reason]) -> bool:
    """Add Stalled and Failed; return whether one of them is for the current generation."""
    failed = False
    for found in map(conditions.true, ("Stalled", "Failed")):
        if found is not None and found.stale(obj.generation):
            reasons.append(found.stale_reason(obj.generation))
        elif found is not None:
            reasons.append(found.blocking("False", Blocks.READY))
            failed = True
    return failed


def _add_deciding_condition(
    obj: CheckedObject, decided: Condition, reasons: list[Reason], blocks: Blocks
) -> bool:
    """Add why the deciding condition is not True; return whether it has been False for too long."""
    if decided.stale(obj.generation):
        reasons.append(decided.stale_reason(obj.generation))
        return False
    if decided.status == "True":
        return False
    reasons.append(decided.blocking("True", blocks))
    return decided.status == "False" and obj.overdue(decided.since)


def _add_phase(obj: CheckedObject, reasons: list[Reason], unfinished: Blocks) -> bool:
    """Add a phase that is not a success; return whether it is a failure."""
    phase = obj.status.get("phase")
    meaning = NAMES["phases"].get(text(phase))
    if meaning is not None:
        blocks = Blocks.READY if meaning == "failed" else unfinished
        reasons.append(Reason("status.phase", phase, "another phase", "", blocks))
    return meaning == "failed"


def _add_unfinished(
    obj: CheckedObject, conditions: Conditions, reasons: list[Reason], blocks: Blocks
) -> None:
    """Add Reconciling, Progressing and an old reconciledGeneration: the controller plans more."""
    reconciling = conditions.true("Reconciling")
    if reconciling is not None:
        reasons.append(reconciling.blocking("False", blocks))
    progressing = conditions.get("Progressing")
    if progressing is not None and progressing.status != "False":
        is_complete = progressing.status == "True" and progressing.reason in _COMPLETE
        reasons += [] if is_complete else [progressing.blocking("False", blocks)]
    reconciled = obj.reconciled_generation
    if reconciled is not None and obj.generation is not None and reconciled[1] != obj.generation:
        path, value = reconciled
        reasons.append(Reason(path, value, str(obj.generation), "", Blocks.SETTLED))


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


def _add_progress(sections: Sections, reasons: list[Reason], *, failed: bool) -> float | None:
    """Add a progress below 100%, unless the controller gave up; return the completed share."""
    found = standard_fields.read_progress(sections)
    if found is None:
        return None
    path, share = found
    if share < 1.0 and not failed:
        reasons.append(Reason(path, f"{share:.0%}", "100%", "", Blocks.SETTLED))
    return share


def _add_degraded(conditions: Conditions, decided: Condition | None, reasons: list[Reason]) -> bool:
    """Add Degraded, or Available=False beside a deciding Ready; return whether it is Yellow."""
    found = conditions.true("Degraded")
    if found is None and decided is not None and decided.type == "Ready":
        available = conditions.get("Available")
        found = available if available is not None and available.status == "False" else None
    if found is None:
        return False
    reasons.append(remark(found.path, have=short_word(found.status), note=found.note))
    return True


GENERIC: Final = KindRule(evaluate_generic, needs_spec=False, decides_alone=True)
RULES: Final[KindRules] = {}
"""None: GENERIC is for every kind that no module of this folder names."""
