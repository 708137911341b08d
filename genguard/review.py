"""review(): an AdmissionReview in, the HTTP answer out, and what was learnt on the way.

    bytes ─decode→ AdmissionRequest ─rules→ Edits ─patch→ PatchOperations ─encode→ bytes

Pure and synchronous: server, replay, tests and fuzzers call this one function. It never raises
for what it is given; time and memory come in as arguments. A server that shares intents with other
replicas asks awaited_intent() first which of them it has to fetch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from genguard.admission import probe
from genguard.admission.decode import (
    InvalidFieldError,
    UndecodableReviewError,
    decode_envelope,
    decode_review,
)
from genguard.admission.encode import encode_allowed, encode_rejection
from genguard.admission.review import (
    AdmissionRequest,
    JoinKey,
    Operation,
    PatchOperation,
    Phase,
    ReviewedObject,
)
from genguard.generation.custom import StatusSubresource
from genguard.generation.prediction import Prediction
from genguard.generation.transition import Engine, predict_with
from genguard.objects.fields import Fields, count_values, fields_of
from genguard.objects.intended import EVERY_OBSERVED_GENERATION, Restored
from genguard.patch.operations import GENERATION, Edit, plan_generation, plan_patch
from genguard.rules.annotations import Repair
from genguard.rules.annotations import annotations as annotations_of
from genguard.rules.restore_intent import Intents
from genguard.rules.rule import Rule, RuleInput, is_status_write, writes_status


class Rounds(Protocol):
    """Remembers the audit annotations of each write for a short time."""

    def put(self, key: JoinKey, annotations: Mapping[str, str], now: float) -> None:
        """Remember the annotations of an answer."""

    def get(self, key: JoinKey, now: float) -> Mapping[str, str] | None:
        """The annotations of an earlier answer to the same write; None if there was none."""

    def forget(self, key: JoinKey) -> None:
        """Drop the annotations under this key: a new write begins with the same key."""


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Everything that a review needs besides its body. Replaced as a whole on a change.

    repair_rules      put back what was lost
    generation_rules  set generation numbers; they run last, since a repaired value is no change
    about             what this server says in the answer to a probe
    """

    engine: Engine
    repair_rules: tuple[Rule, ...]
    generation_rules: tuple[Rule, ...]
    intents: Intents
    rounds: Rounds
    audit_only: bool = False
    restored: Restored = EVERY_OBSERVED_GENERATION
    about: Callable[[], Mapping[str, str]] = dict


class Skipped(StrEnum):
    """Why a decodable review was allowed without being examined."""

    TOO_DEEP = "too-deep"
    UNREADABLE = "unreadable"
    OVERLOADED = "overloaded"
    TOO_MANY_VALUES = "too-many-values"


class ReviewResult(msgspec.Struct, frozen=True):
    """What a review showed, for logs, metrics, replay and detection.

    `request`, `repairs`, `patch` and `dropped` hold values of the object, which no log may show.
    """

    request: AdmissionRequest | None = None
    prediction: Prediction | None = None
    status: StatusSubresource = StatusSubresource.UNKNOWN
    repairs: tuple[Repair, ...] = ()
    patch: tuple[PatchOperation, ...] = ()
    dropped: tuple[Edit, ...] = ()
    skipped: Skipped | None = None
    rejected: UndecodableReviewError | None = None


class Reply(msgspec.Struct, frozen=True):
    """The HTTP answer and the result behind it."""

    status: int
    body: bytes
    result: ReviewResult


MOST_VALUES: Final = 600_000
"""Commas and opening brackets of a body. One of 7 MiB may have more than two million, and each
takes some 60 bytes when it is decoded."""
_ALLOWED: Final = 200
_PATCHABLE: Final = (Operation.CREATE, Operation.UPDATE)


def review(
    body: bytes,
    phase: Phase,
    deps: Dependencies,
    now: float,
    *,
    at: float | None = None,
    skip: Skipped | None = None,
) -> Reply:
    """Answer one AdmissionReview.

    now   seconds on the clock that `deps` remembers by
    at    Unix seconds, for times that are written into objects; `now` where that is such a clock
    skip  allow the review without examining it, for this reason
    """
    try:
        request = decode_review(body)
    except UndecodableReviewError as error:
        return _refuse(error)
    except RecursionError:
        return _allow_undecoded(body)
    if skip is None and _has_too_many_values(body):
        skip = Skipped.TOO_MANY_VALUES
    if skip is None:
        try:
            return _review(request, phase, deps, now, now if at is None else at)
        except RecursionError:
            skip = Skipped.TOO_DEEP
        except msgspec.MsgspecError:
            # A value deeper down that a comparison needed is no JSON the API server could have sent
            skip = Skipped.UNREADABLE
    answer = encode_allowed(
        request.api_version, request.wire.uid, audit_annotations={"skipped": skip.value}
    )
    return Reply(_ALLOWED, answer, ReviewResult(request=request, skipped=skip))


def awaited_intent(body: bytes, phase: Phase, deps: Dependencies) -> JoinKey | None:
    """The key of the write whose intent may change the answer; None where no intent can.

    Nothing is put back into a write that still has every value, unless further fields are restored.
    It decodes the part of the body that it needs; review() decodes the body again.
    """
    if phase is not Phase.MUTATE:
        return None
    try:
        request = decode_review(body)
        if request.object is None:
            return None
        _, status = deps.engine.strategy(request)
        if not is_status_write(request, status):
            return None
        found = request.object.observed
    except (UndecodableReviewError, msgspec.MsgspecError, RecursionError):
        return None  # review() says what is wrong with it
    if found is None or (found.complete and not deps.restored.paths):
        return None
    return request.join_key


def _has_too_many_values(body: bytes) -> bool:
    return len(body) > MOST_VALUES and count_values(body) > MOST_VALUES


def _review(
    request: AdmissionRequest, phase: Phase, deps: Dependencies, now: float, at: float
) -> Reply:
    strategy, status = deps.engine.strategy(request)
    prediction = predict_with(strategy, status, request)
    warnings = probe.warnings(request, phase, deps.about) if request.wire.dry_run else ()
    if phase is not Phase.MUTATE:
        if phase is Phase.INTENT:
            _remember_intent(RuleInput(request, prediction, status), deps, now)
        body = encode_allowed(request.api_version, request.wire.uid, warnings=warnings)
        return Reply(_ALLOWED, body, ReviewResult(request, prediction, status))
    key = request.join_key
    intent = deps.intents.get(key, now) if key is not None else None
    write = RuleInput(request, prediction, status, intent, at)
    repairs: list[Repair] = []
    edits: list[Edit] = []
    _apply_rules(deps.repair_rules, write, repairs, edits)
    new = request.object
    if edits and new and not deps.audit_only and status is not StatusSubresource.PRESENT:
        # Status counts here: the server will compare the object as it is after the repair.
        prediction = predict_with(strategy, status, _with_edits(request, new.fields, edits))
        write = RuleInput(request, prediction, status, intent, at)
    _apply_rules(deps.generation_rules, write, repairs, edits)
    patch: tuple[PatchOperation, ...] = ()
    dropped: tuple[Edit, ...] = ()
    if edits and new and request.operation in _PATCHABLE:
        patch, dropped = _plan(new, edits)
    annotations: Mapping[str, str] = annotations_of(prediction, repairs, audit_only=deps.audit_only)
    if key is not None and request.operation is not Operation.DELETE:
        annotations = _repeat_annotations(annotations, deps.rounds, key, now)
    body = encode_allowed(
        request.api_version,
        request.wire.uid,
        patch=() if deps.audit_only else patch,
        audit_annotations=annotations,
        warnings=warnings,
    )
    result = ReviewResult(request, prediction, status, tuple(repairs), patch, dropped)
    return Reply(_ALLOWED, body, result)


def _plan(
    new: ReviewedObject, edits: list[Edit]
) -> tuple[tuple[PatchOperation, ...], tuple[Edit, ...]]:
    """Operations, and the edits for which there is no operation that applies."""
    if len(edits) == 1 and edits[0].path == GENERATION:
        return (plan_generation(new.metadata, edits[0].value),), ()
    patch, dropped, _ = plan_patch(new, edits)
    return patch, dropped


def _with_edits(request: AdmissionRequest, fields: Fields, edits: list[Edit]) -> AdmissionRequest:
    """The request as it is once the edits are applied to its object."""
    edited = ReviewedObject.of({**fields, **fields_of(plan_patch(fields, edits).edited)})
    return AdmissionRequest(request.api_version, request.wire, edited, request.old_object)


def _apply_rules(
    rules: tuple[Rule, ...], write: RuleInput, repairs: list[Repair], edits: list[Edit]
) -> None:
    """Run every rule in order; a path that an earlier rule has edited is left as it is."""
    for rule in rules:
        found = rule.evaluate(write)
        if found and edits:
            edited = {edit.path for edit in edits}
            found = tuple(edit for edit in found if edit.path not in edited)
        if found:
            repairs.append(Repair(rule.name, found))
            edits += found


def _remember_intent(write: RuleInput, deps: Dependencies, now: float) -> None:
    key = write.request.join_key
    if key is None:
        return
    if write.request.object is not None and writes_status(write):
        intended = deps.restored.read(write.request.object.status)
        if intended is not None:
            # An empty intent too: it replaces that of an earlier write with this key, now refused.
            deps.intents.put(key, intended, now)
    deps.rounds.forget(key)


def _repeat_annotations(
    annotations: Mapping[str, str], rounds: Rounds, key: JoinKey, now: float
) -> Mapping[str, str]:
    """The API server refuses a second value for a key: round 1 repeats the values of round 0."""
    before = rounds.get(key, now)
    if not before:
        if annotations:
            rounds.put(key, annotations, now)
        return annotations
    return {**annotations, **before}


def _refuse(error: UndecodableReviewError) -> Reply:
    body = encode_rejection(error.reason, error.field, error.code)
    return Reply(error.status, body, ReviewResult(rejected=error))


def _allow_undecoded(body: bytes) -> Reply:
    """Allow a review that is nested too deep for the decoder, perhaps not for the API server."""
    if _has_too_many_values(body):
        return _refuse(InvalidFieldError("nested too deep, and too many values to look through"))
    try:
        envelope = decode_envelope(body)
    except UndecodableReviewError as error:
        return _refuse(error)
    skipped = {"skipped": Skipped.TOO_DEEP.value}
    answer = encode_allowed(envelope.api_version, envelope.request.uid, audit_annotations=skipped)
    return Reply(_ALLOWED, answer, ReviewResult(skipped=Skipped.TOO_DEEP))
