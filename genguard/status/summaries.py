"""Counts tracked objects by namespace and by application: one or two numbers for a whole set.

An application is the label app.kubernetes.io/part-of of its objects, or else
app.kubernetes.io/instance, within one namespace. Objects without these labels count for their
namespace alone. Bounded: beyond `most` namespaces, or `most` applications, objects count together
as "other".
Source: Improve .status, "Motivation": aggregate the status of multiple resources; kubernetes.io,
"Recommended Labels".
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from genguard.status.tracked_state import TrackedState
from genguard.status.view import Health

MOST_SUMMARIES: Final = 10_000
"""The largest `most`: ten series each."""
OTHER: Final = "other"
_LONGEST_LABEL: Final = 63
"""Of the value of a label: apimachinery pkg/util/validation/validation.go."""

Key = tuple[str, ...]
"""A namespace, or a namespace and an application."""


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


@dataclass(slots=True)
class SetCounts:
    """What is counted for one namespace or application."""

    healths: dict[Health, int] = field(default_factory=lambda: dict.fromkeys(Health, 0))
    unready: int = 0
    """Objects that are not ready, or of which that is not known."""
    unsettled: int = 0

    @property
    def total(self) -> int:
        """The number of objects."""
        return sum(self.healths.values())

    def add(self, state: "_Counted", by: int) -> None:
        """Count an object, or with -1 no longer."""
        self.healths[state.health] += by
        self.unready += by * (not state.ready)
        self.unsettled += by * (not state.settled)


class _Counted(NamedTuple):
    """How one object is counted now, and where."""

    ready: bool
    settled: bool
    health: Health
    namespace: Key
    application: Key | None


class _Sets:
    """The counts by key. A set without objects is forgotten, so its place is free again."""

    def __init__(self, most: int, other: Key) -> None:
        self._most: Final = most
        self._other: Final = other
        self.counts: Final[dict[Key, SetCounts]] = {}

    def place(self, key: Key) -> Key:
        """Return the key to count at: `other` for a new key when there is no room."""
        if key in self.counts or len(self.counts) - (self._other in self.counts) < self._most:
            return key
        return self._other

    def add(self, key: Key, state: _Counted, by: int) -> None:
        counts = self.counts.setdefault(key, SetCounts())
        counts.add(state, by)
        if counts.total == 0:
            del self.counts[key]

    def without_series(self) -> int:
        """Return the number of objects that are counted as `other`."""
        found = self.counts.get(self._other)
        return found.total if found is not None else 0


class Summaries:
    """The counts of all tracked objects, kept up to date at every change of a state."""

    def __init__(self, most: int) -> None:
        """`most` namespaces and `most` applications get counts of their own."""
        self._applications: Final[dict[str, str]] = {}
        """Of each object that has one, by uid."""
        self._counted: Final[dict[str, _Counted]] = {}
        self._by_namespace: Final = _Sets(most, (OTHER,))
        self._by_application: Final = _Sets(most, (OTHER, OTHER))

    def label(self, uid: str, labels: msgspec.Raw | msgspec.UnsetType) -> None:
        """Remember the application of an object, for its next change()."""
        name = read_application(labels)
        if name:
            self._applications[uid] = name
        else:
            self._applications.pop(uid, None)

    def change(self, uid: str, state: TrackedState | None) -> None:
        """Count the state of an object instead of the one before; None: it is not tracked."""
        before = self._counted.pop(uid, None)
        if before is not None:
            self._add(before, -1)
        if state is None:
            self._applications.pop(uid, None)
            return
        application = self._applications.get(uid)
        counted = self._counted[uid] = _Counted(
            state.ready is True,
            state.settled,
            state.health,
            self._by_namespace.place((state.namespace,)),
            self._by_application.place((state.namespace, application)) if application else None,
        )
        self._add(counted, 1)

    def namespaces(self) -> Iterator[tuple[Key, SetCounts]]:
        """Yield the counts by namespace; "" is what is cluster-scoped."""
        yield from self._by_namespace.counts.items()

    def applications(self) -> Iterator[tuple[Key, SetCounts]]:
        """Yield the counts by namespace and application."""
        yield from self._by_application.counts.items()

    def without_series(self) -> tuple[int, int]:
        """Return how many objects have no namespace, and how many no application, of their own."""
        return self._by_namespace.without_series(), self._by_application.without_series()

    def _add(self, counted: _Counted, by: int) -> None:
        self._by_namespace.add(counted.namespace, counted, by)
        if counted.application is not None:
            self._by_application.add(counted.application, counted, by)
