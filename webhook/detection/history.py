"""The latest writes of each object, which of them were stored, and whether they look suspicious.

A write that is seen is not yet stored. Several writes may share a base resourceVersion, and at most
one of them is kept: the next oldObject shows which. Bounded in objects, in writes of an object and
in bytes: the objects longest unseen go first, and all that is older than SECONDS_KEPT.

Of each write a small record is kept. The leaves that it changed are compared only while its object
is suspicious: a loop repeats, so what the first writes did not keep the next ones show.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from webhook.admission.join import JoinKey
from webhook.detection.diff import Diff
from webhook.detection.write import NOBODY, ObjectKey, Requester, Write
from webhook.objects.pointer import Path

MOST_OBJECTS: Final = 100_000
MOST_BYTES: Final = 180 * 1024 * 1024
WRITES_OF_AN_OBJECT: Final = 40
BYTES_OF_AN_OBJECT: Final = 6 * 1024 * 1024
"""Its newest write is remembered whatever it takes: some 10 MiB at most."""
SECONDS_KEPT: Final = 3_600.0
SECONDS_SUSPICIOUS: Final = 600.0
"""A write is compared with those of so many seconds before it."""
_MISSED: Final = 2
_OFTEN: Final = 5
_OFTEN_SECONDS: Final = 10.0
"""So many writes of one part in so many seconds are more than usual."""


_BYTES_OF_OBJECT: Final = 600


class ObjectHistory(msgspec.Struct, gc=False):
    """The latest writes of one object, oldest first; it grows with each write.

    Tuples, and no gc: there are 100,000, and the garbage collector need not look at any.

    stored  those of the writes that are known to have been stored
    bytes   about what it takes in memory
    writer, status_writer  who wrote the first time: the rest, and status
    several_wrote, several_wrote_status  whether somebody else has written it since
    """

    writes: tuple[Write, ...] = ()
    stored: tuple[Write, ...] = ()
    bytes: int = _BYTES_OF_OBJECT
    writer: str | None = None
    status_writer: str | None = None
    several_wrote: bool = False
    several_wrote_status: bool = False

    @property
    def seen(self) -> float:
        """When it was written last; 0 where it was not."""
        return self.writes[-1].time if self.writes else 0.0

    @property
    def earlier(self) -> Sequence[Write]:
        """All but the newest, which is the one that a detector is asked about."""
        return self.writes[:-1]

    def add(self, write: Write) -> None:
        """Remember a write; whether it was stored is not known yet."""
        kept = _sharing(write, self.writes[-1]) if self.writes else _bare(write)
        self.writes = (*self.writes, kept)
        self.bytes += kept.size
        while len(self.writes) > 1 and (
            len(self.writes) > WRITES_OF_AN_OBJECT or self.bytes > BYTES_OF_AN_OBJECT
        ):
            oldest, *_ = self.writes
            self.writes = self.writes[1:]
            self.bytes -= oldest.size
            if self.stored and self.stored[0] is oldest:
                self.stored = self.stored[1:]
        user = write.requester.user
        if write.writes_status:
            self.status_writer = self.status_writer or user
            self.several_wrote_status |= user != self.status_writer
        if write.writes_more:
            self.writer = self.writer or user
            self.several_wrote |= user != self.writer

    def confirm(self, base: str, state: int) -> tuple[Write, ...]:
        """Return the writes that must have been stored, as the object is at `base` now.

        `state` is the digest of what is stored there: of rivals upon one version it tells which
        was kept. Where it tells none, no guess is better than a wrong one.
        """
        if not self.writes or self.writes[-1].base == base:
            return ()
        last = self.writes[-1].base
        found = tuple(one for one in self.writes if one.base == last and one.changed_something)
        if any(one is known for one in found for known in self.stored):
            return ()  # it is known already
        if len(found) > 1:
            found = tuple(one for one in found if one.state_after == state)[:1]
        self.stored += found
        return found

    def is_suspicious(
        self, user: str, before: int, after: int, now: float, *, status: bool
    ) -> bool:
        """Whether a write from one digest to another should be looked at closely.

        Signs that need no leaves, among the latest writes of the same part (of status, or of the
        rest): another webhook changed one; the same content was there or was requested before;
        what its user requested was not there afterwards, twice; its user takes turns with another
        one; there are very many; generation counts writes of status.
        """
        in_a_hurry = missed = 0
        was_other, expected = False, before
        for one in reversed(self.writes):
            if one.time < now - SECONDS_SUSPICIOUS:
                break
            if not (one.writes_status if status else one.writes_more):
                continue
            is_own = one.requester.user == user
            missed += is_own and one.digest_requested != expected
            expected = one.digest_before
            in_a_hurry += one.time > now - _OFTEN_SECONDS
            if (
                one.is_changed
                or after in (one.digest_before, one.digest_requested)
                or missed >= _MISSED
                or (is_own and was_other)
                or in_a_hurry >= _OFTEN
                or (one.status_counts and one.counted and not one.touches_more)
            ):
                return True
            was_other = was_other or not is_own
        return False

    def diff_between(self, before: int, after: int) -> Diff | None:
        """The leaves that a transition changes, if a remembered write has made the same one."""
        for one in reversed(self.writes):
            if one.digest_before == before:
                if one.digest_admitted == after and one.admitted_diff.changes:
                    return one.admitted_diff
                requested = one.requested_diff
                if one.digest_requested == after and requested and requested.changes:
                    return requested
        return None

    def last_setter_but(self, user: str, leaf: Path) -> Requester | None:
        """Who last requested a value at a leaf, if that is remembered and was somebody else."""
        is_status = leaf[0] == "status"
        for write in reversed(self.writes):
            if is_status and not write.writes_status:
                continue
            for change in write.sent_diff:
                if change.key == leaf and change.after is not None:
                    return write.requester if write.requester.user != user else None
        return None


class History:
    """Histories of objects, the longest unseen first out."""

    def __init__(self, most_objects: int = MOST_OBJECTS, most_bytes: int = MOST_BYTES) -> None:
        self._objects: OrderedDict[str, ObjectHistory] = OrderedDict()
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

    def find(self, key: ObjectKey | JoinKey) -> ObjectHistory | None:
        """What is remembered of an object; to look at it makes it no younger."""
        return self._objects.get(_name(key))

    def add(self, past: ObjectHistory, write: Write) -> None:
        """Remember a write in its object's history, and forget what is over the bounds."""
        before = past.bytes
        past.add(write)
        self.bytes += past.bytes - before
        while len(self) > 1 and self._is_over(write.time - SECONDS_KEPT):
            _, oldest = self._objects.popitem(last=False)
            self.bytes -= oldest.bytes

    def _is_over(self, oldest: float) -> bool:
        if len(self) > self._most_objects or self.bytes > self._most_bytes:
            return True
        return next(iter(self._objects.values())).seen <= oldest


def _bare(write: Write) -> Write:
    """What is kept of a write."""
    return msgspec.structs.replace(write, called=NOBODY)


def _sharing(write: Write, last: Write) -> Write:
    """What is kept of a write: values that are equal to those of the last one are kept once."""
    where, state, digest = write.object, write.state_before, write.digest_before
    subresource = write.subresource
    return msgspec.structs.replace(
        write,
        called=NOBODY,
        object=last.object if last.object == where else where,
        subresource=last.subresource if last.subresource == subresource else subresource,
        state_before=last.state_after if last.state_after == state else state,
        digest_before=last.digest_admitted if last.digest_admitted == digest else digest,
    )


def _name(key: ObjectKey | JoinKey) -> str:
    return key.uid or f"{key.group}\x00{key.resource}\x00{key.namespace}\x00{key.name}"
