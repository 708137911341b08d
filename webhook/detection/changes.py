"""What differs between two values, leaf by leaf, as digests: contents are compared, not kept.

Items of a list are matched by their `type`, `name` or `uid` where they have one (conditions come
in changing order), by position otherwise.
"""

import sys
import zlib
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, Final

import msgspec

from webhook.detection.places import Item, Place, Tree
from webhook.objects.fields import Fields
from webhook.objects.pointer import Path

MOST_LEAVES: Final = 2_000
"""Where more differ they are told as far as this, so that one object cannot take all the memory.

Asked before a place is made: that of a leaf which is not told costs as much."""
_BYTES_OF_CHANGE: Final = 150
_ITEM_KEYS: Final = ("type", "name", "uid")
_ABSENT: Final = None
_CONTAINERS: Final = frozenset({dict, list})
_TEXTS: Final = frozenset({str})
_encode: Final = msgspec.json.encode
_tree: Final = Tree()
_fields_decoder: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Change(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One leaf that differs; a digest is None where the leaf is absent."""

    key: Path  # list items by identity: equal across reorderings
    pointer: str  # RFC 6901, as the object had it
    before: int | None
    after: int | None
    salt: int  # of the key; see webhook/detection/places.py

    @property
    def removed(self) -> bool:
        """The leaf is gone."""
        return self.after is None

    @property
    def added(self) -> bool:
        """The leaf was not there."""
        return self.before is None

    @property
    def holds_time(self) -> bool:
        """It says when: lastTransitionTime, heartbeatTimestamp."""
        return not self.salt

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes, with a path and a pointer of its own."""
        return _BYTES_OF_CHANGE + sys.getsizeof(self.key) + 2 * sys.getsizeof(self.pointer)


Leaves = tuple[Change, ...]
"""By pointer."""
Part = tuple[str, bytes | msgspec.Raw | None, bytes | msgspec.Raw | None]
"""A top-level field, before and after."""
_pointer: Final = attrgetter("pointer")


def digest(raw: bytes | msgspec.Raw | None) -> int | None:
    """A short digest of raw bytes; equal values written alike have equal ones."""
    return None if raw is None else zlib.crc32(bytes(raw))


def changes(before: Fields, after: Fields, keys: Iterable[str]) -> Leaves:
    """Leaves that differ below the given top-level fields.

    Raises msgspec.MsgspecError and RecursionError for values that cannot be decoded.
    """
    return leaves_of(differing(before, after, keys))


def differing(before: Fields, after: Fields, keys: Iterable[str]) -> Iterator[Part]:
    """Those of the given top-level fields that differ to the byte."""
    for key in keys:
        old, new = before.get(key), after.get(key)
        if old != new:
            yield key, old, new


def leaves_of(parts: Iterable[Part]) -> Leaves:
    """Leaves that differ below such fields; raises as `changes` does."""
    found: list[Change] = []
    for key, old, new in parts:
        at = _tree.root()[key]
        left, right = _opened(old), _opened(new)
        if left and right:
            for name in left | right:
                one, other = left.get(name), right.get(name)
                if one != other and len(found) < MOST_LEAVES:
                    below = at[name]
                    _compare(below, below, _decoded(one), _decoded(other), found)
        else:
            _compare(at, at, _decoded(old), _decoded(new), found)
    found.sort(key=_pointer)
    return tuple(found)


def _opened(raw: bytes | msgspec.Raw | None) -> dict[str, msgspec.Raw] | None:
    """The fields of an object, undecoded: most of them are equal to the byte."""
    try:
        return None if raw is None else _fields_decoder.decode(raw)
    except msgspec.ValidationError:
        return None


def _decoded(raw: bytes | msgspec.Raw | None) -> Any:
    return _ABSENT if raw is None else msgspec.json.decode(raw)


def _compare(old_at: Place, at: Place, old: Any, new: Any, found: list[Change]) -> None:
    """Go down both sides at once, where they differ."""
    kind = type(new)
    if at.is_deepest or kind not in _CONTAINERS or type(old) is not kind or not old or not new:
        if _is_leaf(at, old) and _is_leaf(at, new):
            before, after = zlib.crc32(_encode(old)), zlib.crc32(_encode(new))
            if before != after:
                found.append(Change(at.path, at.pointer, before, after, at.salt))
        else:
            _every_leaf(old_at, old, found, is_gone=True)
            _every_leaf(at, new, found, is_gone=False)
    else:
        (_compare_objects if kind is dict else _compare_lists)(old_at, at, old, new, found)


def _compare_objects(
    old_at: Place, at: Place, old: dict[str, Any], new: dict[str, Any], found: list[Change]
) -> None:
    for name, value in new.items():
        before = old.get(name)
        if len(found) >= MOST_LEAVES:
            return
        if not _same(before, value):
            below = at[name]
            _compare(below if old_at is at else old_at[name], below, before, value, found)
    for name, value in old.items():
        if len(found) >= MOST_LEAVES:
            return
        if name not in new:
            _every_leaf(old_at[name], value, found, is_gone=True)


def _compare_lists(
    old_at: Place, at: Place, old: list[Any], new: list[Any], found: list[Change]
) -> None:
    items = {(field, name): index for field, name, index in _items(old)}
    for item in _items(new):
        if len(found) >= MOST_LEAVES:
            return
        value, index = new[item[2]], items.pop(item[:2], None)
        if index is None:
            _every_leaf(at[item], value, found, is_gone=False)
        elif not _same(old[index], value):
            _compare(old_at[*item[:2], index], at[item], old[index], value, found)
    for known, index in items.items():
        if len(found) >= MOST_LEAVES:
            return
        _every_leaf(old_at[*known, index], old[index], found, is_gone=True)


def _every_leaf(at: Place, value: Any, found: list[Change], *, is_gone: bool) -> None:
    """Go down the only side there is."""
    inside: Iterable[tuple[str | Item, Any]]
    if value and type(value) is dict and not at.is_deepest:
        inside = value.items()
    elif value and type(value) is list and not at.is_deepest:
        inside = zip(_items(value), value, strict=True)
    else:
        if value is not _ABSENT:
            found.append(_lone(at, value, is_gone=is_gone))
        return
    for token, child in inside:
        if len(found) >= MOST_LEAVES:
            return
        if child and type(child) in _CONTAINERS:
            _every_leaf(at[token], child, found, is_gone=is_gone)
        elif child is not _ABSENT:
            found.append(_lone(at[token], child, is_gone=is_gone))


def _lone(at: Place, value: Any, *, is_gone: bool) -> Change:
    digest = zlib.crc32(_encode(value))
    before, after = (digest, None) if is_gone else (None, digest)
    return Change(at.path, at.pointer, before, after, at.salt)


def _is_leaf(at: Place, value: Any) -> bool:
    is_open = value and type(value) in _CONTAINERS and not at.is_deepest
    return value is not _ABSENT and not is_open


def _same(a: Any, b: Any) -> bool:
    """Equal in JSON: to Python 1 is 1.0 and True as well."""
    return a is b or bool(a == b and (type(a) is str or _encode(a) == _encode(b)))


def _items(values: list[Any]) -> list[Item]:
    """The identity of each item; nothing but its position where those are missing or repeated."""
    for field in _ITEM_KEYS:
        names: list[Any] = [value.get(field) if type(value) is dict else None for value in values]
        if set(map(type, names)) == _TEXTS and len(set(names)) == len(names):
            return [(field, name, index) for index, name in enumerate(names)]
    return [("", index, index) for index in range(len(values))]
