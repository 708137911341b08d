"""The latest writes of objects that several write, for days: some loops turn once a night.

The history of an object ends an hour after its last write. Here a few of its writes are kept for
longer: those that changed few fields, of each writer the last one that changed the same fields in a
row. Status is not meant: it is written too often, and handed over from one controller to the next.

Bounded in objects, in writes of each, in bytes and in time.
"""

from typing import Final, NamedTuple

from genguard.detection.write import Write
from genguard.objects.bounded import Bounded

SECONDS_KEPT: Final = 8 * 86_400.0
"""A week of nights."""
MOST_OBJECTS: Final = 20_000
MOST_BYTES: Final = 16 * 1024 * 1024
WRITES_OF_AN_OBJECT: Final = 16
_MOST_LEAVES: Final = 20
_BYTES_OF_OBJECT: Final = 400


class SlowWrites(NamedTuple):
    """What is known of one object.

    writer  the user who wrote it last
    writes  its writes, oldest first, as long as several users write it
    """

    writer: str = ""
    writes: tuple[Write, ...] = ()

    @property
    def size(self) -> int:
        """About how many bytes of memory they take."""
        diffs = [diff for one in self.writes for diff in one.content.diffs() + one.metadata.diffs()]
        writes = sum([one.size for one in self.writes]) + sum([one.size for one in diffs])
        return _BYTES_OF_OBJECT + writes

    def adding(self, write: Write) -> "SlowWrites":
        """Return the same with a write that is known to have been stored."""
        user = write.requester.user
        is_contested = bool(self.writes) or self.writer not in ("", user)
        leaves = len(write.content.admitted) + len(write.metadata.admitted)
        if not is_contested or not 0 < leaves <= _MOST_LEAVES:
            return self._replace(writer=user)
        kept = [one for one in self.writes if one.time > write.time - SECONDS_KEPT]
        if kept and _is_like(kept[-1], write):
            kept.pop()
        return SlowWrites(user, (*kept[1 - WRITES_OF_AN_OBJECT :], write))


NO_SLOW_WRITES: Final = SlowWrites()


class SlowWritesOfObjects:
    """The writes of all objects, by name; those written longest ago are dropped first."""

    def __init__(self) -> None:
        self._kept: Final[Bounded[str, SlowWrites]] = Bounded(MOST_OBJECTS, MOST_BYTES)

    def of(self, name: str) -> SlowWrites:
        """Return what is known of an object."""
        return self._kept.get(name) or NO_SLOW_WRITES

    def add(self, name: str, write: Write) -> SlowWrites:
        """Remember a write that is known to have been stored; return what is known with it."""
        found = self.of(name).adding(write)
        self._kept.put(name, found, found.size)
        return found


def _is_like(one: Write, other: Write) -> bool:
    """Whether one user changed the same fields."""
    if one.requester.user != other.requester.user:
        return False
    mine, theirs = (
        {change.key for diff in (it.content.admitted, it.metadata.admitted) for change in diff}
        for it in (one, other)
    )
    return mine == theirs
