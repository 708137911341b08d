"""Intents and annotations of writes under way, in the memory of one process.

Bounded in entries, bytes and time; the oldest entries are removed first.
"""

import sys
from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from genguard.admission.join import JoinKey
from genguard.objects.bounded import Bounded
from genguard.objects.intended import Intended

K = TypeVar("K")
V = TypeVar("V")

SECONDS_KEPT: Final = 30.0
"""The longest that a write can be between its phases: the API server's own webhook timeout."""
ENTRIES_KEPT: Final = 20_000
BYTES_OF_INTENTS: Final = 16 * 1024 * 1024
BYTES_OF_ROUNDS: Final = 8 * 1024 * 1024
_BYTES_OF_ENTRY: Final = 400
"""Bytes counted for an entry itself, and for a key that is a digest."""


class _Kept(msgspec.Struct, Generic[V], frozen=True, gc=False):
    at: float
    value: V


class Recent(Generic[K, V]):
    """Remembers the newest entries, none older than `seconds`. The caller gives the time."""

    def __init__(self, seconds: float, entries: int, most_bytes: int) -> None:
        self._seconds: Final = seconds
        self._kept: Final[Bounded[K, _Kept[V]]] = Bounded(entries, most_bytes)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def bytes(self) -> int:
        """Bytes counted for all entries."""
        return self._kept.bytes

    @property
    def dropped(self) -> int:
        """Entries that were removed for newer ones before they were too old."""
        return self._kept.dropped

    def put(self, key: K, value: V, size: int, now: float) -> None:
        """Remember `value`, of about `size` bytes with its key; forget what is too old."""
        self._kept.pop(key)
        while (oldest := self._kept.oldest()) and oldest[1].at <= now - self._seconds:
            self._kept.pop(oldest[0])
        self._kept.put(key, _Kept(now, value), size)

    def get(self, key: K, now: float) -> V | None:
        """Return the value, None when it is unknown or too old."""
        found = self._kept.get(key)
        return found.value if found is not None and found.at > now - self._seconds else None

    def forget(self, key: K) -> None:
        """Forget the value, if there is one."""
        self._kept.pop(key)

    def clear(self) -> None:
        """Forget every value."""
        self._kept.clear()


def _size_of_key(key: Hashable) -> int:
    return _BYTES_OF_ENTRY + (key.size if isinstance(key, JoinKey) else 0)


class _BetweenPhases(Generic[V]):
    """Remembers something of each write under way, within a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._recent: Final = Recent[Hashable, V](SECONDS_KEPT, ENTRIES_KEPT, most_bytes)

    @property
    def bytes(self) -> int:
        """Bytes counted for all entries."""
        return self._recent.bytes

    @property
    def dropped(self) -> int:
        """Entries that were removed for newer ones while their writes may have been under way."""
        return self._recent.dropped

    def forget(self, key: Hashable) -> None:
        """Forget a write, because its entry is out of date or a new write begins."""
        self._recent.forget(key)

    def clear(self) -> None:
        """Forget every write."""
        self._recent.clear()


class _Intent(msgspec.Struct, frozen=True, gc=False):
    intended: Intended | None  # None: two different intents have cancelled each other
    asked: bool = False


class MemoryIntents(_BetweenPhases[_Intent]):
    """The Intents of restore_intent, in the memory of this process.

    A key is anything hashable that identifies a write.
    """

    def __init__(self) -> None:
        super().__init__(BYTES_OF_INTENTS)

    def put(self, key: Hashable, intended: Intended, now: float) -> None:
        """Remember an intent; two different ones that are both under way cancel each other."""
        before = self._recent.get(key, now)
        if before is not None and not before.asked and before.intended != intended:
            self._put(key, _Intent(None), now)
        else:
            self._put(key, _Intent(intended), now)

    def get(self, key: Hashable, now: float) -> Intended | None:
        """Return the intent of a write; a reinvocation gets it once more."""
        found = self._recent.get(key, now)
        if found is None:
            return None
        if not found.asked:
            # Cancelled intents too: otherwise a refused write would cancel the intents of all
            # later writes of an object that does not change.
            self._put(key, _Intent(found.intended, asked=True), now)
        return found.intended

    def learn(self, key: Hashable, intended: Intended | None, now: float) -> None:
        """Remember an intent that another replica knows; it counts as asked for."""
        self._put(key, _Intent(intended, asked=True), now)

    def has(self, key: Hashable, now: float) -> bool:
        """Whether the intent is known and not cancelled."""
        found = self._recent.get(key, now)
        return found is not None and found.intended is not None

    def was_asked(self, key: Hashable, now: float) -> bool:
        """Whether the intent, known or cancelled, was asked for before."""
        found = self._recent.get(key, now)
        return found is not None and found.asked

    def _put(self, key: Hashable, intent: _Intent, now: float) -> None:
        size = 0 if intent.intended is None else intent.intended.size
        self._recent.put(key, intent, _size_of_key(key) + size, now)


class MemoryRounds(_BetweenPhases[Mapping[str, str]]):
    """The Rounds of the pipeline, in the memory of this process."""

    def __init__(self) -> None:
        super().__init__(BYTES_OF_ROUNDS)

    def put(self, key: Hashable, annotations: Mapping[str, str], now: float) -> None:
        """Remember the annotations of an answer."""
        size = sys.getsizeof(annotations)
        size += sum([sys.getsizeof(text) for pair in annotations.items() for text in pair])
        self._recent.put(key, annotations, _size_of_key(key) + size, now)

    def get(self, key: Hashable, now: float) -> Mapping[str, str] | None:
        """Return the annotations that the same write was answered with before."""
        return self._recent.get(key, now)
