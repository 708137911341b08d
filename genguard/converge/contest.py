"""What a contest over a field is, and who takes part in it."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from genguard.blame.places import Place, show
from genguard.detection.finding import Confidence


class Contest(StrEnum):
    """Why a manifest does not come to rest; the value is the id of a SARIF rule."""

    OVERWRITTEN = "field-overwritten"
    NEVER_SETTLES = "never-settles"
    STATUS_LOST = "status-lost"
    OWNED = "owned-by-another"
    REFUSED = "refused"
    TAKEN_FROM_PODS = "taken-from-pods"


REASONS: Final[Mapping[Contest, str]] = {
    Contest.OVERWRITTEN: (
        "What the manifest asks for is not what is stored: each apply asks for it again, and a "
        "GitOps tool sees a difference for ever."
    ),
    Contest.NEVER_SETTLES: (
        "A write that asks for nothing new changes the object again. A mutating webhook must be "
        "idempotent: what it has changed once, it leaves alone."
    ),
    Contest.STATUS_LOST: (
        "What a controller reports in status does not arrive: it reports again and again, or "
        "nobody learns what it has seen."
    ),
    Contest.OWNED: (
        "Somebody else owns the field, with another value, and will write it back. Leave it out of "
        "the manifest, or take it from its other owner."
    ),
    Contest.REFUSED: "What others make of the manifest is refused by the API server.",
    Contest.TAKEN_FROM_PODS: (
        "Each new pod loses a field of its template: it runs otherwise than asked, or never starts."
    ),
}


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


class Turn(NamedTuple):
    """One step of the cycle: who leaves which value. The value may be ABSENT."""

    who: str
    value: Any


class Contested(NamedTuple):
    """One field over which parties fight, or that is worth a note.

    place    the field; () where the object as a whole is meant
    turns    one round of the cycle
    note     what else is known, as which rule of a GitOps tool ignores it
    """

    contest: Contest
    level: Level
    place: Place
    parties: tuple[Party, ...]
    turns: tuple[Turn, ...] = ()
    note: str = ""

    @property
    def field(self) -> str:
        """As people name it: `spec.template.spec.containers[web].image`."""
        return show(self.place)


class Verdict(NamedTuple):
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
        return any(one.level is Level.FIGHT for one in self.contested)
