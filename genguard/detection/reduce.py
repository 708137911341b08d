"""A review as a fact.

A review is reduced as soon as it comes in: afterwards the objects are not needed. A phase that
shows the same as an earlier phase of its write is not compared again.
"""

import zlib
from typing import Final, NamedTuple

import msgspec

from genguard.admission.review import (
    AdmissionRequest,
    JoinKey,
    Operation,
    Phase,
    ReviewedObject,
)
from genguard.detection.diff import Diff, compare, digests
from genguard.detection.fact import VERSION, Fact, States
from genguard.detection.metadata import compare_metadata
from genguard.detection.suspects import Suspects
from genguard.detection.values import (
    NO_DIGEST,
    Digest,
    Shows,
    added,
    as_digest,
    digest_of,
    shows_of,
)
from genguard.detection.write import NODE_USER, PODS, Acted, Called
from genguard.generation.custom import StatusSubresource
from genguard.generation.prediction import Prediction
from genguard.objects.fields import Fields
from genguard.objects.metadata import read_owner_uid
from genguard.objects.observed import NOTHING_OBSERVED

_METADATA: Final = "metadata"
_SCALE: Final = "scale"
_STATUS: Final = "status"
_METADATA_COUNTS: Final = frozenset({("apps", "deployments")})
"""Annotations count as spec does (pkg/registry/apps/deployment/strategy.go:PrepareForUpdate)."""


class Reviewed(NamedTuple):
    """A request with what the engine made of it."""

    request: AdmissionRequest
    prediction: Prediction
    status: StatusSubresource


class EarlierFacts(NamedTuple):
    """What is known of a write before this review of it.

    facts           of its earlier phases, oldest first
    awaits_outcome  outcomes of this resource are seen, so that a mutate call is not the last phase
    was_refused     such a creation was, so that its leaves are compared
    """

    facts: tuple[Fact, ...] = ()
    awaits_outcome: bool = False
    was_refused: bool = False


def stale_fact(
    phase: Phase, key: JoinKey, now: float, version: str, *, served_as: str, manager: str
) -> Fact:
    """Return the fact of an update that names `version`, which is no longer stored.

    It is refused after mutating admission.
    """
    attempt = digest_of(version.encode(errors="replace"))
    return Fact(VERSION, phase, now, key, served_as, manager, attempt=attempt, is_stale=True)


def reduce(
    phase: Phase,
    reviewed: Reviewed,
    now: float,
    known: EarlierFacts,
    suspects: Suspects,
    *,
    key: JoinKey,
    shows: Shows,
) -> Fact | None:
    """Make the fact of a review that has this key, see AdmissionRequest.write_key; `now` is seconds since the epoch.

    `shows`: which values are kept, where those of the resource may be shown at all.
    None for an outcome of an update of a version that is no longer stored: there is none.
    Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
    """
    request = reviewed.request
    old, new = request.old_object, request.object
    served_as, manager = request.wire.resource.version, request.wire.field_manager
    fact = Fact(VERSION, phase, now, key, served_as, manager, operation=request.operation)
    if new is None or request.operation is Operation.DELETE:
        assert old is not None  # noqa: S101 - see write_key
        is_over = old.metadata.deletion_timestamp is not None or is_finished(old.status)
        return msgspec.structs.replace(fact, is_over=is_over, likeness=_likeness(old, key))
    if old is None or request.operation is Operation.CREATE:
        return _created(fact, request, new, known, suspects)
    sent, stored = new.metadata.resource_version, old.metadata.resource_version
    if sent and stored and sent != stored:
        stale = stale_fact(phase, key, now, sent, served_as=served_as, manager=manager)
        return None if phase is Phase.OUTCOME else stale
    return _updated(fact, reviewed, known, suspects, _taken(reviewed, old, new, shows))


def _created(
    fact: Fact,
    request: AdmissionRequest,
    new: ReviewedObject,
    known: EarlierFacts,
    suspects: Suspects,
) -> Fact:
    fields, key = _without_status(new.content), fact.key
    acting = suspects.acting_in(fact.phase, request)
    called: Called | None = None
    policies: tuple[Acted, ...] = ()
    if not known.was_refused:
        compared = Diff(*digests({}, fields))
    else:
        compared = compare({}, fields)
        if fact.phase is Phase.INTENT:
            policies = suspects.policies_in(request)
        else:
            called = acting.called
    attempt = compared.after
    if key.resource_version:
        attempt = NO_DIGEST  # what a controller makes after one template, whatever differs
    elif (key.group, key.resource) == PODS:
        # A Pod gets a volume with a random name (plugin/pkg/admission/serviceaccount).
        attempt = as_digest(len(new.spec or b""))
    return msgspec.structs.replace(
        fact,
        compared=compared,
        states=States(compared.after, compared.after),
        called=called,
        policies=policies,
        owner=key.resource_version,
        implied=acting.implied_before(fact.phase),
        attempt=attempt,
        likeness=_likeness(new, key),
    )


def _updated(
    fact: Fact, reviewed: Reviewed, known: EarlierFacts, suspects: Suspects, taken: "_Taken"
) -> Fact:
    request, prediction, status = reviewed
    phase, old, new, shows = fact.phase, taken.old, taken.new, taken.shows
    acting = suspects.acting_in(phase, request)
    implied = acting.implied_before(phase)
    facts = known.facts
    if phase is Phase.INTENT or (phase is Phase.MUTATE and Phase.INTENT in implied):
        facts = ()  # it begins a write, whatever else has its key
    of_status = metadata = None
    compared = compare(taken.stored, taken.sent, [one.compared for one in facts], shows=shows)
    if taken.old_status is not None and taken.new_status is not None:
        of_status = compare(taken.old_status, taken.new_status, shows=shows)
    if request.subresource != _SCALE:  # a Scale has none of it
        earlier = [one.compared_metadata for one in facts]
        metadata = compare_metadata(old.metadata, new.metadata, earlier=earlier, shows=shows)
    may_take_status = taken.writes_status or of_status is not None
    is_last = phase is Phase.OUTCOME or (phase is Phase.MUTATE and not known.awaits_outcome)
    parts = compared, of_status, metadata
    same = next((one for one in facts if one.parts == parts), None)
    is_new = same is None
    if same is None:
        asks = bool(compared) or may_take_status or metadata is not None
        before = after = NOTHING_OBSERVED
        if may_take_status:
            before, after = old.observed or NOTHING_OBSERVED, new.observed or NOTHING_OBSERVED
        same = msgspec.structs.replace(
            fact,
            process=request.wire.user_info.process,
            compared=compared,
            compared_status=of_status,
            compared_metadata=metadata,
            touches_status=may_take_status and old.status != new.status,
            touches_more=request.subresource != _STATUS
            and _without_status(taken.stored) != _without_status(taken.sent),
            generation_before=old.metadata.stored_generation,
            observed_before=before,
            observed=before if before == after else after,
            policies=suspects.policies_in(request) if asks and not facts else None,
            owner=read_owner_uid(old.metadata.owner_references),
            gates=_gates_of_pod(request),
        )
    # Whom to blame for what others changed must be known even if its outcome never comes.
    is_asked = is_last or (is_new and phase is Phase.MUTATE)
    return msgspec.structs.replace(
        same,
        phase=phase,
        time=fact.time,
        status=status,
        writes_status=taken.writes_status,
        states=_states(request.subresource, old, new, compared) if is_last else None,
        generation=new.metadata.stored_generation,
        predicted=prediction.generation,
        called=acting.called if is_asked else same.called,
        unmet=suspects.unmet_in(request) if is_new and phase is not Phase.OUTCOME else None,
        policies=same.policies if is_new else None,
        implied=implied,
    )


class _Gate(msgspec.Struct, rename="camel", gc=False):
    condition_type: str = ""


class _PodSpec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""
    readiness_gates: list[_Gate] | None = None


_MOST_GATES: Final = 64
"""No pod has nearly as many: nobody is told of one with more, and nothing of it is kept."""
_pod_spec_decoder: Final = msgspec.json.Decoder(_PodSpec | None)


def _gates_of_pod(request: AdmissionRequest) -> tuple[Digest, ...] | None:
    """Return digests of the readiness gates of a bound pod; None where no other writes its status.

    The API server keeps a kubelet to the pods of its node (plugin/pkg/admission/noderestriction),
    and a simulated one writes those of many nodes: it is never somebody else. None of a malformed
    pod either: the API server stores none.
    """
    wire, old = request.wire, request.old_object
    if wire.sub_resource != "status" or wire.resource.resource != "pods" or wire.resource.group:
        return None
    if old is None or old.spec is None or wire.user_info.username.startswith(NODE_USER):
        return None
    try:
        spec = _pod_spec_decoder.decode(old.spec) or _PodSpec()
    except msgspec.ValidationError:
        return None
    gates = spec.readiness_gates or []
    if not spec.node_name or len(gates) > _MOST_GATES:
        return None
    return tuple(digest_of(one.condition_type.encode()) for one in gates)


class _Taken(NamedTuple):
    """The fields that the server takes from a write, as stored and as sent.

    shows                   which values are kept
    old_status, new_status  of a custom resource that nobody has described: perhaps taken as well
    """

    old: ReviewedObject
    new: ReviewedObject
    shows: Shows
    stored: Fields
    sent: Fields
    writes_status: bool
    old_status: Fields | None = None
    new_status: Fields | None = None


def _taken(reviewed: Reviewed, old: ReviewedObject, new: ReviewedObject, shows: Shows) -> _Taken:
    wire = reviewed.request.wire
    group, resource = wire.resource.group, wire.resource.resource
    both = old, new, shows_of(group, resource, shows)
    if wire.sub_resource == _STATUS:
        return _Taken(
            *both, _only(_STATUS, old.status), _only(_STATUS, new.status), writes_status=True
        )
    if wire.sub_resource == _SCALE:
        return _Taken(*both, _only("spec", old.spec), _only("spec", new.spec), writes_status=False)
    stored, sent = old.content, new.content
    has_status = _STATUS in stored or _STATUS in sent
    takes_status = has_status and reviewed.status is StatusSubresource.ABSENT
    old_status = new_status = None
    if has_status and not takes_status:
        # What stands in the object is the client's stale copy.
        stored, sent = _without_status(stored), _without_status(sent)
        if reviewed.status is StatusSubresource.UNKNOWN and not wire.sub_resource:
            old_status, new_status = _only(_STATUS, old.status), _only(_STATUS, new.status)
    if (group, resource) in _METADATA_COUNTS and not wire.sub_resource:
        stored, sent = _with_annotations(old, stored), _with_annotations(new, sent)
    return _Taken(*both, stored, sent, takes_status, old_status, new_status)


def _only(key: str, raw: msgspec.Raw | None) -> Fields:
    return {} if raw is None else {key: raw}


def _without_status(fields: Fields) -> Fields:
    return {key: raw for key, raw in fields.items() if key != _STATUS}


def _with_annotations(reviewed: ReviewedObject, fields: Fields) -> Fields:
    annotations = reviewed.metadata.annotations
    if isinstance(annotations, msgspec.UnsetType):
        return fields
    raw = msgspec.Raw(msgspec.json.encode({"annotations": annotations}))
    return {**fields, _METADATA: raw}


def _states(subresource: str, old: ReviewedObject, new: ReviewedObject, compared: Diff) -> States:
    if subresource != _STATUS:
        return States(*digests(old.content, new.content))
    # A digest of all is the sum of its parts, and of status there is one already.
    before, after = digests(_without_status(old.content), _without_status(new.content))
    return States(added(before, compared.before), added(after, compared.after))


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
    found = 0
    for one in parts:
        if not isinstance(one, msgspec.UnsetType):
            found = zlib.crc32(one, found)
    return found


def is_finished(raw: msgspec.Raw | None) -> bool:
    """Return whether a status says that the work of the object is done."""
    try:
        status = None if raw is None else _status_decoder.decode(raw)
    except msgspec.ValidationError:
        return False  # a kind whose phase or conditions mean something else
    if status is None:
        return False
    conditions = status.conditions or ()
    return status.phase in _DONE or any(
        one.type in _DONE and one.status == "True" for one in conditions
    )
