"""The objects that watches show: of each its generation, its status, and how long changes took.

It is fed as the cache of an informer is: with each version of an object in order, once with every
object that exists, and with what is deleted. It keeps no object, but what is known of it: see
tracked_state.py. Of two versions the one with the higher resourceVersion is newer (KEP-5504), and
no update lowers a generation (apiserver pkg/registry/rest/update.go: BeforeUpdate).
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from genguard.objects.fields import Fields
from genguard.objects.metadata import read_owner_uid
from genguard.status.counts import CountsByKind, ResourceKind, Summaries, read_application
from genguard.status.evaluate import GRACE_SECONDS
from genguard.status.health_rules import RuleAnswers
from genguard.status.tracked_state import ObjectSnapshot, TrackedState, next_state, pack, unpack
from genguard.status.view import Past

_WRITES_STATUS: Final = b'"subresource":"status"'
"""In managedFields of what was written through /status."""
MOST_OBJECTS: Final = 150_000
"""Beyond it the object without a change for longest is forgotten."""


class Tracked(NamedTuple):
    """One tracked object and its state."""

    uid: str
    kind: ResourceKind
    state: TrackedState


class Tracking:
    """The states of all objects that watches show."""

    def __init__(self, most_objects: int = MOST_OBJECTS, *, most_summaries: int = 0) -> None:
        """`most_summaries` namespaces and applications have counts of their own."""
        self._most_objects: Final = most_objects
        self._objects: Final[OrderedDict[str, bytes]] = OrderedDict()
        """The packed state of each object."""
        self._later: Final[dict[str, tuple[float, TrackedState]]] = {}
        """What to believe from when on, if no other version comes before that."""
        self._unsettled: Final[dict[str, None]] = {}
        self.blocking_changes = 0
        """How often what blocks any object has changed: equal numbers mean that nothing has."""
        self.counts_by_kind: Final = CountsByKind()
        self.summaries: Final = Summaries(most_summaries) if most_summaries else None

    def __len__(self) -> int:
        return len(self._objects)

    def find(self, uid: str) -> Tracked | None:
        """Return a tracked object; None when no watch shows it."""
        data = self._objects.get(uid)
        if data is None:
            return None
        state = unpack(data)
        return Tracked(uid, self.counts_by_kind.kind(state.kind), state)

    def states(self) -> Iterator[tuple[str, TrackedState]]:
        """Yield uid and state of every tracked object, the longest unchanged one first."""
        for uid in list(self._objects):
            if (data := self._objects.get(uid)) is not None:
                yield uid, unpack(data)

    def unsettled(self) -> Iterator[Tracked]:
        """Yield each object that is not settled."""
        return (found for uid in list(self._unsettled) if (found := self.find(uid)) is not None)

    def stuck_at(self, found: Tracked) -> float | None:
        """Return the time from which an unsettled object counts as stuck; None: no time tells."""
        observes = self.counts_by_kind.counts(found.state.kind).always_observes
        return found.state.stuck_at(always_observes=observes)

    def past(self, uid: str, at: float) -> Past | None:
        """Return what evaluate() needs to know of earlier versions; None for an unknown object."""
        found = self.find(uid)
        if found is None:
            return None
        state = found.state
        acted = state.observed_at
        if acted is None and state.ready is not None and state.observed is None:
            acted = state.changed_at  # status was written, without an observedGeneration
        flips = len(state.flips_since(at))
        return Past(state.intent_at, acted, state.reconciled, flips, state.images)

    def record_stored(
        self,
        group: str,
        resource: str,
        kind: str,
        document: Fields,
        at: float,
        *,
        answers: RuleAnswers | None = None,
        created: bool = False,
    ) -> None:
        """Record a version that a watch shows.

        answers  what a rule in CEL says of it; None for kinds without such a rule
        created  if it is not known yet, it has just been created
        Raises KeyError without apiVersion or metadata, and msgspec.MsgspecError or RecursionError
        when the object cannot be decoded.
        """
        position = self.counts_by_kind.position(group, resource, kind)
        counts = self.counts_by_kind.counts(position)
        snapshot = ObjectSnapshot(document, kind, answers)
        uid = snapshot.metadata.uid or ""
        if not uid:
            return
        if not counts.has_status_subresource:
            counts.has_status_subresource = _WRITES_STATUS in bytes(document["metadata"])
        data = self._objects.get(uid)
        before = None if data is None else unpack(data)
        application = read_application(snapshot.metadata.labels) if self.summaries else ""
        if before is not None:
            if 0 < snapshot.version <= before.version or snapshot.generation < before.generation:
                return
            if (before.generation, before.digest) == (snapshot.generation, snapshot.digest):
                owner = read_owner_uid(snapshot.metadata.owner_references)
                if (before.owner, before.application) != (owner, application):
                    self._put(uid, before, replace(before, owner=owner, application=application))
                return
        state, later = next_state(
            position,
            snapshot,
            before,
            at,
            always_observes=counts.always_observes,
            created=created,
            application=application,
        )
        self._put(uid, before, state)
        self._later.pop(uid, None)
        if later is not None:
            self._later[uid] = at + GRACE_SECONDS, later

    def forget(self, uid: str) -> None:
        """Forget an object: it was deleted, or cannot be read any more."""
        if (found := self.find(uid)) is not None:
            self._later.pop(uid, None)
            self._put(uid, found.state, None)

    def advance(self, at: float) -> None:
        """Believe the status of objects whose controllers had GRACE_SECONDS to change it."""
        for uid, (due, state) in list(self._later.items()):
            if due > at:
                break
            del self._later[uid]
            self._put(uid, unpack(self._objects[uid]), state)

    def shift(self, seconds: float, now: float) -> None:
        """Move the times of what is not settled: the clock was put forth so many seconds.

        now  what it says; no time is later
        """
        for uid, (due, later) in self._later.items():
            self._later[uid] = min(due + seconds, now + GRACE_SECONDS), later
        for uid in self._unsettled:
            state = unpack(self._objects[uid])
            since = min(state.blocked_since + seconds, now)
            changed = min(state.changed_at + seconds, now)
            self._objects[uid] = pack(replace(state, blocked_since=since, changed_at=changed))
        self.blocking_changes += 1

    def _put(self, uid: str, before: TrackedState | None, after: TrackedState | None) -> None:
        """Replace the state of an object, count it, and forget objects beyond the bound."""
        self.counts_by_kind.change(uid, before, after)
        if self.summaries is not None:
            self.summaries.change(before, after)
        blocked = "" if after is None else after.blocked_by
        self.blocking_changes += blocked != ("" if before is None else before.blocked_by)
        if after is None or after.settled:
            self._unsettled.pop(uid, None)
        else:
            self._unsettled[uid] = None
        if after is None:
            del self._objects[uid]
            return
        self._objects[uid] = pack(after)
        self._objects.move_to_end(uid)
        if len(self._objects) > self._most_objects:
            self.forget(next(iter(self._objects)))
