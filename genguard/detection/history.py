"""The latest writes of each object, and which of them were stored.

A write that is seen is not yet stored. Several writes may share a base resourceVersion, and at most
one of them is kept: the next oldObject shows which.

Bounded in objects, in writes, in leaves and in time. Leaves take more than the rest of a record:
they have a bound of their own. Objects with one writer for each part lose theirs first, the longest
unwritten before others: a loop of several writers stays known.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from sys import intern
from typing import Final

import msgspec

from genguard.admission.review import JoinKey
from genguard.detection.write import NOBODY, ObjectKey, Outcome, Write
from genguard.objects.bounded import Bounded
from genguard.objects.fields import Path

SECONDS_SLOW: Final = 8 * 86_400.0
"""A week of nights."""
MOST_SLOW_OBJECTS: Final = 20_000
MOST_SLOW_LEAVES: Final = 10_000
SLOW_WRITES_OF_AN_OBJECT: Final = 16
_MOST_LEAVES_OF_SLOW: Final = 20


MOST_OBJECTS: Final = 100_000
MOST_WRITES: Final = 500_000
"""With objects: each counts as one more, and a large status as several."""
MOST_LEAVES: Final = 60_000
WRITES_OF_AN_OBJECT: Final = 40
LEAVES_OF_AN_OBJECT: Final = 10_000
"""Its newest write is remembered whatever it takes."""
SECONDS_KEPT: Final = 3_600.0
SECONDS_AT_ONCE: Final = 2.0
"""An API server calls again so soon after a broken connection."""


class ObjectHistory(msgspec.Struct, gc=False):
    """The latest writes of one object, oldest first; it grows with each write.

    Tuples, and no gc: there are 100,000, and the garbage collector need not look at any.

    stored  those of the writes that are known to have been stored, and changed something
    leaves  how many leaves the writes have; records: how many writes it counts as
    writer, status_writer  who wrote the first time: the rest, and status
    several_wrote, several_wrote_status  whether somebody else has written it since
    owner   the uid of its owner, "" without one
    slow    stored writes of the last days, the newest among them, where that one is known now to
            have been stored, and several users write the object
    """

    writes: tuple[Write, ...] = ()
    stored: tuple[Write, ...] = ()
    leaves: int = 0
    records: int = 1
    writer: str | None = None
    status_writer: str | None = None
    several_wrote: bool = False
    several_wrote_status: bool = False
    owner: str = ""
    slow: tuple[Write, ...] = ()

    @property
    def seen(self) -> float:
        """Return the time of the last write, 0 without any."""
        return self.writes[-1].time if self.writes else 0.0

    @property
    def earlier(self) -> Sequence[Write]:
        """Return all writes but the newest, which is the one that is examined."""
        return self.writes[:-1]

    def add(self, write: Write) -> None:
        """Remember a write; it is not known yet whether it was stored."""
        last = self.writes[-1] if self.writes else write
        where, before = last.object, last.state_after
        kept = msgspec.structs.replace(
            write,
            called=NOBODY,
            owner="",
            gates=None,
            # Equal parts are kept once.
            object=where if where == write.object and self.writes else _interned(write.object),
            subresource=intern(write.subresource),
            state_before=before if before == write.state_before else write.state_before,
        )
        self.leaves += kept.leaves
        self.records += kept.records
        self.writes = (*self.writes, kept)
        while len(self.writes) > 1 and (
            len(self.writes) > WRITES_OF_AN_OBJECT
            or self.leaves + self.records > LEAVES_OF_AN_OBJECT
        ):
            self._drop(self._index_of_oldest())
        self.owner = write.owner
        user = write.requester.user
        if write.writes_status:
            self.status_writer = self.status_writer or user
            self.several_wrote_status |= user != self.status_writer
        if write.writes_more:
            self.writer = self.writer or user
            self.several_wrote |= user != self.writer

    def _index_of_oldest(self) -> int:
        """Return the index of the oldest write of that part which has more than its half.

        The status of a large Deployment is written thirty times in one rollout. Two writers who
        fight over its spec meanwhile must not be forgotten for that.
        """
        if len(self.writes) <= WRITES_OF_AN_OBJECT:
            return 0  # it is over the bound of leaves
        of_status = [not write.writes_more for write in self.writes]
        return of_status.index(sum(of_status) > WRITES_OF_AN_OBJECT // 2)

    def _drop(self, index: int) -> None:
        dropped = self.writes[index]
        self.leaves -= dropped.leaves
        self.records -= dropped.records
        self._set_writes(self.writes[:index] + self.writes[index + 1 :])

    def forget_leaves(self) -> None:
        """Drop the leaves of all writes; who, when, digests and numbers stay."""
        self._set_writes(write.without_leaves() for write in self.writes)
        self.leaves = 0

    def confirm(self, now: Write) -> Write | None:
        """Return the write that must have been stored, as `now` shows another version.

        The digests tell which of the rivals upon one version was kept. Where they tell none, no
        guess is better than a wrong one.
        """
        if not self.writes or self.writes[-1].base == now.base:
            return None
        last = self.writes[-1].base
        rivals = [write for write in self.writes if write.base == last and write.changed_anything]
        if any(rival.outcome is Outcome.STORED for rival in rivals):
            return None  # it is known already
        if len(rivals) > 1:
            rivals = [rival for rival in rivals if _is_kept(rival, now)]
        if not rivals or any(rival.metadata_after != rivals[0].metadata_after for rival in rivals):
            return None
        found = msgspec.structs.replace(rivals[0], outcome=Outcome.STORED)
        self._set_writes([found if write is rivals[0] else write for write in self.writes])
        return found

    def shows(self, write: Write) -> bool:
        """Whether the same came of the same requester upon the same version a moment ago."""
        return any(
            earlier.requester == write.requester
            and (earlier.base, earlier.subresource, earlier.state_after, earlier.metadata_after)
            == (write.base, write.subresource, write.state_after, write.metadata_after)
            and write.time - earlier.time < SECONDS_AT_ONCE
            for earlier in self.writes
        )

    def _set_writes(self, writes: Iterable[Write]) -> None:
        self.writes = tuple(writes)
        self.stored = tuple([write for write in self.writes if write.outcome is Outcome.STORED])

    @property
    def unconfirmed(self) -> Write | None:
        """Return the newest write if it must have been stored, as far as is known."""
        last = self.writes[-1] if self.writes else None
        if last is None:
            return None
        is_only = sum(write.base == last.base for write in self.writes) == 1
        return last if is_only and last.has_outcome and last.changed_anything else None


_Slow = tuple[str, tuple[Write, ...]]
"""The user who wrote an object last, and its writes, as long as several users write it."""
_NEVER_WRITTEN: Final[_Slow] = "", ()


class History:
    """Histories of objects; those not written for longest are dropped first."""

    def __init__(
        self,
        most_objects: int = MOST_OBJECTS,
        most_writes: int = MOST_WRITES,
        most_leaves: int = MOST_LEAVES,
    ) -> None:
        self._objects: OrderedDict[str, ObjectHistory] = OrderedDict()
        self._with_leaves: tuple[OrderedDict[str, ObjectHistory], ...] = (
            OrderedDict(),
            OrderedDict(),
        )
        """Objects of which leaves are kept: with one writer for each part, with several."""
        self._most_objects: Final = most_objects
        self._most_writes: Final = most_writes
        self._most_leaves: Final = most_leaves
        self._slow: Final[Bounded[str, _Slow]] = Bounded(MOST_SLOW_OBJECTS, MOST_SLOW_LEAVES)
        self.records = 0
        self.leaves = 0

    def __len__(self) -> int:
        return len(self._objects)

    def of(self, key: ObjectKey) -> ObjectHistory:
        """Return the history of an object, a new history for a new object."""
        name = history_name(key)
        found = self._objects.get(name)
        if found is None:
            found = self._objects[name] = ObjectHistory()
            self.records += found.records
        else:
            self._objects.move_to_end(name)
        return found

    def find(self, key: ObjectKey | JoinKey | str) -> ObjectHistory | None:
        """Return the history of an object, or of a uid, if there is one; it is kept no longer."""
        return self._objects.get(key if isinstance(key, str) else history_name(key))

    def snapshot(self) -> dict[str, ObjectHistory]:
        """Return all histories by `history_name`, as another thread may read them.

        Objects that were written last are at the end.
        """
        return dict(self._objects)

    def confirm(self, past: ObjectHistory, now: Write) -> Write | None:
        """Return the write that must have been stored: see `ObjectHistory.confirm`."""
        stored = past.confirm(now)
        if stored is not None and stored.writes_more:
            past.slow = self._add_slow(history_name(stored.object), stored)
        return stored

    def add(self, past: ObjectHistory, write: Write) -> None:
        """Add a write to the history of its object, and drop what is over the bounds."""
        before, leaves_before = past.records, past.leaves
        past.slow = ()  # it would be kept beyond its bound
        past.add(write)
        self.records += past.records - before
        self.leaves += past.leaves - leaves_before
        if past.leaves:
            self._forget_leaves_but_of(history_name(write.object), past)
        while len(self) > 1 and self._is_over(write.time - SECONDS_KEPT):
            name, oldest = self._objects.popitem(last=False)
            last = oldest.unconfirmed
            if last is not None and last.writes_more:
                self._add_slow(name, last)
            for objects in self._with_leaves:
                objects.pop(name, None)
            self.records -= oldest.records
            self.leaves -= oldest.leaves

    def _add_slow(self, name: str, write: Write) -> tuple[Write, ...]:
        """Remember a write that is known to have been stored; return the writes that it ends."""
        writer, slow = self._slow.get(name) or _NEVER_WRITTEN
        user = write.requester.user
        leaves = _leaves_of(write) if slow or writer not in {"", user} else set[Path]()
        if 0 < len(leaves) <= _MOST_LEAVES_OF_SLOW:
            kept = [stored for stored in slow if stored.time > write.time - SECONDS_SLOW]
            if kept and kept[-1].requester.user == user and _leaves_of(kept[-1]) == leaves:
                kept.pop()
            slow = (*kept[1 - SLOW_WRITES_OF_AN_OBJECT :], write)
        self._slow.put(name, (user, slow), sum([stored.records + stored.leaves for stored in slow]))
        return slow if slow and slow[-1] is write else ()

    def _forget_leaves_but_of(self, name: str, past: ObjectHistory) -> None:
        """Forget the leaves that are over the bound, never those of the object just written."""
        calm, contested = self._with_leaves
        calm.pop(name, None)
        contested.pop(name, None)
        while self.leaves > self._most_leaves and (calm or contested):
            _, longest = (calm or contested).popitem(last=False)
            self.leaves -= longest.leaves
            longest.forget_leaves()
        is_contested = past.several_wrote or past.several_wrote_status
        (contested if is_contested else calm)[name] = past

    def _is_over(self, oldest: float) -> bool:
        if len(self) > self._most_objects or self.records > self._most_writes:
            return True
        return next(iter(self._objects.values())).seen <= oldest


def _leaves_of(write: Write) -> set[Path]:
    return {change.key for change in (*write.content.admitted, *write.metadata.admitted)}


def _interned(where: ObjectKey) -> ObjectKey:
    """Return the same key; names that many objects have are kept once."""
    group, version, resource, namespace = map(
        intern, (where.group, where.version, where.resource, where.namespace)
    )
    return ObjectKey(group, version, resource, namespace, where.name, where.uid)


def _is_kept(write: Write, now: Write) -> bool:
    """Whether what is stored may be what a write has made of it."""
    made, stored = write.metadata_after, now.metadata_before
    is_same = made is None or stored is None or made == stored
    return is_same and write.state_after == now.state_before


def history_name(key: ObjectKey | JoinKey) -> str:
    """Return the name of an object in a history: its uid, or all its names without one."""
    return key.uid or f"{key.group}\x00{key.resource}\x00{key.namespace}\x00{key.name}"
