"""An object before and after as digests, and two such comparisons with each other.

The second needs no contents any more. Two comparisons start from the same stored object: a leaf
that only one of them names differs between their results, and so does a leaf that both name with
another digest. Nothing else does.
"""

import zlib
from collections.abc import Container, Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Final

import msgspec

from webhook.detection.changes import MOST_LEAVES, Change, Part, differing
from webhook.detection.difference import NO_DIFFERENCE, Difference, Reader
from webhook.objects.fields import Fields
from webhook.objects.pointer import Path

MOST_UNREAD: Final = 16 * 1024
"""Bytes of one write: what is larger is read at once. Later forty are read, or packed, in a row."""
_MOST_SEEDS: Final = 256
_pointer: Final = attrgetter("pointer")


class Compared(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`before` and `after` are digests of the raw fields, `changes` what differs between them."""

    before: int
    after: int
    changes: Difference

    @property
    def is_whole(self) -> bool:
        """Every leaf that differs is among the changes."""
        return len(self.changes) < MOST_LEAVES

    def same_as(self, other: "Compared") -> bool:
        """To the byte, as the API server writes one object twice."""
        return self.before == other.before and self.after == other.after


NOTHING: Final = Compared(0, 0, NO_DIFFERENCE)


def digests(old: Fields, new: Fields, left_out: Container[str] = ()) -> tuple[int, int]:
    """Of all fields but some, before and after: equal in any order, 0 for none."""
    before = after = 0
    for key, one in old.items():
        if key not in left_out:
            other = new.get(key)
            part = zlib.crc32(one, _seed(key))
            before += part
            if one == other:
                after += part
            elif other is not None:
                after += zlib.crc32(other, _seed(key))
    for key, other in new.items():
        if key not in old and key not in left_out:
            after += zlib.crc32(other, _seed(key))
    return before, after


@lru_cache(_MOST_SEEDS)
def _seed(key: str) -> int:
    return zlib.crc32(key.encode())


def compare(
    old: Fields,
    new: Fields,
    reader: Reader,
    known: Iterable[Compared] = (),
    left_out: Container[str] = (),
) -> Compared:
    """All fields of two objects but some; one of `known` where it is the same."""
    keys = [key for key in old.keys() | new.keys() if key not in left_out]
    return _found(*digests(old, new, left_out), differing(old, new, keys), reader, known)


def compare_field(
    key: str,
    one: msgspec.Raw | None,
    other: msgspec.Raw | None,
    reader: Reader,
    known: Iterable[Compared] = (),
) -> Compared:
    """As `compare`, of a single field."""
    seed = _seed(key)
    before = after = 0 if one is None else zlib.crc32(one, seed)
    if one != other:
        after = 0 if other is None else zlib.crc32(other, seed)
    return _found(before, after, ((key, one, other),), reader, known)


def _found(
    before: int, after: int, parts: Iterable[Part], reader: Reader, known: Iterable[Compared]
) -> Compared:
    for one in known:
        if one.before == before and one.after == after:
            return one
    if before == after:
        return Compared(before, after, NO_DIFFERENCE)
    size, apart = 0, []
    for key, left, right in parts:
        # Copies: what is raw keeps all of its review in memory.
        mine = None if left is None else bytes(left)
        yours = None if right is None else bytes(right)
        apart.append((key, mine, yours))
        size += len(mine or ()) + len(yours or ())
    found = Difference.unread(tuple(apart), size, reader)
    if size > MOST_UNREAD:
        _ = found.leaves
    return Compared(before, after, found)


def together(one: Compared, other: Compared) -> Compared:
    """Two comparisons of different fields of one object as one."""
    found = sorted((*one.changes, *other.changes), key=_pointer)
    differs = bool(one.changes or other.changes)
    changes = Difference(tuple(found[:MOST_LEAVES]), differs=differs)
    return Compared(one.before + other.before, one.after + other.after, changes)


def between(one: Compared, other: Compared) -> Difference | None:
    """What differs from the one result to the other; None where that cannot be told.

    It cannot where the two start from different objects, or where more differs than is told. An
    item of a list that only one side has moved is told by where the other side has it.
    """
    if one.before != other.before:
        return None
    if one.after == other.after:
        return NO_DIFFERENCE
    left, right = _by_key(one), _by_key(other)
    if left is None or right is None:
        return None
    found = [
        change
        for key in (left | right)
        if (change := _step(left.get(key), right.get(key))) is not None
    ]
    found.sort(key=_pointer)
    return Difference(tuple(found))


def _by_key(one: Compared) -> dict[Path, Change] | None:
    found = {change.key: change for change in one.changes}
    # A field may be called as an item of the list is that it was replaced by.
    return found if one.is_whole and len(found) == len(one.changes) else None


def _step(left: Change | None, right: Change | None) -> Change | None:
    """From what the left made of a leaf to what the right did; without a change it is as stored."""
    if left is None or right is None:
        at = left or right
        assert at is not None  # noqa: S101 - one of them is named
        before, after = (at.before, at.after) if left is None else (at.after, at.before)
        return Change(at.key, at.pointer, before, after, at.salt)
    if left.after == right.after:
        return None
    at = left if right.removed else right
    return Change(at.key, at.pointer, left.after, right.after, at.salt)
