"""Chases: two controllers write two objects, and each writes because the other has written.

Each of these proves that both react: each writes the generation or the resourceVersion that the
other has reached; or, over many changes, a delay of one delays the other as well. Two timers of the
same period make up for a delay, and so does an actor that waits for nobody: there a long gap is
followed by a short gap.

These are not meant: values that come back (another loop), an owner and what it owns (a rollout is
alternation, too), several objects by one actor, and three that move one after the other: two may
react to the third. Where labels and annotations are all that is written, times alone prove nothing.
"""

from collections import Counter, deque
from collections.abc import Sequence
from itertools import pairwise, takewhile
from statistics import correlation, fmean, median, pstdev
from typing import ClassVar, Final

from genguard.admission.review import Phase
from genguard.detection.history import History, ObjectHistory, history_name
from genguard.detection.question import DECLARED, Answers, ChangedBy, Question, signal
from genguard.detection.values import Digest, digest_of
from genguard.detection.write import NAMES, ObjectKey, Write

LOOP: Final = DECLARED["cross-object-loop"]
_CHANGES_WRITTEN: Final = 6
"""Of each, where each writes what the other has reached."""
_CHANGES_TIMED: Final = 10
"""Of each, where times alone tell it."""
_SECONDS_WRITTEN: Final = 15.0
_SECONDS_TIMED: Final = 2.0
"""The longest gap. Controllers that have no reason to wait react within a second or two."""
_STEADY: Final = 3.0
"""No gap is so many times longer or shorter than gaps usually are."""
_ALIKE: Final = 4.0
"""Neither of the two takes so many times longer than the other: else a third may start both."""
_CLOCKWORK: Final = 0.015
"""A timer is more regular than this: the standard deviation of its periods, by their mean."""
_SECONDS_OF_TIMERS: Final = 1.0
"""No controller has a timer of so short a period."""
_SECONDS_MEASURED: Final = 0.0001
"""Gaps that vary less tell nothing."""
_AS_UNSTEADY: Final = 1.7
"""If one sort of gaps varies so many times more, it hides what a delay of the other does."""
_MAKES_UP: Final = -0.2
"""A correlation below this: after a long gap comes a short gap."""
_COMPARED: Final = 3
"""Moves of each whose values were compared; the first writes of an object are not."""
_OFTEN: Final = 0.7


MOST_MOVING: Final = 256
MOST_MOVES: Final = 24
_MOVES_BEFORE: Final = 4
"""An object with so many writes is compared from then on; so many moves of it are one actor's."""
_SECONDS_BETWEEN: Final = 60.0
"""Moves that are further apart are not the same loop."""
_CHANGES: Final = 3
"""Two objects that moved alternately so often are looked at; for most it is chance."""
_MOST_LEAVES_OF_MOVE: Final = 4


class Chases(Question):
    """See the module. It remembers which objects have moved last, in their order."""

    findings: ClassVar = (LOOP,)

    def __init__(self, history: History) -> None:
        self._history: Final = history
        self._latest: Final[deque[str]] = deque(maxlen=MOST_MOVING)
        self.seen = (self._moved,)

    def _moved(self, write: Write, past: ObjectHistory) -> Answers:
        """Tell a write that is one of a chase."""
        is_known = Phase.OUTCOME not in write.missing and len(past.writes) >= _MOVES_BEFORE
        if not (is_known and _is_move(write)):
            return
        others = _unrelated(past, self._alternating_with(history_name(write.object)))
        if len(others) == 1:
            yield from _chased(write, _moves(past), _moves(others[0]))

    def _alternating_with(self, name: str) -> list[ObjectHistory]:
        """Return the objects that have moved just once between the latest moves of another."""
        is_back = self._latest.count(name) >= _CHANGES - 1
        before = reversed(self._latest) if is_back else iter(())
        between = [Counter(iter(before.__next__, name)) for _ in range(_CHANGES)]
        self._latest.append(name)
        once = (other for other in between[0] if all(each[other] == 1 for each in between))
        others = map(self._history.find, once)
        return [other for other in others if other and len(_moves(other)) >= _MOVES_BEFORE]


def _is_move(write: Write) -> bool:
    """Whether it changes more than times, other than of status."""
    if not write.writes_more or write.object.resource in NAMES["records"]:
        return False
    changes = write.content.admitted.changes
    if _moves_state(write) and (not changes or not all(change.holds_time for change in changes)):
        return True
    return any(not change.holds_time for change in write.metadata.admitted)


def _moves_state(write: Write) -> bool:
    """Whether it changes more than metadata."""
    return write.touches_more and write.state_before != write.state_after


def _moves(past: ObjectHistory) -> list[Write]:
    """Return the latest moves by the actor of the newest, oldest first, if nobody came between.

    Only one of two writes upon one version was stored.
    """
    found: list[Write] = []
    for write in filter(_is_move, reversed(past.writes)):
        if not found:
            found.append(write)
        elif write.base != found[-1].base:
            is_other = write.requester.user != found[-1].requester.user
            if (
                is_other
                or found[-1].time - write.time > _SECONDS_BETWEEN
                or len(found) >= MOST_MOVES
            ):
                break
            found.append(write)
    return found[::-1]


def _unrelated(mine: ObjectHistory, others: Sequence[ObjectHistory]) -> list[ObjectHistory]:
    """Return the others without family of mine, and without what one of the others owns.

    An object follows its owner where that moves as well: it chases nobody. The controller of an
    owner writes all that it owns.
    """
    uids = {other.writes[-1].object.uid for other in others}
    if mine.owner and mine.owner in uids:
        return []
    owners = {*uids, mine.writes[-1].object.uid, mine.owner}
    return [other for other in others if not other.owner or other.owner not in owners]


def _chased(write: Write, mine: Sequence[Write], theirs: Sequence[Write]) -> Answers:
    """Yield a signal for two objects that chase each other, about the first of them by name."""
    who, other = write.requester, theirs[-1].requester
    if who.user == other.user or write.object >= theirs[-1].object:
        return
    run = _alternation(mine, theirs)
    if _is_chase(run):
        where = _told(theirs[-1].object)
        said = f"{who.user} and {other.user} chase each other: the one writes"
        said += f" {_told(write.object)}, the other {where}, {len(run) // 2} times each"
        more = {"requesters": (who, other), "evidence": {"other": where, "otherUser": other.user}}
        about = *write.pointers(), *write.metadata.admitted
        yield signal(LOOP, write, ChangedBy.REQUESTER, about, said, **more)


def _alternation(mine: Sequence[Write], theirs: Sequence[Write]) -> list[Write]:
    """Return the latest moves, as far back as each moves once after the other, and steadily.

    The first and the last are mine, the second is theirs, and so on.
    """
    before = [(write.time, 1, write) for write in theirs if write.time < mine[-1].time]
    both = sorted([*before, *((write.time, 0, write) for write in mine)], key=lambda move: move[:2])
    run = [both.pop()]
    while both and both[-1][1] != run[-1][1]:
        run.append(both.pop())
    moves = [move for *_, move in run[len(run) % 2 - 2 :: -1]]
    gaps = _gaps(moves)
    return moves[-2 * min(_steady(gaps[::2]), _steady(gaps[1::2])) - 1 :]


def _gaps(moves: Sequence[Write]) -> list[float]:
    """Return the seconds between moves: from mine to theirs, from theirs to mine, and so on."""
    return [later.time - earlier.time for earlier, later in pairwise(moves)]


def _steady(gaps: Sequence[float]) -> int:
    """Return how many of the latest gaps are about as long as the others."""
    usual = median(gaps) if gaps else 0.0
    steady = takewhile(lambda gap: gap <= usual * _STEADY and usual <= gap * _STEADY, gaps[::-1])
    return len([*steady])


def _is_chase(run: Sequence[Write]) -> bool:
    gaps, made = _gaps(run), [_made(write) for write in run]
    to_them, to_me = gaps[::2], gaps[1::2]
    if len(to_me) < _CHANGES_WRITTEN or not (_is_new(made[::2]) and _is_new(made[1::2])):
        return False
    if max(gaps) <= _SECONDS_WRITTEN and _write_what_they_saw(run, made):
        return True
    # Heartbeats, leases and passes of many tools are in metadata.
    is_state = all(map(_moves_state, run))
    if not is_state or len(to_me) < _CHANGES_TIMED or max(gaps) > _SECONDS_TIMED:
        return False
    usual = sorted((median(to_them), median(to_me)))
    return (
        usual[1] <= _ALIKE * usual[0]
        and not (_is_timer(run[::2]) or _is_timer(run[1::2]))
        and _goes_with(to_them, to_me)
        and _goes_with(to_me[:-1], to_them[1:])
    )


_Digests = Sequence[Sequence[Digest]]


def _made(move: Write) -> list[Digest]:
    """Return its first new values."""
    changes = (*move.content.admitted, *move.metadata.admitted)
    made = [
        change.after for change in changes if change.after is not None and not change.holds_time
    ]
    return made[:_MOST_LEAVES_OF_MOVE]


def _is_new(made: _Digests) -> bool:
    """Whether no value came back, of those that were compared."""
    compared = [tuple(values) for values in made if values]
    return len(compared) >= _COMPARED and len({*compared}) == len(compared)


def _write_what_they_saw(run: Sequence[Write], made: _Digests) -> bool:
    """Whether each writes the generation, or each the resourceVersion, that the other reached.

    The generation as a number or as a text. The version is the one that the next move is upon.
    """
    numbers = [str(write.generation_after).encode() for write in run]
    generations = [(digest_of(number), digest_of(b'"%b"' % number)) for number in numbers]
    versions = [(digest_of(b'"%b"' % write.base.encode()),) for write in run[2:]]
    return any(
        all(_are_often_in(reached[each::2], made[each + 1 :: 2]) for each in (0, 1))
        for reached in (generations, versions)
    )


def _are_often_in(reached: _Digests, made: _Digests) -> bool:
    pairs = [(set(seen), other) for seen, other in zip(reached, made, strict=False) if other]
    compared = [not seen.isdisjoint(other) for seen, other in pairs]
    return sum(compared) >= max(_OFTEN * len(compared), _COMPARED)


def _is_timer(moves: Sequence[Write]) -> bool:
    periods = _gaps(moves)
    usual = fmean(periods)
    return usual > _SECONDS_OF_TIMERS and pstdev(periods) < _CLOCKWORK * usual


def _goes_with(gaps: Sequence[float], next_gaps: Sequence[float]) -> bool:
    """Whether no gap makes up for the gap before it: then each begins when the other ends."""
    least, most = sorted((pstdev(gaps), pstdev(next_gaps)))
    if least < _SECONDS_MEASURED or most > _AS_UNSTEADY * least:
        return False
    return correlation(gaps, next_gaps) > _MAKES_UP


def _told(where: ObjectKey) -> str:
    names = "/".join(filter(None, (where.namespace, where.name)))
    return f"{where.resource} {names}"
