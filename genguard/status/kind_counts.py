"""Counts tracked objects by kind as they change: a scrape of /metrics then reads no object."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from genguard.generation.table import load_rows
from genguard.status.tracked_state import TrackedState
from genguard.status.view import Health

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
_HAVE_STATUS: Final = frozenset(
    (row.group, row.resource) for row in load_rows() if "status" in row.subresources
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
    has_status_subresource: bool = False
    """Where status is written with the rest, observedGeneration is one behind for ever."""
    behind_since: dict[str, float] = field(default_factory=dict)
    """By uid, since when an object has been behind, in Unix seconds."""

    @property
    def oldest_gap(self) -> float | None:
        """When the object that has been behind for longest fell behind; None without any."""
        return min(tuple(self.behind_since.values()), default=None)

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
        self.behind = 0
        """The number of objects of all kinds whose observedGeneration is behind."""

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
            counts = KindCounts((group, resource) in _ALWAYS_OBSERVED)
            counts.has_status_subresource = (group, resource) in _HAVE_STATUS
            self._counts.append(counts)
        return found

    def kind(self, position: int) -> ResourceKind:
        """Return the kind at a position."""
        return self._kinds[position]

    def change(self, uid: str, before: TrackedState | None, after: TrackedState | None) -> None:
        """Count an object's new state instead of its old one; None: it did or does not exist."""
        was_behind = before is not None and self._is_behind(before)
        is_behind = after is not None and self._is_behind(after)
        if was_behind or is_behind:
            self._note_gap(uid, before, after, is_behind=is_behind)
        for state, is_one, by in ((before, was_behind, -1), (after, is_behind, 1)):
            if state is not None:
                counts = self._counts[state.kind]
                counts.healths[state.health] += by
                counts.behind += by * is_one
                self.behind += by * is_one

    def note_status_subresource(self, kind: ResourceKind) -> None:
        """Note that the status of a kind is written through /status."""
        position = self.position(*kind)
        if position:
            self._counts[position].has_status_subresource = True

    def _note_gap(
        self, uid: str, before: TrackedState | None, after: TrackedState | None, *, is_behind: bool
    ) -> None:
        """Note since when an object has been behind: observedGeneration that moves begins anew.

        Not of a generation that nobody has seen stored: another webhook may have refused it.
        """
        since = None if before is None else self._counts[before.kind].behind_since.pop(uid, None)
        if after is None or not is_behind or not after.version:
            return
        if since is None or before is None or before.observed != after.observed:
            since = after.intent_at
        self._counts[after.kind].behind_since[uid] = since

    def _is_behind(self, one: TrackedState) -> bool:
        if one.observed is None:
            return one.generation > 0 and self._counts[one.kind].always_observes
        return one.observed < one.generation

    def counts(self, position: int) -> KindCounts:
        """Return the counts of the kind at a position; the caller may change them."""
        return self._counts[position]
