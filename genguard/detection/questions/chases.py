"""Chases: two controllers write two objects, and each writes because the other has written.

Each of these proves that both react: each writes the generation or the resourceVersion that the
other has reached; or, over many turns, a delay of one delays the other as well. Two timers of the
same period make up for a delay, and so does an actor that waits for nobody: there a long gap is
followed by a short gap.

Not meant are values that come back (another loop), an owner and what it owns (a rollout is
alternation, too), several objects by one actor, and three that move by turns: two may follow the
third. Where labels and annotations are all that is written, times alone prove nothing.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import pairwise, takewhile
from statistics import correlation, fmean, median, pstdev
from typing import ClassVar, Final, NamedTuple

import msgspec

from genguard.admission.review import Phase
from genguard.detection.history import ObjectHistory, history_name
from genguard.detection.questions.question import (
    Answers,
    Blame,
    Declared,
    Event,
    Question,
    Seen,
    signal,
)
from genguard.detection.values import Digest, digest_of
from genguard.detection.write import ObjectKey, Requester, Write

LOOP: Final = Declared(
    "cross-object-loop",
    "two controllers chase each other over two objects",
    "[changes {} and others in a circle|chase each other over {} and others]",
)
_TURNS_WRITTEN: Final = 6
"""Of each, where each writes what the other has reached."""
_TURNS_TIMED: Final = 10
"""Of each, where times alone tell it."""
_SECONDS_WRITTEN: Final = 15.0
_SECONDS_TIMED: Final = 2.0
"""The longest gap. Controllers that have no reason to wait react within a second or two."""
_STEADY: Final = 3.0
"""No gap is so many times longer or shorter than gaps usually are."""
_ALIKE: Final = 4.0
"""Neither of the two takes so many times longer: who starts both would be a third."""
_CLOCKWORK: Final = 0.015
"""A timer is more regular than this: the standard deviation of its periods, by their mean."""
_SECONDS_OF_TIMERS: Final = 1.0
"""No controller has a timer of so short a period."""
_SECONDS_MEASURED: Final = 0.0001
"""Gaps that vary less tell nothing."""
_AS_UNSTEADY: Final = 1.7
"""Of two sorts of gaps: where one varies more, it hides what a delay of the other does."""
_MAKES_UP: Final = -0.2
"""A correlation below this: after a long gap comes a short gap."""
_COMPARED: Final = 3
"""Moves of each whose values were compared; the first writes of an object are not."""
_OFTEN: Final = 0.7


MOST_MOVING: Final = 400
MOST_MOVES: Final = 24
_MOVES_BEFORE: Final = 4
"""An object with so many moves by one actor is followed from then on."""
_SECONDS_BETWEEN: Final = 60.0
"""Moves that are further apart are not the same loop."""
_TURNS: Final = 3
"""Two objects that moved by turns so often are looked at; for most it is chance."""
_MOST_LOOKED_BACK: Final = 64
_MOST_LEAVES_OF_MOVE: Final = 4
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


_Turns = tuple[Sequence[Move], Sequence[Move]]
"""The latest moves of mine, and of theirs between them, the oldest first."""


def _chased(write: Write, mine: MovingObject, some: Sequence[MovingObject]) -> Answers:
    others = _unrelated(mine, some)
    if len(others) != 1 or others[0].requester.user == mine.requester.user:
        return
    (theirs,) = others
    turns = _by_turns(mine.moves, theirs.moves)
    # It is told of the object whose name is the first.
    if _place(mine.object) < _place(theirs.object) and _is_chase(turns):
        other, user = _told(theirs.object), theirs.requester.user
        said = f"{mine.requester.user} and {user} chase each other: the one writes"
        said += f" {_told(mine.object)}, the other {other}, {len(turns[1])} times by turns"
        requesters, evidence = (
            (mine.requester, theirs.requester),
            {"other": other, "otherUser": user},
        )
        more = {"requesters": requesters, "evidence": evidence}
        yield signal(LOOP, write, Blame.REQUESTER, write.all_pointers(), said, **more)


def _unrelated(mine: MovingObject, others: Sequence[MovingObject]) -> list[MovingObject]:
    """Return the others without family of mine, and without what one of the others owns.

    What is owned by an object that moves as well follows that one: it chases nobody. What has the
    same owner is written by that one's controller.
    """
    uids = {one.object.uid for one in others}
    if mine.owner and mine.owner in uids:
        return []
    owners = {*uids, mine.object.uid, mine.owner}
    return [one for one in others if not one.owner or one.owner not in owners]


def _by_turns(mine: Sequence[Move], theirs: Sequence[Move]) -> _Turns:
    """Return the latest moves, as far back as each moves once after the other, and steadily."""
    before = [(one.time, 1, one) for one in theirs if one.time < mine[-1].time]
    both = sorted([*before, *((one.time, 0, one) for one in mine)], key=lambda one: one[:2])
    run = [both.pop()]
    while both and both[-1][1] != run[-1][1]:
        run.append(both.pop())
    if len(run) % 2 == 0:
        run.pop()
    moves = [move for *_, move in reversed(run)]
    steady = min(map(_steady, _gaps((moves[::2], moves[1::2]))))
    moves = moves[-2 * steady - 1 :]
    return moves[::2], moves[1::2]


def _gaps(turns: _Turns) -> tuple[list[float], list[float]]:
    """Return the seconds from each move of mine to theirs, and from each of theirs to mine."""
    mine, theirs = turns
    return _seconds(mine, theirs), _seconds(theirs, mine[1:])


def _seconds(moves: Sequence[Move], after: Sequence[Move]) -> list[float]:
    return [later.time - one.time for one, later in zip(moves, after, strict=False)]


def _steady(gaps: Sequence[float]) -> int:
    """Return how many of the latest gaps are about as long as the others."""
    usual = median(gaps) if gaps else 0.0
    steady = takewhile(lambda gap: gap <= usual * _STEADY and usual <= gap * _STEADY, gaps[::-1])
    return len([*steady])


def _is_chase(turns: _Turns) -> bool:
    (mine, theirs), (to_them, to_me) = turns, _gaps(turns)
    if len(theirs) < _TURNS_WRITTEN or not _is_new(mine) or not _is_new(theirs):
        return False
    longest = max(*to_them, *to_me)
    if longest <= _SECONDS_WRITTEN and _write_what_they_saw(turns):
        return True
    if any(one.is_of_metadata for one in (*mine, *theirs)):
        return False  # heartbeats, leases and passes of many tools are there
    if len(theirs) < _TURNS_TIMED or longest > _SECONDS_TIMED:
        return False
    usual = sorted((median(to_them), median(to_me)))
    return (
        usual[1] <= _ALIKE * usual[0]
        and not (_is_timer(mine) or _is_timer(theirs))
        and _goes_with(to_them, to_me)
        and _goes_with(to_me[:-1], to_them[1:])
    )


def _is_new(moves: Sequence[Move]) -> bool:
    """Whether no value came back, of those that were compared."""
    made = [one.made for one in moves if one.made]
    return len(made) >= _COMPARED and len(set(made)) == len(made)


def _write_what_they_saw(turns: _Turns) -> bool:
    """Whether each writes the generation, or each the resourceVersion, that the other reached."""
    mine, theirs = turns
    by_me = list(zip(theirs, (*theirs[1:], None), mine[1:], strict=True))
    by_them = [
        (one, after, move) for (one, after), move in zip(pairwise(mine), theirs, strict=True)
    ]
    return any(
        all(
            sum(bool(reached(one, after).intersection(move.made)) for one, after, move in each)
            >= max(_OFTEN * sum(bool(move.made) for *_, move in each), _COMPARED)
            for each in (by_me, by_them)
        )
        for reached in (_generation, _version)
    )


def _generation(move: Move, _: Move | None) -> set[Digest]:
    """Return digests of the generation that a move has reached, as a number and as a text."""
    number = str(move.generation).encode()
    return {digest_of(number), digest_of(b'"%b"' % number)}


def _version(_: Move, after: Move | None) -> set[Digest]:
    """Return the digest of the resourceVersion that it has reached: the next is written upon it."""
    return set() if after is None else {digest_of(b'"%b"' % after.base.encode())}


def _is_timer(moves: Sequence[Move]) -> bool:
    periods = _seconds(moves, moves[1:])
    usual = fmean(periods)
    return usual > _SECONDS_OF_TIMERS and pstdev(periods) < _CLOCKWORK * usual


def _goes_with(gaps: Sequence[float], next_gaps: Sequence[float]) -> bool:
    """Whether the one does not make up for the other: then it begins when the other ends."""
    one, other = pstdev(gaps), pstdev(next_gaps)
    if min(one, other) < _SECONDS_MEASURED or max(one, other) > _AS_UNSTEADY * min(one, other):
        return False
    return correlation(gaps, next_gaps) > _MAKES_UP


def _place(where: ObjectKey) -> tuple[str, str, str, str]:
    return where.group, where.resource, where.namespace, where.name


def _told(where: ObjectKey) -> str:
    names = "/".join(one for one in (where.namespace, where.name) if one)
    return f"{where.resource} {names}"


class Chases(Question):
    """See the module.

    It remembers objects that one actor moves; those that have not moved for longest go first.
    """

    findings: ClassVar = (LOOP,)

    def __init__(self) -> None:
        self._moving: Final[OrderedDict[str, MovingObject]] = OrderedDict()
        self._turns: Final[dict[str, dict[str, int]]] = {}
        """Of each object the others that moved just once between its moves, and how often."""
        self._latest: Final[deque[str]] = deque(maxlen=_MOST_LOOKED_BACK)

    def ask(self, event: Event) -> Answers:
        """Ask whether a write is one of a chase."""
        if isinstance(event, Seen) and Phase.OUTCOME not in event.write.missing:
            mine = self._move(event.write, event.past)
            if mine is not None:
                yield from _chased(event.write, mine, self._in_turn_with(mine))

    def _move(self, write: Write, past: ObjectHistory) -> MovingObject | None:
        """Take in the newest write of an object; return the object if it goes on moving."""
        if not _is_move(write):
            return None
        name = history_name(write.object)
        known = self._moving.get(name)
        if known is None and len(past.writes) < _MOVES_BEFORE:
            return None
        if known is not None and not _goes_on(known, write):
            self._drop(name)
            known = None
        moves = (*_without_rival(known, write), _move(write)) if known else _moves_of(past.writes)
        if len(moves) < _MOVES_BEFORE:
            return None
        mine = MovingObject(write.object, write.requester, past.owner, moves[-MOST_MOVES:])
        self._moving[name] = mine
        self._moving.move_to_end(name)
        return mine

    def _in_turn_with(self, mine: MovingObject) -> list[MovingObject]:
        """Return the objects that have moved in turn with one that has just moved."""
        name = history_name(mine.object)
        turns = self._turns_of(name)
        self._latest.append(name)
        while len(self._moving) > MOST_MOVING:
            self._drop(next(iter(self._moving)))
        often = [one for one, count in turns.items() if count >= _TURNS]
        return [self._moving[one] for one in often if one in self._moving]

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
        tuple(made[:_MOST_LEAVES_OF_MOVE]),
        not _moves_state(write),
    )
