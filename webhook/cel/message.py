"""The messages between the server and its worker process."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from genguard.admission.review import AdmissionRequest, ReviewedObject
from genguard.objects.selectors import Truth
from genguard.status.health_rules import Answer as RuleAnswer
from genguard.status.health_rules import Key, NoAnswer
from genguard.status.view import Health

MOST_BYTES: Final = 128 * 1024
"""Of object and oldObject together, and of the rest: larger requests are not evaluated."""
READY: Final = b"."
"""The worker's first byte."""
LENGTH_BYTES: Final = 4
"""Before each message, big endian."""
ANSWERS: Final = {Truth.TRUE: b"t", Truth.FALSE: b"f", Truth.UNKNOWN: b"u"}
"""A byte for each condition, as soon as it is known."""
_PER_CENT: Final = tuple(bytes([number]) for number in range(101))
RULE_ANSWERS: Final[dict[RuleAnswer, bytes]] = {
    NoAnswer.ERROR: b"\xff",
    Health.GREEN: b"\xf0",
    Health.YELLOW: b"\xf1",
    Health.RED: b"\xf2",
}
"""A byte for what an expression of a rule gives, beside true, false and a number of per cent."""
RULE_TRUE: Final = b"\xfa"
RULE_FALSE: Final = b"\xfb"


def encode_rule_answer(answer: RuleAnswer) -> bytes:
    """One byte."""
    if isinstance(answer, bool):
        return RULE_TRUE if answer else RULE_FALSE
    return _PER_CENT[answer] if isinstance(answer, int) else RULE_ANSWERS[answer]


_OF_BYTE: Final[dict[bytes, RuleAnswer]] = {
    RULE_TRUE: True,
    RULE_FALSE: False,
    **{code: answer for answer, code in RULE_ANSWERS.items()},
    **{code: number for number, code in enumerate(_PER_CENT)},
}


def decode_rule_answer(code: bytes) -> RuleAnswer:
    """What one byte stands for."""
    return _OF_BYTE[code]


class RuleRequest(msgspec.Struct, frozen=True, tag="rule"):
    """A message to the worker, in JSON: the expressions of a rule over one object.

    expressions  by key, to be evaluated in this order
    object       whole
    """

    expressions: dict[Key, str]
    object: msgspec.Raw


class CompileRequest(msgspec.Struct, frozen=True, tag="compile"):
    """A message to the worker, in JSON. It answers with the length of a text, and the text.

    The text says why the expression of a rule cannot be used, and is empty where it can.
    """

    key: Key
    expression: str


def make_rule_message(
    expressions: Mapping[Key, str], document: Mapping[str, Any]
) -> RuleRequest | None:
    """The message for an object; None where it is too large or cannot be encoded."""
    try:
        encoded = msgspec.json.encode(document)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return None
    if len(encoded) > MOST_BYTES:
        return None
    return RuleRequest(dict(expressions), msgspec.Raw(encoded))


class EvaluationRequest(msgspec.Struct, frozen=True, tag="review"):
    """A message to the worker, in JSON.

    expressions  to be evaluated, in this order
    namespaced   whether the object is in a namespace
    request      `request` of the review without its objects
    objects      `object` and `oldObject`; None where they are too large to be evaluated
    """

    expressions: list[str]
    namespaced: bool
    request: msgspec.Raw
    objects: tuple[msgspec.Raw, msgspec.Raw] | None


def make_message(expressions: list[str], request: AdmissionRequest) -> EvaluationRequest | None:
    """The message for a request; None where the request is too large or cannot be decoded."""
    try:
        attributes = msgspec.Raw(msgspec.json.encode(request.attributes))
        if memoryview(attributes).nbytes > MOST_BYTES:
            return None
        size = _size(request.object) + _size(request.old_object)
        both = (_json(request.object), _json(request.old_object)) if size <= MOST_BYTES else None
    except (msgspec.MsgspecError, RecursionError):
        return None
    return EvaluationRequest(expressions, bool(request.wire.namespace), attributes, both)


def _size(found: ReviewedObject | None) -> int:
    """Bytes."""
    fields = () if found is None else found.fields.values()
    return sum(memoryview(raw).nbytes for raw in fields)


def _json(found: ReviewedObject | None) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(None if found is None else found.fields))


Message = EvaluationRequest | RuleRequest | CompileRequest
