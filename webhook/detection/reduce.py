"""Makes a Fact of one review, where it came in: afterwards the objects are not needed.

Pure. Of each review digests are made. Leaves are compared at once, and only where the caller asks
for a close look or where a phase shows something else than the phase before. A phase that shows the
same as the one before is not compared again.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from webhook.admission.join import JoinKey
from webhook.admission.review import (
    NO_RAW,
    AdmissionRequest,
    Operation,
    Phase,
    ReviewedObject,
)
from webhook.detection.changes import Part, differing, leaves_of
from webhook.detection.diff import NO_DIFF, NOT_COMPARED, Compared, Diff, diff_of, digests
from webhook.detection.fact import VERSION, Fact, States
from webhook.detection.suspects import Suspects
from webhook.generation.custom import StatusSubresource
from webhook.generation.prediction import Prediction
from webhook.objects.fields import Fields
from webhook.objects.observed import NOTHING_OBSERVED

_METADATA: Final = "metadata"
_STATUS: Final = "status"
_NOT_STATUS: Final = frozenset({_STATUS})
_METADATA_COUNTS: Final = frozenset({("apps", "deployments")})
"""Annotations count as spec does (pkg/registry/apps/deployment/strategy.go:PrepareForUpdate)."""
MOST_BYTES_OF_BODIES: Final = 8 * 1024 * 1024
_BYTES_OF_BODY: Final = 1_000
_LONGEST_MANAGER: Final = 128
"""As the API server has it (apimachinery pkg/apis/meta/v1/validation: FieldManagerMaxLength)."""


class Reviewed(NamedTuple):
    """A request with what the engine made of it."""

    request: AdmissionRequest
    prediction: Prediction
    status: StatusSubresource


class Known(NamedTuple):
    """What is known of a write before this review of it.

    facts           of its earlier phases, oldest first
    awaits_outcome  outcomes of this resource are seen, so that a mutate call is not the last phase
    """

    facts: tuple[Fact, ...]
    awaits_outcome: bool


NOTHING_KNOWN: Final = Known((), awaits_outcome=False)

CloseLook = Callable[[int, int], Diff | None]
"""Asked with the digests before and after: the leaves where they are known already, NOT_COMPARED
where they should be compared, None where the write is not suspicious."""


class Body(NamedTuple):
    """The raw fields that differ in one phase, with their digests."""

    before: int
    after: int
    parts: tuple[Part, ...]

    def compare(self) -> Compared:
        """Compare them leaf by leaf. Raises msgspec.MsgspecError and RecursionError."""
        diff = diff_of(leaves_of(self.parts), differs=bool(self.parts))
        return Compared(self.before, self.after, diff)

    def pass_over(self) -> Compared:
        """Say that they differ, and not where."""
        return Compared(self.before, self.after, NOT_COMPARED if self.parts else NO_DIFF)

    def copy(self) -> "Body":
        """Copy them out of the review: what is raw keeps all of it in memory."""
        return self._replace(
            parts=tuple(
                (key, None if one is None else bytes(one), None if other is None else bytes(other))
                for key, one, other in self.parts
            )
        )


class Bodies:
    """The bodies of earlier phases of writes under way, within a number of bytes.

    A webhook's change is seen when /mutate shows something else than /intent did: then both are
    compared, and the body of the intent is needed once more. The oldest writes go first.
    """

    def __init__(self, most_bytes: int = MOST_BYTES_OF_BODIES) -> None:
        self._of: Final[OrderedDict[JoinKey, list[tuple[Body, Body | None, int]]]] = OrderedDict()
        self._most_bytes: Final = most_bytes
        self.bytes = 0

    def put(self, key: JoinKey, body: Body, status: Body | None) -> None:
        """Keep what one more phase of a write has shown."""
        size = _BYTES_OF_BODY + _size(body) + (_size(status) if status else 0)
        self._of.setdefault(key, []).append((body, status, size))
        self.bytes += size
        while self.bytes > self._most_bytes:
            self.drop(next(iter(self._of)))

    def of(self, key: JoinKey) -> list[tuple[Body, Body | None]]:
        """Return those of one write, the earliest phase first."""
        return [(body, status) for body, status, _ in self._of.get(key, ())]

    def drop(self, key: JoinKey) -> None:
        """Forget a write."""
        self.bytes -= sum([size for _, _, size in self._of.pop(key, ())])


def _size(body: Body) -> int:
    return sum([len(one or b"") + len(other or b"") for _, one, other in body.parts])


def is_reduced(request: AdmissionRequest) -> bool:
    """Updates of the object itself that the server would take, and no dry runs."""
    new, old = request.object, request.old_object
    if new is None or old is None or request.operation is not Operation.UPDATE:
        return False
    if request.wire.dry_run:
        return False
    sent, stored = new.metadata.resource_version, old.metadata.resource_version
    # A PUT on an older version than is stored is refused after mutating admission.
    return not (sent and stored and sent != stored)


def reduce(
    phase: Phase,
    reviewed: Reviewed,
    now: float,
    known: Known,
    suspects: Suspects,
    *,
    bodies: Bodies,
    close_look: CloseLook,
) -> Fact:
    """Make the fact of a review of which `is_reduced` is true; `now` is seconds since the epoch.

    Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
    """
    request, prediction, status = reviewed
    old, new, key = request.old_object, request.object, request.join_key
    assert old is not None  # noqa: S101 - see is_reduced
    assert new is not None  # noqa: S101
    assert key is not None  # noqa: S101
    facts = known.facts
    taken = _taken(reviewed, old, new)
    compared, of_status, earlier = _compare(
        phase, key, taken, facts, bodies=bodies, close_look=close_look
    )
    is_last = phase is Phase.OUTCOME or (phase is Phase.MUTATE and not known.awaits_outcome)
    states = _states(request.subresource, old, new, compared) if is_last else None
    for one in facts:
        if one.compared is compared and one.compared_status == of_status:
            return msgspec.structs.replace(
                one,
                phase=phase,
                time=now,
                status=status,
                writes_status=taken.writes_status,
                earlier=(),
                earlier_status=(),
                states=states,
                generation=new.metadata.stored_generation,
                predicted=prediction.generation,
                called=suspects.called_in(request) if is_last else one.called,
                unmet=None,
                policies=None,
            )
    # Others changed it: whom to blame must be known even if its outcome goes to another replica.
    is_changed = phase is Phase.MUTATE and bool(facts)
    before = after = NOTHING_OBSERVED
    observes = False
    if taken.writes_status or of_status is not None:
        before, after = old.observed or NOTHING_OBSERVED, new.observed or NOTHING_OBSERVED
        if before == after:
            after = before
        observes = after.own is not None or _observes(new.status)
    asks = compared.diff.differs or of_status is not None or taken.writes_status
    touches_status = (taken.writes_status or of_status is not None) and old.status != new.status
    return Fact(
        version=VERSION,
        phase=phase,
        time=now,
        key=key,
        served_as=request.wire.resource.version,
        manager=_manager(request),
        status=status,
        writes_status=taken.writes_status,
        compared=compared,
        compared_status=of_status,
        earlier=tuple(one for one, _ in earlier),
        earlier_status=tuple(one for _, one in earlier if one is not None),
        touches_status=touches_status,
        touches_more=_touches_more(taken, request.subresource),
        states=states,
        generation_before=old.metadata.stored_generation,
        generation=new.metadata.stored_generation,
        predicted=prediction.generation,
        observed_before=before,
        observed=after,
        observes=observes,
        called=suspects.called_in(request) if is_last or is_changed else None,
        unmet=None if phase is Phase.OUTCOME else suspects.unmet_in(request),
        policies=suspects.policies_in(request) if asks and not facts else None,
    )


class _Found(NamedTuple):
    """What a phase shows, and what earlier phases have shown that is compared only now."""

    compared: Compared
    of_status: Compared | None
    earlier: tuple[tuple[Compared, Compared | None], ...] = ()


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
    if wire.sub_resource == "scale":
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
    return States(before + compared.before, after + compared.after)


def _compare(
    phase: Phase,
    key: JoinKey,
    taken: _Taken,
    facts: tuple[Fact, ...],
    *,
    bodies: Bodies,
    close_look: CloseLook,
) -> _Found:
    body, status = _body(taken.stored, taken.sent), None
    if taken.old_status is not None and taken.new_status is not None:
        status = _body(taken.old_status, taken.new_status)
    held = bodies.of(key) if facts else []
    if phase is not Phase.MUTATE:
        bodies.drop(key)  # a write begins, or ends
    for one in facts:
        if _shows(one, body, status):
            return _Found(one.compared, one.compared_status)
    # What the server changes after all webhooks is of no interest to a detector.
    is_changed = bool(facts) and (
        phase is Phase.MUTATE or all(one.phase is Phase.INTENT for one in facts)
    )
    if is_changed or any(one.compared.diff.changes or one.earlier for one in facts):
        bodies.drop(key)
        earlier = [(one.compare(), other and other.compare()) for one, other in held]
        return _Found(body.compare(), status and status.compare(), tuple(earlier))
    known = close_look(body.before, body.after) if body.parts else None
    if known is not None:
        compared = Compared(body.before, body.after, known)
        return _Found(
            compared if known.is_compared else body.compare(), status and status.compare()
        )
    if phase is not Phase.OUTCOME and (body.parts or (status and status.parts)):
        bodies.put(key, body.copy(), status and status.copy())
    return _Found(body.pass_over(), status and status.pass_over())


def _body(stored: Fields, sent: Fields) -> Body:
    before, after = digests(stored, sent)
    if before == after:
        return Body(before, after, ())
    keys = [*stored, *(key for key in sent if key not in stored)]
    return Body(before, after, tuple(differing(stored, sent, keys)))


def _shows(fact: Fact, body: Body, status: Body | None) -> bool:
    """Whether a fact of the same write shows these bytes."""
    one, other = fact.compared, fact.compared_status
    if (one.before, one.after) != (body.before, body.after):
        return False
    if status is None or other is None:
        return status is None and other is None
    return (other.before, other.after) == (status.before, status.after)


class _Observes(msgspec.Struct, rename="camel"):
    observed_generation: Any = None


class _Options(msgspec.Struct, rename="camel"):
    field_manager: str = ""


_observes_decoder: Final = msgspec.json.Decoder(_Observes | None)
_options_decoder: Final = msgspec.json.Decoder(_Options | None)


def _observes(raw: msgspec.Raw | None) -> bool:
    try:
        found = None if raw is None else _observes_decoder.decode(raw)
    except msgspec.ValidationError:
        return False
    return found is not None and found.observed_generation is not None


def _manager(request: AdmissionRequest) -> str:
    raw = request.wire.options
    options = None if raw is NO_RAW else _options_decoder.decode(raw)
    return options.field_manager[:_LONGEST_MANAGER] if options else ""
