"""Find damage in the webhook patches of one audited update, without any memory.

Each signal names exactly the webhooks whose patches show it. Evidence holds the operations' kinds
and paths, never their values. An operation is judged by its path; only one that replaces a whole
status, or its conditions, needs the sent object.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from genguard.audit.event import Call, Event, Operation, decode_object
from genguard.detection.detectors import Blame, Signal
from genguard.objects.observed import NOTHING_OBSERVED, Observed, read_observed, restorations
from genguard.objects.pointer import from_pointer, to_pointer

_MOST_OPERATIONS: Final = 20
CLEARED: Final = "observed-generation-cleared"
CLOBBERED: Final = "status-clobbered"
DROPPED: Final = "terminating-replicas-dropped"
UNSTABLE: Final = "unstable-mutation"
_TERMINATING: Final = ("status", "terminatingReplicas")
_LAST: Final = "observedGeneration"
_CONDITION: Final = 3  # /status/conditions/0
_ABSENT: Final = msgspec.UNSET


class SeenSign(NamedTuple):
    """A signal with its calls; not `proved` if the audit level shows no patch."""

    detector: str
    sign: Signal
    calls: tuple[Call, ...]
    proved: bool


def signs(event: Event, calls: Sequence[Call], *, writes_status: bool) -> Iterator[SeenSign]:
    """Yield the signals of an update; `calls` are those of other webhooks that changed it."""
    if writes_status:
        yield from _of_status(event, calls)
    again = tuple(call for call in calls if call.round > 0)
    if again:
        paths = tuple(one.path for call in again for one in call.operations or ())
        yield _told(UNSTABLE, paths, "{} changed the object once more when reinvoked", again)


def _of_status(event: Event, calls: Sequence[Call]) -> Iterator[SeenSign]:
    unseen = tuple(call for call in calls if call.operations is None)
    if unseen:
        # A webhook that only sets a label looks the same: never more than info.
        message = "{} changed a status write; the audit level shows no patch"
        yield _told(CLOBBERED, (), message, unseen, minor=True)
    sent = decode_object(event.request_object)
    found = [(call, lost_status(call.operations or (), sent)) for call in calls]
    for detector, part, what in (
        (CLEARED, 0, "{} cleared {} observedGeneration value(s) of a status write"),
        (DROPPED, 1, "{} dropped terminatingReplicas from a status write"),
        (CLOBBERED, 2, "{} changed or removed {} status field(s) of a status write"),
    ):
        mine = [(call, lost[part]) for call, lost in found if lost[part]]
        if mine:
            paths = tuple(dict.fromkeys(path for _, lost in mine for path in lost))
            culprits = tuple(call for call, _ in mine)
            yield _told(detector, paths, what.format("{}", len(paths)), culprits)


def _told(
    detector: str,
    paths: tuple[str, ...],
    message: str,
    calls: tuple[Call, ...],
    *,
    minor: bool = False,
) -> SeenSign:
    names = " and ".join(dict.fromkeys(call.name for call in calls))
    sign = Signal(
        Blame.OTHERS,
        tuple(dict.fromkeys(paths)),
        message.replace("{}", names, 1),
        minor=minor,
        evidence={"calls": [describe(call) for call in calls]},
    )
    return SeenSign(detector, sign, calls, all(call.operations is not None for call in calls))


def describe(call: Call) -> dict[str, Any]:
    """Return a call as evidence."""
    shown = tuple((one.op, one.path) for one in (call.operations or ())[:_MOST_OPERATIONS])
    return _described(call.name, call.round, call.position, shown)


@lru_cache(maxsize=4096)
def _described(
    webhook: str, round_: int, position: int, shown: tuple[tuple[str, str], ...]
) -> dict[str, Any]:
    # A loop repeats the same call: all share one dict, which is never changed.
    operations = [{"op": op, "path": path} for op, path in shown]
    return {"webhook": webhook, "round": round_, "index": position, "operations": operations}


class Lost(NamedTuple):
    """The pointers of lost values, by type of field."""

    observed: tuple[str, ...]
    terminating: tuple[str, ...]
    other: tuple[str, ...]


def lost_status(operations: Iterable[Operation], sent: Any) -> Lost:
    """Return the status fields that operations remove; `sent` is the decoded sent object."""
    observed: list[str] = []
    terminating: list[str] = []
    other: list[str] = []
    for path, value in _writes(operations, sent):
        pointer = to_pointer(path)
        if _is_observed(path):
            # A lowered or raised value is not a cleared one.
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
    """Yield status paths with their new value, UNSET if removed. Added fields are no loss."""
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
        elif one.op == "replace" or (one.op == "add" and _replaces(path, sent)):
            yield path, one.value


def _replaces(path: tuple[str, ...], sent: Any) -> bool:
    """Whether an `add` replaces a member of an object; in a list it inserts."""
    holder = value_at(sent, path[:-1])
    return isinstance(holder, dict) and holder.get(path[-1]) is not None


def _is_observed(path: tuple[str, ...]) -> bool:
    of_condition = len(path) == _CONDITION + 1 and path[1] == "conditions"
    return path[-1] == _LAST and (len(path) == len(_TERMINATING) or of_condition)


def _is_ancestor(path: tuple[str, ...]) -> bool:
    return path == ("status",) or (path[1:2] == ("conditions",) and len(path) <= _CONDITION)


def _cleared(path: tuple[str, ...], before: Any, after: Any) -> Iterator[str]:
    """Yield pointers to each observedGeneration that `before` has and `after` has not."""
    if after is _ABSENT and len(path) == _CONDITION:
        return  # a removed condition is not a cleared value
    for one in restorations(_observed(path, before), _observed(path, after)):
        if len(path) == _CONDITION:
            yield to_pointer((*path, _LAST))
        else:
            yield to_pointer(one.path)


def _observed(path: tuple[str, ...], value: Any) -> Observed:
    if value is _ABSENT:
        return NOTHING_OBSERVED
    status = value
    for key in reversed(path[1:2]):
        status = {key: value if len(path) < _CONDITION else [value]}
    plain = msgspec.Raw(msgspec.json.encode(status))
    return read_observed(plain) or NOTHING_OBSERVED


def _lacks(path: tuple[str, ...], key: str, before: Any, after: Any) -> bool:
    return (
        path == ("status",)
        and value_at(before, (key,)) is not None
        and value_at(after, (key,)) is None
    )


def value_at(value: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path, None if it is absent."""
    for token in path:
        if isinstance(value, dict):
            value = value.get(token)
        elif isinstance(value, list) and token.isascii() and token.isdigit():
            index = int(token) if len(token) < 7 else len(value)  # noqa: PLR2004 - no longer list
            value = value[index] if index < len(value) else None
        else:
            return None
    return value
