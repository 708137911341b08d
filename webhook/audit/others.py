"""Tell the changes that the patches of other webhooks make, from the patches alone."""

import zlib
from collections.abc import Iterable, Sequence

import msgspec

from webhook.audit.event import Call, Operation
from webhook.detection.changes import Change, salt
from webhook.detection.diff import Diff, diff_of
from webhook.objects.pointer import from_pointer


def changed_by_others(others: Iterable[Call], keys: Sequence[str]) -> Diff:
    """Return the changes by patches in the compared fields."""
    found = (
        Change(path, one.path, zlib.crc32(b""), _value(one), salt(path))
        for call in others
        for one in call.operations or ()
        if one.op != "test"
        for path in _paths(one)
        if path[:1] and path[0] in keys
    )
    return diff_of(tuple(found))


def _paths(one: Operation) -> Iterable[tuple[str, ...]]:
    try:
        return [from_pointer(one.path)]
    except ValueError:
        return []


def _value(one: Operation) -> int | None:
    if one.value is msgspec.UNSET:
        return None
    return zlib.crc32(msgspec.json.encode(one.value))
