"""The memory of one process: bounded in entries and in time, oldest out first."""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from webhook.objects.intended import Intended

K = TypeVar("K")
V = TypeVar("V")

SECONDS_KEPT: Final = 30.0
"""The longest that a write can be between its phases: the API server's own webhook timeout."""
ENTRIES_KEPT: Final = 20_000


class _Kept(msgspec.Struct, Generic[V], frozen=True, gc=False):
    at: float
    value: V


class Recent(Generic[K, V]):
    """The newest entries, none older than `seconds`. Times are given, never read."""

    def __init__(self, seconds: float = SECONDS_KEPT, entries: int = ENTRIES_KEPT) -> None:
        self._seconds: Final = seconds
        self._entries: Final = entries
        self._kept: OrderedDict[K, _Kept[V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, key: K, value: V, now: float) -> None:
        """Keep `value`; forgets what is too old, and the oldest when there are too many."""
        self._kept[key] = _Kept(now, value)
        self._kept.move_to_end(key)
        while self._kept:
            oldest = next(iter(self._kept))
            if len(self._kept) <= self._entries and self._kept[oldest].at > now - self._seconds:
                break
            del self._kept[oldest]

    def get(self, key: K, now: float) -> V | None:
        """The value, unless it is unknown or too old."""
        found = self._kept.get(key)
        return found.value if found is not None and found.at > now - self._seconds else None

    def forget(self, key: K) -> None:
        """Drop the value, if there is one."""
        self._kept.pop(key, None)

    def clear(self) -> None:
        """Drop every value."""
        self._kept.clear()


class _Intent(msgspec.Struct, frozen=True, gc=False):
    intended: Intended | None  # None: two intents that differ, neither can be told from the other
    asked: bool = False


class MemoryIntents:
    """restore_intent's Intents in this process's memory; a key is whatever tells writes apart."""

    def __init__(self) -> None:
        self._recent: Final = Recent[Hashable, _Intent]()

    def put(self, key: Hashable, intended: Intended, now: float) -> None:
        """Remember an intent; two that differ and are both on their way cancel each other."""
        before = self._recent.get(key, now)
        if before is not None and not before.asked and before.intended != intended:
            self._recent.put(key, _Intent(None), now)
        else:
            self._recent.put(key, _Intent(intended), now)

    def get(self, key: Hashable, now: float) -> Intended | None:
        """The intent of this write; asked again in round 1 it is still there."""
        found = self._recent.get(key, now)
        if found is None:
            return None
        if not found.asked:
            # Cancelled ones as well, or writes refused on their way would keep all later ones of
            # an object that does not change from being known.
            self._recent.put(key, _Intent(found.intended, asked=True), now)
        return found.intended

    def learn(self, key: Hashable, intended: Intended | None, now: float) -> None:
        """Take over what is remembered elsewhere, where it counts as asked for."""
        self._recent.put(key, _Intent(intended, asked=True), now)

    def has(self, key: Hashable, now: float) -> bool:
        """Whether the intent is known, and not cancelled."""
        found = self._recent.get(key, now)
        return found is not None and found.intended is not None

    def was_asked(self, key: Hashable, now: float) -> bool:
        """Whether the intent, known or cancelled, was asked for before."""
        found = self._recent.get(key, now)
        return found is not None and found.asked

    def forget(self, key: Hashable) -> None:
        """Drop an intent that is out of date."""
        self._recent.forget(key)

    def clear(self) -> None:
        """Drop all of them."""
        self._recent.clear()


class MemoryRounds:
    """The pipeline's Rounds in this process's memory."""

    def __init__(self) -> None:
        self._recent: Final = Recent[Hashable, Mapping[str, str]]()

    def put(self, key: Hashable, annotations: Mapping[str, str], now: float) -> None:
        """Remember what was answered."""
        self._recent.put(key, annotations, now)

    def get(self, key: Hashable, now: float) -> Mapping[str, str] | None:
        """What the same write was answered before."""
        return self._recent.get(key, now)

    def forget(self, key: Hashable) -> None:
        """A new write begins."""
        self._recent.forget(key)

    def clear(self) -> None:
        """Drop all of them."""
        self._recent.clear()
