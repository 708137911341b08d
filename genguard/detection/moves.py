"""The latest moves of the objects that one actor moves again and again, over all objects.

A move is a write that changes more than status and times, or a label or an annotation. Each
detector sees the history of one object; this index tells it which other objects move in turn with
that one. Bounded in objects and in moves of each, and cheap: objects that are written now and then
are not in it.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from genguard.detection.digest import Digest
from genguard.detection.write import ObjectKey, Requester, Write

MOST_MOVING: Final = 400
MOST_MOVES: Final = 24
_MOVES_BEFORE: Final = 4
"""An object with so many moves by one actor is followed from then on."""
_SECONDS_BETWEEN: Final = 60.0
"""Moves that are further apart are not the same loop."""
_TURNS: Final = 3
"""Two objects that moved by turns so often are looked at; for most it is chance."""
_MOST_LOOKED_BACK: Final = 64
_MOST_LEAVES: Final = 4
_LONGEST_VERSION: Final = 64
_RECORDS: Final = frozenset({"events", "leases", "endpoints", "endpointslices"})
"""Their writers record what happens elsewhere, and nobody is led by them."""


class Move(NamedTuple):
    """One move of an object.

    base        the resourceVersion that it was written upon
    generation  the generation afterwards
    made        digests of the first new values
    is_of_metadata  it changes metadata alone
    """

    time: float
    base: str
    generation: int
    made: tuple[Digest, ...]
    is_of_metadata: bool = False


class MovingObject(msgspec.Struct, frozen=True, gc=False):
    """An object, the only actor that moves it, the uid of its owner, and its latest moves."""

    object: ObjectKey
    requester: Requester
    owner: str
    moves: tuple[Move, ...]


class InTurn(msgspec.Struct, frozen=True, gc=False):
    """An object that has just moved, and the objects that move in turn with it."""

    mine: MovingObject
    others: tuple[MovingObject, ...]


class Moves:
    """The index. Objects that have not moved for longest are dropped first."""

    def __init__(self) -> None:
        self._moving: Final[OrderedDict[str, MovingObject]] = OrderedDict()
        self._turns: Final[dict[str, dict[str, int]]] = {}
        """Of each object the others that moved just once between its moves, and how often."""
        self._latest: Final[deque[str]] = deque(maxlen=_MOST_LOOKED_BACK)

    def add(self, name: str, write: Write, owner: str, past: Sequence[Write]) -> InTurn | None:
        """Take in the newest write of an object; `past` are all that are remembered of it.

        Return the objects that move in turn with it, None where there are none.
        """
        if not _is_move(write):
            return None
        known = self._moving.get(name)
        if known is None and len(past) < _MOVES_BEFORE:
            return None
        if known is not None and not _goes_on(known, write):
            self._drop(name)
            known = None
        moves = _moves_of(past) if known is None else (*_without_rival(known, write), _move(write))
        if len(moves) < _MOVES_BEFORE:
            return None
        mine = MovingObject(write.object, write.requester, owner, moves[-MOST_MOVES:])
        self._moving[name] = mine
        self._moving.move_to_end(name)
        turns = self._turns_of(name)
        self._latest.append(name)
        while len(self._moving) > MOST_MOVING:
            self._drop(next(iter(self._moving)))
        often = [one for one, count in turns.items() if count >= _TURNS]
        others = tuple(self._moving[one] for one in often if one in self._moving)
        return InTurn(mine, others) if others else None

    def _turns_of(self, name: str) -> dict[str, int]:
        """Count the others that have moved just once since the last move of this object."""
        since: dict[str, int] = {}
        for one in reversed(self._latest):
            if one == name:
                break
            since[one] = since.get(one, 0) + 1
        before = self._turns.get(name, {})
        turns = {
            one: before.get(one, 0) + 1
            for one, count in since.items()
            if count == 1 and one in self._moving
        }
        self._turns[name] = turns
        return turns

    def _drop(self, name: str) -> None:
        del self._moving[name]
        self._turns.pop(name, None)


def _is_move(write: Write) -> bool:
    if not write.writes_more or write.object.resource in _RECORDS:
        return False
    changes = write.content.admitted.changes
    if _moves_state(write) and (not changes or not all(one.holds_time for one in changes)):
        return True
    return any(not one.holds_time for one in write.metadata.admitted)


def _moves_state(write: Write) -> bool:
    return write.touches_more and write.state_before != write.state_after


def _goes_on(known: MovingObject, write: Write) -> bool:
    return (
        known.requester.user == write.requester.user
        and write.time - known.moves[-1].time <= _SECONDS_BETWEEN
    )


def _without_rival(known: MovingObject, write: Write) -> tuple[Move, ...]:
    """Return the earlier moves; of two writes upon one version only one was stored."""
    return (
        known.moves[:-1] if known.moves[-1].base == write.base[:_LONGEST_VERSION] else known.moves
    )


def _moves_of(past: Sequence[Write]) -> tuple[Move, ...]:
    """Return the latest moves by the actor of the newest one, without anybody else's between."""
    found: list[Write] = []
    newest = past[-1]
    for one in reversed(past):
        if not _is_move(one) or (found and one.base == found[-1].base):
            continue
        later = found[-1].time if found else one.time
        if one.requester.user != newest.requester.user or later - one.time > _SECONDS_BETWEEN:
            break
        found.append(one)
    return tuple(map(_move, reversed(found)))


def _move(write: Write) -> Move:
    changes = (*write.content.admitted, *write.metadata.admitted)
    made = [one.after for one in changes if one.after is not None and one.salt]
    return Move(
        write.time,
        write.base[:_LONGEST_VERSION],
        write.generation_after,
        tuple(made[:_MOST_LEAVES]),
        not _moves_state(write),
    )
