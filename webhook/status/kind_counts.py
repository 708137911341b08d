"""Counts tracked objects by kind as they change: a scrape of /metrics then reads no object."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from webhook.generation.table import load_rows
from webhook.status.tracked_state import TrackedState
from webhook.status.view import Health

OBSERVATION_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0)
RECONCILE_SECONDS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1_800.0, 3_600.0)
MOST_KINDS: Final = 2_000
"""A cluster has some hundreds. The bound keeps invented names of kinds from filling the memory."""

_OBSERVED: Final = "status.observedGeneration"
_ALWAYS_OBSERVED: Final = frozenset(
    (row.group, row.resource)
    for row in load_rows()
    if _OBSERVED in row.observed_generation and not row.observed_generation_gate
)


class ResourceKind(NamedTuple):
    """The kind of tracked objects: `("apps", "deployments", "Deployment")`."""

    group: str
    resource: str
    kind: str


OTHER: Final = ResourceKind("other", "other", "other")


class DurationHistogram:
    """A histogram of durations in seconds; the last bucket has no upper bound."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds: Final = bounds
        self.counts: Final = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration; a negative one (the clock was set back) counts as 0."""
        seconds = max(seconds, 0.0)
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds


@dataclass(slots=True)
class KindCounts:
    """What is counted for one kind."""

    always_observes: bool
    """Its controller always writes observedGeneration: an object without one counts as behind."""
    healths: dict[Health, int] = field(default_factory=lambda: dict.fromkeys(Health, 0))
    behind: int = 0
    flips: int = 0
    observation: DurationHistogram = field(
        default_factory=lambda: DurationHistogram(OBSERVATION_SECONDS)
    )
    reconcile: DurationHistogram = field(
        default_factory=lambda: DurationHistogram(RECONCILE_SECONDS)
    )


class CountsByKind:
    """The counts of every kind. A kind gets a position, a small number, when it is first seen."""

    def __init__(self) -> None:
        self._kinds: Final = [OTHER]
        self._counts: Final = [KindCounts(always_observes=False)]
        self._positions: Final[dict[tuple[str, str], int]] = {}

    def __iter__(self) -> Iterator[tuple[ResourceKind, KindCounts]]:
        return zip(self._kinds, self._counts, strict=True)

    def position(self, group: str, resource: str, kind: str) -> int:
        """Return the position of a kind, a new one for a new kind; 0 (OTHER) beyond MOST_KINDS."""
        found = self._positions.get((group, resource))
        if found is None:
            if len(self._kinds) > MOST_KINDS:
                return 0
            found = self._positions[group, resource] = len(self._kinds)
            self._kinds.append(ResourceKind(group, resource, kind))
            self._counts.append(KindCounts((group, resource) in _ALWAYS_OBSERVED))
        return found

    def kind(self, position: int) -> ResourceKind:
        """Return the kind at a position."""
        return self._kinds[position]

    def change(self, before: TrackedState | None, after: TrackedState | None) -> None:
        """Count an object's new state instead of its old one; None: it did or does not exist."""
        if (
            before
            and after
            and before.kind == after.kind
            and before.health is after.health
            and self._is_behind(before) == self._is_behind(after)
        ):
            return
        for one, by in ((before, -1), (after, 1)):
            if one is not None:
                counts = self._counts[one.kind]
                counts.healths[one.health] += by
                counts.behind += by * self._is_behind(one)

    def _is_behind(self, one: TrackedState) -> bool:
        if one.observed is None:
            return one.generation > 0 and self._counts[one.kind].always_observes
        return one.observed < one.generation

    def counts(self, position: int) -> KindCounts:
        """Return the counts of the kind at a position; the caller may change them."""
        return self._counts[position]
