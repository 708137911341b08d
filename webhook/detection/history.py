"""What is remembered of each object: its latest writes, and which of them were stored.

Seen is not stored. Several writes may share a base resourceVersion, and at most one of them was
kept: the next oldObject shows which. Bounded in objects, in writes of an object and in bytes; the
objects longest unseen go first, and all that is older than the window.

Objects that were written lately are awake; the others rest as a few packed bytes, with nothing
lost. 100,000 pods with the three status writes of their start take 85 MiB of RAM, 110 MiB where
every write finds its pod at rest; 100,000 Deployments with two take 65 MiB (`make memory`). Where
objects have more to remember the bound in bytes holds, and fewer are kept.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final

import msgspec

from webhook.detection.difference import Reader
from webhook.detection.packing import Packer, Remembered, Resource, seen_of
from webhook.detection.write import NOBODY, ObjectKey, Requester, Write
from webhook.objects.pointer import Path

MOST_OBJECTS: Final = 100_000
MOST_BYTES: Final = 140 * 1024 * 1024
MOST_BYTES_AWAKE: Final = 24 * 1024 * 1024
"""Some 2,500 pods. To pack one takes as long as to judge a write of it."""
WRITES_OF_AN_OBJECT: Final = 40
BYTES_OF_AN_OBJECT: Final = 6 * 1024 * 1024
"""Its newest write is remembered whatever it takes: some 10 MiB at most."""
SECONDS_KEPT: Final = 3_600.0


class _Several(Enum):
    SEVERAL = "several"


SEVERAL: Final = _Several.SEVERAL
"""Writers of one part of an object."""
_STATUS: Final = ("status",)
_BYTES_OF_OBJECT: Final = 700
_BYTES_OF_RESTING: Final = 250
_BYTES_OF_WRITE: Final = 500
_OBSERVED_OF_WRITE: Final = 1_000
"""Bytes of its observedGeneration values that are shared with other writes, or counted above."""


class ObjectHistory:
    """The latest writes of one object, oldest first.

    weight  about the bytes of memory that it takes
    bytes   what is counted of that
    """

    weight: int
    __slots__ = (
        "_candidates",
        "_writer",
        "_writer_of_status",
        "bytes",
        "resource",
        "seen",
        "stored",
        "weight",
        "writes",
    )

    def __init__(self, resource: Resource, remembered: Remembered | None = None) -> None:
        self.resource: Final = resource
        # Lists, for an empty deque takes 600 bytes.
        self.writes: list[Write] = remembered.writes if remembered else []
        self.stored: list[Write] = remembered.stored if remembered else []
        self._candidates: list[Write] = remembered.candidates if remembered else []
        self.seen = self.writes[-1].time if self.writes else 0.0
        # Whether there are several is all that is asked.
        self._writer: str | _Several | None = None
        self._writer_of_status: str | _Several | None = None
        for write in (*self.writes, *self.stored):
            self._note(write)
        self.bytes = 0
        self.weigh()

    def remembered(self) -> Remembered:
        """All of it, for an object that goes to rest."""
        return Remembered(self.writes, self.stored, self._candidates)

    def add(self, write: Write) -> None:
        """Remember a write; whether it was stored is not known yet."""
        where = write.object
        if self.writes:
            last = self.writes[-1]
            where = last.object if last.object == where else where
            write.result.follows(last.result)
        kept = msgspec.structs.replace(write, called=NOBODY, object=where)
        weight = _weight(kept)
        self._append(self.writes, kept, weight)
        self.seen = write.time
        self._note(write)
        # Without an outcome: none is registered, or the write would have been forgotten.
        if write.changed_something:
            self._append(self._candidates, kept, weight)

    def weigh(self) -> None:
        """Weigh anew what may have been read."""
        self.weight = _BYTES_OF_OBJECT
        self.weight += sum(_weight(one) for some in self._lists for one in some)
        self._shrink()

    @property
    def _lists(self) -> tuple[list[Write], list[Write], list[Write]]:
        return self.stored, self._candidates, self.writes

    def _append(self, writes: list[Write], write: Write, weight: int) -> None:
        writes.append(write)
        self.weight += weight
        if len(writes) > WRITES_OF_AN_OBJECT:
            self.weight -= _weight(writes.pop(0))
        self._shrink()

    def _shrink(self) -> None:
        """Forget the oldest writes of an object that takes too much."""
        while self.weight > BYTES_OF_AN_OBJECT and any(len(one) > 1 for one in self._lists):
            longest = max(self._lists, key=len)
            self.weight -= _weight(longest.pop(0))

    def _note(self, write: Write) -> None:
        user = write.requester.user
        if write.writes_status and self._writer_of_status != user:
            self._writer_of_status = user if self._writer_of_status is None else SEVERAL
        if write.writes_more and self._writer != user:
            self._writer = user if self._writer is None else SEVERAL

    @property
    def earlier(self) -> Sequence[Write]:
        """All but the newest, which is the one that a detector is asked about."""
        return self.writes[:-1]

    def confirm(self, base: str, state: int) -> Iterator[Write]:
        """The object is at `base` and holds `state` now: the writes that must have been stored."""
        waiting = [one for one in self._candidates if one.base != base]
        if not waiting:
            return
        self._candidates = [one for one in self._candidates if one.base == base]
        self.weight -= sum(map(_weight, waiting))
        for write in waiting if len(waiting) == 1 else _kept(waiting, state):
            self._append(self.stored, write, _weight(write))
            yield write

    def several_wrote(self, *, status: bool) -> bool:
        """More than one user wrote status, or the rest: of most objects each has one writer."""
        return (self._writer_of_status if status else self._writer) is SEVERAL

    def others_set_status(self, user: str) -> bool:
        """Somebody else set a leaf of status, or may have: what is unread is not read for this."""
        return self.several_wrote(status=True) and any(
            not one.sent.is_read or any(not change.removed for change in one.sent)
            for one in self.writes
            if one.writes_status and one.requester.user != user
        )

    def last_setter_but(self, user: str, leaf: Path) -> Requester | None:
        """Who last asked for a value at a leaf, if that is remembered and was somebody else."""
        if user == (self._writer_of_status if leaf[:1] == _STATUS else self._writer):
            return None
        for write in reversed(self.writes):
            if leaf[:1] == _STATUS and not write.writes_status:
                continue
            for change in write.sent:
                if change.key == leaf and change.after is not None:
                    return write.requester if write.requester.user != user else None
        return None


class History:
    """Histories of objects, the longest unseen first packed and then out."""

    def __init__(
        self,
        most_objects: int = MOST_OBJECTS,
        most_bytes: int = MOST_BYTES,
        most_awake: int = MOST_BYTES_AWAKE,
    ) -> None:
        # Both the longest unseen first; those that rest were all seen before those awake.
        self._resting: OrderedDict[str, bytes] = OrderedDict()
        self._awake: OrderedDict[str, ObjectHistory] = OrderedDict()
        self.reader: Final = Reader()
        """Reads the differences of the writes that are remembered."""
        self._packer: Final = Packer(self.reader)
        self._most_objects: Final = most_objects
        self._most_bytes: Final = most_bytes
        self._most_awake: Final = min(most_awake, most_bytes)
        self._bytes_awake = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._resting) + len(self._awake)

    def of(self, key: ObjectKey) -> ObjectHistory:
        """The history of an object, a new one for an object not seen before."""
        name = _name(key)
        found = self._awake.get(name)
        if found is None:
            packed = self._resting.pop(name, None)
            remembered = None
            if packed is not None:
                remembered = self._packer.unpack(key, packed)
                self.bytes -= _bytes_of(packed)
            found = self._awake[name] = ObjectHistory((key.group, key.resource), remembered)
            self._count(found)
        else:
            self._awake.move_to_end(name)
        return found

    def look(self, key: ObjectKey) -> Remembered | None:
        """What is remembered of an object, which is neither woken nor made younger by it."""
        name = _name(key)
        packed = self._resting.get(name)
        if packed is not None:
            return self._packer.unpack(key, packed)
        awake = self._awake.get(name)
        return None if awake is None else awake.remembered()

    def add(self, past: ObjectHistory, write: Write) -> None:
        """Remember a write in its object's history, and forget what is over the bounds."""
        past.add(write)
        self._count(past)
        while self._bytes_awake > self._most_awake and len(self._awake) > 1:
            self._rest()
        while len(self) > 1 and self._is_over(write.time - SECONDS_KEPT):
            self._forget()

    def weigh(self, past: ObjectHistory) -> None:
        """Count anew what may have been read, which takes more then, or less."""
        past.weigh()
        self._count(past)

    def _count(self, past: ObjectHistory) -> None:
        more = past.weight - past.bytes
        past.bytes = past.weight
        self.bytes += more
        self._bytes_awake += more

    def _rest(self) -> None:
        name, awake = self._awake.popitem(last=False)
        resting = self._packer.pack(awake.resource, awake.remembered())
        self._resting[name] = resting
        self._bytes_awake -= awake.bytes
        self.bytes += _bytes_of(resting) - awake.bytes

    def _is_over(self, oldest: float) -> bool:
        if len(self) > self._most_objects or self.bytes > self._most_bytes:
            return True
        if self._resting:
            return seen_of(next(iter(self._resting.values()))) <= oldest
        return next(iter(self._awake.values())).seen <= oldest

    def _forget(self) -> None:
        if self._resting:
            _, packed = self._resting.popitem(last=False)
            self.bytes -= _bytes_of(packed)
        else:
            _, awake = self._awake.popitem(last=False)
            self.bytes -= awake.bytes
            self._bytes_awake -= awake.bytes


def _bytes_of(packed: bytes) -> int:
    """What is counted of it."""
    return _BYTES_OF_RESTING + len(packed)


def _kept(waiting: Sequence[Write], state: int) -> Iterator[Write]:
    """Of those whose version is no longer there, the ones that were stored, as far as is known."""
    by_base: dict[str, list[Write]] = {}
    for one in waiting:
        by_base.setdefault(one.base, []).append(one)
    for position, rivals in enumerate(by_base.values()):
        if len(rivals) == 1:
            yield from rivals
        elif position == len(by_base) - 1:
            # The last base leads to what is stored now; of the earlier ones nothing more is
            # known, and no guess is better than a wrong one.
            yield from [one for one in rivals if one.state_after == state][:1]


def _name(key: ObjectKey) -> str:
    return key.uid or f"{key.group}\x00{key.resource}\x00{key.namespace}\x00{key.name}"


def _weight(write: Write) -> int:
    weight = _BYTES_OF_WRITE + write.result.weight + write.again.weight
    if write.others is not None:
        weight += write.others.weight
    if write.asked is not None and write.asked is not write.result:
        weight += write.asked.weight
    # A status that does not change is one value.
    before, asked = write.observed_before, write.observed_asked
    sent, after = write.observed_sent, write.observed_after
    observed = after.size
    if before is not after:
        observed += before.size
    if asked is not after and asked is not before:
        observed += asked.size
    if sent is not after and sent is not asked:
        observed += sent.size
    return weight + max(0, observed - _OBSERVED_OF_WRITE) // 2
