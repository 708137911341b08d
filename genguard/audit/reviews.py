"""Make of an audit event the requests that genguard's three registrations would have seen.

At level RequestResponse an event and the last answer about the same object show all that reviews
show, so that one detection judges both.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import msgspec

from genguard.admission.review import (
    NO_RAW,
    V1,
    AdmissionRequest,
    GroupVersionKind,
    GroupVersionResource,
    Operation,
    Phase,
    ReviewedObject,
    UserInfo,
    WireRequest,
)
from genguard.audit.event import Call, Event, ObjectReference
from genguard.audit.stages import stages
from genguard.audit.stored import StoredObject, object_fields
from genguard.detection.fact import USER_AGENT
from genguard.objects.fields import Fields

_MOST_NAMES: Final = 1_000
_CREATED: Final = 201
_OPERATIONS: Final = {
    "create": Operation.CREATE,
    "update": Operation.UPDATE,
    "patch": Operation.UPDATE,
    "delete": Operation.DELETE,
}


class Review(NamedTuple):
    """One phase of a write. Phases that show the same object share one request."""

    phase: Phase
    request: AdmissionRequest


class _Base(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Sent(msgspec.Struct):
    metadata: _Base | None = None


_sent: Final = msgspec.json.Decoder(_Sent)


def operation_of(event: Event) -> Operation | None:
    """Return what was asked for; None for a read and for a whole collection."""
    found = _OPERATIONS.get(event.verb)
    code = event.response_status.code if event.response_status else 0
    if found is Operation.UPDATE and code == _CREATED:
        return Operation.CREATE  # a PUT, or an applied configuration, of what was not there
    is_named = event.object_ref is not None and event.object_ref.name != ""
    return found if is_named or found is Operation.CREATE else None


def is_based_on(event: Event, before: StoredObject) -> bool:
    """Whether a write starts from this state, as far as it says: a PUT names the version.

    Raises msgspec.MsgspecError for a request that cannot be decoded.
    """
    if event.verb != "update":
        return True
    return named_version(event) in ("", before.identity.resource_version)


def named_version(event: Event) -> str:
    """Return the resourceVersion that an update names, "" if it names none. Raises as above."""
    # Of a PUT it is in the reference too, which is there at every level.
    named = event.object_ref.resource_version if event.object_ref else ""
    if named or not object_fields(event.request_object):
        return named
    metadata = _sent.decode(event.request_object).metadata
    return metadata.resource_version if metadata else ""


def reviews_of_update(
    event: Event,
    reference: ObjectReference,
    before: StoredObject,
    after: StoredObject | None,
    calls: Sequence[Call],
) -> Iterator[Review]:
    """Yield the phases of an update; without `after` it was refused, and has no outcome.

    Raises UnknownStagesError, msgspec.MsgspecError, RecursionError.
    """
    # Until it is stored an object shows the version that it comes from.
    shown = None if after is None else after.at(before.identity.resource_version)
    old = ReviewedObject.of(before.fields)
    wire = _wire(event, reference, after or before, Operation.UPDATE)
    made: list[tuple[Fields, AdmissionRequest]] = []

    def request(fields: Fields) -> AdmissionRequest:
        for known, found in made:
            if known == fields:
                return found
        found = _request(event, wire, ReviewedObject.of(fields), old)
        made.append((fields, found))
        return found

    asked, *rounds = stages(event, before, shown, calls)
    yield Review(Phase.INTENT, request(asked))
    for one in rounds:
        yield Review(Phase.MUTATE, request(one))
    if shown is not None:
        yield Review(Phase.OUTCOME, request(shown.fields))


def reviews_of_creation(
    event: Event,
    reference: ObjectReference,
    shown: StoredObject,
    calls: Sequence[Call],
    *,
    is_stored: bool = True,
) -> Iterator[Review]:
    """Yield the phases of a creation.

    shown      the answer; the object that was sent where the creation was refused
    is_stored  if not, it has no outcome
    Raises as above.
    """
    sent = object_fields(event.request_object)
    wire = _wire(event, reference, shown, Operation.CREATE)
    # The server gives uid, version and a generated name to the object after the first phases.
    metadata = {"metadata": sent["metadata"]} if "metadata" in sent else {}
    asked, *rounds = stages(event, None, shown if is_stored else None, calls)
    made = [ReviewedObject.of({**one, **metadata}) for one in (asked, *rounds)]
    yield Review(Phase.INTENT, _request(event, wire, made[0], None))
    for one in made[1:]:
        yield Review(Phase.MUTATE, _request(event, wire, one, None))
    if is_stored:
        outcome = ReviewedObject.of(shown.fields)
        yield Review(Phase.OUTCOME, _request(event, wire, outcome, None))


def review_of_deletion(event: Event, reference: ObjectReference, before: StoredObject) -> Review:
    """Return the one phase of a deletion that is judged. Raises msgspec.MsgspecError."""
    wire = _wire(event, reference, before, Operation.DELETE)
    return Review(Phase.OUTCOME, _request(event, wire, None, ReviewedObject.of(before.fields)))


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
        "userInfo": {"username": event.username, "groups": list(event.groups)},
    }


def _wire(
    event: Event, reference: ObjectReference, shown: StoredObject, operation: Operation
) -> WireRequest:
    group, _, version = shown.api_version.rpartition("/")
    is_deletion = operation is Operation.DELETE
    return WireRequest(
        uid="",
        kind=_kind(group, version, shown.kind),
        resource=_resource(reference.api_group, reference.api_version, reference.resource),
        operation=operation,
        sub_resource=reference.subresource,
        name=reference.name or shown.identity.name,
        namespace=reference.namespace,
        user_info=UserInfo(event.username, _extra(event)),
        options=(event.request_object or NO_RAW) if is_deletion else _options(event.manager),
    )


def _extra(event: Event) -> msgspec.Raw:
    """Return what says which process of the user acted, as a review would have it."""
    agent = {USER_AGENT: (event.user_agent,)} if event.user_agent else {}
    return msgspec.Raw(msgspec.json.encode({**agent, **event.extra}))


@lru_cache(_MOST_NAMES)
def _options(manager: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({"fieldManager": manager}))


_kind: Final = lru_cache(_MOST_NAMES)(GroupVersionKind)
_resource: Final = lru_cache(_MOST_NAMES)(GroupVersionResource)
