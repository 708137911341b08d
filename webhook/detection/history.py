"""What is remembered of each object: its latest writes, and which of them were stored.

Seen is not stored. Several writes may share a base resourceVersion, and at most one of them was
kept: the next oldObject shows which. Bounded in objects, in writes of an object and in bytes; the
objects longest unseen go first, and all that is older than the window.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Final

from webhook.detection.write import ObjectKey, Requester, Write

MOST_OBJECTS: Final = 100_000
MOST_BYTES: Final = 100 * 1024 * 1024
WRITES_OF_AN_OBJECT: Final = 40
SECONDS_KEPT: Final = 3_600.0

_BYTES_OF_OBJECT: Final = 700
_BYTES_OF_WRITE: Final = 1_500
_BYTES_OF_CHANGE: Final = 400


class ObjectHistory:
    """The latest writes of one object, oldest first."""

    __slots__ = ("_candidates", "bytes", "seen", "stored", "writes")

    def __init__(self) -> None:
        self.writes: deque[Write] = deque(maxlen=WRITES_OF_AN_OBJECT)
        self.stored: deque[Write] = deque(maxlen=WRITES_OF_AN_OBJECT)
        self.seen = 0.0
        self.bytes = _BYTES_OF_OBJECT
        self._candidates: list[Write] = []

    def add(self, write: Write) -> None:
        """Remember a write; whether it was stored is not known yet."""
        self.writes.append(write)
        self.seen = write.time
        if write.has_outcome and write.changed_something:
            self._candidates.append(write)
            del self._candidates[:-WRITES_OF_AN_OBJECT]
        self.bytes = _BYTES_OF_OBJECT + sum(map(_weight, self.writes))

    def confirm(self, base: str, state: int) -> Iterator[Write]:
        """The object is at `base` and holds `state` now: the writes that must have been stored."""
        if all(candidate.base == base for candidate in self._candidates):
            return
        waiting = [one for one in self._candidates if one.base != base]
        self._candidates = [one for one in self._candidates if one.base == base]
        by_base: dict[str, list[Write]] = {}
        for candidate in waiting:
            by_base.setdefault(candidate.base, []).append(candidate)
        for position, rivals in enumerate(by_base.values()):
            kept = rivals
            if len(rivals) > 1:
                # The last base leads to what is stored now; of the earlier ones nothing more is
                # known, and no guess is better than a wrong one.
                is_last = position == len(by_base) - 1
                kept = [one for one in rivals if is_last and one.state_after == state][:1]
            for write in kept:
                self.stored.append(write)
                yield write

    def last_setter(self, pointer_key: tuple[str | int, ...]) -> Requester | None:
        """Who last asked for a value at a leaf, if that is remembered."""
        for write in reversed(self.writes):
            for change in write.asked if write.asked is not None else write.result:
                if change.key == pointer_key and change.after is not None:
                    return write.requester
        return None


class History:
    """Histories of objects, the longest unseen first out."""

    def __init__(self, most_objects: int = MOST_OBJECTS, most_bytes: int = MOST_BYTES) -> None:
        self._objects: OrderedDict[tuple[str, ...], ObjectHistory] = OrderedDict()
        self._most_objects: Final = most_objects
        self._most_bytes: Final = most_bytes
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._objects)

    def of(self, key: ObjectKey) -> ObjectHistory:
        """The history of an object, a new one for an object not seen before."""
        name = _name(key)
        found = self._objects.get(name)
        if found is None:
            found = self._objects[name] = ObjectHistory()
            self.bytes += found.bytes
        else:
            self._objects.move_to_end(name)
        return found

    def add(self, past: ObjectHistory, write: Write) -> None:
        """Remember a write in its object's history, and forget what is over the bounds."""
        self.bytes -= past.bytes
        past.add(write)
        self.bytes += past.bytes
        while len(self._objects) > 1:
            name, oldest = next(iter(self._objects.items()))
            if (
                len(self._objects) <= self._most_objects
                and self.bytes <= self._most_bytes
                and oldest.seen > write.time - SECONDS_KEPT
            ):
                return
            del self._objects[name]
            self.bytes -= oldest.bytes


def _name(key: ObjectKey) -> tuple[str, ...]:
    if key.uid:
        return (key.uid,)
    return key.group, key.resource, key.namespace, key.name


def _weight(write: Write) -> int:
    leaves = len(write.result) + len(write.asked or ()) + len(write.others or ())
    return _BYTES_OF_WRITE + _BYTES_OF_CHANGE * leaves
