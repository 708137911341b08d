"""What differs between two states of an object: digests of both, and the leaves that differ.

Two differences from the same stored object can be compared with each other without the objects: a
leaf that only one of them names differs between their results, and so does a leaf that both name
with different digests. Nothing else does.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from genguard.detection.changes import MOST_LEAVES, Change, Leaves, by_pointer, changes
from genguard.detection.values import NO_DIGEST, Digest, Shows, as_digest
from genguard.objects.fields import Fields, Path

_DIGESTS: Final = 2**32
_LONG: Final = 128
"""Characters of a path for which a leaf weighs as much as another leaf."""


class Diff(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What differs between two states; true where their bytes differ.

    before, after  digests of both
    changes  the leaves that differ, by pointer, MOST_LEAVES at most; none where states differ in
             order or notation alone
    """

    before: Digest = NO_DIGEST
    after: Digest = NO_DIGEST
    changes: Leaves = ()

    def __bool__(self) -> bool:
        return self.before != self.after

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    @property
    def is_complete(self) -> bool:
        """Every leaf that differs is among the changes."""
        return len(self.changes) < MOST_LEAVES

    @property
    def weight(self) -> int:
        """Return how many leaves it counts as in the bounds: more if their paths are long."""
        return sum([1 + len(change.pointer) // _LONG for change in self.changes])

    @property
    def content_hash(self) -> Digest | None:
        """Return a hash of the leaves and their new values without times; None without leaves."""
        parts = frozenset(
            [(change.key, change.after) for change in self.changes if not change.holds_time]
        )
        return as_digest(hash(parts) % _DIGESTS) if parts else None


NO_DIFF: Final = Diff()
NOTATION: Final = Diff(NO_DIGEST, as_digest(1))
"""Something differs; what it was is not known any more, or it was no leaf."""


def diff_of(
    changes: Iterable[Change], before: Digest = NO_DIGEST, after: Digest = NOTATION.after
) -> Diff:
    """Return the difference that consists of these leaves; without any there is none."""
    leaves = tuple(changes)
    return Diff(before, after, leaves) if leaves else NO_DIFF


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
        """Labels and annotations whose stored value grew by webhooks, and by nobody else."""
        asked = {change.key for change in self.requested or () if change.has_grown}
        found = () if self.webhook is None else self.admitted.changes
        return [change.key for change in found if change.has_grown and change.key not in asked]

    @property
    def rewritten(self) -> list[tuple[Change, Change]]:
        """Return leaves that the requester set and webhooks changed: as asked, and as made."""
        made = {change.key: change for change in self.webhook or ()}
        asked = (change for change in self.requested or () if change.after is not None)
        return [(change, made[change.key]) for change in asked if change.key in made]

    @property
    def weight(self) -> int:
        """Return how many leaves it counts as in the bounds; a difference is kept once."""
        diffs = msgspec.structs.astuple(self)
        return sum({id(diff): diff.weight for diff in diffs if diff}.values())

    def without_leaves(self) -> "PartDiffs":
        """Return what is kept where there are no leaves, or no room for them."""
        diffs = msgspec.structs.astuple(self)
        known: Iterable[Any] = (
            diff if diff is None else NOTATION if diff else NO_DIFF for diff in diffs
        )
        return _once(PartDiffs(*known))


@lru_cache
def _once(diffs: PartDiffs) -> PartDiffs:
    """Return the same each time: most writes have differences without leaves."""
    return diffs


NOTHING_DIFFERS: Final = PartDiffs(NO_DIFF, NO_DIFF)
"""For metadata that every phase of a write shows as it is stored."""


def asks_nothing(asked: Diff | None, made: Iterable[Change]) -> bool:
    """Whether nothing is asked for; a PUT may leave out what webhooks add."""
    theirs = {change.key for change in made}
    return asked is not None and all(change.removed and change.key in theirs for change in asked)


def values(diff: Diff | None) -> dict[Path, Digest | None]:
    """Return the new values of the leaves that differ."""
    return {change.key: change.after for change in diff or ()}


def digests(old: Fields, new: Fields) -> tuple[Digest, Digest]:
    """Return one digest of all fields before and one after, in any order of fields; 0 for none."""
    before = {key: _digest(key, raw) for key, raw in old.items()}
    after = [before[key] if old.get(key) == raw else _digest(key, raw) for key, raw in new.items()]
    return as_digest(sum(before.values())), as_digest(sum(after))


def _digest(key: str, raw: msgspec.Raw) -> int:
    return zlib.crc32(raw, zlib.crc32(key.encode()))


def compare(
    stored: Fields,
    sent: Fields,
    earlier: Sequence[Diff] = (),
    *,
    shows: Shows = Shows.NOTHING,
    read: Callable[[Fields, Fields, Shows], Leaves] = changes,
) -> Diff:
    """Return what differs between the stored and the sent fields of an object.

    If one of the `earlier` differences of the same write shows the same, that one is returned: the
    API server writes an object the same way twice.
    `shows`: which values are kept beside digests. `read` finds the leaves that differ.
    Raises msgspec.MsgspecError and RecursionError for fields that cannot be decoded.
    """
    before, after = digests(stored, sent)
    for diff in earlier:
        if diff.before == before and diff.after == after:
            return diff
    return Diff(before, after, read(stored, sent, shows) if before != after else ())


def together(diff: Diff, other: Diff) -> Diff:
    """Join the differences in different fields of one object."""
    if diff == NO_DIFF:
        return other
    leaves = tuple(sorted((*diff, *other), key=by_pointer)[:MOST_LEAVES])
    return Diff(diff.before + other.before, diff.after + other.after, leaves)


def between(diff: Diff, other: Diff) -> Diff | None:
    """Return what differs from the result of one difference to that of the other.

    None where the two start from different objects, or where more leaves differ than are kept.
    An item of a list that only one side has moved is named by its index on the other side.
    """
    if diff.before != other.before:
        return None
    if diff.after == other.after:
        return NO_DIFF
    left, right = ({change.key: change for change in side} for side in (diff, other))
    # A field may have the name of an item of the list that it replaced.
    if (
        len(left) < len(diff)
        or len(right) < len(other)
        or not (diff.is_complete and other.is_complete)
    ):
        return None
    steps = []
    at_end = {key: change for key, change in right.items() if not change.removed}
    for key, at in (right | left | at_end).items():
        # A leaf that a side does not name is there as it is stored.
        (before, shown_before), (after, shown_after) = (
            (change.after, change.shown_after)
            if (change := side.get(key))
            else (at.before, at.shown_before)
            for side in (left, right)
        )
        if before != after:
            shown = shown_before, shown_after, at.holds_time
            steps.append(Change(key, at.pointer, before, after, *shown))
    return diff_of(sorted(steps, key=by_pointer), diff.after, other.after)
