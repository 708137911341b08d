"""From the joined reviews of one write to the Write that detectors see."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from webhook.admission.review import AdmissionRequest, ReviewedObject
from webhook.detection.changes import Change, Changes, changes, digest
from webhook.detection.write import Matched, ObjectKey, Requester, Write
from webhook.generation.custom import StatusSubresource
from webhook.generation.prediction import Prediction
from webhook.objects.fields import Fields
from webhook.objects.observed import NOTHING_OBSERVED, Observed, read_observed

_UNCOMPARED: Final = frozenset({"metadata", "kind", "apiVersion"})


class Reviewed(NamedTuple):
    """A request with what the engine made of it."""

    request: AdmissionRequest
    prediction: Prediction
    status: StatusSubresource


def assemble(
    intent: AdmissionRequest | None,
    mutates: Sequence[AdmissionRequest],
    last: Reviewed,
    now: float,
    *,
    has_outcome: bool,
) -> Write:
    """One Write; `last` is the outcome, or the last mutate call where there is none.

    Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
    """
    request = last.request
    old, new = _fields(request.old_object), _fields(request.object)
    keys = _compared(request, last.status)
    asked = _fields(intent.object) if intent else None
    sent = _fields(mutates[0].object) if mutates else None
    metadata = request.old_object.metadata if request.old_object else None
    wire = request.wire
    return Write(
        time=now,
        object=ObjectKey(
            wire.resource.group,
            wire.resource.version,
            wire.resource.resource,
            wire.namespace,
            wire.name,
            (metadata.uid if metadata else None) or "",
        ),
        subresource=request.subresource,
        requester=Requester(wire.user_info.username, _manager(request)),
        matched=_matched(request),
        base=(metadata.resource_version if metadata else None) or "",
        writes_status="status" in keys,
        status_counts=last.status is StatusSubresource.ABSENT and not request.subresource,
        asked=None if asked is None else changes(old, asked, keys),
        others=None if asked is None or sent is None else changes(asked, sent, keys),
        again=_again(mutates, keys),
        result=changes(old, new, keys),
        asked_digest=_digest(asked, keys) if asked is not None else None,
        state_before=_state(old),
        state_after=_state(new),
        has_outcome=has_outcome,
        generation_before=metadata.stored_generation if metadata else 0,
        generation_after=request.object.metadata.stored_generation if request.object else 0,
        generation_predicted=last.prediction.generation if has_outcome else None,
        observed_before=_observed(old),
        observed_asked=_observed(asked if asked is not None else sent if sent is not None else new),
        observed_sent=_observed(sent if sent is not None else new),
        observed_after=_observed(new),
    )


def stored_fields_differ(one: AdmissionRequest, other: AdmissionRequest) -> bool:
    """Whether two requests would store something else, metadata aside."""
    a, b = _fields(one.object), _fields(other.object)
    return any(a.get(key) != b.get(key) for key in (a.keys() | b.keys()) - _UNCOMPARED)


def _compared(request: AdmissionRequest, status: StatusSubresource) -> tuple[str, ...]:
    """The top-level fields that the server takes from this write."""
    if request.subresource == "status":
        return ("status",)
    keys = (_fields(request.object).keys() | _fields(request.old_object).keys()) - _UNCOMPARED
    if status is not StatusSubresource.ABSENT:
        keys -= {"status"}  # the client's stale copy
    return tuple(sorted(keys))


def _again(mutates: Sequence[AdmissionRequest], keys: Sequence[str]) -> Changes:
    """What round 1 changed on top of round 0, genguard's own repairs left out."""
    if len(mutates) < 2:  # noqa: PLR2004 - rounds 0 and 1
        return ()
    found = changes(_fields(mutates[-2].object), _fields(mutates[-1].object), keys)
    return tuple(change for change in found if not _is_repair(change))


def _is_repair(change: Change) -> bool:
    return change.key[-1] == "observedGeneration" and change.before is None


def _fields(reviewed: ReviewedObject | None) -> Fields:
    return reviewed.fields if reviewed is not None else {}


def _observed(fields: Fields) -> Observed:
    return read_observed(fields.get("status")) or NOTHING_OBSERVED


def _digest(fields: Fields, keys: Sequence[str]) -> int:
    return hash(tuple(digest(fields.get(key)) for key in keys))


def _state(fields: Fields) -> int:
    return _digest(fields, sorted(fields.keys() - _UNCOMPARED))


class _Options(msgspec.Struct, rename="camel"):
    field_manager: str = ""


_options_decoder: Final = msgspec.json.Decoder(_Options | None)
_labels_decoder: Final = msgspec.json.Decoder(dict[str, str] | None)


def _manager(request: AdmissionRequest) -> str:
    raw = request.wire.options
    options = _options_decoder.decode(raw) if bytes(raw) else None
    return options.field_manager if options else ""


def _labels(reviewed: ReviewedObject | None) -> dict[str, str]:
    raw = reviewed.metadata.labels if reviewed is not None else msgspec.UNSET
    return {} if isinstance(raw, msgspec.UnsetType) else _labels_decoder.decode(raw) or {}


def _matched(request: AdmissionRequest) -> Matched:
    wire = request.wire
    return Matched(
        group=wire.resource.group,
        version=wire.resource.version,
        resource=wire.resource.resource,
        subresource=wire.sub_resource,
        operation=wire.operation.value,
        namespace=wire.namespace,
        name=wire.name,
        labels=_labels(request.object),
        old_labels=_labels(request.old_object),
        user=wire.user_info.username,
    )
