"""The memory of one process: bounded in entries, bytes and time, oldest out first."""

import sys
from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from webhook.admission.join import JoinKey
from webhook.objects.bounded import Bounded
from webhook.objects.intended import Intended

K = TypeVar("K")
V = TypeVar("V")

SECONDS_KEPT: Final = 30.0
"""The longest that a write can be between its phases: the API server's own webhook timeout."""
ENTRIES_KEPT: Final = 20_000
BYTES_OF_INTENTS: Final = 16 * 1024 * 1024
BYTES_OF_ROUNDS: Final = 8 * 1024 * 1024
_BYTES_OF_ENTRY: Final = 400
"""Of an entry itself, and of a key that is a digest."""


class _Kept(msgspec.Struct, Generic[V], frozen=True, gc=False):
    at: float
    value: V


class Recent(Generic[K, V]):
    """The newest entries, none older than `seconds`. Times are given, never read."""

    def __init__(self, seconds: float, entries: int, most_bytes: int) -> None:
        self._seconds: Final = seconds
        self._kept: Final[Bounded[K, _Kept[V]]] = Bounded(entries, most_bytes)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def bytes(self) -> int:
        """What is counted of all of them."""
        return self._kept.bytes

    @property
    def dropped(self) -> int:
        """How many made room for others before they were too old."""
        return self._kept.dropped

    def put(self, key: K, value: V, size: int, now: float) -> None:
        """Keep `value`, with its key of about `size` bytes; forgets what is too old."""
        self._kept.pop(key)
        while (oldest := self._kept.oldest()) and oldest[1].at <= now - self._seconds:
            self._kept.pop(oldest[0])
        self._kept.put(key, _Kept(now, value), size)

    def get(self, key: K, now: float) -> V | None:
        """The value, unless it is unknown or too old."""
        found = self._kept.get(key)
        return found.value if found is not None and found.at > now - self._seconds else None

    def forget(self, key: K) -> None:
        """Drop the value, if there is one."""
        self._kept.pop(key)

    def clear(self) -> None:
        """Drop every value."""
        self._kept.clear()


def _size_of_key(key: Hashable) -> int:
    return _BYTES_OF_ENTRY + (key.size if isinstance(key, JoinKey) else 0)


class _BetweenPhases(Generic[V]):
    """What is remembered of writes that are on their way, within a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._recent: Final = Recent[Hashable, V](SECONDS_KEPT, ENTRIES_KEPT, most_bytes)

    @property
    def bytes(self) -> int:
        """What is counted of all of them."""
        return self._recent.bytes

    @property
    def dropped(self) -> int:
        """How many made room for others while their writes may have been on their way."""
        return self._recent.dropped

    def forget(self, key: Hashable) -> None:
        """Drop what is remembered of a write, for it is out of date or a new write begins."""
        self._recent.forget(key)

    def clear(self) -> None:
        """Drop all of them."""
        self._recent.clear()


class _Intent(msgspec.Struct, frozen=True, gc=False):
    intended: Intended | None  # None: two intents that differ, neither can be told from the other
    asked: bool = False


class MemoryIntents(_BetweenPhases[_Intent]):
    """restore_intent's Intents in this process's memory; a key is whatever tells writes apart."""

    def __init__(self) -> None:
        super().__init__(BYTES_OF_INTENTS)

    def put(self, key: Hashable, intended: Intended, now: float) -> None:
        """Remember an intent; two that differ and are both on their way cancel each other."""
        before = self._recent.get(key, now)
        if before is not None and not before.asked and before.intended != intended:
            self._put(key, _Intent(None), now)
        else:
            self._put(key, _Intent(intended), now)

    def get(self, key: Hashable, now: float) -> Intended | None:
        """The intent of this write; asked again in round 1 it is still there."""
        found = self._recent.get(key, now)
        if found is None:
            return None
        if not found.asked:
            # Cancelled ones as well, or writes refused on their way would keep all later ones of
            # an object that does not change from being known.
            self._put(key, _Intent(found.intended, asked=True), now)
        return found.intended

    def learn(self, key: Hashable, intended: Intended | None, now: float) -> None:
        """Take over what is remembered elsewhere, where it counts as asked for."""
        self._put(key, _Intent(intended, asked=True), now)

    def has(self, key: Hashable, now: float) -> bool:
        """Whether the intent is known, and not cancelled."""
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
    """The pipeline's Rounds in this process's memory."""

    def __init__(self) -> None:
        super().__init__(BYTES_OF_ROUNDS)

    def put(self, key: Hashable, annotations: Mapping[str, str], now: float) -> None:
        """Remember what was answered."""
        size = sys.getsizeof(annotations)
        size += sum([sys.getsizeof(text) for pair in annotations.items() for text in pair])
        self._recent.put(key, annotations, _size_of_key(key) + size, now)

    def get(self, key: Hashable, now: float) -> Mapping[str, str] | None:
        """What the same write was answered before."""
        return self._recent.get(key, now)
