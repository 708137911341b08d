"""Chases: two controllers write two objects, and each writes because the other has written.

Each of these proves that both react: each writes the generation or the resourceVersion that the
other has reached; or, over many turns, a delay of one delays the other as well. Two timers of the
same period make up for a delay, and so does an actor that waits for nobody: there a long gap is
followed by a short gap.

Not meant are values that come back (another loop), an owner and what it owns (a rollout is
alternation, too), several objects by one actor, and three that move by turns: two may follow the
third. Where labels and annotations are all that is written, times alone prove nothing.
"""

from collections.abc import Sequence
from itertools import pairwise, takewhile
from statistics import correlation, fmean, median, pstdev
from typing import ClassVar, Final

from genguard.detection.history import Move, MovingObject, ObjectHistory
from genguard.detection.questions.question import Answers, Blame, Declared, Question, signal
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


_Turns = tuple[Sequence[Move], Sequence[Move]]
"""The latest moves of mine, and of theirs between them, the oldest first."""


def _chased(write: Write, past: ObjectHistory) -> Answers:
    if past.in_turn is None or not write.writes_more:
        return
    mine = past.in_turn.mine
    others = _unrelated(mine, past.in_turn.others)
    if len(others) != 1 or others[0].requester.user == mine.requester.user:
        return
    (theirs,) = others
    turns = _by_turns(mine.moves, theirs.moves)
    # It is told of the object whose name is the first.
    if _place(mine.object) < _place(theirs.object) and _is_chase(turns):
        other, user = _told(theirs.object), theirs.requester.user
        said = f"{mine.requester.user} and {user} chase each other: the one writes"
        yield signal(
            LOOP,
            write,
            Blame.REQUESTER,
            write.all_pointers(),
            f"{said} {_told(mine.object)}, the other {other}, {len(turns[1])} times by turns",
            requesters=(mine.requester, theirs.requester),
            evidence={"other": other, "otherUser": user},
        )


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
    """See the module."""

    findings: ClassVar = (LOOP,)
    seen: ClassVar = (_chased,)
