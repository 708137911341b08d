"""One leaf written to and fro by two requesters: A, B, A, B."""

from collections.abc import Iterator
from typing import Final

from webhook.detection.changes import Change
from webhook.detection.history import ObjectHistory
from webhook.detection.write import Requester, Write

_TURNS: Final = 4


def alternations(
    write: Write, past: ObjectHistory, *, in_status: bool
) -> Iterator[tuple[Change, tuple[Requester, Requester]]]:
    """Leaves that this stored write turned back once more, with the two who take turns.

    One requester that walks a cycle of its own is no fight, and a value that never comes back
    (a time, a counter) is none either.
    """
    for change in write.result:
        if (change.key[0] == "status") is not in_status:
            continue
        turns = _turns(change, past)
        if len(turns) < _TURNS:
            continue
        values = [value for value, _ in turns]
        users = [requester.user for _, requester in turns]
        first, second = users[0], users[1]
        by_turns = first != second and users == [first, second] * (_TURNS // 2)
        if by_turns and values[0] == values[2] != values[1] == values[3]:
            yield change, (turns[0][1], turns[1][1])


def _turns(change: Change, past: ObjectHistory) -> list[tuple[int | None, Requester]]:
    """The latest values of a leaf with who wrote them, newest first."""
    turns: list[tuple[int | None, Requester]] = []
    for write in reversed(past.stored):
        for other in write.result:
            if other.key == change.key:
                turns.append((other.after, write.requester))
                break
        if len(turns) == _TURNS:
            break
    return turns
