"""The messages between the server and its worker process."""

from typing import Final

import msgspec

from webhook.admission.review import AdmissionRequest, ReviewedObject
from webhook.objects.selectors import Truth

MOST_BYTES: Final = 128 * 1024
"""Of object and oldObject together, and of the rest: larger requests are not evaluated."""
READY: Final = b"."
"""The worker's first byte."""
LENGTH_BYTES: Final = 4
"""Before each message, big endian."""
ANSWERS: Final = {Truth.TRUE: b"t", Truth.FALSE: b"f", Truth.UNKNOWN: b"u"}
"""A byte for each expression, as soon as it is known."""


class EvaluationRequest(msgspec.Struct, frozen=True):
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
