"""What a contest over a field is, and who takes part in it."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from genguard.blame.field_paths import FieldPath, show
from genguard.detection.finding import Confidence
from genguard.shipped import shipped


class Contest(StrEnum):
    """Why a manifest does not come to rest; the value is the id of a SARIF rule."""

    OVERWRITTEN = "field-overwritten"
    NEVER_SETTLES = "never-settles"
    STATUS_LOST = "status-lost"
    OWNED = "owned-by-another"
    REFUSED = "refused"
    TAKEN_FROM_PODS = "taken-from-pods"


REASONS: Final = shipped("genguard.converge", "contests.yaml", dict[Contest, str])


class Level(StrEnum):
    """Whether writes will go on for ever."""

    FIGHT = "fight"
    NOTE = "note"


class Party(NamedTuple):
    """Somebody who writes a field: webhook, policy, user, manager or apiserver.

    manager  the field manager, as managedFields name it; "" where that is not known
    """

    type: str
    name: str
    confidence: Confidence = Confidence.CERTAIN
    manager: str = ""


class CycleStep(NamedTuple):
    """One step of the cycle: who leaves which value. The value may be ABSENT."""

    who: str
    value: Any


class Contested(NamedTuple):
    """One field over which parties fight, or that is worth a note.

    path     the field; () where the object as a whole is meant
    cycle    one round of the cycle
    note     what else is known, as which rule of a GitOps tool ignores it
    """

    contest: Contest
    level: Level
    path: FieldPath
    parties: tuple[Party, ...]
    cycle: tuple[CycleStep, ...] = ()
    note: str = ""

    @property
    def field(self) -> str:
        """As people name it: `spec.template.spec.containers[web].image`."""
        return show(self.path)


class ConvergeResult(NamedTuple):
    """What was found about one object.

    settles_after  how many applies it takes until nothing changes; 0 where that never comes
    left_out       webhooks that were not called, with the reason
    """

    object: Mapping[str, str]
    contested: Sequence[Contested]
    settles_after: int
    left_out: Mapping[str, str]

    @property
    def is_known(self) -> bool:
        """Whether everybody who acts on the object was asked."""
        return not self.left_out

    @property
    def fights(self) -> bool:
        """Whether somebody would write for ever."""
        return any(contested.level is Level.FIGHT for contested in self.contested)
