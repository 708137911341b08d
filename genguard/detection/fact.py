"""A fact: one review as a small record of numbers, digests and names, which replicas share.

It says what one phase of a write shows, compared with what is stored. It holds no value of an
object, nor of a label or an annotation, so a shared store may keep it. Which webhooks and policies
can have acted depends on content: the replica that has the review finds it out.

A review is reduced as soon as it comes in: afterwards the objects are not needed. A phase that
shows the same as an earlier phase of its write is not compared again.
"""

from functools import lru_cache
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from genguard.admission.review import (
    NO_RAW,
    AdmissionRequest,
    JoinKey,
    Operation,
    Phase,
    ReviewedObject,
)
from genguard.detection.changes import weight_of
from genguard.detection.diff import Compared, compare, digests
from genguard.detection.metadata import compare_metadata
from genguard.detection.suspects import Suspects
from genguard.detection.values import Digest, Shows, added, digest_of, shows_of
from genguard.detection.write import BYTES_OF_RECORD, NODE_USER, Acted, Called, ObjectKey, Requester
from genguard.generation.custom import StatusSubresource
from genguard.generation.prediction import Prediction
from genguard.objects.fields import Fields
from genguard.objects.metadata import read_owner_uid
from genguard.objects.observed import NOTHING_OBSERVED, Observed

VERSION: Final = 8
"""Of the encoding: another number is another shape or another meaning."""

_MOST_REQUESTERS: Final = 1_000
_LONGEST_EXTRA: Final = 4_096
USER_AGENT: Final = "genguard.io/user-agent"
Seconds = Annotated[float, msgspec.Meta(ge=0, lt=253_402_300_800)]
"""Since the epoch, up to the year 9999."""


class UnreadableFactError(ValueError):
    """Bytes that are no fact of this version; nothing of them is repeated."""


class States(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Digests of all that is stored, before and after; metadata is not meant."""

    before: Digest
    after: Digest


class Fact(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one phase of one update shows.

    key              which write this is a phase of
    served_as        the version of the API in which the object is shown
    manager          the field manager of the write
    process          which process of the user sent it: see Requester
    status           what is known of the status of a custom resource
    writes_status    status is among the fields that the server takes, and there is one
    compared         the fields that the server takes from this write
    compared_status  of a custom resource that nobody has described: its outcome tells whether
                     status is taken
    touches_status   whether status differs, and is taken or may be; touches_more: whether any
    touches_more     other field that is taken differs
    states           None where an outcome is awaited, which tells them
    generation, generation_before   as the review shows them, 0 where there is none
    predicted        see Prediction.generation
    observed, observed_before   nothing of a write that takes no status
    observes         whether the status has an observedGeneration at all, be it 0
    called           None where `states` are
    unmet            of those called, the webhooks whose matchConditions are not met by what is
                     shown here; none where that was not asked, None where the fact shows the same
                     as an earlier one, or comes too late
    policies         those that may have acted; None where an earlier phase has told
    compared_metadata  labels, annotations, finalizers and owners; None where all are as stored
    owner            the uid of the controller that owns the stored object, "" where none does
    gates            digests of the readiness gates of a bound pod whose status is written, for
                     their names are contents; None of others
    implied          phases before this one that are not registered, and would show the same
    """

    version: Literal[8]
    phase: Phase
    time: Seconds
    key: JoinKey
    served_as: str
    manager: str
    status: StatusSubresource
    writes_status: bool
    compared: Compared
    compared_status: Compared | None
    touches_status: bool
    touches_more: bool
    states: States | None
    generation_before: int
    generation: int
    predicted: int | None
    observed_before: Observed
    observed: Observed
    observes: bool
    called: Called | None
    unmet: tuple[str, ...] | None
    policies: tuple[Acted, ...] | None
    compared_metadata: Compared | None
    owner: str = ""
    gates: tuple[Digest, ...] | None = None
    process: str = ""
    implied: tuple[Phase, ...] = ()

    @property
    def leaves(self) -> int:
        """Return how many leaves it counts as in the bounds."""
        parts = (self.compared, self.compared_status, self.compared_metadata)
        leaves = sum([weight_of(one.diff.changes) for one in parts if one is not None])
        return leaves + (self.observed.size + self.observed_before.size) // BYTES_OF_RECORD

    def shows_same_as(self, other: "Fact") -> bool:
        """Whether two phases of one write show the same fields and the same metadata."""
        if not self.compared.same_as(other.compared):
            return False
        mine, theirs = self.compared_metadata, other.compared_metadata
        if mine is None or theirs is None:
            return mine is theirs
        return mine.same_as(theirs)

    @property
    def object(self) -> ObjectKey:
        """Return the object that is written."""
        key = self.key
        return ObjectKey(key.group, self.served_as, key.resource, key.namespace, key.name, key.uid)

    @property
    def requester(self) -> Requester:
        """Return who writes it."""
        return _requester(self.key.user, self.manager, self.process)


class _Options(msgspec.Struct, rename="camel"):
    field_manager: str = ""


_options: Final = msgspec.json.Decoder(_Options | None)
_LONGEST_MANAGER: Final = 128
"""As the API server has it (apimachinery pkg/apis/meta/v1/validation: FieldManagerMaxLength)."""


def manager_of(request: AdmissionRequest) -> str:
    """Return the field manager of a request, "" where none is told.

    Raises msgspec.MsgspecError for options that are none.
    """
    raw = request.wire.options
    options = None if raw is NO_RAW else _options.decode(raw)
    return options.field_manager[:_LONGEST_MANAGER] if options else ""


_EXTRA: Final = "authentication.kubernetes.io/"
_PROCESS: Final = (f"{_EXTRA}pod-name", f"{_EXTRA}credential-id", USER_AGENT)
"""Keys of `userInfo.extra` that say which process it is, the best first (apiserver
pkg/authentication/serviceaccount/util.go:PodNameKey, pkg/authentication/user/user.go:
CredentialIDKey). The user agent is a key of genguard, for reviews made of an audit log."""
_extra_decoder: Final = msgspec.json.Decoder(dict[str, tuple[str, ...]] | None)
_LONGEST_PROCESS: Final = 253


@lru_cache(_MOST_REQUESTERS)
def _process_in(extra: bytes) -> str:
    try:
        found = _extra_decoder.decode(extra) or {}
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""  # of another shape than the API server writes
    values = (found[key][0] for key in _PROCESS if found.get(key))
    return next(values, "")[:_LONGEST_PROCESS]


def process_of(request: AdmissionRequest) -> str:
    """Return which process of its user sent a request, "" where that is not said."""
    raw = request.wire.user_info.extra
    return "" if raw is NO_RAW or len(raw) > _LONGEST_EXTRA else _process_in(bytes(raw))


_requester: Final = lru_cache(_MOST_REQUESTERS)(Requester)
"""Each once, for it is remembered with each of its writes."""
_encoder: Final = msgspec.msgpack.Encoder()


def encode_fact(fact: msgspec.Struct) -> bytes:
    """Encode a fact of any sort for other replicas: some hundred bytes where little changed."""
    return _encoder.encode(fact)


_METADATA: Final = "metadata"
_SCALE: Final = "scale"
_STATUS: Final = "status"
_NOT_STATUS: Final = frozenset({_STATUS})
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
    """

    facts: tuple[Fact, ...]
    awaits_outcome: bool


def is_reduced(request: AdmissionRequest) -> bool:
    """Updates of the object itself that the server would take, and no dry runs."""
    return _is_update(request) and not stale_version(request)


def stale_version(request: AdmissionRequest) -> str:
    """Return the version that an update names where another one is stored; "" for no such update.

    It is refused after mutating admission.
    """
    if not _is_update(request):
        return ""
    new, old = request.object, request.old_object
    sent = new.metadata.resource_version if new else None
    stored = old.metadata.resource_version if old else None
    return sent if sent and stored and sent != stored else ""


def _is_update(request: AdmissionRequest) -> bool:
    is_update = request.operation is Operation.UPDATE and not request.wire.dry_run
    return is_update and request.object is not None and request.old_object is not None


def reduce(
    phase: Phase,
    reviewed: Reviewed,
    now: float,
    known: EarlierFacts,
    suspects: Suspects,
    *,
    shows: Shows,
    implied: tuple[Phase, ...] = (),
) -> Fact:
    """Make the fact of a review of which `is_reduced` is true; `now` is seconds since the epoch.

    `shows`: which values are kept, where those of the resource may be shown at all. `implied` as
    in Fact.
    Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
    """
    request, prediction, status = reviewed
    old, new, key = request.old_object, request.object, request.join_key
    assert old is not None  # noqa: S101 - see is_reduced
    assert new is not None  # noqa: S101
    assert key is not None  # noqa: S101
    facts = known.facts
    shows = shows_of(key.group, key.resource, shows)
    taken, of_status = _taken(reviewed, old, new), None
    earlier = [one.compared for one in facts]
    compared = compare(taken.stored, taken.sent, earlier, shows=shows)
    if taken.old_status is not None and taken.new_status is not None:
        of_status = compare(taken.old_status, taken.new_status, shows=shows)
    metadata = None
    if request.subresource != _SCALE:  # a Scale has none of it
        metadata = compare_metadata(
            old.metadata,
            new.metadata,
            earlier=[one.compared_metadata for one in facts],
            shows=shows,
        )
    is_last = phase is Phase.OUTCOME or (phase is Phase.MUTATE and not known.awaits_outcome)
    states = _states(request.subresource, old, new, compared) if is_last else None
    for one in facts:
        if (
            one.compared is compared
            and one.compared_status == of_status
            and one.compared_metadata is metadata
        ):
            return msgspec.structs.replace(
                one,
                phase=phase,
                time=now,
                status=status,
                writes_status=taken.writes_status,
                states=states,
                generation=new.metadata.stored_generation,
                predicted=prediction.generation,
                called=suspects.called_in(request) if is_last else one.called,
                unmet=None,
                policies=None,
                implied=implied,
            )
    before = after = NOTHING_OBSERVED
    observes = False
    if taken.writes_status or of_status is not None:
        before, after = old.observed or NOTHING_OBSERVED, new.observed or NOTHING_OBSERVED
        if before == after:
            after = before
        observes = after.own is not None or _observes(new.status)
    asks = compared.diff.differs or of_status is not None or taken.writes_status
    asks = asks or metadata is not None
    touches_status = (taken.writes_status or of_status is not None) and old.status != new.status
    return Fact(
        version=VERSION,
        phase=phase,
        time=now,
        key=key,
        served_as=request.wire.resource.version,
        manager=manager_of(request),
        status=status,
        writes_status=taken.writes_status,
        compared=compared,
        compared_status=of_status,
        touches_status=touches_status,
        touches_more=_touches_more(taken, request.subresource),
        states=states,
        generation_before=old.metadata.stored_generation,
        generation=new.metadata.stored_generation,
        predicted=prediction.generation,
        observed_before=before,
        observed=after,
        observes=observes,
        # Whom to blame for what others changed must be known even if its outcome never comes.
        called=suspects.called_in(request) if is_last or phase is Phase.MUTATE else None,
        unmet=None if phase is Phase.OUTCOME else suspects.unmet_in(request),
        policies=suspects.policies_in(request) if asks and not facts else None,
        compared_metadata=metadata,
        owner=read_owner_uid(old.metadata.owner_references),
        gates=_gates_of_pod(request),
        process=process_of(request),
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

    old_status, new_status  of a custom resource that nobody has described: perhaps taken as well
    """

    stored: Fields
    sent: Fields
    writes_status: bool
    old_status: Fields | None = None
    new_status: Fields | None = None


def _taken(reviewed: Reviewed, old: ReviewedObject, new: ReviewedObject) -> _Taken:
    wire = reviewed.request.wire
    if wire.sub_resource == _STATUS:
        return _Taken(_only(_STATUS, old.status), _only(_STATUS, new.status), writes_status=True)
    if wire.sub_resource == _SCALE:
        return _Taken(_only("spec", old.spec), _only("spec", new.spec), writes_status=False)
    stored, sent = old.content, new.content
    has_status = _STATUS in stored or _STATUS in sent
    takes_status = has_status and reviewed.status is StatusSubresource.ABSENT
    old_status = new_status = None
    if has_status and not takes_status:
        # What stands in the object is the client's stale copy.
        stored, sent = _without_status(stored), _without_status(sent)
        if reviewed.status is StatusSubresource.UNKNOWN and not wire.sub_resource:
            old_status, new_status = _only(_STATUS, old.status), _only(_STATUS, new.status)
    if (wire.resource.group, wire.resource.resource) in _METADATA_COUNTS and not wire.sub_resource:
        stored, sent = _with_annotations(old, stored), _with_annotations(new, sent)
    return _Taken(stored, sent, takes_status, old_status, new_status)


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


def _touches_more(taken: _Taken, subresource: str) -> bool:
    if subresource == _STATUS:
        return False
    if not taken.writes_status:
        return taken.stored != taken.sent
    return _without_status(taken.stored) != _without_status(taken.sent)


def _states(
    subresource: str, old: ReviewedObject, new: ReviewedObject, compared: Compared
) -> States:
    if subresource != _STATUS:
        return States(*digests(old.content, new.content))
    # A digest of all is the sum of its parts, and of status there is one already.
    before, after = digests(old.content, new.content, _NOT_STATUS)
    return States(added(before, compared.before), added(after, compared.after))


class _Observes(msgspec.Struct, rename="camel"):
    observed_generation: Any = None


_observes_decoder: Final = msgspec.json.Decoder(_Observes | None)


def _observes(raw: msgspec.Raw | None) -> bool:
    try:
        found = None if raw is None else _observes_decoder.decode(raw)
    except msgspec.ValidationError:
        return False
    return found is not None and found.observed_generation is not None
