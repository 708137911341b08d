"""Chases: two controllers write two objects, and each writes because the other has written.

Each of these proves that both react: each writes the generation or the resourceVersion that the
other has reached; or, over many turns, a delay of one delays the other as well. Two timers of the
same period make up for a delay, and so does an actor that waits for nobody: there a long gap is
followed by a short gap.

Not meant are values that come back (another loop), an owner and what it owns (a rollout is
alternation, too), several objects by one actor, and three that move by turns: two may follow the
third. Where labels and annotations are all that is written, times alone prove nothing.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import correlation, fmean, median, pstdev
from typing import ClassVar, Final, NamedTuple

from genguard.detection.history import Move, MovingObject, ObjectHistory
from genguard.detection.questions.question import (
    Answers,
    Blame,
    Declared,
    Event,
    Question,
    Seen,
    Signal,
    signal,
)
from genguard.detection.values import Digest, digest_of
from genguard.detection.write import ObjectKey, Write

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


class _Turns(NamedTuple):
    """The latest moves of both by turns, the oldest first; it ends with a move of mine.

    to_them, to_me  seconds from each move of mine to theirs, and from each of theirs to mine
    """

    mine: Sequence[Move]
    theirs: Sequence[Move]

    @property
    def to_them(self) -> list[float]:
        return _gaps(self.mine, self.theirs)

    @property
    def to_me(self) -> list[float]:
        return _gaps(self.theirs, self.mine[1:])


def _gaps(moves: Sequence[Move], after: Sequence[Move]) -> list[float]:
    return [later.time - one.time for one, later in zip(moves, after, strict=False)]


class Chases(Question):
    """See the module."""

    findings: ClassVar = (LOOP,)

    def ask(self, event: Event) -> Answers:
        """Ask whether a write is one of a chase."""
        if isinstance(event, Seen) and event.write.writes_more:
            yield from LOOP.of(_chased(*event))


def _chased(write: Write, past: ObjectHistory) -> Iterator[Signal]:
    if past.in_turn is None:
        return
    mine = past.in_turn.mine
    others = _unrelated(mine, past.in_turn.others)
    if len(others) != 1 or others[0].requester.user == mine.requester.user:
        return
    (theirs,) = others
    turns = _by_turns(mine, theirs)
    # It is told of the object whose name is the first.
    if _place(mine.object) < _place(theirs.object) and _is_chase(turns):
        other, users = _told(theirs.object), (mine.requester.user, theirs.requester.user)
        yield signal(
            write,
            Blame.REQUESTER,
            write.all_pointers(),
            f"{' and '.join(users)} chase each other: the one writes {_told(mine.object)}, the "
            f"other {other}, {len(turns.theirs)} times by turns",
            requesters=(mine.requester, theirs.requester),
            evidence={"other": other, "otherUser": users[1]},
        )


def _unrelated(mine: MovingObject, others: Sequence[MovingObject]) -> list[MovingObject]:
    """Return the others without family of mine, and without what one of the others owns.

    What is owned by an object that moves as well follows that one: it chases nobody.
    """
    uids = {one.object.uid for one in others}
    if mine.owner and mine.owner in uids:
        return []
    return [
        one
        for one in others
        if not _is_family(mine, one) and (not one.owner or one.owner not in uids)
    ]


def _is_family(one: MovingObject, other: MovingObject) -> bool:
    """Whether one owns the other, or both have one owner: its controller writes both."""
    return (
        one.owner == other.object.uid != ""
        or other.owner == one.object.uid != ""
        or one.owner == other.owner != ""
    )


def _by_turns(mine: MovingObject, theirs: MovingObject) -> _Turns:
    """Return the latest moves, as far back as each moves once after the other, and steadily."""
    newest = mine.moves[-1].time
    before = [(one.time, 1, one) for one in theirs.moves if one.time < newest]
    both = sorted([*before, *((one.time, 0, one) for one in mine.moves)], key=lambda one: one[:2])
    run = [both.pop()]
    while both and both[-1][1] != run[-1][1]:
        run.append(both.pop())
    if len(run) % 2 == 0:
        run.pop()
    found = [move for *_, move in reversed(run)]
    turns = _Turns(found[::2], found[1::2])
    steady = min(_steady(turns.to_them), _steady(turns.to_me))
    return _Turns(
        turns.mine[len(turns.mine) - steady - 1 :], turns.theirs[len(turns.theirs) - steady :]
    )


def _steady(gaps: Sequence[float]) -> int:
    """Return how many of the latest gaps are about as long as the others."""
    usual = median(gaps) if gaps else 0.0
    count = 0
    for gap in reversed(gaps):
        if not usual <= gap * _STEADY or not gap <= usual * _STEADY:
            break
        count += 1
    return count


def _is_chase(turns: _Turns) -> bool:
    mine, theirs, to_them, to_me = *turns, turns.to_them, turns.to_me
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
    periods = _gaps(moves, moves[1:])
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
