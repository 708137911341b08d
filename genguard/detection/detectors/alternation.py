"""One leaf turned back by writers who take turns: A, B, A, B."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from genguard.detection.changes import Change
from genguard.detection.detectors.detector import Blame, Signal
from genguard.detection.digest import Digest
from genguard.detection.history import ObjectHistory
from genguard.detection.write import Requester, Write
from genguard.objects.pointer import Path

_TURNS: Final = 8
_TWO: Final = 2
_SECONDS: Final = 3_600.0
"""Tools that keep what git has look every three to ten minutes, and a fight takes four writes."""
_SECONDS_OF_STATUS: Final = 600.0
_STATUS: Final = "status"
_METADATA: Final = "metadata"
"""A Deployment's annotations count as spec does; fights about them are found by metadata-fight."""
_CHANGES_OF_HANDS: Final = 3
"""Of A, B, A, B: mine, yours, mine again, and yours again."""


class Turn(NamedTuple):
    """What one write made of a leaf."""

    value: Digest | None
    requester: Requester
    time: float


def fight(write: Write, past: ObjectHistory, *, in_status: bool) -> Iterator[Signal]:
    """Yield one signal for a stored write that turned something back; blame all who take turns."""
    since = write.time - (_SECONDS_OF_STATUS if in_status else _SECONDS)
    if not _take_turns(past, since, in_status=in_status):
        return
    found = list(_alternations(write, past, since, in_status=in_status))
    if found:
        fighters = tuple(dict.fromkeys(one for _, some in found for one in some))
        names = " and ".join(one.user for one in fighters)
        yield Signal(
            Blame.REQUESTER,
            tuple(change.pointer for change, _ in found),
            f"{names} turn {len(found)} {'status ' if in_status else ''}field(s) to and fro",
            fighters,
        )


def _alternations(
    write: Write, past: ObjectHistory, since: float, *, in_status: bool
) -> Iterator[tuple[Change, tuple[Requester, ...]]]:
    """Leaves that this stored write turned back, with all who lately turned them back, it first.

    A requester turns a leaf back when it writes a value of its own again over what somebody else
    has made of it. It takes two who do: one that walks a cycle of its own, a correction, and a
    value that never comes back (a time, a counter) are no fight. In status a leaf that goes and
    comes is not meant: who takes it away is found by the detectors of what is lost.
    """
    meant = [change for change in write.content.admitted if _is_meant(change, in_status=in_status)]
    if not meant:
        return
    values = _values(meant, past, since)
    for change in meant:
        fighters = fighters_of(values[change.key][::-1])
        newest = write.requester
        if fighters:
            yield change, (newest, *(one for one in fighters if one.user != newest.user))


def _take_turns(past: ObjectHistory, since: float, *, in_status: bool) -> bool:
    """Whether two may each have turned something back, known without reading what was written."""
    several = past.several_wrote_status if in_status else past.several_wrote
    if not several:
        return False
    users = [
        one.requester.user
        for one in past.stored
        if one.time >= since and (one.writes_status if in_status else one.writes_more)
    ]
    return change_hands(users)


def change_hands(users: Iterable[str]) -> bool:
    """Whether so many take turns that two may each have turned something back."""
    return sum(one != other for one, other in pairwise(users)) >= _CHANGES_OF_HANDS


def fighters_of(turns: Sequence[Turn]) -> list[Requester]:
    """Who turns a leaf back, each user once, if there are two and the newest turn does.

    `turns` are the values of one leaf, oldest first.
    """
    if not _turns_back(turns, len(turns) - 1):
        return []
    back = [turns[at].requester for at in range(len(turns)) if _turns_back(turns, at)]
    fighters = {one.user: one for one in back}
    return list(fighters.values()) if len(fighters) >= _TWO else []


def _is_meant(change: Change, *, in_status: bool) -> bool:
    if change.key[0] == _METADATA or (change.key[0] == _STATUS) is not in_status:
        return False
    return not in_status or not (change.added or change.removed)


def _turns_back(turns: Sequence[Turn], at: int) -> bool:
    if at < 2:  # noqa: PLR2004 - mine, yours, mine again
        return False
    mine, before = turns[at], turns[at - 1]
    return (
        before.requester.user != mine.requester.user
        and before.value != mine.value
        and any(
            one.value == mine.value and one.requester.user == mine.requester.user
            for one in turns[: at - 1]
        )
    )


def _values(changes: Sequence[Change], past: ObjectHistory, since: float) -> dict[Path, list[Turn]]:
    """The latest values of each leaf with who wrote them, newest first."""
    values: dict[Path, list[Turn]] = {change.key: [] for change in changes}
    wanted = len(values) * _TURNS
    for one in reversed(past.stored):
        if one.time < since or not wanted:
            break
        for change in one.content.admitted:
            turns = values.get(change.key)
            if turns is not None and len(turns) < _TURNS:
                turns.append(Turn(change.after, one.requester, one.time))
                wanted -= 1
    return values
