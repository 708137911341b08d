"""Compute the changes that the patches of other webhooks made to a sent object."""

import zlib
from collections.abc import Iterable, Sequence

import msgspec

from webhook.audit.event import Call, Operation
from webhook.detection.changes import Change, changes, salt
from webhook.detection.diff import Diff, diff_of
from webhook.objects.fields import Fields
from webhook.objects.pointer import from_pointer


def changed_by_others(
    others: Iterable[Call], sent: Fields, stored: Fields, keys: Sequence[str]
) -> Diff:
    """Return the changes by patches in the compared fields.

    They are computed from the objects if both are complete, else from the patches alone.
    """
    operations = [one for call in others for one in call.operations or () if one.op != "test"]
    paths = [path for one in operations for path in _paths(one) if path[:1] and path[0] in keys]
    if sent and stored:
        prefixes = [tuple(path) for path in paths]
        found = (
            change
            for change in changes(sent, stored, keys)
            if any(from_pointer(change.pointer)[: len(path)] == path for path in prefixes)
        )
        return diff_of(tuple(found))
    found = (
        Change(path, one.path, zlib.crc32(b""), _value(one), salt(path))
        for one in operations
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
