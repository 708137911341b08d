"""Examine the events of level RequestResponse as the reviews of the same writes would be examined.

What was stored before is the last answer about the object. Where that is not known, or cannot be
what the write started from, the event is not examined, but counted with the reason and with what to
set. Only creations and refused writes can do without it: while all are refused, the stored state
stays as it is.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from genguard.admission.review import (
    NO_RAW,
    USER_AGENT,
    V1,
    AdmissionRequest,
    GroupVersionKind,
    GroupVersionResource,
    JoinKey,
    Operation,
    Phase,
    ReviewedObject,
    UserInfo,
    WireRequest,
)
from genguard.audit.event import Call, Event, ObjectReference, decode_object
from genguard.audit.stages import UnknownStagesError, stages
from genguard.audit.stored import StoredObject, StoredObjects, object_fields, read_items
from genguard.detection.detection import Detection
from genguard.detection.observation import VERSION, Observation
from genguard.detection.reduce import Reviewed
from genguard.generation.transition import Engine, predict_with
from genguard.objects.fields import Fields, get
from genguard.shipped import shipped

_WITHHELD: Final = frozenset({("", "secrets"), ("", "configmaps"), ("", "serviceaccounts")})
"""Their contents, or tokens that are made of them, are kept out of a log (docs/audit-logs.md)."""


class Unexamined(StrEnum):
    """Why a write cannot be examined; unexamined.yaml says it of a number of writes."""

    METADATA = "level Metadata"
    REQUEST = "level Request"
    CUT = "cut"
    STATE = "stored state not known"
    PATCHES = "patches do not apply"


_LEVELS: Final = frozenset({Unexamined.METADATA, Unexamined.REQUEST})
_NAMES: Final = re.compile(r"[a-z0-9.-]+")
_WRITES: Final = "[create, update, patch, delete, deletecollection]"


def told_unexamined(
    counts: Mapping[Unexamined, Counter[tuple[str, str]]],
) -> Iterator[dict[str, Any]]:
    """Yield for each reason how many writes it concerns, and a sentence for people.

    counts  how many writes of an API group and resource
    """
    texts = shipped("genguard.audit", "unexamined.yaml", dict[Unexamined, str])
    for reason in filter(counts.get, Unexamined):
        rule = _missing_rule(counts[reason]) if reason in _LEVELS else ""
        message, writes = f"{texts[reason]}{rule}", counts[reason].total()
        yield {"reason": reason.value, "writes": writes, "message": f"{writes} writes {message}"}


def _missing_rule(counts: Counter[tuple[str, str]]) -> str:
    """Say which rule an audit policy lacks: in the core group it names only what was written."""
    often = (kind for kind, _ in counts.most_common() if kind not in _WITHHELD)
    # A request may name any group, and the rule is to be copied.
    asked = [kind for kind in often if _NAMES.fullmatch(".".join(kind))]
    core = ", ".join(f"{name}, {name}/*" for group, name in asked if not group)
    shown = [f"{{group: {group}}}" for group in dict.fromkeys(group for group, _ in asked) if group]
    shown += [f'{{group: "", resources: [{core}]}}'] if core else []
    rule = f"{{level: {SHOWS_ALL}, verbs: {_WRITES}, resources: [{', '.join(shown)}]}}"
    return f". Put this first among the rules of the audit policy: - {rule}" if shown else ""


SHOWS_ALL: Final = "RequestResponse"
"""The only level that is examined."""
_MUCH: Final = "*"
_WHOLE: Final = frozenset({"", "status"})
"""Subresources that show the object itself."""
_OTHER_OBJECTS: Final = frozenset({"proxy", "token"})
"""Subresources that leave the object that they are of as it is."""


Review = tuple[Phase, AdmissionRequest]
"""One phase of a write. Phases that show the same object share one request."""


def is_based_on(event: Event, before: StoredObject) -> bool:
    """Whether a write starts from this state, as far as it says: a PUT names the version.

    Raises msgspec.MsgspecError for a request that cannot be decoded.
    """
    if event.verb != "update":
        return True
    return named_version(event) in ("", before.identity.resource_version)


def named_version(event: Event) -> str:
    """Return the resourceVersion that an update names, "" if it names none. Raises as above."""
    # A PUT has it in the reference too, which is there at every level.
    if event.object_ref and event.object_ref.resource_version:
        return event.object_ref.resource_version
    sent = get(decode_object(event.request_object), "metadata", "resourceVersion")
    return sent if isinstance(sent, str) else ""


class AuditedWrite(NamedTuple):
    """One write of a log.

    before  the object as it was; None for a creation, and where it is not known
    after   the answer; None for a write that was refused, which has no outcome
    calls   those that changed the object
    """

    event: Event
    reference: ObjectReference
    before: StoredObject | None
    after: StoredObject | None
    calls: Sequence[Call]


def reviews_of_write(write: AuditedWrite) -> Iterator[Review]:
    """Yield the phases of a write. Raises UnknownStagesError, MsgspecError, RecursionError."""
    event, reference, before, after, calls = write
    operation, old, metadata = Operation.CREATE, None, Fields()
    if before is not None:
        operation, old = Operation.UPDATE, ReviewedObject.of(before.fields)
        # Until it is stored an object shows the version that it comes from.
        after = None if after is None else after.at(before.identity.resource_version)
    elif after is not None and "metadata" in (sent := object_fields(event.request_object)):
        # The server gives uid, version and a generated name to the object after the first phases.
        metadata = {"metadata": sent["metadata"]}
    like = after or before or StoredObject.read(event.request_object)
    if like is None:
        raise UnknownStagesError
    wire = _wire(event, reference, like, operation)
    made: list[tuple[Fields, AdmissionRequest]] = []

    def review(phase: Phase, fields: Fields) -> Review:
        for known, found in made:
            if known == fields:
                return phase, found
        made.append((fields, _request(event, wire, ReviewedObject.of(fields), old)))
        return phase, made[-1][1]

    asked, *rounds = stages(event, before, after, calls)
    yield review(Phase.INTENT, {**asked, **metadata})
    for stage in rounds:
        yield review(Phase.MUTATE, {**stage, **metadata})
    if after is not None:
        yield review(Phase.OUTCOME, after.fields)


def review_of_deletion(event: Event, reference: ObjectReference, before: StoredObject) -> Review:
    """Return the one phase of a deletion that is examined. Raises msgspec.MsgspecError."""
    wire = _wire(event, reference, before, Operation.DELETE)
    return Phase.OUTCOME, _request(event, wire, None, ReviewedObject.of(before.fields))


def _request(
    event: Event, wire: WireRequest, new: ReviewedObject | None, old: ReviewedObject | None
) -> AdmissionRequest:
    return AdmissionRequest(V1, wire, new, old, partial(_attributes, event, wire))


def _attributes(event: Event, wire: WireRequest) -> dict[str, Any]:
    """Return what conditions see of a request besides the objects."""
    return {
        "uid": wire.uid,
        "kind": msgspec.to_builtins(wire.kind),
        "resource": msgspec.to_builtins(wire.resource),
        "subResource": wire.sub_resource,
        "operation": wire.operation.value,
        "name": wire.name,
        "namespace": wire.namespace,
        "userInfo": {"username": event.username, "groups": list(event.actor.groups)},
    }


def _wire(
    event: Event, reference: ObjectReference, shown: StoredObject, operation: Operation
) -> WireRequest:
    group, _, version = shown.api_version.rpartition("/")
    options = msgspec.Raw(msgspec.json.encode({"fieldManager": event.manager}))
    if operation is Operation.DELETE:
        options = event.request_object or NO_RAW
    # What says which process of the user acted, as a review would have it.
    agent = {USER_AGENT: (event.user_agent,)} if event.user_agent else {}
    extra = msgspec.json.encode({**agent, **(event.actor.extra or {})})
    return WireRequest(
        uid="",
        kind=GroupVersionKind(group, version, shown.kind),
        resource=GroupVersionResource(
            reference.api_group, reference.api_version, reference.resource
        ),
        operation=operation,
        sub_resource=reference.subresource,
        name=reference.name or shown.identity.name,
        namespace=reference.namespace,
        user_info=UserInfo(event.username, msgspec.Raw(extra)),
        options=options,
    )


def _of_stored(write: AuditedWrite) -> Iterable[Review] | None:
    """Return the reviews of a write that was carried out, None where they are not known."""
    event, reference, before, after, _ = write
    operation = event.operation
    if operation is Operation.CREATE and not reference.subresource:
        return None if after is None else reviews_of_write(write._replace(before=None))
    if operation is not Operation.UPDATE:
        # An object that was not created in this log has no creator.
        deleted = msgspec.structs.replace(reference, subresource="")
        return () if before is None else (review_of_deletion(event, deleted, before),)
    if before is not None and after is not None and reference.subresource == "scale":
        before = before.scale(after)
    if before is None or after is None or not _is_next_version(event, reference, before, after):
        return None
    return reviews_of_write(write._replace(before=before))


def _of_refused(write: AuditedWrite) -> Iterable[Review] | None:
    """Return the reviews of a refused creation or update, None where they are not known."""
    event, reference, before, _, calls = write
    # Those that set what is invalid: nobody knows what others do elsewhere.
    guilty = [call for call in calls if event.finds_invalid(call)]
    if event.operation is Operation.CREATE:
        is_known = StoredObject.read(event.request_object) is not None
        made = write._replace(before=None, after=None, calls=guilty)
        return reviews_of_write(made) if is_known else None
    if before is None or before.missed or reference.subresource not in _WHOLE:
        before, calls = StoredObject.unknown(event, reference), guilty
    elif not is_based_on(event, before):
        return None
    return reviews_of_write(write._replace(before=before, after=None, calls=calls))


def _is_next_version(
    event: Event, reference: ObjectReference, before: StoredObject, after: StoredObject
) -> bool:
    """Whether the answer is what this write made of the remembered state.

    Answers of two writers may be logged in another order than they were stored in, and a log may
    have gaps: then what somebody else changed would be taken for a part of this write.
    """
    # What a binding sets, a node name and a condition, is shown by the first status after it.
    is_bound = (before.missed, reference.subresource) == ("binding", "status")
    if (before.missed and not is_bound) or before.kind != after.kind:
        return False
    if not before.is_state_of(after) or after.is_before(before):
        return False
    steps = after.identity.generation - before.identity.generation
    most = 0 if reference.subresource == "status" else 1
    return 0 <= steps <= most and is_based_on(event, before)


class Reviewing:
    """Remembers stored objects, and gives the reviews of writes to detection."""

    def __init__(self, engine: Engine, detection: Detection) -> None:
        """`engine` predicts generation."""
        self._engine: Final = engine
        self._detection: Final = detection
        self._stored: Final = StoredObjects()

    def see(
        self, event: Event, reference: ObjectReference, calls: Sequence[Call]
    ) -> Unexamined | None:
        """Examine a write as reviews show it; return why that is not possible.

        calls  those that changed the object
        Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
        """
        if reference.subresource in _OTHER_OBJECTS:
            return None
        operation = event.operation
        before, after = self._stored.get(reference), None
        if event.level == SHOWS_ALL:
            after = StoredObject.read(event.response_object)
            if operation is Operation.CREATE and after is not None and not reference.name:
                reference = msgspec.structs.replace(reference, name=after.identity.name)
        if event.is_stored and event.verb != "deletecollection":
            self._remember(reference, operation, before, after)
        if not _is_examined(event, reference, operation):
            return None
        if event.level != SHOWS_ALL:
            return Unexamined.REQUEST if event.level == "Request" else Unexamined.METADATA
        if event.is_conflict:
            self._see_conflict(event, reference)
            return None
        if event.verb == "deletecollection":
            self._see_deletions(event, reference)
            return Unexamined.CUT if event.is_cut else None
        return self._detect(AuditedWrite(event, reference, before, after, calls))

    def _detect(self, write: AuditedWrite) -> Unexamined | None:
        event = write.event
        try:
            reviews = _of_stored(write) if event.is_stored else _of_refused(write)
            # All of them are made before the first one is examined.
            found = None if reviews is None else tuple(reviews)
        except UnknownStagesError:
            return Unexamined.PATCHES
        if found is None:
            return Unexamined.CUT if event.is_cut else Unexamined.STATE
        if not event.is_stored:
            # A log shows each write that was stored.
            self._detection.expect_outcomes(found[0][1], event.refusal)
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
        if after is not None and reference.subresource == "scale":
            known = None
            if before is not None and before.scale(after) is not None:
                known = before.scaled(after)
        elif before is not None and after is not None and before.kind != after.kind:
            known = None
        if operation is not None and known is not None:
            if before is None or not (before.is_state_of(known) and known.is_before(before)):
                self._stored.put(reference, known)
        elif operation is Operation.DELETE or reference.subresource == "eviction":
            self._stored.forget(reference)
        elif before is not None:
            # Who deletes it later is still of interest.
            missed = reference.subresource or _MUCH
            missed = missed if before.missed in ("", missed) else _MUCH
            self._stored.put(reference, before._replace(missed=missed))

    def _take(self, reviews: Sequence[Review], event: Event) -> None:
        known: tuple[AdmissionRequest, Reviewed] | None = None
        for phase, request in reviews:
            if known is None or known[0] is not request:
                strategy, status = self._engine.strategy(request)
                known = request, Reviewed(request, predict_with(strategy, status, request), status)
            observation = self._detection.observe(phase, known[1], event.time)
            if observation is not None:
                self._detection.see(observation)

    def _see_conflict(self, event: Event, reference: ObjectReference) -> None:
        """Examine an update of a version that is not stored any more."""
        version = named_version(event)
        if not version:
            return
        key = JoinKey(
            reference.api_group, reference.resource, reference.subresource, reference.namespace,
            reference.name, reference.uid, event.username, "", dry_run=False,
        )  # fmt: skip
        if key.is_remembered:
            of = event.time, key, reference.api_version, event.manager
            self._detection.see(Observation(VERSION, Phase.MUTATE, *of).stale(version))

    def _see_deletions(self, event: Event, reference: ObjectReference) -> None:
        """Examine the deletion of a collection: its answer lists what was deleted."""
        for item in read_items(event.response_object):
            identity = item.identity
            deleted = msgspec.structs.replace(reference, name=identity.name, uid=identity.uid)
            before = self._stored.get(deleted)
            self._stored.forget(deleted)
            known = before if before and before.is_state_of(item) else item
            self._take((review_of_deletion(event, deleted, known),), event)


def _is_examined(event: Event, reference: ObjectReference, operation: Operation | None) -> bool:
    """Whether reviews of such a request are examined, if it shows enough.

    What is created at a subresource, such as a binding, leaves no trace in reviews; an eviction
    deletes a pod (pkg/registry/core/pod/storage/eviction.go), and no webhook is asked about that.
    """
    if operation is Operation.DELETE or event.verb == "deletecollection":
        return event.is_stored and not reference.subresource
    if operation is Operation.CREATE and reference.subresource:
        return event.is_stored and reference.subresource == "eviction"
    return operation is not None and (event.is_stored or event.is_refused or event.is_conflict)
