"""From the joined reviews of one write to the Write that detectors see."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from webhook.admission.review import AdmissionRequest, ReviewedObject
from webhook.detection.changes import Change, Changes, changes, digest, is_time
from webhook.detection.write import Matched, ObjectKey, Requester, Write
from webhook.generation.custom import StatusSubresource
from webhook.generation.prediction import Prediction
from webhook.objects.fields import Fields
from webhook.objects.observed import NOTHING_OBSERVED, Observed, read_observed

_METADATA: Final = "metadata"
_UNCOMPARED: Final = frozenset({_METADATA, "kind", "apiVersion"})
_METADATA_COUNTS: Final = frozenset({("apps", "deployments")})
"""Annotations count as spec does (pkg/registry/apps/deployment/strategy.go:PrepareForUpdate)."""


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
    status = _status(last, old, new, has_outcome=has_outcome)
    keys = _compared(request, status, old.keys() | new.keys())
    asked = _fields(intent.object) if intent else None
    sent = _fields(mutates[0].object) if mutates else None
    asked_for = None if asked is None else changes(old, asked, keys)
    result = changes(old, new, keys)
    predicted = last.prediction.generation
    now_at = request.object.metadata.stored_generation if request.object else 0
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
        requester=Requester(wire.user_info.username, _options(request).field_manager),
        matched=_matched(request),
        base=(metadata.resource_version if metadata else None) or "",
        writes_status="status" in keys,
        status_counts=status is StatusSubresource.ABSENT and not request.subresource,
        asked=result if asked_for == result else asked_for,
        others=None if asked is None or sent is None else changes(asked, sent, keys),
        again=_again(mutates, keys) if intent is not None or has_outcome else (),
        result=result,
        wanted=_wanted(asked_for if asked_for is not None else result),
        state_before=_state(old),
        state_after=_state(new),
        has_outcome=has_outcome,
        generation_before=metadata.stored_generation if metadata else 0,
        # Before the strategy has run an object still shows the generation that it comes from.
        generation_after=now_at if has_outcome or predicted is None else predicted,
        generation_predicted=predicted if has_outcome else None,
        observed_before=_observed(old),
        observed_asked=_observed(asked if asked is not None else sent if sent is not None else new),
        observed_sent=_observed(sent if sent is not None else new),
        observed_after=_observed(new),
        observes=any(_observes(one) for one in (asked, sent, new) if one is not None),
    )


def stored_fields_differ(one: AdmissionRequest, other: AdmissionRequest) -> bool:
    """Whether two requests would store something else, metadata aside."""
    a, b = _fields(one.object), _fields(other.object)
    return any(a.get(key) != b.get(key) for key in (a.keys() | b.keys()) - _UNCOMPARED)


def _status(last: Reviewed, old: Fields, new: Fields, *, has_outcome: bool) -> StatusSubresource:
    """Of a custom resource that nobody has described, what the server does with its status."""
    unknown = last.status is StatusSubresource.UNKNOWN and not last.request.subresource
    if unknown and has_outcome and old.get("status") != new.get("status"):
        # With a subresource the strategy would have put the stored status back by now.
        return StatusSubresource.ABSENT
    return last.status


def _compared(
    request: AdmissionRequest, status: StatusSubresource, fields: set[str]
) -> tuple[str, ...]:
    """The top-level fields that the server takes from this write."""
    if request.subresource == "status":
        return ("status",)
    if request.subresource == "scale":
        return ("spec",)
    keys = fields - _UNCOMPARED
    if status is not StatusSubresource.ABSENT:
        keys -= {"status"}  # the client's stale copy
    where = (request.wire.resource.group, request.wire.resource.resource)
    counts = {_METADATA} if where in _METADATA_COUNTS and not request.subresource else set()
    return tuple(sorted(keys | counts))


def _again(mutates: Sequence[AdmissionRequest], keys: Sequence[str]) -> Changes:
    """What round 1 changed on top of round 0, genguard's own repairs left out.

    More than two calls are several writes of one user, for there is no round 2. Nor can writes
    of one user be told from rounds where mutate calls are all that is seen: a PATCH that begins
    with a stale copy of the object is run again.
    """
    if len(mutates) != 2:  # noqa: PLR2004 - rounds 0 and 1
        return ()
    one, other = (_fields(mutate.object) for mutate in mutates)
    found = changes(one, other, keys)
    return tuple(change for change in found if not _is_repair(change))


def _is_repair(change: Change) -> bool:
    return change.key[-1] == "observedGeneration" and change.before is None


def _fields(reviewed: ReviewedObject | None) -> Fields:
    """The top-level fields, and of metadata the annotations alone."""
    if reviewed is None:
        return {}
    annotations = reviewed.metadata.annotations
    fields = {key: raw for key, raw in reviewed.fields.items() if key != _METADATA}
    if not isinstance(annotations, msgspec.UnsetType):
        fields[_METADATA] = msgspec.Raw(msgspec.json.encode({"annotations": annotations}))
    return fields


def _observed(fields: Fields) -> Observed:
    return read_observed(fields.get("status")) or NOTHING_OBSERVED


def _state(fields: Fields) -> int:
    return hash(tuple(digest(fields.get(key)) for key in sorted(fields.keys() - _UNCOMPARED)))


def _wanted(asked: Changes) -> int | None:
    leaves = [(one.key, one.after) for one in asked if not is_time(one)]
    return digest(repr(sorted(leaves, key=repr)).encode()) if leaves else None


class _Observes(msgspec.Struct, rename="camel"):
    observed_generation: Any = None


_observes_decoder: Final = msgspec.json.Decoder(_Observes | None)


def _observes(fields: Fields) -> bool:
    raw = fields.get("status")
    try:
        found = None if raw is None else _observes_decoder.decode(raw)
    except msgspec.ValidationError:
        return False
    return found is not None and found.observed_generation is not None


class _Options(msgspec.Struct, rename="camel"):
    field_manager: str = ""


_options_decoder: Final = msgspec.json.Decoder(_Options | None)
_labels_decoder: Final = msgspec.json.Decoder(dict[str, str] | None)


def _options(request: AdmissionRequest) -> _Options:
    raw = request.wire.options
    return (_options_decoder.decode(raw) if bytes(raw) else None) or _Options()


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
