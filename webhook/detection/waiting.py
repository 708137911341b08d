"""Facts of several replicas in the order of their times, though they come nearly in order.

Each waits until the latest that has come is so much later that none before it is still on its way.
Which facts are joined, and what is found, then depends on their times alone. Time is that of the
facts: while none come, `until` tells it.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final

from webhook.admission.join import JoinKey
from webhook.admission.review import Phase
from webhook.detection.fact import Fact

SECONDS_ON_THE_WAY: Final = 0.3
"""From one replica to another, and how far their clocks may be apart."""
MOST_WAITING: Final = 10_000
MOST_BYTES_WAITING: Final = 8 * 1024 * 1024
"""With more the earliest do not wait longer."""
_ORDER: Final = {phase: place for place, phase in enumerate(Phase)}


class FactQueue:
    """A queue by time; facts of one time in the order of their phases, then as they came."""

    def __init__(self) -> None:
        self._facts: Final[list[tuple[float, int, int, int, Fact]]] = []
        self._by_key: Final[dict[JoinKey, list[Fact]]] = {}
        self._latest = 0.0
        self._count = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._facts)

    def __iter__(self) -> Iterator[Fact]:
        """The earliest first."""
        return (one[-1] for one in sorted(self._facts))

    def put(self, fact: Fact) -> None:
        """Take in one more; which are due by now is told by `due`."""
        self._count += 1
        self._latest = max(self._latest, fact.time)
        size = fact.size
        self.bytes += size
        heappush(self._facts, (fact.time, _ORDER[fact.phase], self._count, size, fact))
        self._by_key.setdefault(fact.key, []).append(fact)

    def due(self) -> Iterator[Fact]:
        """Take out those that have waited for long enough, the earliest first."""
        yield from self.until(self._latest - SECONDS_ON_THE_WAY)

    def until(self, time: float) -> Iterator[Fact]:
        """Take out those of this time and before, the earliest first."""
        while self._facts and (self._facts[0][0] <= time or self._is_full):
            *_, size, fact = heappop(self._facts)
            self.bytes -= size
            key = fact.key
            waiting = self._by_key[key]
            waiting.remove(fact)
            if not waiting:
                del self._by_key[key]
            yield fact

    @property
    def _is_full(self) -> bool:
        return len(self._facts) > MOST_WAITING or self.bytes > MOST_BYTES_WAITING

    def of(self, key: JoinKey) -> list[Fact]:
        """Those of one key, the earliest first."""
        return sorted(self._by_key.get(key, ()), key=lambda fact: (fact.time, _ORDER[fact.phase]))
