"""The latest values that one writer alone has given a leaf: a writer against itself.

Nothing in such turns says whether one process has changed its mind or two of one user fight. So
only the pace tells: a switch (on and off, scaled to zero and back, a condition) is turned often for
good reasons, another value is not.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from genguard.detection.changes import OFF, Change
from genguard.detection.digest import Digest
from genguard.detection.write import Write
from genguard.objects.fields import Path

_MOST_LEAVES: Final = 20
"""Of a write. A loop that changes more changes these."""
_TWO: Final = 2
SECONDS: Final = 10.0
_RETURNS_OF_TWO: Final = 5
_RETURNS: Final = 6
_VISITS: Final = 2
"""A rollout that is undone at once passes each of its states twice, and no more."""
_SWITCH_SECONDS: Final = 2.0
_SWITCH_RETURNS: Final = 9


class OwnTurn(NamedTuple):
    """What one write made of a leaf; None where it is absent."""

    time: float
    before: Digest | None
    after: Digest | None


def own_turns(
    meant: Iterable[Change], write: Write, stored: Sequence[Write], since: float
) -> dict[Path, list[OwnTurn]]:
    """Return the latest turns of each leaf, oldest first, back to `since` or to somebody else's.

    Each turn begins where the one before it ended: what is between them was not seen.
    """
    turns: dict[Path, list[OwnTurn]] = {one.key: [] for one in [*meant][:_MOST_LEAVES]}
    going_on = {*turns}
    for one in reversed(stored):
        if one.time <= since or not going_on:
            break
        is_own = one.requester.writer == write.requester.writer
        for change in one.content.admitted:
            if change.key not in going_on:
                continue
            some = turns[change.key]
            if not is_own or (some and some[-1].before != change.after):
                going_on.discard(change.key)
            else:
                some.append(OwnTurn(one.time, change.before, change.after))
    return {key: some[::-1] for key, some in turns.items() if some}


def is_to_and_fro(turns: Sequence[OwnTurn]) -> bool:
    """Whether the latest value is one of few that come again and again."""
    values = _values(turns, SECONDS)
    often = _often(values)
    if len(often) == _TWO and not OFF.isdisjoint(often):
        return is_switched(turns)
    needed = _RETURNS_OF_TWO if len(often) == _TWO else _RETURNS
    return _returns(values) >= needed and values[:-1].count(values[-1]) >= _VISITS


def is_switched(turns: Sequence[OwnTurn]) -> bool:
    """Whether two values come by turns, faster than there can be a reason for."""
    values = _values(turns, _SWITCH_SECONDS)
    return len(_often(values)) == _TWO and _returns(values) >= _SWITCH_RETURNS


def _values(turns: Sequence[OwnTurn], seconds: float) -> list[Digest | None]:
    """Return the values of the last seconds, with the one before them."""
    recent = [one for one in turns if one.time > turns[-1].time - seconds]
    return [recent[0].before, *(one.after for one in recent)] if recent else []


def _often(values: Sequence[Digest | None]) -> set[Digest | None]:
    """Return the values that came more than once."""
    return {one for one in values if values.count(one) > 1}


def _returns(values: Sequence[Digest | None]) -> int:
    """Return how many of the values were there before."""
    return sum(value in values[:at] for at, value in enumerate(values))


def is_new_each_time(turns: Sequence[OwnTurn]) -> bool:
    """Whether no value came twice, and none was taken away."""
    values = _values(turns, float("inf"))
    return None not in values[1:] and len({*values}) == len(values)
