"""Remembers for every tracked object its generation, its readiness and how long each change took.

It learns of an object in two ways. An allowed write is not yet a stored one: another webhook may
refuse it, it may lose against a concurrent write, or it may change nothing.

- A *stored* state comes from a watch, or is the oldObject of a write. Of two states the one with
  the higher resourceVersion is newer (KEP-5504). A generation below one known to be stored is old
  whatever its version, because no update lowers it (apiserver pkg/registry/rest/update.go:
  BeforeUpdate), and so is one below `reconciled`.
- An allowed *write* is believed at once, so that a finished rollout shows before the next write.
  The earlier state is kept until a stored state confirms or contradicts the write, or for
  UNCONFIRMED_SECONDS. Then, if its kind is watched, the watch would have shown it: it was refused
  and is undone. Without a watch it stays believed, because a refused change of spec looks like one
  that no controller observes, until the next write of the object. A creation is forgotten instead:
  refused creations are repeated, each with a new uid.

A new generation makes the object unsettled and its readiness unknown until its controller acts;
where the controller never writes that it has, for GRACE_SECONDS.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from genguard.admission.review import AdmissionRequest, Operation, ReviewedObject
from genguard.generation.prediction import Prediction
from genguard.objects.fields import Fields
from genguard.objects.metadata import ObjectMeta
from genguard.objects.owners import LONGEST_UID
from genguard.status.blocking import Blocking, guess_blocking, stuck_at
from genguard.status.evaluate import GRACE_SECONDS
from genguard.status.health_rules import RuleAnswers
from genguard.status.kind_counts import CountsByKind, ResourceKind
from genguard.status.state_transition import (
    ObjectSnapshot,
    StateTransition,
    as_unobserved,
    compute_transition,
)
from genguard.status.summaries import Summaries
from genguard.status.tracked_state import (
    LONGEST_NAME,
    TrackedState,
    TrackedSummary,
    pack,
    read_summary,
    unpack,
)
from genguard.status.view import Health, Past

V = TypeVar("V")

MOST_MILESTONE_OBJECTS: Final = 2_000
MOST_STEPS: Final = 16


class Milestone(NamedTuple):
    """A generation and the time, in Unix seconds, at which it was reconciled."""

    at: float
    generation: int


class Milestones:
    """The latest milestones of each object. The objects without a new one for longest go first."""

    def __init__(self, most_objects: int = MOST_MILESTONE_OBJECTS) -> None:
        self._most: Final = most_objects
        self._steps: Final[OrderedDict[str, deque[Milestone]]] = OrderedDict()

    def record(self, uid: str, state: TrackedState) -> None:
        """Add a milestone if the state of an object shows a newly reconciled generation."""
        generation, at = state.reconciled, state.settled_at
        if generation is None or at is None or generation != state.generation:
            return
        steps = self._steps.get(uid)
        if steps is None:
            steps = self._steps[uid] = deque(maxlen=MOST_STEPS)
        elif steps[-1].generation >= generation:
            return
        steps.append(Milestone(at, generation))
        self._steps.move_to_end(uid)
        if len(self._steps) > self._most:
            self._steps.popitem(last=False)

    def find(self, uid: str) -> tuple[Milestone, ...]:
        """Return the milestones of an object, the oldest first."""
        return tuple(self._steps.get(uid, ()))


class UnconfirmedWrite(msgspec.Struct, frozen=True, gc=False):
    """An allowed write, or a new generation, of which it is not known yet what comes of it."""

    since: float
    before: bytes | None
    """The packed state before it; None for a creation."""
    after: bytes | None
    """The packed state to believe if nothing more is seen; None: the one that is believed now."""
    stored: bool

    @property
    def is_creation(self) -> bool:
        """Nothing was stored before, and it is not known whether anything is stored now."""
        return self.before is None and not self.stored

    def was_stored(
        self, believed: TrackedState, seen: ObjectSnapshot, *, is_base: bool
    ) -> bool | None:
        """Whether a stored state shows that the write was stored; None: it shows neither.

        is_base  the state is the oldObject of another write.
        """
        if 0 < seen.version <= believed.version:
            # Both writes start from this state, so this one was not stored before the other.
            return False if is_base and seen.version == believed.version else None
        # Stored even if another status is, to keep the time at which spec changed.
        return seen.generation >= believed.generation or self.before is None

    def decide(self, believed: TrackedState) -> TrackedState:
        """Return the state to believe when nothing more was seen until the time limit."""
        after = unpack(self.after) if self.after else believed
        # Version 0 where it is not known: then any stored state that is seen next is newer.
        return replace(after, version=believed.version if self.stored else 0)


MOST_OBJECTS: Final = 200_000
MOST_BYTES: Final = 96 * 1024 * 1024
"""Of tracked and unconfirmed states together."""
UNCONFIRMED_SECONDS: Final = GRACE_SECONDS
MOST_UNCONFIRMED: Final = 20_000
MOST_DELETED: Final = 10_000
"""Reviews come late by seconds, so many more than are deleted in that time."""

_BYTES_OF_OBJECT: Final = 300
_BYTES_OF_UNCONFIRMED: Final = 350
_BYTES_OF_BLOCKING: Final = 250
_BYTES_OF_IMAGES: Final = 150
_BYTES_OF_GAP: Final = 150
"""Of an object whose observedGeneration is behind."""
_BYTES_OF_DELETED: Final = 200


class _Counted(Generic[V]):
    """Values by uid. It counts the bytes that they take: so many each, and what `length` says."""

    def __init__(
        self, by_uid: MutableMapping[str, V], each: int, length: Callable[[V], int]
    ) -> None:
        self.by_uid: Final = by_uid
        self._each: Final = each
        self._length: Final = length
        self.bytes = 0

    def get(self, uid: str) -> V | None:
        return self.by_uid.get(uid)

    def set(self, uid: str, value: V | None) -> None:
        """Set, replace in its place, or (None) remove the value of an object."""
        before = self.by_uid.get(uid)
        if before is not None:
            self.bytes -= self._each + self._length(before)
        if value is not None:
            self.bytes += self._each + self._length(value)
            self.by_uid[uid] = value
        elif before is not None:
            del self.by_uid[uid]


class Judged(NamedTuple):
    """What a rule in CEL says of the old and the new object of a write."""

    old: RuleAnswers | None = None
    new: RuleAnswers | None = None


NOT_JUDGED: Final = Judged()
"""Of kinds without a rule in CEL."""


class Tracked(NamedTuple):
    """One tracked object and its state."""

    uid: str
    kind: ResourceKind
    state: TrackedState
    unconfirmed: bool
    """The state comes from a write that is not known to be stored yet."""


class Tracking:
    """The states of all tracked objects.

    Bounded in number and bytes: the least recently written object is forgotten first.
    """

    def __init__(
        self,
        most_objects: int = MOST_OBJECTS,
        most_bytes: int = MOST_BYTES,
        most_summaries: int = 0,
    ) -> None:
        """`most_summaries` namespaces and applications have counts of their own."""
        self.summaries: Final = Summaries(most_summaries) if most_summaries else None
        self._objects: Final = _Counted[bytes](OrderedDict(), _BYTES_OF_OBJECT, len)
        """The packed states."""
        self._unconfirmed: Final = _Counted[UnconfirmedWrite](
            OrderedDict(),
            _BYTES_OF_UNCONFIRMED,
            lambda one: len(one.before or b"") + len(one.after or b""),
        )
        self._blocking: Final = _Counted[Blocking]({}, _BYTES_OF_BLOCKING, lambda it: len(it.text))
        """Of each object that is not settled."""
        self._images: Final = _Counted[bytes]({}, _BYTES_OF_IMAGES, len)
        """Of each pod, what is remembered of its containers (pod_images.py)."""
        self.blocking_changes = 0
        """How often what blocks any object has changed: equal numbers mean that nothing has."""
        self._watched: Final[set[int]] = set()
        self._deleted: Final[OrderedDict[str, None]] = OrderedDict()
        """The uids of objects that no longer exist. No other object ever gets such a uid."""
        self._most_objects: Final = most_objects
        self._most_bytes: Final = most_bytes
        self.counts_by_kind: Final = CountsByKind()
        self.milestones: Final = Milestones()

    def __len__(self) -> int:
        return len(self._objects.by_uid)

    @property
    def bytes(self) -> int:
        """What all that is remembered takes, rather too much than too little."""
        return (
            self._objects.bytes
            + self._unconfirmed.bytes
            + self._blocking.bytes
            + self._images.bytes
            + self.counts_by_kind.behind * _BYTES_OF_GAP
            + len(self._deleted) * _BYTES_OF_DELETED
        )

    def uids(self) -> list[str]:
        """Return the uid of every tracked object, the least recently written first."""
        return list(self._objects.by_uid)

    def find(self, uid: str) -> Tracked | None:
        """Return a tracked object; None when it is not tracked."""
        data = self._objects.get(uid)
        if data is None:
            return None
        state = unpack(data)
        return Tracked(
            uid, self.counts_by_kind.kind(state.kind), state, self._unconfirmed.get(uid) is not None
        )

    def unsettled(self) -> Iterator[tuple[str, Blocking]]:
        """Yield the uid of each object that is not settled, and what blocks it."""
        for uid in list(self._blocking.by_uid):
            if (found := self._blocking.get(uid)) is not None:
                yield uid, found

    def blocking(self, uid: str) -> Blocking | None:
        """Return what blocks an object; None when it is settled or not tracked."""
        return self._blocking.get(uid)

    def stuck_at(self, found: Tracked, blocking: Blocking) -> float | None:
        """Return the time from which an unsettled object counts as stuck; None: no time tells."""
        observes = self.counts_by_kind.counts(found.state.kind).always_observes
        return stuck_at(found.state, blocking, always_observes=observes)

    def objects(self) -> Iterator[Tracked]:
        """Yield every tracked object, in the order of uids()."""
        return (found for uid in self.uids() if (found := self.find(uid)) is not None)

    def past(self, uid: str, at: float) -> Past | None:
        """Return what evaluate() needs to know of earlier writes; None for an unknown object."""
        found = self.find(uid)
        if found is None:
            return None
        state = found.state
        acted = state.observed_at
        if acted is None and state.ready is not None and state.observed is None:
            acted = state.changed_at  # status was written, without an observedGeneration
        flips = len(state.flips_since(at))
        images = self._images.get(uid) or b""
        return Past(state.intent_at, acted, state.reconciled, flips, images)

    def summarized(self) -> Iterator[tuple[str, TrackedSummary]]:
        """Yield the uid and a summary of every tracked object: the rest is not decoded."""
        for uid in self.uids():
            if (data := self._objects.get(uid)) is not None:
                yield uid, read_summary(data)

    def marks(self) -> Iterator[tuple[str, object]]:
        """Yield the uid of each object and a value that changes with its state_to_persist()."""
        for uid in self.uids():
            if (data := self._objects.get(uid)) is not None:
                yield uid, data if self._unconfirmed.get(uid) is None else (data, True)

    def state_to_persist(self, uid: str) -> TrackedState | None:
        """Return the state to restore after a restart, decided as by settle(); None: nothing."""
        state, unconfirmed = self._get(uid), self._unconfirmed.get(uid)
        if state is None or unconfirmed is None:
            return state
        return None if unconfirmed.is_creation else unconfirmed.decide(state)

    def restore(self, uid: str, kind: ResourceKind, state: TrackedState) -> None:
        """Take over a state from before a restart, unless the object has been seen since."""
        if self._objects.get(uid) is None and uid not in self._deleted:
            self._put(uid, None, replace(state, kind=self.counts_by_kind.position(*kind)))

    def record_stored(
        self,
        group: str,
        resource: str,
        kind: str,
        document: Fields,
        at: float,
        *,
        answers: RuleAnswers | None = None,
    ) -> None:
        """Record the state that a watch shows; its kind counts as watched from now on.

        `answers` are what a rule in CEL says of it; None for kinds without such a rule.

        Raises KeyError without apiVersion or metadata, and msgspec.MsgspecError or RecursionError
        when the object cannot be decoded.
        """
        position = self.counts_by_kind.position(group, resource, kind)
        self._watched.add(position)
        api_version = msgspec.json.decode(document["apiVersion"], type=str)
        snapshot = ObjectSnapshot(ReviewedObject.of(document), api_version, kind, answers)
        if self._fits(snapshot):
            self._record_stored(position, snapshot, at, is_base=False)
            self._note_seen(snapshot.metadata.uid or "", at)

    def record_read(
        self, uid: str, document: Fields, at: float, answers: RuleAnswers | None = None
    ) -> None:
        """Record the state of a tracked object as it was read; another object of its name is none.

        Raises KeyError without apiVersion or metadata, and msgspec.MsgspecError or RecursionError
        when the object cannot be decoded.
        """
        found = self.find(uid)
        if found is None:
            return
        api_version = msgspec.json.decode(document["apiVersion"], type=str)
        reviewed = ReviewedObject.of(document)
        snapshot = ObjectSnapshot(reviewed, api_version, found.kind.kind, answers)
        if snapshot.metadata.uid != uid:
            self.forget(uid)
        elif self._fits(snapshot):
            self._record_stored(found.state.kind, snapshot, at, is_base=False)
            self._note_seen(uid, at)

    def is_watched(self, found: Tracked) -> bool:
        """Whether a watch shows every change of objects of its kind."""
        return found.state.kind in self._watched

    def record_write(
        self,
        kind: ResourceKind,
        api_version: str,
        old: ReviewedObject | None,
        new: ReviewedObject,
        at: float,
        *,
        judged: Judged = NOT_JUDGED,
    ) -> None:
        """Record an allowed write of a whole object; `old` is None for a creation.

        Raises msgspec.MsgspecError or RecursionError when an object cannot be decoded.
        """
        position = self.counts_by_kind.position(*kind)
        snapshot = ObjectSnapshot(new, api_version, kind.kind, judged.new)
        uid = snapshot.metadata.uid or ""
        if not self._fits(snapshot) or (old is not None and old.metadata.uid != uid):
            return
        if old is None:
            before = self._get(uid)
        else:
            base = ObjectSnapshot(old, api_version, kind.kind, judged.old)
            before = self._record_stored(position, base, at, is_base=True)
            if before is None:
                return  # a write from an old copy: the API server rejects or repeats it
        if before and snapshot.generation < before.generation:
            return  # the API server never lowers a generation
        if before and before.is_same(snapshot.generation, snapshot.digest):
            self._label(uid, snapshot)
            self._put(uid, before, before)
            return
        version = before.version if before else 0
        observes = self.counts_by_kind.counts(position).always_observes
        found = compute_transition(
            position,
            snapshot,
            before,
            at,
            version,
            always_observes=observes,
            created=old is None,
            images=self._images.get(uid) or b"",
        )
        self._label(uid, snapshot)
        self._apply(uid, before, found, at, stored=False)

    def record_scale(self, uid: str, at: float) -> None:
        """Record an allowed write of a Scale, which raises the generation but hides the object."""
        before = self._get(uid)
        if before is None or before.generation == 0:
            return
        # Digest 0: the next stored state is always evaluated.
        after = replace(
            before, generation=before.generation + 1, digest=0, intent_at=at, intent_seen=True,
            observed_at=None, settled_at=None,
        )  # fmt: skip
        found = StateTransition(as_unobserved(after, before, at), intent_changed=True)
        self._apply(uid, before, found, at, stored=False)

    def forget(self, uid: str) -> None:
        """Forget an object that probably no longer exists; its next write tracks it again."""
        self._unconfirmed.set(uid, None)
        self._put(uid, self._get(uid), None)

    def record_deleted(self, uid: str) -> None:
        """Forget an object that no longer exists, and ignore writes of it that are read later.

        Such a write was admitted before the deletion, and its review waited, or it was admitted
        and then not stored.
        """
        self.forget(uid)
        if len(uid) > LONGEST_UID or uid in self._deleted:
            return
        self._deleted[uid] = None
        if len(self._deleted) > MOST_DELETED:
            self._deleted.popitem(last=False)
        self._shrink()

    def settle(self, at: float) -> None:
        """Decide the writes that have been unconfirmed for UNCONFIRMED_SECONDS."""
        waiting = self._unconfirmed.by_uid
        while waiting:
            uid, unconfirmed = next(iter(waiting.items()))
            is_due = unconfirmed.since <= at - UNCONFIRMED_SECONDS
            if not is_due and len(waiting) <= MOST_UNCONFIRMED:
                return
            believed = self._get(uid)
            if believed is None or (
                not unconfirmed.stored
                and (unconfirmed.before is None or believed.kind in self._watched)
            ):
                self._undo(uid)
                continue
            self._unconfirmed.set(uid, None)
            self._put(uid, believed, unconfirmed.decide(believed))

    def shift(self, seconds: float, now: float) -> None:
        """Move the times of what is not settled: the clock was put forth so many seconds.

        now  what it says; no time is later
        """
        for uid, one in self._unconfirmed.by_uid.items():
            self._unconfirmed.set(uid, replace(one, since=min(one.since + seconds, now)))
        for uid, blocking in self._blocking.by_uid.items():
            since = min(blocking.since + seconds, now)
            seen_at = blocking.seen_at and min(blocking.seen_at + seconds, now)
            self._blocking.set(uid, replace(blocking, since=since, seen_at=seen_at))
            state = self._get(uid)
            # The others are stuck so long after what blocks them began.
            if state is not None and state.health is Health.RED:
                moved = replace(state, changed_at=min(state.changed_at + seconds, now))
                self._objects.set(uid, pack(moved))
        self.blocking_changes += 1

    def _record_stored(
        self, kind: int, snapshot: ObjectSnapshot, at: float, *, is_base: bool
    ) -> TrackedState | None:
        """Record a stored state; return the state believed now, None if a newer one is known.

        is_base  it is the oldObject of a write.
        """
        uid = snapshot.metadata.uid or ""
        before = self._get(uid)
        unconfirmed = self._unconfirmed.get(uid)
        if before and unconfirmed and not unconfirmed.stored:
            was_stored = unconfirmed.was_stored(before, snapshot, is_base=is_base)
            if was_stored:
                kept = replace(unconfirmed, stored=True) if unconfirmed.after else None
                self._unconfirmed.set(uid, kept)
            elif was_stored is False:
                before = self._undo(uid)
        if before and 0 < snapshot.version <= before.version:
            return before if snapshot.version == before.version else None
        if before:
            known = before.generation if before.version else before.reconciled or 0
            if snapshot.generation < known:
                return None
            if before.is_same(snapshot.generation, snapshot.digest):
                now = replace(before, version=snapshot.version)
                if not is_base:  # otherwise the write replaces it at once
                    self._label(uid, snapshot)
                    self._put(uid, before, now)
                return now
        observes = self.counts_by_kind.counts(kind).always_observes
        found = compute_transition(
            kind,
            snapshot,
            before,
            at,
            snapshot.version,
            always_observes=observes,
            images=self._images.get(uid) or b"",
        )
        self._label(uid, snapshot)
        return self._apply(uid, before, found, at, stored=True)

    def _apply(
        self,
        uid: str,
        before: TrackedState | None,
        found: StateTransition,
        at: float,
        *,
        stored: bool,
    ) -> TrackedState:
        """Store a transition and count what it measured; return the state believed now."""
        self._unconfirmed.set(uid, None)
        shown = as_unobserved(found.after, before, at) if found.intent_changed else found.after
        if found.intent_changed or not stored:
            after = pack(found.after) if found.intent_changed else None
            self._unconfirmed.set(uid, UnconfirmedWrite(at, self._objects.get(uid), after, stored))
        self._images.set(uid, found.images or None)
        self._put(uid, before, shown)
        self._block(uid, shown, found.blocked_by, at)
        self.milestones.record(uid, shown)
        counts = self.counts_by_kind.counts(shown.kind)
        if found.observation is not None:
            counts.observation.add(found.observation)
        if found.reconcile is not None:
            counts.reconcile.add(found.reconcile)
        counts.flips += found.flipped
        if len(self._unconfirmed.by_uid) > MOST_UNCONFIRMED:
            self.settle(at)
        return shown

    def _undo(self, uid: str) -> TrackedState | None:
        """Return to the state before a write that was not stored; its measurements stay counted."""
        unconfirmed, believed = self._unconfirmed.by_uid[uid], self._get(uid)
        self._unconfirmed.set(uid, None)
        before = unpack(unconfirmed.before) if unconfirmed.before else None
        if before and believed and before.generation == believed.generation:
            before = replace(
                before,
                observed_at=before.observed_at or believed.observed_at,
                settled_at=before.settled_at or believed.settled_at,
                reconciled=believed.reconciled,
            )
        self._put(uid, believed, before)
        return before

    def _block(self, uid: str, state: TrackedState, text: str, at: float) -> None:
        """Remember what blocks an object since now, unless it was blocked by the same before."""
        known = self._blocking.get(uid)
        if known is None:
            return
        if not text:
            text = guess_blocking(state).text
        if known.text != text:
            self._set_blocking(uid, Blocking(at, text))
            self._shrink()

    def _note_seen(self, uid: str, at: float) -> None:
        """Remember that the stored object was shown, if it is not settled."""
        if (known := self._blocking.get(uid)) is not None:
            self._blocking.set(uid, replace(known, seen_at=at))

    def _set_blocking(self, uid: str, blocking: Blocking | None) -> None:
        self.blocking_changes += 1
        self._blocking.set(uid, blocking)

    def _label(self, uid: str, snapshot: ObjectSnapshot) -> None:
        if self.summaries is not None:
            self.summaries.label(uid, snapshot.metadata.labels)

    def _get(self, uid: str) -> TrackedState | None:
        data = self._objects.get(uid)
        return None if data is None else unpack(data)

    def _put(self, uid: str, before: TrackedState | None, after: TrackedState | None) -> None:
        """Replace the state of an object, count it, and forget objects beyond the bounds."""
        is_known = self._objects.get(uid) is not None
        self._objects.set(uid, None)  # then it comes last
        self.counts_by_kind.change(uid, before if is_known else None, after)
        if self.summaries is not None:
            self.summaries.change(uid, after)
        is_blocked = self._blocking.get(uid) is not None
        if after is None or after.settled:
            if is_blocked:
                self._set_blocking(uid, None)
        elif not is_blocked:
            self._set_blocking(uid, guess_blocking(after))
        if after is None:
            self._images.set(uid, None)
            return
        self._objects.set(uid, pack(after))
        self._shrink()

    def _shrink(self) -> None:
        objects = self._objects.by_uid
        while objects and (len(objects) > self._most_objects or self.bytes > self._most_bytes):
            self.forget(next(iter(objects)))

    def _fits(self, snapshot: ObjectSnapshot) -> bool:
        """Whether an object may be tracked: it is not deleted, and its names are not too long."""
        metadata = snapshot.metadata
        return (
            0 < len(metadata.uid or "") <= LONGEST_UID
            and metadata.uid not in self._deleted
            and len(metadata.name or "") <= LONGEST_NAME
            and len(metadata.namespace or "") <= LONGEST_NAME
        )


_SHOWS_OBJECT: Final = frozenset({"", "status", "resize", "ephemeralcontainers"})
"""Subresources whose reviews carry the object itself."""


def shows_object(request: AdmissionRequest) -> bool:
    """Whether a review of the phase outcome carries an object whose state is tracked."""
    return (
        request.operation in (Operation.CREATE, Operation.UPDATE)
        and request.subresource in _SHOWS_OBJECT
        and not request.wire.dry_run
    )


def record_outcome(
    tracking: Tracking,
    request: AdmissionRequest,
    prediction: Prediction,
    at: float,
    judged: Judged = NOT_JUDGED,
) -> None:
    """Record an admission review of the phase outcome.

    `judged` is what a rule in CEL says of its objects.

    Only this phase shows the object as all mutating webhooks and the strategy left it. Writes at
    /intent and /mutate may never reach it, or carry an old status. A dry run is ignored. An object
    that finalizers or a grace period keep after a DELETE is tracked again with its next write.
    Raises msgspec.MsgspecError or RecursionError when the object cannot be decoded.
    """
    wire = request.wire
    if wire.dry_run:
        return
    new, old = request.object, request.old_object
    if request.operation is Operation.DELETE and old is not None:
        if not request.subresource:
            tracking.forget(old.metadata.uid or "")
    elif request.operation not in (Operation.CREATE, Operation.UPDATE) or new is None:
        return
    elif request.subresource == "scale":
        if prediction.moves:
            tracking.record_scale(new.metadata.uid or "", at)
    elif request.subresource in _SHOWS_OBJECT:
        if old is not None and _is_removed(new.metadata, old.metadata):
            tracking.forget(new.metadata.uid or "")
            return
        kind = ResourceKind(wire.resource.group, wire.resource.resource, wire.kind.kind)
        if request.subresource == "status":
            tracking.counts_by_kind.note_status_subresource(kind)
        group, version = wire.kind.group, wire.kind.version
        api_version = f"{group}/{version}" if group else version
        tracking.record_write(kind, api_version, old, new, at, judged=judged)


def _is_removed(new: ObjectMeta, old: ObjectMeta) -> bool:
    """Whether an update removes the last finalizer and with it the object (store.go:Update).

    A remaining grace period keeps the object: a pod is removed by a last DELETE.
    """
    return bool(
        new.deletion_timestamp
        and old.finalizers
        and not new.finalizers
        and not new.deletion_grace_period_seconds
    )


_decoder: Final = msgspec.msgpack.Decoder(tuple[ResourceKind, TrackedState])


class TrackingRows:
    """Saves and restores a Tracking as rows: uid, and the state with the names of its kind.

    The position of a kind differs between processes, so its names are saved.
    """

    def __init__(self, tracking: Tracking) -> None:
        self._tracking: Final = tracking

    def marks(self) -> Iterator[tuple[str, Any]]:
        """Yield the uid of each object and a value that differs once its row does."""
        return self._tracking.marks()

    def export(self, name: str) -> bytes | None:
        """Return the row of an object; None when nothing is to be restored."""
        state = self._tracking.state_to_persist(name)
        if state is None:
            return None
        return pack((self._tracking.counts_by_kind.kind(state.kind), state))

    def restore(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Restore exported rows; raises msgspec.MsgspecError for a malformed row."""
        for uid, content in rows:
            kind, state = _decoder.decode(content)
            self._tracking.restore(uid, kind, state)
