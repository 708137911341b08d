"""review(): bytes to bytes, and what was learnt on the way.

    bytes ─decode→ AdmissionRequest ─rules→ Edits ─patch→ PatchOperations ─encode→ bytes

Pure and synchronous: server, replay, tests and fuzzers call this one function. It never raises
for what it is given; time and memory come in as arguments. Its two halves, decode() and judge(),
are there for a server that must ask for an intent in between: awaited_intent() says which.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from webhook.admission import probe
from webhook.admission.decode import decode_review
from webhook.admission.encode import encode_allowed, encode_refusal
from webhook.admission.errors import UndecodableReviewError
from webhook.admission.join import JoinKey
from webhook.admission.review import (
    AdmissionRequest,
    Operation,
    PatchOperation,
    Phase,
    ReviewedObject,
)
from webhook.admission.skim import skim
from webhook.generation.custom import StatusSubresource
from webhook.generation.prediction import Prediction
from webhook.generation.transition import Engine, predict_with
from webhook.objects.fields import Fields, fields_of
from webhook.objects.intended import EVERY_OBSERVED_GENERATION, Restored
from webhook.patch.edit import Edit
from webhook.patch.operations import GENERATION, plan_generation, plan_patch
from webhook.rules.annotations import Mend
from webhook.rules.annotations import annotations as annotations_of
from webhook.rules.restore_intent import Intents
from webhook.rules.rule import Rule, RuleInput, is_status_write, writes_status


class Rounds(Protocol):
    """Remembers for a short time what a write was told in its audit annotations."""

    def put(self, key: JoinKey, annotations: Mapping[str, str], now: float) -> None:
        """Remember what was answered."""

    def get(self, key: JoinKey, now: float) -> Mapping[str, str] | None:
        """What the same write was answered before, if it was."""

    def forget(self, key: JoinKey) -> None:
        """A new write begins: what a refused one was told is over."""


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What a review is judged with. Replaced as a whole when the cluster changes.

    mending    the rules that put back what was lost
    numbering  the rules that count; asked after, since what is put back is no change
    about      what a probe is told of this server
    """

    engine: Engine
    mending: tuple[Rule, ...]
    numbering: tuple[Rule, ...]
    intents: Intents
    rounds: Rounds
    audit_only: bool = False
    restored: Restored = EVERY_OBSERVED_GENERATION
    about: Callable[[], Mapping[str, str]] = dict


class Skipped(StrEnum):
    """Why a decodable review was allowed without being judged."""

    TOO_DEEP = "too-deep"
    UNREADABLE = "unreadable"
    OVERLOADED = "overloaded"
    TOO_MANY_VALUES = "too-many-values"


class Verdict(msgspec.Struct, frozen=True):
    """What was learnt: for logs, metrics, replay and detection. Holds no object content."""

    request: AdmissionRequest | None = None
    prediction: Prediction | None = None
    status: StatusSubresource = StatusSubresource.UNKNOWN
    mends: tuple[Mend, ...] = ()
    patch: tuple[PatchOperation, ...] = ()
    dropped: tuple[Edit, ...] = ()
    skipped: Skipped | None = None
    refused: UndecodableReviewError | None = None


class Reply(msgspec.Struct, frozen=True):
    """The HTTP answer and the verdict behind it."""

    status: int
    body: bytes
    verdict: Verdict


MOST_VALUES: Final = 600_000
"""Commas and opening brackets of a body. One of 7 MiB may have more than two million, and each
takes some 60 bytes when it is decoded."""
_ALLOWED: Final = 200
_PATCHABLE: Final = (Operation.CREATE, Operation.UPDATE)


def review(
    body: bytes, phase: Phase, deps: Dependencies, now: float, *, at: float | None = None
) -> Reply:
    """Judge one AdmissionReview.

    now  seconds on the clock that `deps` remembers by
    at   Unix seconds, for times that are written into objects; `now` where that is such a clock
    """
    request = decode(body)
    if isinstance(request, Reply):
        return request
    return judge(request, phase, deps, now, at=now if at is None else at)


def decode(body: bytes) -> AdmissionRequest | Reply:
    """The request of a review; a Reply where it cannot be judged."""
    try:
        request = decode_review(body)
    except UndecodableReviewError as error:
        return _refused(error)
    except RecursionError:
        return _unjudged(body)
    if len(body) > MOST_VALUES and sum(map(body.count, (b",", b"[", b"{"))) > MOST_VALUES:
        return allow(request, Skipped.TOO_MANY_VALUES)
    return request


def awaited_intent(request: AdmissionRequest, phase: Phase, deps: Dependencies) -> JoinKey | None:
    """The write whose intent may change the judgement; None where no intent could.

    Nothing is put back into a write that still has every value, unless further fields are.
    """
    if phase is not Phase.MUTATE or request.object is None:
        return None
    _, status = deps.engine.strategy(request)
    if not is_status_write(request, status):
        return None
    try:
        found = request.object.observed
    except (msgspec.MsgspecError, RecursionError):
        return None
    if found is None or (found.complete and not deps.restored.paths):
        return None
    return request.join_key


def judge(
    request: AdmissionRequest, phase: Phase, deps: Dependencies, now: float, *, at: float
) -> Reply:
    """Judge one decoded review; see review()."""
    try:
        return _judge(request, phase, deps, now, at)
    except RecursionError:
        skipped = Skipped.TOO_DEEP
    except msgspec.MsgspecError:
        # A value deeper down that a comparison needed is no JSON the API server could have sent.
        skipped = Skipped.UNREADABLE
    return allow(request, skipped)


def allow(request: AdmissionRequest, skipped: Skipped) -> Reply:
    """Allow a decoded review without judging it, and say why."""
    told = {"skipped": skipped.value}
    body = encode_allowed(request.api_version, request.wire.uid, audit_annotations=told)
    return Reply(_ALLOWED, body, Verdict(request=request, skipped=skipped))


def _judge(
    request: AdmissionRequest, phase: Phase, deps: Dependencies, now: float, at: float
) -> Reply:
    strategy, status = deps.engine.strategy(request)
    prediction = predict_with(strategy, status, request)
    told = probe.warnings(request, phase, deps.about)
    if phase is not Phase.MUTATE:
        if phase is Phase.INTENT:
            _remember_intent(RuleInput(request, prediction, status), deps, now)
        body = encode_allowed(request.api_version, request.wire.uid, warnings=told)
        return Reply(_ALLOWED, body, Verdict(request, prediction, status))
    key = request.join_key
    intent = deps.intents.get(key, now) if key is not None else None
    given = RuleInput(request, prediction, status, intent, at)
    mends, edits = _evaluate(deps.mending, given)
    new = request.object
    if edits and new and not deps.audit_only and status is not StatusSubresource.PRESENT:
        # Status counts here: what the server will compare is the object as it is mended.
        prediction = predict_with(strategy, status, _mended(request, new.fields, edits))
        given = msgspec.structs.replace(given, prediction=prediction)
    numbered, counts = _evaluate(deps.numbering, given)
    mends, edits = (*mends, *numbered), [*edits, *counts]
    patch: tuple[PatchOperation, ...] = ()
    dropped: tuple[Edit, ...] = ()
    if edits and new and request.operation in _PATCHABLE:
        patch, dropped = _plan(new, edits)
    annotations: Mapping[str, str] = annotations_of(prediction, mends, audit_only=deps.audit_only)
    if key is not None and request.operation is not Operation.DELETE:
        annotations = _repeat(annotations, deps.rounds, key, now)
    body = encode_allowed(
        request.api_version,
        request.wire.uid,
        patch=() if deps.audit_only else patch,
        audit_annotations=annotations,
        warnings=told,
    )
    return Reply(_ALLOWED, body, Verdict(request, prediction, status, mends, patch, dropped))


def _plan(
    new: ReviewedObject, edits: list[Edit]
) -> tuple[tuple[PatchOperation, ...], tuple[Edit, ...]]:
    """Operations, and the edits that none could be made of."""
    (first, *others) = edits
    if not others and first.path == GENERATION:
        return (plan_generation(new.metadata, first.value),), ()
    patch, dropped, _ = plan_patch(new, edits)
    return patch, dropped


def _mended(request: AdmissionRequest, fields: Fields, edits: list[Edit]) -> AdmissionRequest:
    edited = ReviewedObject.of({**fields, **fields_of(plan_patch(fields, edits).edited)})
    return AdmissionRequest(request.api_version, request.wire, edited, request.old_object)


def _evaluate(rules: tuple[Rule, ...], given: RuleInput) -> tuple[tuple[Mend, ...], list[Edit]]:
    """Every rule in order; a place that an earlier rule has edited is left to it."""
    mends: list[Mend] = []
    edits: list[Edit] = []
    for rule in rules:
        found = rule.evaluate(given)
        if not found:
            continue
        if edits:
            taken = {edit.path for edit in edits}
            found = tuple(edit for edit in found if edit.path not in taken)
        if found:
            mends.append(Mend(rule.name, found))
            edits += found
    return tuple(mends), edits


def _remember_intent(given: RuleInput, deps: Dependencies, now: float) -> None:
    key = given.request.join_key
    if key is None:
        return
    if given.request.object is not None and writes_status(given):
        intended = deps.restored.read(given.request.object.status)
        if intended is not None:
            # One that asks for nothing too: it takes the place of an earlier write, now refused.
            deps.intents.put(key, intended, now)
    deps.rounds.forget(key)


def _repeat(
    annotations: Mapping[str, str], rounds: Rounds, key: JoinKey, now: float
) -> Mapping[str, str]:
    """The API server refuses a second value for a key: round 1 repeats what round 0 said."""
    before = rounds.get(key, now)
    if not before:
        if annotations:
            rounds.put(key, annotations, now)
        return annotations
    return {**annotations, **before}


def _refused(error: UndecodableReviewError) -> Reply:
    body = encode_refusal(error.reason, error.field, error.code)
    return Reply(error.status, body, Verdict(refused=error))


def _unjudged(body: bytes) -> Reply:
    """Nested too deep for the decoder, though perhaps not for the API server: allow it unread."""
    try:
        envelope = skim(body)
    except UndecodableReviewError as error:
        return _refused(error)
    answer = encode_allowed(
        envelope.api_version, envelope.uid, audit_annotations={"skipped": Skipped.TOO_DEEP.value}
    )
    return Reply(_ALLOWED, answer, Verdict(skipped=Skipped.TOO_DEEP))
