"""A review as an observation.

A review is reduced as soon as it comes in: afterwards the objects are not needed. A phase that
shows the same as an earlier phase of its write is not compared again.
"""

import zlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from genguard.admission.review import AdmissionRequest, JoinKey, Operation, Phase, ReviewedObject
from genguard.detection.diff import Diff, compare, digests
from genguard.detection.metadata import compare_metadata, created_metadata
from genguard.detection.mutators import Mutators
from genguard.detection.observation import VERSION, Observation
from genguard.detection.values import NO_DIGEST, Digest, Shows, as_digest, digest_of
from genguard.detection.write import NODE_USER, PODS
from genguard.generation.custom import StatusSubresource
from genguard.generation.prediction import Prediction
from genguard.objects.fields import Fields
from genguard.objects.metadata import read_owner_uid
from genguard.objects.observed import NOTHING_OBSERVED

_METADATA_COUNTS: Final = frozenset({("apps", "deployments")})
"""Annotations count as spec does (pkg/registry/apps/deployment/strategy.go:PrepareForUpdate)."""


class Reviewed(NamedTuple):
    """A request with what the engine made of it."""

    request: AdmissionRequest
    prediction: Prediction
    status: StatusSubresource


def reduce(
    phase: Phase,
    reviewed: Reviewed,
    now: float,
    earlier: Sequence[Observation],
    mutators: Mutators,
    *,
    key: JoinKey,
    shows: Shows,
    is_last: bool,
    compares: bool,
    was_refused: bool,
) -> Observation | None:
    """Make the observation of a review; `now` is seconds since the epoch.

    earlier      what is known of the write: the observations of its earlier phases, oldest first
    key          see AdmissionRequest.write_key
    shows        which values are kept
    is_last      no later phase of an update is awaited
    compares     the leaves of a creation are compared, and those of its metadata too where such a
                 one `was_refused`

    None for an outcome of an update of a version that is no longer stored: there is none.
    Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
    """
    request = reviewed.request
    old, new = request.old_object, request.object
    served_as, manager = request.wire.resource.version, request.wire.field_manager
    seen = Observation(VERSION, phase, now, key, served_as, manager, operation=request.operation)
    if new is None or request.operation is Operation.DELETE:
        assert old is not None  # noqa: S101 - see write_key
        is_over = old.metadata.deletion_timestamp is not None or is_finished(old.status)
        owner = read_owner_uid(old.metadata.owner_references)
        return msgspec.structs.replace(
            seen, is_over=is_over, likeness=_likeness(old, key), owner=owner
        )
    if old is None or request.operation is Operation.CREATE:
        how = {"compares": compares, "was_refused": was_refused}
        return _created(seen, request, new, earlier, mutators, **how)
    sent, stored = new.metadata.resource_version, old.metadata.resource_version
    if sent and stored and sent != stored:
        return None if phase is Phase.OUTCOME else seen.stale(sent)
    return _updated(
        seen, reviewed, old, new, earlier, mutators=mutators, shows=shows, is_last=is_last
    )


def _created(
    seen: Observation,
    request: AdmissionRequest,
    new: ReviewedObject,
    earlier: Sequence[Observation],
    mutators: Mutators,
    *,
    compares: bool,
    was_refused: bool,
) -> Observation:
    fields, key = _without_status(new.content), seen.key
    called, equal_unregistered = mutators.acting_in(seen.phase, request)
    is_intent = seen.phase is Phase.INTENT
    # An attempt before this one may be without leaves.
    known = [seen.compared_fields for seen in earlier if seen.compared_fields.changes]
    compared = compare({}, fields, known) if compares else Diff(*digests({}, fields))
    told = [seen.compared_metadata for seen in earlier if seen.compared_metadata is not None]
    # An attempt, or a phase, before this one may be without leaves, though it has metadata.
    reads = was_refused and (is_intent or all(diff.changes for diff in told if diff))
    metadata = created_metadata(new.metadata, told, reads=reads)
    attempt = compared.after
    if key.resource_version:
        attempt = NO_DIGEST  # what a controller makes after one template, whatever differs
    elif (key.group, key.resource) == PODS:
        # A Pod gets a volume with a random name (plugin/pkg/admission/serviceaccount).
        attempt = as_digest(len(new.spec or b""))
    return msgspec.structs.replace(
        seen,
        compared_fields=compared,
        compared_metadata=metadata,
        state=Diff(compared.after, compared.after),
        called=None if is_intent else called,
        unmet=mutators.unmet_in(request) if compares else None,
        policies=mutators.policies_in(request) if compares and is_intent else (),
        owner=read_owner_uid(new.metadata.owner_references),
        equal_unregistered=equal_unregistered,
        attempt=attempt,
        likeness=_likeness(new, key),
    )


def _updated(
    seen: Observation,
    reviewed: Reviewed,
    old: ReviewedObject,
    new: ReviewedObject,
    earlier: Sequence[Observation],
    *,
    mutators: Mutators,
    shows: Shows,
    is_last: bool,
) -> Observation:
    request, prediction, status = reviewed
    phase, (called, equal_unregistered) = seen.phase, mutators.acting_in(seen.phase, request)
    if phase is Phase.INTENT or (phase is Phase.MUTATE and Phase.INTENT in equal_unregistered):
        earlier = ()  # it begins a write, whatever else has its key
    stored, sent = _fields(request, old), _fields(request, new)
    fields = compare(stored, sent, [seen.compared_fields for seen in earlier], shows=shows)
    of_status = metadata = None
    if _may_take_status(reviewed, old, new):
        known = [seen.compared_status for seen in earlier if seen.compared_status is not None]
        of_status = compare(_status(old), _status(new), known, shows=shows)
    if request.subresource != "scale":  # a Scale has none of it
        known = [seen.compared_metadata for seen in earlier if seen.compared_metadata is not None]
        metadata = compare_metadata(old.metadata, new.metadata, known, shows=shows)
    parts = fields, of_status, metadata
    same = next((seen for seen in earlier if seen.parts == parts), None)
    new_parts: dict[str, Any] = {}
    if same is None:
        before = after = NOTHING_OBSERVED
        if of_status is not None:
            before, after = old.observed or NOTHING_OBSERVED, new.observed or NOTHING_OBSERVED
        new_parts = {
            "process": request.wire.user_info.process,
            "compared_fields": fields,
            "compared_status": of_status,
            "compared_metadata": metadata,
            "generation_before": old.metadata.stored_generation,
            "observed_before": before,
            "observed": before if before == after else after,
            "owner": read_owner_uid(old.metadata.owner_references),
            "gates": _gates_of_pod(seen.key, old),
        }
    asks = not earlier and (bool(fields) or of_status is not None or metadata is not None)
    return msgspec.structs.replace(
        same or seen,
        **new_parts,
        phase=phase,
        time=seen.time,
        status=status,
        state=_state(old, new, of_status) if is_last else None,
        generation=new.metadata.stored_generation,
        predicted=prediction.generation,
        called=None if phase is Phase.INTENT else called,
        unmet=mutators.unmet_in(request) if new_parts and phase is not Phase.OUTCOME else None,
        policies=mutators.policies_in(request) if asks else None,
        equal_unregistered=equal_unregistered,
    )


def _fields(request: AdmissionRequest, shown: ReviewedObject) -> Fields:
    """Return the fields that the server takes from a write, but for status."""
    of, subresource = request.wire.resource, request.subresource
    if subresource == "status":
        return {}
    if subresource == "scale":
        return {} if shown.spec is None else {"spec": shown.spec}
    fields, annotations = _without_status(shown.content), shown.metadata.annotations
    counts = (of.group, of.resource) in _METADATA_COUNTS and not subresource
    if counts and not isinstance(annotations, msgspec.UnsetType):
        fields["metadata"] = msgspec.Raw(msgspec.json.encode({"annotations": annotations}))
    return fields


def _may_take_status(reviewed: Reviewed, old: ReviewedObject, new: ReviewedObject) -> bool:
    """Whether the server takes status from a write, or may: else it is a stale copy."""
    subresource = reviewed.request.subresource
    if subresource in {"status", "scale"}:
        return subresource == "status"
    if old.status is None and new.status is None:
        return False
    is_unknown = reviewed.status is StatusSubresource.UNKNOWN and not subresource
    return is_unknown or reviewed.status is StatusSubresource.ABSENT


def _status(shown: ReviewedObject) -> Fields:
    return {} if shown.status is None else {"status": shown.status}


def _without_status(fields: Fields) -> Fields:
    return {key: raw for key, raw in fields.items() if key != "status"}


def _state(old: ReviewedObject, new: ReviewedObject, status: Diff | None) -> Diff:
    if status is None:
        return Diff(*digests(old.content, new.content))
    # A digest of all is the sum of its parts, and that of status is known already.
    before, after = digests(_without_status(old.content), _without_status(new.content))
    return Diff(before + status.before, after + status.after)


class _Gate(msgspec.Struct, rename="camel", gc=False):
    condition_type: str = ""


class _PodSpec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""
    readiness_gates: list[_Gate] | None = None


_MOST_GATES: Final = 64
"""No pod has nearly as many: nobody is told of one with more, and nothing of it is kept."""
_pod_spec_decoder: Final = msgspec.json.Decoder(_PodSpec | None)


def _gates_of_pod(key: JoinKey, old: ReviewedObject) -> tuple[Digest, ...] | None:
    """Return digests of the readiness gates of a bound pod; None where no other writes its status.

    The API server keeps a kubelet to the pods of its node (plugin/pkg/admission/noderestriction),
    and a simulated one writes those of many nodes: it is never somebody else. None of a malformed
    pod either: the API server stores none.
    """
    is_of_pod = (key.group, key.resource, key.subresource) == (*PODS, "status")
    if not is_of_pod or key.user.startswith(NODE_USER):
        return None
    try:
        spec = _pod_spec_decoder.decode(old.spec or b"null") or _PodSpec()
    except msgspec.ValidationError:
        return None
    gates = spec.readiness_gates or []
    if not spec.node_name or len(gates) > _MOST_GATES:
        return None
    return tuple(digest_of(gate.condition_type.encode()) for gate in gates)


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: tuple[_Condition, ...] | None = None


_status_decoder: Final = msgspec.json.Decoder(_Status | None)
_DONE: Final = frozenset({"Succeeded", "Failed", "Complete", "Completed"})
"""Phases, and conditions that are True, of what runs to an end: Pods, Jobs, workflows."""


def _likeness(shown: ReviewedObject, key: JoinKey) -> int:
    metadata = shown.metadata
    is_pod = (key.group, key.resource) == PODS
    parts = metadata.owner_references, metadata.labels if is_pod else msgspec.UNSET
    return zlib.crc32(b"".join(part for part in parts if not isinstance(part, msgspec.UnsetType)))


def is_finished(raw: msgspec.Raw | None) -> bool:
    """Return whether a status says that the work of the object is done."""
    try:
        status = _status_decoder.decode(raw or b"null") or _Status()
    except msgspec.ValidationError:
        return False  # a kind whose phase or conditions mean something else
    done = (
        condition.type in _DONE and condition.status == "True"
        for condition in status.conditions or ()
    )
    return status.phase in _DONE or any(done)
