"""Every tracked object's generation, readiness and how long each intent took, from what is seen.

Two kinds of sights are told apart, since an allowed write is not a stored one (it may be refused
by another webhook, lose against a rival, or change nothing):

- A *stored* state: a watch's event, or the oldObject of a write. Of two the higher
  resourceVersion is the newer one (KEP-5504); a lower generation than one known to be stored is
  old news whatever its version (apiserver pkg/registry/rest/update.go:BeforeUpdate never lowers
  it), and so is one below `reconciled`.
- A *write* that was allowed: believed at once, for nobody should wait for the next write to learn
  that a rollout is done. What was believed before is kept, until a stored state confirms the write
  or has it taken back, or for WAITING_SECONDS. Then a kind that is watched would have shown it:
  the write was refused, and is taken back. Otherwise it stays believed: without a watch a refused
  intent cannot be told from one that nobody observes, until the object's next write. A creation
  is the exception, it is forgotten: refused ones are repeated, each with a new uid.

A new intent makes the object unsettled, its readiness unknown, until somebody acts on it; where
nobody ever says so, for as long as evaluate() gives it the benefit of the doubt.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from webhook.admission.review import ReviewedObject
from webhook.objects.fields import Fields
from webhook.status.evaluate import JUST
from webhook.status.excerpt import LONGEST_UID, Excerpt
from webhook.status.milestones import Milestones
from webhook.status.remembered import LONGEST_NAME, Remembered, pack, unpack
from webhook.status.sighting import Sighting, judge, unfulfilled
from webhook.status.tally import Kind, Tally
from webhook.status.view import Past
from webhook.status.waiting import Waiting

MOST_OBJECTS: Final = 200_000
MOST_BYTES: Final = 96 * 1024 * 1024
"""With what waits."""
WAITING_SECONDS: Final = JUST
MOST_WAITING: Final = 20_000

_BYTES_OF_OBJECT: Final = 300
_BYTES_OF_WAITING: Final = 350


class Tracked(NamedTuple):
    """One object as it is believed to be."""

    uid: str
    kind: Kind
    state: Remembered
    waiting: bool
    """The state is that of a write of which nobody knows yet whether it was stored."""


class Tracking:
    """Bounded in objects and bytes; the objects longest unwritten go first."""

    def __init__(self, most_objects: int = MOST_OBJECTS, most_bytes: int = MOST_BYTES) -> None:
        self._objects: Final[OrderedDict[str, bytes]] = OrderedDict()
        self._waiting: Final[OrderedDict[str, Waiting]] = OrderedDict()
        self._watched: Final[set[int]] = set()
        self._most_objects: Final = most_objects
        self._most_bytes: Final = most_bytes
        self.tally: Final = Tally()
        self.milestones: Final = Milestones()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._objects)

    def uids(self) -> list[str]:
        """Of every tracked object, the longest unwritten first."""
        return list(self._objects)

    def find(self, uid: str) -> Tracked | None:
        """What is known of an object."""
        data = self._objects.get(uid)
        if data is None:
            return None
        state = unpack(data)
        return Tracked(uid, self.tally.kind(state.kind), state, uid in self._waiting)

    def objects(self) -> Iterator[Tracked]:
        """Every tracked object, as `uids`."""
        return (found for uid in self.uids() if (found := self.find(uid)) is not None)

    def past(self, uid: str, at: float) -> Past | None:
        """What evaluate() may be told of an object's past; None for an unknown one."""
        found = self.find(uid)
        if found is None:
            return None
        state = found.state
        acted = state.observed_at
        if acted is None and state.ready is not None and state.observed is None:
            acted = state.changed_at  # a status was written, without an observedGeneration
        return Past(state.intent_at, acted, state.reconciled, len(state.flips_since(at)))

    def packed(self) -> Iterator[tuple[str, bytes | tuple[bytes, bool]]]:
        """Each object by uid, and what is another value once `lasting` is."""
        for uid in self.uids():
            if (data := self._objects.get(uid)) is not None:
                yield uid, (data, True) if uid in self._waiting else data

    def lasting(self, uid: str) -> Remembered | None:
        """What is to be known of an object after a restart: as if settle() decided now."""
        state, waiting = self._get(uid), self._waiting.get(uid)
        if state is None or waiting is None:
            return state
        return None if waiting.is_creation else waiting.decided(state)

    def restore(self, uid: str, kind: Kind, state: Remembered) -> None:
        """Take over what lasted, unless more is known already."""
        if uid not in self._objects:
            self._put(uid, None, replace(state, kind=self.tally.position(*kind)))

    def see(self, group: str, resource: str, kind: str, document: Fields, at: float) -> None:
        """Take in a stored state, from a watch; its kind is watched from now on.

        Raises KeyError without apiVersion or metadata, msgspec.MsgspecError or RecursionError when
        undecodable.
        """
        position = self.tally.position(group, resource, kind)
        self._watched.add(position)
        api_version = msgspec.json.decode(document["apiVersion"], type=str)
        sight = Excerpt(ReviewedObject.of(document), api_version, kind)
        if _fits(sight):
            self._stored(position, sight, at, is_base=False)

    def review(
        self,
        kind: Kind,
        api_version: str,
        old: ReviewedObject | None,
        new: ReviewedObject,
        at: float,
    ) -> None:
        """Take in an allowed write of a whole object; `old` is None for a creation.

        Raises msgspec.MsgspecError or RecursionError when undecodable.
        """
        position = self.tally.position(*kind)
        sight = Excerpt(new, api_version, kind.kind)
        uid = sight.metadata.uid or ""
        if not _fits(sight) or (old is not None and old.metadata.uid != uid):
            return
        if old is None:
            before = self._get(uid)
        else:
            before = self._stored(position, Excerpt(old, api_version, kind.kind), at, is_base=True)
            if before is None:
                return  # a write of a stale copy is refused, or begins again
        if before and sight.generation < before.generation:
            return  # no server writes that
        if before and before.shows(sight.generation, sight.digest):
            self._put(uid, before, before)
            return
        version = before.version if before else 0
        observes = self.tally.counts(position).always_observes
        found = judge(
            position, sight, before, at, version, always_observes=observes, created=old is None
        )
        self._take(uid, before, found, at, stored=False)

    def moved(self, uid: str, at: float) -> None:
        """An allowed write that does not show the object moves its generation by one: a Scale's."""
        before = self._get(uid)
        if before is None or before.generation == 0:
            return
        # No digest: whatever is stored next is judged anew.
        after = replace(
            before, generation=before.generation + 1, digest=0, intent_at=at, intent_seen=True,
            observed_at=None, settled_at=None,
        )  # fmt: skip
        found = Sighting(unfulfilled(after, before, at), moved=True)
        self._take(uid, before, found, at, stored=False)

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._wait(uid, None)
        self._put(uid, self._get(uid), None)

    def settle(self, at: float) -> None:
        """Decide what has waited for long enough."""
        while self._waiting:
            uid, waiting = next(iter(self._waiting.items()))
            is_due = waiting.since <= at - WAITING_SECONDS
            if not is_due and len(self._waiting) <= MOST_WAITING:
                return
            believed = self._get(uid)
            if believed is None or (
                not waiting.stored and (waiting.before is None or believed.kind in self._watched)
            ):
                self._take_back(uid)
                continue
            self._wait(uid, None)
            self._put(uid, believed, waiting.decided(believed))

    def _stored(self, kind: int, sight: Excerpt, at: float, *, is_base: bool) -> Remembered | None:
        """Take in a stored state: what is believed now; None when it is older than what is known.

        `is_base`: a write goes out from it.
        """
        uid = sight.metadata.uid or ""
        before = self._get(uid)
        if before and sight.version and sight.version <= before.version:
            waiting = self._waiting.get(uid)
            if is_base and sight.version == before.version and waiting and not waiting.stored:
                return self._take_back(uid)  # it goes out from where the believed write did
            return before if sight.version == before.version else None
        before = self._heard(uid, before, sight.generation)
        if before:
            known = before.generation if before.version else before.reconciled or 0
            if sight.generation < known:
                return None
            if before.shows(sight.generation, sight.digest):
                now = replace(before, version=sight.version)
                if not is_base:  # the write that goes out from it is put in its place
                    self._put(uid, before, now)
                return now
        observes = self.tally.counts(kind).always_observes
        found = judge(kind, sight, before, at, sight.version, always_observes=observes)
        return self._take(uid, before, found, at, stored=True)

    def _heard(self, uid: str, before: Remembered | None, generation: int) -> Remembered | None:
        """Confirm what waits, or take it back, now that a stored generation is known."""
        waiting = self._waiting.get(uid)
        if before is None or waiting is None or waiting.stored:
            return before
        if generation < before.generation and waiting.before is not None:
            return self._take_back(uid)
        # Also where another status is stored: the time of an intent is worth keeping.
        if waiting.after is None:
            self._wait(uid, None)
        else:
            self._wait(uid, replace(waiting, stored=True))
        return before

    def _take(
        self, uid: str, before: Remembered | None, found: Sighting, at: float, *, stored: bool
    ) -> Remembered:
        """Remember a sight, and what it measures; what is believed now."""
        self._wait(uid, None)
        shown = unfulfilled(found.after, before, at) if found.moved else found.after
        if found.moved or not stored:
            after = pack(found.after) if found.moved else None
            self._wait(uid, Waiting(at, self._objects.get(uid), after, stored))
        self._put(uid, before, shown)
        self.milestones.see(uid, shown)
        counts = self.tally.counts(shown.kind)
        if found.observation is not None:
            counts.observation.add(found.observation)
        if found.reconcile is not None:
            counts.reconcile.add(found.reconcile)
        counts.flips += found.flipped
        if len(self._waiting) > MOST_WAITING:
            self.settle(at)
        return shown

    def _take_back(self, uid: str) -> Remembered | None:
        """The believed write was not stored; what it measured stays measured."""
        waiting, believed = self._waiting[uid], self._get(uid)
        self._wait(uid, None)
        before = unpack(waiting.before) if waiting.before else None
        if before and believed and before.generation == believed.generation:
            before = replace(
                before,
                observed_at=before.observed_at or believed.observed_at,
                settled_at=before.settled_at or believed.settled_at,
                reconciled=believed.reconciled,
            )
        self._put(uid, believed, before)
        return before

    def _wait(self, uid: str, waiting: Waiting | None) -> None:
        """Have this to be decided of an object, in the place of what was."""
        before = self._waiting.get(uid)
        if before is not None:
            self.bytes -= _size(before)
        if waiting is not None:
            self.bytes += _size(waiting)
            self._waiting[uid] = waiting
        elif before is not None:
            del self._waiting[uid]

    def _get(self, uid: str) -> Remembered | None:
        data = self._objects.get(uid)
        return None if data is None else unpack(data)

    def _put(self, uid: str, before: Remembered | None, after: Remembered | None) -> None:
        """Replace what is remembered, count it, and forget what is over the bounds."""
        old = self._objects.pop(uid, None)
        self.tally.change(before if old is not None else None, after)
        if old is not None:
            self.bytes -= _BYTES_OF_OBJECT + len(old)
        if after is None:
            return
        data = self._objects[uid] = pack(after)
        self.bytes += _BYTES_OF_OBJECT + len(data)
        while len(self._objects) > self._most_objects or self.bytes > self._most_bytes:
            self.forget(next(iter(self._objects)))


def _size(waiting: Waiting) -> int:
    return _BYTES_OF_WAITING + len(waiting.before or b"") + len(waiting.after or b"")


def _fits(sight: Excerpt) -> bool:
    metadata = sight.metadata
    return (
        0 < len(metadata.uid or "") <= LONGEST_UID
        and len(metadata.name or "") <= LONGEST_NAME
        and len(metadata.namespace or "") <= LONGEST_NAME
    )
