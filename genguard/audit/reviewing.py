"""Judge the events of level RequestResponse as the reviews of the same writes would be judged.

What was stored before is the last answer about the object. Where that is not known, or cannot be
what the write started from, the event is not judged here.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from genguard.admission.join import JoinKey
from genguard.admission.review import AdmissionRequest, Operation, Phase
from genguard.audit.event import Call, Event, ObjectReference
from genguard.audit.reviews import (
    Review,
    is_based_on,
    named_version,
    operation_of,
    review_of_deletion,
    reviews_of_creation,
    reviews_of_update,
)
from genguard.audit.stages import UnknownStagesError
from genguard.audit.stored import StoredObject, StoredObjects, read_items, read_object
from genguard.detection.detection import Detection
from genguard.detection.life_fact import stale_fact
from genguard.detection.reduce import Reviewed
from genguard.generation.transition import Engine, predict_with

_DELETE_ALL: Final = "deletecollection"
_STATUS: Final = "status"
_SCALE: Final = "scale"
_FOLLOWED: Final = frozenset({"", _STATUS})
_OTHER_OBJECTS: Final = frozenset({"token"})
"""Subresources that make an object of their own and leave the one they are of as it is."""


class _Write(NamedTuple):
    """One audited write; `calls` are those that changed the object."""

    event: Event
    reference: ObjectReference
    operation: Operation | None
    before: StoredObject | None
    after: StoredObject | None
    calls: Sequence[Call]

    def reviews(self) -> Iterable[Review] | None:
        """Return its reviews, None where they are not known.

        Raises UnknownStagesError, msgspec.MsgspecError, RecursionError.
        """
        event, is_stored = self.event, self.event.is_stored
        if not is_stored and not event.is_refused:
            return None
        if self.operation is Operation.UPDATE:
            return self._of_update() if is_stored else self._of_refused_update()
        if self.reference.subresource or self.operation is None:
            return None
        if not is_stored:
            return None
        if self.operation is Operation.CREATE and self.after is not None:
            return reviews_of_creation(event, self.reference, self.after, self.calls)
        if self.operation is Operation.DELETE and self.before is not None:
            return (review_of_deletion(event, self.reference, self.before),)
        return None

    def _of_update(self) -> Iterable[Review] | None:
        before, after = self.before, self.after
        if before is None or after is None:
            return None
        if self.reference.subresource == _SCALE:
            before = before.scale(after)
        if before is None or not self._follows(before, after):
            return None
        return reviews_of_update(self.event, self.reference, before, after, self.calls)

    def _of_refused_update(self) -> Iterable[Review] | None:
        before = self.before
        if before is None or self.reference.subresource not in _FOLLOWED:
            return None
        if not is_based_on(self.event, before):
            return None
        return reviews_of_update(self.event, self.reference, before, None, self.calls)

    def _follows(self, before: StoredObject, after: StoredObject) -> bool:
        """Whether the answer is what this write made of the remembered state.

        Answers of two writers may be logged in another order than they were stored in, and a log
        may have gaps: then what somebody else changed would be taken for a part of this write.
        """
        if before.kind != after.kind or not before.is_state_of(after) or after.is_before(before):
            return False
        steps = after.identity.generation - before.identity.generation
        most = 0 if self.reference.subresource == _STATUS else 1
        return 0 <= steps <= most and is_based_on(self.event, before)


class Reviewing:
    """Remembers stored objects, and gives the reviews of writes to detection."""

    def __init__(self, engine: Engine, detection: Detection) -> None:
        """`engine` predicts generation."""
        self._engine: Final = engine
        self._detection: Final = detection
        self._stored: Final = StoredObjects()

    def see(self, event: Event, reference: ObjectReference, calls: Sequence[Call]) -> bool:
        """Judge a write as reviews show it; whether that was possible.

        calls  those that changed the object
        Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
        """
        if reference.subresource in _OTHER_OBJECTS:
            return False
        if event.is_conflict:
            self._see_conflict(event, reference)
            return True
        if event.verb == _DELETE_ALL:
            self._see_deletions(event, reference)
            return True
        after, operation = read_object(event.response_object), operation_of(event)
        if operation is Operation.CREATE and after is not None and not reference.name:
            made = after.identity.name
            reference = msgspec.structs.replace(reference, name=made)
        before = self._stored.get(reference)
        if event.is_stored:
            self._remember(reference, operation, before, after)
        try:
            reviews = _Write(event, reference, operation, before, after, calls).reviews()
            if reviews is None:
                return False
            # All of them are made before the first one is judged.
            found = tuple(reviews)
            if not event.is_stored and found:
                # A log shows each write that was stored.
                self._detection.expect_outcomes(found[0].request)
            self._take(found, event)
        except UnknownStagesError:
            return False
        return True

    def _remember(
        self,
        reference: ObjectReference,
        operation: Operation | None,
        before: StoredObject | None,
        after: StoredObject | None,
    ) -> None:
        """Remember what is stored after a write, or forget what is not known any more."""
        known = after
        if after is not None and reference.subresource == _SCALE:
            known = None
            if before is not None and before.scale(after) is not None:
                known = before.scaled(after)
        elif before is not None and after is not None and before.kind != after.kind:
            known = None
        if operation is None or known is None:
            self._stored.forget(reference)
        elif before is None or not (before.is_state_of(known) and known.is_before(before)):
            self._stored.put(reference, known)

    def _take(self, reviews: Sequence[Review], event: Event) -> None:
        known: tuple[AdmissionRequest, Reviewed] | None = None
        for phase, request in reviews:
            if known is None or known[0] is not request:
                strategy, status = self._engine.strategy(request)
                prediction = predict_with(strategy, status, request)
                known = request, Reviewed(request, prediction, status)
            fact = self._detection.fact(phase, known[1], event.time)
            if fact is not None:
                self._detection.see(fact)

    def _see_conflict(self, event: Event, reference: ObjectReference) -> None:
        """Judge an update of a version that is not stored any more."""
        version = named_version(event)
        if not version:
            return
        key = JoinKey(
            reference.api_group, reference.resource, reference.subresource, reference.namespace,
            reference.name, reference.uid, event.username, "", dry_run=False,
        )  # fmt: skip
        if key.is_remembered:
            about = {"served_as": reference.api_version, "manager": event.manager}
            self._detection.see(stale_fact(Phase.MUTATE, key, event.time, version, **about))

    def _see_deletions(self, event: Event, reference: ObjectReference) -> None:
        """Judge the deletion of a collection: its answer lists what was deleted."""
        if not event.is_stored:
            return
        for item in read_items(event.response_object):
            name = item.identity.name
            one = msgspec.structs.replace(reference, name=name, uid=item.identity.uid)
            before = self._stored.get(one)
            self._stored.forget(one)
            known = before if before and before.is_state_of(item) else item
            self._take((review_of_deletion(event, one, known),), event)
