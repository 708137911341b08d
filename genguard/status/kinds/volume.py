"""PersistentVolumes and PersistentVolumeClaims, by phase and by the conditions of a resize.

Reads    status.phase; a claim's conditions of resizing and modifying.
Source   kubernetes pkg/controller/volume/persistentvolume/pv_controller.go; core/v1 types.go:
         PersistentVolumeClaimConditionType.
"""

from typing import Final

from genguard.objects.fields import ABSENT
from genguard.status.checked_object import FALSE, CheckedObject, read_conditions
from genguard.status.kind_rule import NOTHING_BLOCKS, KindRule, KindRules, KindVerdict
from genguard.status.view import Blocks, Reason, short_word

_IN_PROGRESS: Final = ("Resizing", "FileSystemResizePending", "ModifyingVolume")
_ERRORS: Final = ("ControllerResizeError", "NodeResizeError", "ModifyVolumeError")


def evaluate_claim(obj: CheckedObject) -> KindVerdict:
    """Require phase Bound; a claim whose volume is Lost has failed for good.

    Ready    status.phase is Bound
    Settled  the same without a resize or modification in progress; or Lost
    """
    phase = obj.word("status", "phase")
    if phase == "Lost":
        note = "the volume that it was bound to is gone"
        return KindVerdict(
            (Reason("status.phase", phase, "Bound", note, Blocks.READY),), failed=True
        )
    if phase != "Bound":
        return KindVerdict((_phase(phase, "Bound"),))
    if not obj.status.get("conditions"):
        return NOTHING_BLOCKS
    conditions = read_conditions(obj)
    found = map(conditions.true, (*_IN_PROGRESS, *_ERRORS))
    return KindVerdict(
        [condition.blocking(FALSE, Blocks.SETTLED) for condition in found if condition is not None]
    )


def evaluate_volume(obj: CheckedObject) -> KindVerdict:
    """Require Available or Bound; Released and Failed wait for an administrator.

    Ready    status.phase is Available or Bound
    Settled  the same, Released or Failed
    """
    phase = obj.word("status", "phase")
    if phase in ("Available", "Bound"):
        return NOTHING_BLOCKS
    if phase in ("Released", "Failed"):
        reason = Reason("status.phase", phase, "Available or Bound", "", Blocks.READY)
        return KindVerdict((reason,), failed=phase == "Failed")
    return KindVerdict((_phase(phase, "Available or Bound"),))


def _phase(phase: str, want: str) -> Reason:
    return Reason("status.phase", short_word(phase) if phase else ABSENT, want)


RULES: Final[KindRules] = {
    ("", "PersistentVolume"): KindRule(evaluate_volume),
    ("", "PersistentVolumeClaim"): KindRule(evaluate_claim),
}
