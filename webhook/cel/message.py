"""The messages to the worker process, a line of JSON each.

It answers each expression with a line of JSON, as soon as it is known: a condition with its Truth,
an expression of a rule with its value or null, a CompileRequest with a text.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from genguard.admission.review import AdmissionRequest, ReviewedObject
from genguard.status.health_rules import Key

MOST_BYTES: Final = 128 * 1024
"""Of object and oldObject together, and of the rest: larger requests are not evaluated."""
READY: Final = b"ready"
"""The worker's first line."""


class RuleRequest(msgspec.Struct, frozen=True, tag="rule"):
    """The expressions of a rule over one object.

    expressions  by key, to be evaluated in this order
    object       whole
    """

    expressions: dict[Key, str]
    object: msgspec.Raw


class CompileRequest(msgspec.Struct, frozen=True, tag="compile"):
    """An expression of a rule. The answer says why it cannot be used, and is "" where it can."""

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
    """The matchConditions of a review.

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


def make_line(message: Message) -> bytes:
    """The message in one line: in what an object has as it came, line breaks are white space."""
    return msgspec.json.encode(message).replace(b"\n", b" ") + b"\n"
