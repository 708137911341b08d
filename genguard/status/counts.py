"""Counts tracked objects by kind, namespace and application as they change.

So a scrape of /metrics reads no object. An application is the label app.kubernetes.io/part-of of
its objects, or else app.kubernetes.io/instance, within one namespace. Objects without these labels
count for their namespace alone.
Source: Improve .status, "Motivation": aggregate the status of multiple resources; kubernetes.io,
"Recommended Labels".
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from genguard.generation.table import load_rows
from genguard.status.tracked_state import TrackedState
from genguard.status.view import Health

OBSERVATION_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0)
RECONCILE_SECONDS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1_800.0, 3_600.0)
MOST_SUMMARIES: Final = 10_000
"""The most namespaces, or applications, with counts of their own: ten series each."""
_LONGEST_LABEL: Final = 63
"""Of the value of a label: apimachinery pkg/util/validation/validation.go."""

_ALWAYS_OBSERVED: Final = frozenset(
    (row.group, row.resource)
    for row in load_rows()
    if "status.observedGeneration" in row.observed_generation and not row.observed_generation_gate
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
"""What metrics call kinds that have no label of their own."""


class DurationHistogram:
    """A histogram of durations in seconds; the last bucket has no upper bound."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds: Final = bounds
        self.counts: Final = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def measure(self, begun: float, before: float | None, now: float | None) -> None:
        """Count how long something took that was not done `before`; 0 s are not measured."""
        if before is None and now is not None and now > begun:
            self.counts[bisect_left(self.bounds, now - begun)] += 1
            self.sum += now - begun


def _no_objects() -> dict[Health, int]:
    return dict.fromkeys(Health, 0)


@dataclass(slots=True)
class KindCounts:
    """What is counted for one kind."""

    always_observes: bool
    """Its controller always writes observedGeneration: an object without one counts as behind."""
    has_status_subresource: bool
    """Where status is written with the rest, observedGeneration is one behind for ever."""
    healths: dict[Health, int] = field(default_factory=_no_objects)
    behind_since: dict[str, float] = field(default_factory=dict)
    """By uid, since when an object has been behind, in Unix seconds."""
    flips: int = 0
    observation: DurationHistogram = field(
        default_factory=lambda: DurationHistogram(OBSERVATION_SECONDS)
    )
    reconcile: DurationHistogram = field(
        default_factory=lambda: DurationHistogram(RECONCILE_SECONDS)
    )

    @property
    def oldest_gap(self) -> float | None:
        """When the object that has been behind for longest fell behind; None without any."""
        return min(tuple(self.behind_since.values()), default=None)

    def change(self, uid: str, before: TrackedState | None, after: TrackedState | None) -> None:
        """Count an object's new state instead of its old one; None: it did or does not exist.

        An object is behind since its intent; observedGeneration that moves begins anew.
        """
        since = self.behind_since.pop(uid, None)
        if before is not None:
            self.healths[before.health] -= 1
        if after is None:
            return
        self.healths[after.health] += 1
        if self._is_behind(after):
            if since is None or before is None or before.observed != after.observed:
                since = after.intent_at
            self.behind_since[uid] = since
        if before is None or before.generation != after.generation:
            return
        self.flips += before.is_flip(after)
        if before.intent_seen:
            self.observation.measure(after.intent_at, before.observed_at, after.observed_at)
            self.reconcile.measure(after.intent_at, before.settled_at, after.settled_at)

    def _is_behind(self, state: TrackedState) -> bool:
        if state.observed is None:
            return state.generation > 0 and self.always_observes
        return state.observed < state.generation


class CountsByKind:
    """The counts of every kind. A kind gets a position, a small number, when it is first seen."""

    def __init__(self) -> None:
        self._rows: Final[list[tuple[ResourceKind, KindCounts]]] = []
        self._positions: Final[dict[tuple[str, str], int]] = {}

    def __iter__(self) -> Iterator[tuple[ResourceKind, KindCounts]]:
        return iter(self._rows)

    def position(self, group: str, resource: str, kind: str) -> int:
        """Return the position of a kind, a new one for a new kind."""
        name = group, resource
        found = self._positions.get(name)
        if found is None:
            found = self._positions[name] = len(self._rows)
            counts = KindCounts(name in _ALWAYS_OBSERVED, name in _HAVE_STATUS)
            self._rows.append((ResourceKind(group, resource, kind), counts))
        return found

    def kind(self, position: int) -> ResourceKind:
        """Return the kind at a position."""
        return self._rows[position][0]

    def change(self, uid: str, before: TrackedState | None, after: TrackedState | None) -> None:
        """Count an object's new state instead of its old one; None: it did or does not exist."""
        if before is not None and (after is None or before.kind != after.kind):
            self.counts(before.kind).change(uid, before, None)
            before = None
        if after is not None:
            self.counts(after.kind).change(uid, before, after)

    def counts(self, position: int) -> KindCounts:
        """Return the counts of the kind at a position; the caller may change them."""
        return self._rows[position][1]


class _Labels(msgspec.Struct, frozen=True, gc=False):
    part_of: str | None = msgspec.field(default=None, name="app.kubernetes.io/part-of")
    instance: str | None = msgspec.field(default=None, name="app.kubernetes.io/instance")


_labels: Final = msgspec.json.Decoder(_Labels | None)


def read_application(labels: msgspec.Raw | msgspec.UnsetType) -> str:
    """Return the application that raw labels name; "" for none, and for what is no label."""
    if isinstance(labels, msgspec.UnsetType):
        return ""
    try:
        found = _labels.decode(labels)
    except (msgspec.MsgspecError, RecursionError):
        return ""
    name = (found.part_of or found.instance or "") if found is not None else ""
    return name if len(name) <= _LONGEST_LABEL else ""


Key = tuple[str, ...]
"""A namespace, or a namespace and an application."""


@dataclass(slots=True)
class SetCounts:
    """What is counted for one namespace or application."""

    healths: dict[Health, int] = field(default_factory=_no_objects)
    unready: int = 0
    """Objects that are not ready, or not known to be."""
    unsettled: int = 0

    @property
    def total(self) -> int:
        """The number of objects."""
        return sum(self.healths.values())

    def add(self, state: TrackedState, by: int) -> None:
        """Count an object, or with -1 no longer."""
        self.healths[state.health] += by
        self.unready += by * (not state.ready)
        self.unsettled += by * (not state.settled)


class Summaries:
    """One or two numbers for all objects of a namespace, and of an application."""

    def __init__(self, most: int) -> None:
        """`most` namespaces and `most` applications are told by name, the rest as "other"."""
        self._most: Final = most
        self._namespaces: Final[dict[Key, SetCounts]] = {}
        self._applications: Final[dict[Key, SetCounts]] = {}

    def change(self, before: TrackedState | None, after: TrackedState | None) -> None:
        """Count an object's new state instead of its old one; None: it did or does not exist."""
        for state, by in ((after, 1), (before, -1)):  # so a set keeps its place
            if state is not None:
                _add(self._namespaces, (state.namespace,), state, by)
                if state.application:
                    _add(self._applications, (state.namespace, state.application), state, by)

    def namespaces(self) -> Iterator[tuple[Key, SetCounts]]:
        """Yield the counts by namespace; "" is what is cluster-scoped."""
        return self._told(self._namespaces, ("other",))

    def applications(self) -> Iterator[tuple[Key, SetCounts]]:
        """Yield the counts by namespace and application."""
        return self._told(self._applications, ("other", "other"))

    def without_series(self) -> tuple[int, int]:
        """Return how many objects have no namespace, and how many no application, of their own."""
        return self._rest(self._namespaces).total, self._rest(self._applications).total

    def _told(self, sets: dict[Key, SetCounts], other: Key) -> Iterator[tuple[Key, SetCounts]]:
        yield from islice(sets.items(), self._most)
        if len(sets) > self._most:
            yield other, self._rest(sets)

    def _rest(self, sets: dict[Key, SetCounts]) -> SetCounts:
        rest = SetCounts()
        for counts in islice(sets.values(), self._most, None):
            rest.unready += counts.unready
            rest.unsettled += counts.unsettled
            for health, count in counts.healths.items():
                rest.healths[health] += count
        return rest


def _add(sets: dict[Key, SetCounts], key: Key, state: TrackedState, by: int) -> None:
    counts = sets.setdefault(key, SetCounts())
    counts.add(state, by)
    if counts.total == 0:
        del sets[key]
