"""From the joined reviews of one write to the Write that detectors see."""

import zlib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from webhook.admission.review import AdmissionRequest, ReviewedObject
from webhook.detection.changes import Change, Changes, changes
from webhook.detection.observed_views import observed_in, viewed
from webhook.detection.write import Matched, ObjectKey, Requester, Write
from webhook.generation.custom import StatusSubresource
from webhook.generation.prediction import Prediction
from webhook.objects.fields import Fields

_METADATA: Final = "metadata"
_UNCOMPARED: Final = frozenset({_METADATA, "kind", "apiVersion"})
_DIGESTS: Final = 2**32
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
    first = mutates[0] if mutates else None
    asked, sent = _picked(intent, keys), _picked(first, keys)
    if _METADATA in keys:
        old, new = _with_annotations(request.old_object), _with_annotations(request.object)
    result = changes(old, new, keys)
    asked_for = None if asked is None else _changes_again(old, asked, keys, new, result)
    states = _states(old, new)
    observed = observed_in(request, intent, first)
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
        asked=asked_for,
        others=None if asked is None or sent is None else changes(asked, sent, keys),
        again=_again(mutates, keys) if intent is not None or has_outcome else (),
        result=result,
        wanted=_wanted(result if asked_for is None else asked_for),
        state_before=states[0],
        state_after=states[1],
        has_outcome=has_outcome,
        generation_before=metadata.stored_generation if metadata else 0,
        # Before the strategy has run an object still shows the generation that it comes from.
        generation_after=now_at if has_outcome or predicted is None else predicted,
        generation_predicted=predicted if has_outcome else None,
        observed_before=observed.before,
        observed_asked=observed.asked,
        observed_sent=observed.sent,
        observed_after=observed.after,
        observes=observed.anywhere,
    )


def stored_fields_differ(one: AdmissionRequest, other: AdmissionRequest) -> bool:
    """Whether two requests would store something else, metadata aside."""
    a, b = _fields(one.object), _fields(other.object)
    return not _alike(a, b, (a.keys() | b.keys()) - _UNCOMPARED)


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
    read = _with_annotations if _METADATA in keys else _fields
    one, other = (read(mutate.object) for mutate in mutates)
    found = changes(one, other, keys)
    return tuple(change for change in found if not _is_repair(change))


def _is_repair(change: Change) -> bool:
    return change.key[-1] == "observedGeneration" and change.before is None


def _fields(reviewed: ReviewedObject | None) -> Fields:
    return {} if reviewed is None else reviewed.fields


def _picked(request: AdmissionRequest | None, keys: Sequence[str]) -> Fields | None:
    """These fields of what a request would store, without looking for the others."""
    if request is None:
        return None
    if _METADATA in keys:
        return _with_annotations(request.object)
    found = ((key, viewed(request).get(key)) for key in keys)
    return {key: raw for key, raw in found if raw is not None}


def _with_annotations(reviewed: ReviewedObject | None) -> Fields:
    """The top-level fields, and of metadata the annotations alone."""
    if reviewed is None:
        return {}
    annotations = reviewed.metadata.annotations
    fields = {key: raw for key, raw in reviewed.fields.items() if key != _METADATA}
    if not isinstance(annotations, msgspec.UnsetType):
        fields[_METADATA] = msgspec.Raw(msgspec.json.encode({"annotations": annotations}))
    return fields


def _alike(one: Fields, other: Fields, keys: Iterable[str]) -> bool:
    """Equal to the byte, as the API server writes one object twice."""
    return all(one.get(key) == other.get(key) for key in keys)


def _changes_again(
    old: Fields, asked: Fields, keys: Sequence[str], new: Fields, result: Changes
) -> Changes:
    """What was asked: most often what came of it, and then one value in memory too."""
    if _alike(asked, new, keys):
        return result
    found = changes(old, asked, keys)
    return result if found == result else found


def _states(old: Fields, new: Fields) -> tuple[int, int]:
    """Digests of all that is stored, before and after; metadata is not meant."""
    before = after = 0
    for key in (old.keys() | new.keys()) - _UNCOMPARED:
        seed, one, other = zlib.crc32(key.encode()), old.get(key), new.get(key)
        part = 0 if one is None else zlib.crc32(one, seed)
        before += part
        if one != other:
            part = 0 if other is None else zlib.crc32(other, seed)
        after += part
    return before, after


def _wanted(asked: Changes) -> int | None:
    """The same for the same leaves in any order."""
    parts = [one.salt * (1 if one.after is None else one.after) for one in asked if one.salt]
    return sum(parts) % _DIGESTS if parts else None


class _Options(msgspec.Struct, rename="camel"):
    field_manager: str = ""


_options_decoder: Final = msgspec.json.Decoder(_Options | None)
_labels_decoder: Final = msgspec.json.Decoder(dict[str, str] | None)


def _options(request: AdmissionRequest) -> _Options:
    raw = request.wire.options
    return (_options_decoder.decode(raw) if bytes(raw) else None) or _Options()


def _labels(raw: msgspec.Raw | msgspec.UnsetType) -> dict[str, str]:
    return {} if isinstance(raw, msgspec.UnsetType) else _labels_decoder.decode(raw) or {}


def _matched(request: AdmissionRequest) -> Matched:
    wire = request.wire
    raw, old_raw = (
        msgspec.UNSET if one is None else one.metadata.labels
        for one in (request.object, request.old_object)
    )
    labels = _labels(raw)
    return Matched(
        group=wire.resource.group,
        version=wire.resource.version,
        resource=wire.resource.resource,
        subresource=wire.sub_resource,
        operation=wire.operation.value,
        namespace=wire.namespace,
        name=wire.name,
        labels=labels,
        old_labels=labels if old_raw == raw else _labels(old_raw),
        user=wire.user_info.username,
    )
