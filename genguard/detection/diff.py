"""What differs between two states of an object: digests of both, and the leaves that differ.

Two comparisons that start from the same stored object can be compared with each other without the
objects: a leaf that only one of them names differs between their results, and so does a leaf that
both name with different digests. Nothing else does.
"""

import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Final

import msgspec

from genguard.detection.changes import (
    MOST_LEAVES,
    Change,
    Leaves,
    Part,
    differing,
    leaves_of,
    weight_of,
)
from genguard.detection.values import NO_DIGEST, Digest, Shows, added, as_digest, as_number
from genguard.objects.fields import Fields, Path

_MOST_SEEDS: Final = 256
_DIGESTS: Final = 2**32
_pointer: Final = attrgetter("pointer")


class Diff(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What differs between two states; true where their bytes differ.

    differs  their bytes differ; in order or notation alone there are no changes
    changes  the leaves that differ, by pointer; MOST_LEAVES at most
    """

    differs: bool
    changes: Leaves

    def __bool__(self) -> bool:
        return self.differs

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    @property
    def is_whole(self) -> bool:
        """Every leaf that differs is among the changes."""
        return len(self.changes) < MOST_LEAVES

    @property
    def content_hash(self) -> Digest | None:
        """Return a hash of the leaves and their new values without times; None without leaves."""
        if not self.changes:
            return None
        parts = [
            one.salt * (1 if one.after is None else as_number(one.after))
            for one in self.changes
            if one.salt
        ]
        return as_digest(sum(parts) % _DIGESTS) if parts else None


NO_DIFF: Final = Diff(differs=False, changes=())
NOTATION: Final = Diff(differs=True, changes=())


def diff_of(changes: Leaves, *, differs: bool = False) -> Diff:
    """Return the difference that consists of these leaves; `differs`: even without any.

    Without leaves it is one of two constants, for all writes.
    """
    if not changes:
        return NOTATION if differs else NO_DIFF
    return Diff(differs=True, changes=changes)


class Compared(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The fields that a write is about: digests of their bytes, and what differs between them."""

    before: Digest
    after: Digest
    diff: Diff

    def same_as(self, other: "Compared") -> bool:
        """Whether both show the same bytes: the API server writes an object the same way twice."""
        return self.before == other.before and self.after == other.after


NOTHING_COMPARED: Final = Compared(NO_DIGEST, NO_DIGEST, NO_DIFF)


class PartDiffs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What differs, in the phases of one write, in one part of an object.

    The parts are the metadata (labels, annotations, finalizers and owners) and all the rest.

    requested     what the requester changed of what was stored; None without an intent
    webhook       what other webhooks changed of the request; None without an intent
    reinvocation  what they changed once more when they were reinvoked
    admitted      what would be stored, compared with what was
    """

    requested: Diff | None = None
    webhook: Diff | None = None
    reinvocation: Diff = NO_DIFF
    admitted: Diff = NO_DIFF

    @property
    def sent(self) -> Diff:
        """What was requested; without an intent, what came of it."""
        return self.admitted if self.requested is None else self.requested

    @property
    def is_mutated(self) -> bool:
        """Whether other webhooks changed it, when called or when called again."""
        return bool(self.webhook or self.reinvocation)

    @property
    def grown(self) -> list[Path]:
        """Labels and annotations to whose stored value webhooks, and nobody else, added."""
        asked = {one.key for one in self.requested or () if one.has_grown}
        found = () if self.webhook is None else self.admitted.changes
        return [one.key for one in found if one.has_grown and one.key not in asked]

    def diffs(self) -> list[Diff]:
        """Return the differences that have leaves, each once."""
        found: list[Diff] = []
        for one in (self.admitted, self.requested, self.webhook, self.reinvocation):
            if one is not None and one.changes and not any(one is other for other in found):
                found.append(one)
        return found

    @property
    def weight(self) -> int:
        """Return how many leaves it counts as in the bounds."""
        return sum([weight_of(one.changes) for one in self.diffs()])

    def without_leaves(self) -> "PartDiffs":
        """Return what is kept where there are no leaves, or no room for them."""
        asked, made = (one and NOTATION for one in (self.requested, self.webhook))
        again, admitted = (one and NOTATION for one in (self.reinvocation, self.admitted))
        return _once(PartDiffs(asked, made, again, admitted))


@lru_cache
def _once(diffs: PartDiffs) -> PartDiffs:
    """Return the same each time: most writes have differences without leaves."""
    return diffs


NOT_SEEN: Final = PartDiffs()
"""Of a write of which no phase is known."""
NOTHING_DIFFERS: Final = PartDiffs(NO_DIFF, NO_DIFF)
"""Of metadata that every phase of a write shows as it is stored."""


def digests(old: Fields, new: Fields, left_out: Container[str] = ()) -> tuple[Digest, Digest]:
    """Return one digest of all fields before and one after, in any order of fields; 0 for none."""
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
    return as_digest(before), as_digest(after)


@lru_cache(_MOST_SEEDS)
def _seed(key: str) -> int:
    return zlib.crc32(key.encode())


def compare(
    stored: Fields,
    sent: Fields,
    earlier: Sequence[Compared] = (),
    *,
    shows: Shows = Shows.NOTHING,
    read: Callable[[Iterable[Part], Shows], Leaves] = leaves_of,
) -> Compared:
    """Return what differs between the stored and the sent fields of an object.

    Of `earlier` comparisons of the same write, the one that shows the same is returned.
    `shows`: which values are kept beside digests. `read` finds the leaves below such fields.
    Raises msgspec.MsgspecError and RecursionError for fields that cannot be decoded.
    """
    before, after = digests(stored, sent)
    for one in earlier:
        if one.before == before and one.after == after:
            return one
    if before == after:
        return Compared(before, after, NO_DIFF)
    changed = read(differing(stored, sent, {**stored, **sent}), shows)
    return Compared(before, after, diff_of(changed, differs=True))


def together(one: Compared, other: Compared) -> Compared:
    """Join the comparisons of different fields of one object."""
    changes = tuple(sorted((*one.diff, *other.diff), key=_pointer)[:MOST_LEAVES])
    diff = diff_of(changes, differs=one.diff.differs or other.diff.differs)
    return Compared(added(one.before, other.before), added(one.after, other.after), diff)


def between(one: Compared, other: Compared) -> Diff | None:
    """Return what differs from the result of one comparison to that of the other.

    None where the two start from different objects, or where more leaves differ than are kept.
    An item of a list that only one side has moved is named by its index on the other side.
    """
    if one.before != other.before:
        return None
    if one.after == other.after:
        return NO_DIFF
    left, right = _by_key(one), _by_key(other)
    if left is None or right is None:
        return None
    steps = [_step(left.get(key), right.get(key)) for key in left | right]
    return diff_of(tuple(sorted([one for one in steps if one is not None], key=_pointer)))


def _by_key(one: Compared) -> dict[Path, Change] | None:
    found = {change.key: change for change in one.diff}
    # A field may have the name that an item of the list had which it replaced.
    return found if one.diff.is_whole and len(found) == len(one.diff) else None


def _step(left: Change | None, right: Change | None) -> Change | None:
    """Return the change of a leaf from the left result to the right; unchanged it is as stored."""
    at = left if right is None or (left is not None and right.removed) else right
    assert at is not None  # noqa: S101 - one of them names the leaf
    stored = at.before, at.shown_before
    before = (left.after, left.shown_after) if left is not None else stored
    after = (right.after, right.shown_after) if right is not None else stored
    if before[0] == after[0]:
        return None
    shown = before[1], after[1]
    return Change(at.key, at.pointer, before[0], after[0], at.salt, *shown)
