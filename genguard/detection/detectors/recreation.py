"""An object that one actor creates and another deletes, by turns.

Reads   creations and deletions of one name, or of the generated names of one owner
Acts on turns that follow one from another, each with an object of its own
Result  blames who deletes, and who creates; the creator alone, where the garbage collector deletes:
        then the owner that the object names is not there. Two owners each of whom deletes and
        creates it are both blamed
Relies  on the same creator, deleter, owners and labels in each turn, on lives that are alike, and
        on pauses that are alike. Whoever deletes what is done, or his own, makes no turn
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from genguard.detection.detectors.detector import Blame, Detector, Signal
from genguard.detection.lives import Turns

_TURNS: Final = 4
"""A person who deletes a Pod so that it starts again does so two or three times."""
_TIMES: Final = 4.0
_SECONDS: Final = 10.0


class Recreation(Detector):
    """See the module."""

    name: ClassVar[str] = "recreation"

    def judge_turns(self, turns: Turns) -> Iterator[Signal]:
        """Yield one signal for an object that was deleted once more."""
        if turns.turns < _TURNS:
            return
        # The garbage collector comes when it has time. The same owner each time says enough.
        if not turns.is_collected and not _are_alike(turns.shortest_life, turns.longest_life):
            return
        if not _are_alike(turns.shortest_gap, turns.longest_gap):
            return
        creator, deleter = turns.creator, turns.deleter
        if turns.is_collected:
            message = (
                f"{creator.user} creates it again and again, and the garbage collector deletes it: "
                "the owner that it names is not there"
            )
        elif turns.likeness_of_other is not None:
            first, second = sorted((creator.user, deleter.user))
            message = f"{first} and {second} each delete it and create it as their own"
        else:
            message = f"{deleter.user} deletes what {creator.user} creates again"
        yield Signal(
            Blame.REQUESTER,
            (),
            message,
            (creator,) if turns.is_collected else (deleter, creator),
            evidence={"turns": turns.turns, "longestLifeSeconds": round(turns.longest_life, 1)},
        )


def _are_alike(shortest: float, longest: float) -> bool:
    """Return whether times in seconds are those of one cause; short ones always are."""
    return longest <= _TIMES * shortest + _SECONDS
