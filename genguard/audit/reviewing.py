"""Judge the events of level RequestResponse as the reviews of the same writes would be judged.

What was stored before is the last answer about the object. Where that is not known, or cannot be
what the write started from, the event is not judged, but counted with the reason and with what to
set. Only creations and refused writes can do without it: while all are refused, the stored state
stays as it is.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from genguard.admission.review import AdmissionRequest, JoinKey, Operation, Phase
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
from genguard.audit.stored import (
    MUCH,
    StoredObject,
    StoredObjects,
    read_items,
    read_object,
    without_content,
)
from genguard.detection.detection import Detection
from genguard.detection.life_fact import stale_fact
from genguard.detection.reduce import Reviewed
from genguard.generation.transition import Engine, predict_with

_MOST_GROUPS: Final = 1_000
_SHOWN_GROUPS: Final = 5
_WITHHELD: Final = frozenset({("", "secrets"), ("", "configmaps")})
"""Their contents may be kept out of a log on purpose (docs/audit-logs.md)."""


class Unjudged(StrEnum):
    """Why a write cannot be judged."""

    METADATA = "level Metadata"
    REQUEST = "level Request"
    CUT = "cut"
    STATE = "stored state not known"
    PATCHES = "patches do not apply"


_WHY: Final = {
    Unjudged.METADATA: "of level Metadata: what was written is not in the log",
    Unjudged.REQUEST: "of level Request: what was stored is not in the log",
    Unjudged.CUT: (
        "without their objects, which the API server has cut off: raise its "
        "--audit-log-truncate-max-event-size"
    ),
    Unjudged.STATE: (
        "whose object was stored in a state that is not known: the first of each object in the "
        "log, and the first after a gap or a binding. Give the older files of the log, too"
    ),
    Unjudged.PATCHES: (
        "that webhooks changed: their patches do not apply to what is known of the request"
    ),
}
_LEVELS: Final = frozenset({Unjudged.METADATA, Unjudged.REQUEST})


class UnjudgedWrites:
    """How many writes were not judged, by reason and API group. Bounded in groups."""

    def __init__(self) -> None:
        self._counts: Final[dict[Unjudged, int]] = dict.fromkeys(Unjudged, 0)
        self._groups: Final[dict[Unjudged, Counter[str]]] = {one: Counter() for one in Unjudged}

    def count(self, reason: Unjudged, reference: ObjectReference) -> None:
        """Count one write of an object."""
        self._counts[reason] += 1
        if (reference.api_group, reference.resource) in _WITHHELD:
            return
        groups = self._groups[reason]
        if reference.api_group in groups or len(groups) < _MOST_GROUPS:
            groups[reference.api_group] += 1

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield for each reason how many writes it concerns, and a sentence for people."""
        for reason, writes in self._counts.items():
            if writes:
                message = f"{writes} writes {_WHY[reason]}{self._advice(reason)}"
                yield {"reason": reason.value, "writes": writes, "message": message}

    def _advice(self, reason: Unjudged) -> str:
        groups = self._groups[reason]
        if reason not in _LEVELS or not groups:
            return ""
        often = sorted(groups, key=lambda one: (-groups[one], one))
        names = ", ".join(one or '"" (core)' for one in often[:_SHOWN_GROUPS])
        more = f" and {len(often) - _SHOWN_GROUPS} more" if len(often) > _SHOWN_GROUPS else ""
        return f"; set level RequestResponse for group {names}{more} in the audit policy"


SHOWS_ALL: Final = "RequestResponse"
"""The only level that is judged."""
_DELETE_ALL: Final = "deletecollection"
_BINDING: Final = "binding"
_EVICTION: Final = "eviction"
_STATUS: Final = "status"
_SCALE: Final = "scale"
_WHOLE: Final = frozenset({"", _STATUS})
"""Subresources that show the object itself."""
_OTHER_OBJECTS: Final = frozenset({"proxy", "token"})
"""Subresources that leave the object that they are of as it is."""


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
        if self.operation is Operation.UPDATE:
            return self._of_update() if self.event.is_stored else self._of_refused_update()
        if self.operation is Operation.CREATE and not self.reference.subresource:
            return self._of_creation()
        # An object that was not created in this log is nobody's turn.
        if self.before is None or not self.event.is_stored:
            return ()
        reference = msgspec.structs.replace(self.reference, subresource="")
        return (review_of_deletion(self.event, reference, self.before),)

    def _of_creation(self) -> Iterable[Review] | None:
        if self.event.is_stored:
            after = self.after
            if after is None:
                return None
            return reviews_of_creation(self.event, self.reference, after, self.calls)
        sent = read_object(self.event.request_object)
        if sent is None:
            return None
        return reviews_of_creation(
            self.event, self.reference, sent, self._guilty(), is_stored=False
        )

    def _of_update(self) -> Iterable[Review] | None:
        before, after = self.before, self.after
        if before is None or after is None:
            return None
        if self.reference.subresource == _SCALE:
            before = before.scale(after)
        elif before.missed == _BINDING and self.reference.subresource == _STATUS:
            before = before.bound(after)
        if before is None or not self._follows(before, after):
            return None
        return reviews_of_update(self.event, self.reference, before, after, self.calls)

    def _of_refused_update(self) -> Iterable[Review] | None:
        before, calls = self.before, self.calls
        if before is None or before.missed or self.reference.subresource not in _WHOLE:
            before, calls = without_content(self.event, self.reference), self._guilty()
        elif not is_based_on(self.event, before):
            return None
        return reviews_of_update(self.event, self.reference, before, None, calls)

    def _guilty(self) -> Sequence[Call]:
        """Return the calls that set what is invalid: nobody knows what others do elsewhere."""
        return [one for one in self.calls if self.event.finds_invalid(one)]

    def _follows(self, before: StoredObject, after: StoredObject) -> bool:
        """Whether the answer is what this write made of the remembered state.

        Answers of two writers may be logged in another order than they were stored in, and a log
        may have gaps: then what somebody else changed would be taken for a part of this write.
        """
        if before.missed or before.kind != after.kind:
            return False
        if not before.is_state_of(after) or after.is_before(before):
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

    def see(
        self, event: Event, reference: ObjectReference, calls: Sequence[Call]
    ) -> Unjudged | None:
        """Judge a write as reviews show it; return why that is not possible.

        calls  those that changed the object
        Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
        """
        if reference.subresource in _OTHER_OBJECTS:
            return None
        operation = operation_of(event)
        before, after = self._stored.get(reference), None
        if event.level == SHOWS_ALL:
            after = read_object(event.response_object)
            if operation is Operation.CREATE and after is not None and not reference.name:
                reference = msgspec.structs.replace(reference, name=after.identity.name)
        if event.is_stored and event.verb != _DELETE_ALL:
            self._remember(reference, operation, before, after)
        if not _is_judged(event, reference, operation):
            return None
        if event.level != SHOWS_ALL:
            return Unjudged.REQUEST if event.level == "Request" else Unjudged.METADATA
        if event.is_conflict:
            self._see_conflict(event, reference)
            return None
        if event.verb == _DELETE_ALL:
            self._see_deletions(event, reference)
            return Unjudged.CUT if event.is_cut else None
        return self._judge(_Write(event, reference, operation, before, after, calls))

    def _judge(self, write: _Write) -> Unjudged | None:
        event = write.event
        try:
            reviews = write.reviews()
            # All of them are made before the first one is judged.
            found = None if reviews is None else tuple(reviews)
        except UnknownStagesError:
            return Unjudged.PATCHES
        if found is None:
            return Unjudged.CUT if event.is_cut else Unjudged.STATE
        if not event.is_stored and found:
            # A log shows each write that was stored.
            self._detection.expect_outcomes(found[0].request)
        self._take(found, event)
        return None

    def _remember(
        self,
        reference: ObjectReference,
        operation: Operation | None,
        before: StoredObject | None,
        after: StoredObject | None,
    ) -> None:
        """Remember what is stored after a write, or that it is not known any more."""
        known = after
        if after is not None and reference.subresource == _SCALE:
            known = None
            if before is not None and before.scale(after) is not None:
                known = before.scaled(after)
        elif before is not None and after is not None and before.kind != after.kind:
            known = None
        if operation is not None and known is not None:
            if before is None or not (before.is_state_of(known) and known.is_before(before)):
                self._stored.put(reference, known)
        elif operation is Operation.DELETE or reference.subresource == _EVICTION:
            self._stored.forget(reference)
        elif before is not None and before.missed != MUCH:
            # Who deletes it later is still of interest.
            missed = MUCH if before.missed else reference.subresource or MUCH
            self._stored.put(reference, before._replace(missed=missed))

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
        for item in read_items(event.response_object):
            name = item.identity.name
            one = msgspec.structs.replace(reference, name=name, uid=item.identity.uid)
            before = self._stored.get(one)
            self._stored.forget(one)
            known = before if before and before.is_state_of(item) else item
            self._take((review_of_deletion(event, one, known),), event)


def _is_judged(event: Event, reference: ObjectReference, operation: Operation | None) -> bool:
    """Whether reviews of such a request are judged, if it shows enough.

    What is created at a subresource, such as a binding, leaves no trace in reviews; an eviction
    deletes a pod (pkg/registry/core/pod/storage/eviction.go), and no webhook is asked about that.
    """
    if operation is Operation.DELETE or event.verb == _DELETE_ALL:
        return event.is_stored and not reference.subresource
    if operation is Operation.CREATE and reference.subresource:
        return event.is_stored and reference.subresource == _EVICTION
    return operation is not None and (event.is_stored or event.is_refused or event.is_conflict)
