"""What is kept of too many: the newest values, or what comes most often."""

import math
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Bounded(Generic[K, V]):
    """A dictionary that drops its oldest entries. The caller says what each of them takes."""

    def __init__(self, most: int, most_bytes: float = math.inf) -> None:
        self._most: Final = most
        self._most_bytes: Final = most_bytes
        self._kept: Final[OrderedDict[K, tuple[V, int]]] = OrderedDict()
        self.bytes = 0
        self.dropped = 0
        """How many values were dropped to make room for others."""

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, key: K, value: V, size: int = 0) -> None:
        """Keep a value as the newest; with its key it takes about `size` bytes, or leaves."""
        self.pop(key)
        self._kept[key] = value, size
        self.bytes += size
        while len(self._kept) > self._most or self.bytes > self._most_bytes:
            _, (_, dropped) = self._kept.popitem(last=False)
            self.bytes -= dropped
            self.dropped += 1

    def get(self, key: K) -> V | None:
        """The value of a key; reading does not make it newer."""
        found = self._kept.get(key)
        return None if found is None else found[0]

    def oldest(self) -> tuple[K, V] | None:
        """The entry that would be dropped first."""
        return next(((key, value) for key, (value, _) in self._kept.items()), None)

    def values(self) -> Iterator[V]:
        """Yield all values, the oldest first."""
        return (value for value, _ in self._kept.values())

    def pop(self, key: K) -> None:
        """Remove an entry, if there is one."""
        found = self._kept.pop(key, None)
        if found is not None:
            self.bytes -= found[1]

    def clear(self) -> None:
        """Remove all entries."""
        self._kept.clear()
        self.bytes = 0


def count_often(counts: dict[K, int], name: K, most: int) -> None:
    """Count a name. Of too many the rarest gives way, so that nobody fills the room for others."""
    if name not in counts and len(counts) >= most:
        del counts[min(counts, key=counts.__getitem__)]
    counts[name] = counts.get(name, 0) + 1
