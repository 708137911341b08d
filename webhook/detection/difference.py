"""What differs between two states of an object, found out when somebody first asks for it.

Nearly every write is one of many that nobody will ever suspect. That it differs is known at once,
where it differs is asked of few. Until then the fields that differ are kept, packed or not.
"""

from collections.abc import Iterator
from typing import Any, Final, Self

import msgspec

from webhook.detection.changes import Change, Leaves, leaves_of

_BYTES_OF_UNREAD: Final = 150
_DIGESTS: Final = 2**32

Parts = tuple[tuple[str, bytes | None, bytes | None], ...]
"""The top-level fields that differ, before and after."""
Unread = Parts | bytes
"""Or what was packed: of these fields and leaves one, the other empty."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[Parts, Leaves]).decode


class Reader:
    """Reads, and counts: what it has read, and what of it could not be decoded."""

    __slots__ = ("reads", "unreadable")

    def __init__(self) -> None:
        self.reads = 0
        self.unreadable = 0

    def read(self, unread: Unread) -> Leaves:
        """The leaves; none of what cannot be decoded."""
        self.reads += 1
        try:
            parts, leaves = _decode(unread) if isinstance(unread, bytes) else (unread, ())
            return leaves or leaves_of(parts)
        except (msgspec.MsgspecError, RecursionError):
            self.unreadable += 1
            return ()


class Difference:
    """The leaves that differ, by pointer. True where the two states differ to the byte.

    They may do so in nothing but order or notation: then there are no leaves.
    """

    __slots__ = ("_differs", "_leaves", "_reader", "_unread", "_wanted", "weight")

    def __init__(self, leaves: Leaves = (), *, differs: bool = False) -> None:
        """`differs`: to the byte, where there are no leaves."""
        self._differs: Final = differs or bool(leaves)
        self.weight = _weight(leaves)
        """About half of the bytes of memory that it takes, for most writes are in two lists of a
        history; more or less once it was read."""
        self._leaves: Leaves | None = leaves
        self._unread: Unread = ()
        self._reader: Reader | None = None
        self._wanted: int | None = None

    @classmethod
    def unread(cls, unread: Unread, size: int, reader: Reader) -> "Difference":
        """Of states that differ: `reader` will be asked for the leaves. `size` is in bytes."""
        found = cls(differs=True)
        found._leaves, found._unread, found._reader = None, unread, reader
        found.weight = _BYTES_OF_UNREAD + size // 2
        return found

    def follows(self, earlier: Self) -> None:
        """Have in common with an earlier one what that has led to: half of what both would take."""
        mine, theirs = self._unread, earlier._unread
        if not (isinstance(mine, tuple) and isinstance(theirs, tuple)):
            return  # packed
        if not len(mine) == len(theirs) == 1:
            return  # nearly every write is of one field: of status, or of spec
        (key, before, after), (same, _, left) = mine[0], theirs[0]
        if key == same and left is not None and before == left and before is not left:
            self._unread = ((key, left, after),)
            self.weight -= len(left) // 2

    def begins_with(self, earlier: Self) -> bool:
        """What the earlier one has led to, this one has found; False where that is to be read."""
        mine, theirs = self._unread, earlier._unread
        if not (mine and theirs and isinstance(mine, tuple) and isinstance(theirs, tuple)):
            return False
        left = {key: after for key, _, after in theirs}
        return all(left.get(key, before) == before for key, before, _ in mine)

    @property
    def is_read(self) -> bool:
        """To ask for the leaves costs nothing."""
        return self._leaves is not None

    @property
    def leaves(self) -> Leaves:
        """All of them."""
        found = self._leaves
        if found is None:
            assert self._reader is not None  # noqa: S101 - see unread()
            found = self._leaves = self._reader.read(self._unread)
            self._unread, self._reader = (), None
            self.weight = _weight(found)
        return found

    @property
    def wanted(self) -> int | None:
        """Equal for the same leaves in any order, times aside; None where there are none."""
        if self._wanted is None:
            parts = [one.salt * (1 if one.after is None else one.after) for one in self if one.salt]
            self._wanted = sum(parts) % _DIGESTS if parts else None
        return self._wanted

    def packed(self) -> bytes:
        """For `unread`; empty where nothing differs."""
        if not self:
            return b""
        unread = self._unread
        return unread if isinstance(unread, bytes) else _encode((unread, self._leaves or ()))

    def __bool__(self) -> bool:
        return self._differs

    def __len__(self) -> int:
        return len(self.leaves)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.leaves)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Difference):
            return NotImplemented
        return self is other or (bool(self) == bool(other) and self.leaves == other.leaves)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Difference({self.leaves!r}, differs={bool(self)})"


def _weight(leaves: Leaves) -> int:
    return sum([one.size for one in leaves]) // 2


NO_DIFFERENCE: Final = Difference()


def plain(value: Any) -> Any:
    """An enc_hook for msgspec: the leaves, None where states differ and no leaves do."""
    if not isinstance(value, Difference):
        raise NotImplementedError
    return value.leaves or (None if value else ())


def from_plain(wanted: type, value: Any) -> Any:
    """A dec_hook for what was `plain`. Raises msgspec.ValidationError."""
    if wanted is not Difference:
        raise NotImplementedError
    return Difference(differs=True) if value is None else Difference(msgspec.convert(value, Leaves))
