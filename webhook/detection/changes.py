"""What differs between two values, leaf by leaf, as digests: contents are compared, not kept.

Items of a list are matched by their `type`, `name` or `uid` where they have one (conditions come
in changing order), by position otherwise.
"""

import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from webhook.objects.fields import Fields
from webhook.objects.pointer import Path, to_pointer

MOST_LEAVES: Final = 5_000
"""An object with more is compared as far as this, so that one object cannot take all the time."""
MOST_SHARED: Final = 4_096
_ITEM_KEYS: Final = ("type", "name", "uid")
_ABSENT: Final = None


class Change(NamedTuple):
    """One leaf that differs; a digest is None where the leaf is absent."""

    key: Path  # list items by identity: equal across reorderings
    pointer: str  # RFC 6901, as the object had it
    before: int | None
    after: int | None

    @property
    def removed(self) -> bool:
        """The leaf is gone."""
        return self.after is None

    @property
    def added(self) -> bool:
        """The leaf was not there."""
        return self.before is None


Changes = tuple[Change, ...]


def digest(raw: bytes | msgspec.Raw | None) -> int | None:
    """A short digest of raw bytes; equal values written alike have equal ones."""
    return None if raw is None else zlib.crc32(bytes(raw))


def is_time(change: Change) -> bool:
    """A leaf that holds when, by its name: lastTransitionTime, heartbeatTimestamp."""
    return str(change.key[-1]).lower().endswith(("time", "timestamp"))


def changes(before: Fields, after: Fields, keys: Iterable[str]) -> Changes:
    """Leaves that differ below the given top-level fields.

    Raises msgspec.MsgspecError and RecursionError for values that cannot be decoded.
    """
    found: list[Change] = []
    for key in keys:
        a, b = before.get(key), after.get(key)
        if a == b:
            continue
        left, right = _leaves(key, a), _leaves(key, b)
        for path in left.keys() | right.keys():
            old, new = left.get(path), right.get(path)
            if old is None or new is None or old[1] != new[1]:
                where = (new or old or ((), 0))[0]
                found.append(Change(*_shared(path, where), old and old[1], new and new[1]))
    return tuple(sorted(found, key=lambda change: change.pointer))


@lru_cache(maxsize=MOST_SHARED)
def _shared(key: Path, where: Path) -> tuple[Path, str]:
    """One tuple and one text for the same leaf of however many objects."""
    return key, to_pointer(where)


def _leaves(key: str, raw: msgspec.Raw | None) -> dict[Path, tuple[Path, int]]:
    if raw is None:
        return {}
    leaves: dict[Path, tuple[Path, int]] = {}
    for path, where, value in _walk((key,), (key,), msgspec.json.decode(raw)):
        if len(leaves) >= MOST_LEAVES:
            break
        leaves[path] = (where, zlib.crc32(msgspec.json.encode(value)))
    return leaves


def _walk(key: Path, where: Path, value: Any) -> Iterator[tuple[Path, Path, Any]]:
    if isinstance(value, dict) and value:
        for name, child in value.items():
            yield from _walk((*key, name), (*where, name), child)
    elif isinstance(value, list) and value:
        names = _item_names(value)
        for index, child in enumerate(value):
            yield from _walk((*key, names[index]), (*where, index), child)
    elif value is not _ABSENT:
        yield key, where, value


def _item_names(items: list[Any]) -> list[str | int]:
    """The identity of each item, its position where identities are missing or repeated."""
    for field in _ITEM_KEYS:
        names = [item.get(field) if isinstance(item, dict) else None for item in items]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return [f"{field}={name}" for name in names]
    return list(range(len(items)))
