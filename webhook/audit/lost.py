"""What a webhook's patch takes away from a status that was sent.

An operation is judged by its path. Only one that takes the place of a whole status, or of its
conditions, needs the object that was sent, to tell what was in it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from webhook.audit.calls import Operation
from webhook.objects.observed import NOTHING_OBSERVED, Observed, read_observed, restorations
from webhook.objects.pointer import from_pointer, to_pointer

_TERMINATING: Final = ("status", "terminatingReplicas")
_LAST: Final = "observedGeneration"
_CONDITION: Final = 3  # /status/conditions/0
_ABSENT: Final = msgspec.UNSET


class Lost(NamedTuple):
    """Pointers by what they point at."""

    observed: tuple[str, ...]
    terminating: tuple[str, ...]
    other: tuple[str, ...]


def lost_status(operations: Iterable[Operation], sent: Any) -> Lost:
    """What the operations take away; `sent` is the decoded object of the request, if known."""
    observed: list[str] = []
    terminating: list[str] = []
    other: list[str] = []
    for path, value in _writes(operations, sent):
        pointer = to_pointer(path)
        if _is_observed(path):
            # A lowered or raised one is another detector's matter, if anybody's.
            if value is _ABSENT or value in (None, 0, ""):
                observed.append(pointer)
        elif path == _TERMINATING:
            (terminating if value in (_ABSENT, None) else other).append(pointer)
        elif _is_ancestor(path):
            before = value_at(sent, path)
            gone = list(_cleared(path, before, value))
            observed += gone
            fewer = _lacks(path, "terminatingReplicas", before, value)
            terminating += [to_pointer(_TERMINATING)] if fewer else []
            if not gone and not fewer:
                other.append(pointer)
        else:
            other.append(pointer)
    return Lost(tuple(observed), tuple(terminating), tuple(other))


def _writes(operations: Iterable[Operation], sent: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Places of status whose value is replaced or gone (then UNSET); what is added is no loss."""
    for one in operations:
        try:
            path, source = from_pointer(one.path), from_pointer(one.source)
        except ValueError:
            continue
        if one.op == "move" and source[:1] == ("status",):
            yield source, _ABSENT
        if path[:1] != ("status",):
            continue
        if one.op == "remove":
            yield path, _ABSENT
        elif one.op == "replace" or (one.op == "add" and _takes_a_place(path, sent)):
            yield path, one.value


def _takes_a_place(path: tuple[str, ...], sent: Any) -> bool:
    """An `add` replaces a member that is there; in a list it inserts."""
    holder = value_at(sent, path[:-1])
    return isinstance(holder, dict) and holder.get(path[-1]) is not None


def _is_observed(path: tuple[str, ...]) -> bool:
    of_condition = len(path) == _CONDITION + 1 and path[1] == "conditions"
    return path[-1] == _LAST and (len(path) == len(_TERMINATING) or of_condition)


def _is_ancestor(path: tuple[str, ...]) -> bool:
    return path == ("status",) or (path[1:2] == ("conditions",) and len(path) <= _CONDITION)


def _cleared(path: tuple[str, ...], before: Any, after: Any) -> Iterator[str]:
    """Pointers to the values of observedGeneration that `before` has and `after` cleared."""
    if after is _ABSENT and len(path) == _CONDITION:
        return  # a condition that is gone took its own with it
    for one in restorations(_observed(path, before), _observed(path, after)):
        if len(path) == _CONDITION:
            yield to_pointer((*path, _LAST))
        else:
            yield to_pointer(one.path)


def _observed(path: tuple[str, ...], value: Any) -> Observed:
    status = value
    for key in reversed(path[1:2]):
        status = {key: value if len(path) < _CONDITION else [value]}
    if status is _ABSENT:
        return NOTHING_OBSERVED
    plain = msgspec.Raw(msgspec.json.encode(status))
    return read_observed(plain) or NOTHING_OBSERVED


def _lacks(path: tuple[str, ...], key: str, before: Any, after: Any) -> bool:
    return (
        path == ("status",)
        and value_at(before, (key,)) is not None
        and value_at(after, (key,)) is None
    )


def value_at(value: Any, path: tuple[str, ...]) -> Any:
    """The value at a place, None where there is none."""
    for token in path:
        if isinstance(value, dict):
            value = value.get(token)
        elif isinstance(value, list) and token.isascii() and token.isdigit():
            index = int(token) if len(token) < 7 else len(value)  # noqa: PLR2004 - no such list
            value = value[index] if index < len(value) else None
        else:
            return None
    return value
