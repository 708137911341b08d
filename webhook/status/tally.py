"""Running counts over tracked objects, by kind: what is asked at each scrape costs no walk."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from webhook.generation.table import load_rows
from webhook.status.remembered import Remembered
from webhook.status.view import Health

OBSERVATION_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0)
RECONCILE_SECONDS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1_800.0, 3_600.0)
MOST_KINDS: Final = 2_000
"""A cluster has some hundreds: nobody may fill the memory with names of kinds."""

_OBSERVED: Final = "status.observedGeneration"
_ALWAYS_OBSERVED: Final = frozenset(
    (row.group, row.resource)
    for row in load_rows()
    if _OBSERVED in row.observed_generation and not row.observed_generation_gate
)


class Kind(NamedTuple):
    """What objects are tracked as: `("apps", "deployments", "Deployment")`."""

    group: str
    resource: str
    kind: str


OTHER: Final = Kind("other", "other", "other")


class Durations:
    """A histogram: how often at most so many seconds, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds: Final = bounds
        self.counts: Final = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """One duration; a clock that was set back gives 0."""
        seconds = max(seconds, 0.0)
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds


@dataclass(slots=True)
class Counts:
    """Of one kind."""

    always_observes: bool
    """A controller of the kind always reports: an absent observedGeneration is one behind."""
    healths: dict[Health, int] = field(default_factory=lambda: dict.fromkeys(Health, 0))
    behind: int = 0
    flips: int = 0
    observation: Durations = field(default_factory=lambda: Durations(OBSERVATION_SECONDS))
    reconcile: Durations = field(default_factory=lambda: Durations(RECONCILE_SECONDS))


class Tally:
    """Counts by kind; a kind is known by its position once it has been seen."""

    def __init__(self) -> None:
        self._kinds: Final = [OTHER]
        self._counts: Final = [Counts(always_observes=False)]
        self._positions: Final[dict[tuple[str, str], int]] = {}

    def __iter__(self) -> Iterator[tuple[Kind, Counts]]:
        return zip(self._kinds, self._counts, strict=True)

    def position(self, group: str, resource: str, kind: str) -> int:
        """Of a kind; beyond MOST_KINDS every new one is OTHER."""
        found = self._positions.get((group, resource))
        if found is None:
            if len(self._kinds) > MOST_KINDS:
                return 0
            found = self._positions[group, resource] = len(self._kinds)
            self._kinds.append(Kind(group, resource, kind))
            self._counts.append(Counts((group, resource) in _ALWAYS_OBSERVED))
        return found

    def kind(self, position: int) -> Kind:
        """The kind at a position."""
        return self._kinds[position]

    def change(self, before: Remembered | None, after: Remembered | None) -> None:
        """Count an object as it is now, and no more as it was; None where it was or is not."""
        if (
            before
            and after
            and before.kind == after.kind
            and before.health is after.health
            and self._lags(before) == self._lags(after)
        ):
            return
        for one, by in ((before, -1), (after, 1)):
            if one is not None:
                counts = self._counts[one.kind]
                counts.healths[one.health] += by
                counts.behind += by * self._lags(one)

    def _lags(self, one: Remembered) -> bool:
        if one.observed is None:
            return one.generation > 0 and self._counts[one.kind].always_observes
        return one.observed < one.generation

    def counts(self, position: int) -> Counts:
        """Its counts, to be counted up and down."""
        return self._counts[position]
