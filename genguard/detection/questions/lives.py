"""Lives: an object that one actor creates and another deletes, by turns.

Reads   creations and deletions of one name, or of the generated names of one owner
Result  blames who deletes, and who creates; the creator alone, where the garbage collector
        deletes: then the owner that the object names is not there. Two owners each of whom
        deletes and creates it are both blamed
Relies  on the same creator, deleter, owners and labels in each turn, on lives that are alike,
        and on pauses that are alike. Whoever deletes what is done, or his own, makes no turn
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from genguard.detection.lives import Turns
from genguard.detection.questions.question import (
    Answers,
    Blame,
    Declared,
    Event,
    Question,
    Recreated,
    Signal,
)

RECREATION: Final = Declared(
    "recreation",
    "one actor creates an object, another deletes it, or each of two does both",
    "[deletes and creates|create and delete] {} again and again",
    is_harm=True,
)
_TURNS: Final = 4
"""A person who deletes a Pod so that it starts again does so two or three times."""
_TIMES_OF_TURNS: Final = 4.0
_SECONDS_OF_TURNS: Final = 10.0


class Lives(Question):
    """See the module."""

    findings: ClassVar = (RECREATION,)

    def ask(self, event: Event) -> Answers:
        """Ask whether an object was deleted once more."""
        if isinstance(event, Recreated):
            yield from RECREATION.of(_recreated(event.turns))


def _recreated(turns: Turns) -> Iterator[Signal]:
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
    return longest <= _TIMES_OF_TURNS * shortest + _SECONDS_OF_TURNS
