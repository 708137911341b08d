"""PersistentVolumes and PersistentVolumeClaims, by phase and by the conditions of a resize.

Reads    status.phase; a claim's conditions of resizing and modifying.
Source   kubernetes pkg/controller/volume/persistentvolume/pv_controller.go; core/v1 types.go:
         PersistentVolumeClaimConditionType.
"""

from typing import Final

from webhook.objects.fields import ABSENT
from webhook.status.conditions import FALSE, read_conditions
from webhook.status.judgement import GOOD, Judgement
from webhook.status.reason import Blocks, Reason, short_word
from webhook.status.subject import Subject

_CHANGES: Final = ("Resizing", "FileSystemResizePending", "ModifyingVolume")
_TROUBLES: Final = ("ControllerResizeError", "NodeResizeError", "ModifyVolumeError")


def judge_claim(subject: Subject) -> Judgement:
    """Bound, and no change of its volume under way; Lost is for good.

    Ready    status.phase is Bound
    Settled  the same with no resize or modification under way; or Lost
    """
    phase = subject.word("status", "phase")
    if phase == "Lost":
        note = "the volume that it was bound to is gone"
        return Judgement((Reason("status.phase", phase, "Bound", note, Blocks.READY),), failed=True)
    if phase != "Bound":
        return Judgement((_phase(phase, "Bound"),))
    if not subject.status.get("conditions"):
        return GOOD
    conditions = read_conditions(subject)
    found = [one for one in map(conditions.true, (*_CHANGES, *_TROUBLES)) if one is not None]
    return Judgement([one.blocking(FALSE, Blocks.SETTLED) for one in found])


def judge_volume(subject: Subject) -> Judgement:
    """Available or Bound; Released waits for an administrator, Failed was not reclaimed.

    Ready    status.phase is Available or Bound
    Settled  the same, Released or Failed
    """
    phase = subject.word("status", "phase")
    if phase in ("Available", "Bound"):
        return GOOD
    if phase in ("Released", "Failed"):
        reason = Reason("status.phase", phase, "Available or Bound", "", Blocks.READY)
        return Judgement((reason,), failed=phase == "Failed")
    return Judgement((_phase(phase, "Available or Bound"),))


def _phase(phase: str, want: str) -> Reason:
    return Reason("status.phase", short_word(phase) if phase else ABSENT, want)
