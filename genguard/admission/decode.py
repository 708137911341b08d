"""Decodes an AdmissionReview, or says why it is none: the only place where input is rejected.

Error messages name the field path and what is wrong with it, never a value found there.

    UndecodableReviewError         400  what, where and what to do, never a value of the object
    ├── NotJSONError               400  not one JSON document
    ├── InvalidFieldError          400  a field is missing or of the wrong type
    └── UnsupportedVersionError    400  neither admission.k8s.io/v1 nor v1beta1

Undecodable means that no `uid` can be answered. Everything decodable is answered with 200.
"""

import re
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec

from genguard.admission.review import (
    VERSIONS,
    AdmissionRequest,
    GroupVersionResource,
    ObjectName,
    Operation,
    ReviewedObject,
    WireObject,
    WireRequest,
    WireReview,
)
from genguard.formats.nesting import cut_deep
from genguard.objects.fields import Fields
from genguard.objects.metadata import ObjectMeta

T = TypeVar("T")


class UndecodableReviewError(Exception):
    """The body is no AdmissionReview; `field` is the path that is wrong, "" for the whole body."""

    status: ClassVar[int] = 400
    code: ClassVar[str] = "undecodable"

    def __init__(self, reason: str, *, field: str = "") -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.reason = reason
        self.field = field


class NotJSONError(UndecodableReviewError):
    """The body is not exactly one JSON document in UTF-8."""

    code = "not_json"


class InvalidFieldError(UndecodableReviewError):
    """A field is missing, null or of the wrong type."""

    code = "invalid_field"


class UnsupportedVersionError(UndecodableReviewError):
    """`apiVersion` or `kind` name something else."""

    code = "unsupported_version"


MOST_FIELDS: Final = 1_000
"""At the top of an object. No kind has twenty; each takes a hundred bytes while it is known."""
MAX_BODY_BYTES: Final = 7 * 1024 * 1024
"""Two objects of 3 MiB, the API server's request limit, and the envelope around them."""

_decoder: Final = msgspec.json.Decoder(WireReview)
_WHERE: Final = re.compile(r" - at `(?:key in )?\$?\.?([^`]*)`$")
_QUOTED_VALUE: Final = re.compile(r"Invalid enum value .*")
_MAX_INT64: Final = 2**63 - 1


def decode_review(body: bytes) -> AdmissionRequest:
    """Decode and check one AdmissionReview.

    Raises UndecodableReviewError (one of its three kinds), and RecursionError when the object is
    nested too deep for the decoder: `decode_envelope` then finds what an answer needs.
    """
    if not body:
        raise NotJSONError("the body is empty; expected an AdmissionReview")
    _check_encoding(body)
    review = _decoded(_decoder, body)
    if review.kind != "AdmissionReview" or review.api_version not in VERSIONS:
        raise UnsupportedVersionError(
            "expected kind AdmissionReview of admission.k8s.io/v1 or admission.k8s.io/v1beta1",
            field="apiVersion" if review.kind == "AdmissionReview" else "kind",
        )
    wire = review.request
    if not wire.uid:
        raise InvalidFieldError("required, must not be empty", field="request.uid")
    fields = _Fields(body)
    return AdmissionRequest(
        review.api_version,
        wire,
        _object(wire, "object", wire.object, fields),
        _object(wire, "oldObject", wire.old_object, fields),
        partial(_attributes, body),
    )


def _decoded(decoder: msgspec.json.Decoder[T], text: bytes) -> T:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None
    except msgspec.DecodeError as error:
        raise NotJSONError(str(error).removeprefix("JSON is malformed: ")) from None


def _check_encoding(body: bytes) -> None:
    # The decoder skips raw values without looking at their encoding.
    if not body.isascii():
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise NotJSONError(f"invalid UTF-8 at byte {error.start}") from None


class _EnvelopeRequest(msgspec.Struct):
    uid: str


class Envelope(msgspec.Struct, rename="camel"):
    """The part of a review that an answer needs."""

    api_version: str
    request: _EnvelopeRequest


_envelope_decoder: Final = msgspec.json.Decoder(Envelope)


def decode_envelope(body: bytes) -> Envelope:
    """Decode the envelope of a review whose object is nested too deep to decode.

    The API server accepts objects of 10,000 levels (Go's encoding/json and apimachinery's
    pkg/util/json stop there). Raises UndecodableReviewError.
    """
    _check_encoding(body)
    envelope = _decoded(_envelope_decoder, cut_deep(body).text)
    if not envelope.request.uid:
        raise InvalidFieldError("required, must not be empty", field="request.uid")
    if envelope.api_version not in VERSIONS:
        raise UnsupportedVersionError("expected admission.k8s.io/v1", field="apiVersion")
    return envelope


HEAD_BYTES: Final = 4_096
"""Names are in the first bytes of what an API server sends: k8s.io/api admission/v1/types.go."""
_BEHIND_NAMES: Final = re.compile(rb',\s*"(?:userInfo|object|oldObject)"\s*:')


class _ReviewOf(msgspec.Struct, Generic[T]):
    request: T


class _HeadRequest(msgspec.Struct):
    resource: GroupVersionResource
    namespace: str = ""
    name: str = ""


_head_decoder: Final = msgspec.json.Decoder(_ReviewOf[_HeadRequest])


def name_in_head(body: bytes) -> ObjectName | None:
    """Read from the first bytes of a body what a review is about; None where they do not say it."""
    head = body[:HEAD_BYTES]
    behind = _BEHIND_NAMES.search(head)
    if behind is None:
        return None
    try:
        found = _head_decoder.decode(head[: behind.start()] + b"}}").request
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return ObjectName(found.resource.group, found.resource.resource, found.namespace, found.name)


# Which of the two a review must carry (apiserver admission/plugin/webhook/request). A DELETE of a
# collection has neither, a CONNECT carries options without metadata.
_REQUIRED: Final = {
    (Operation.CREATE, "object"),
    (Operation.UPDATE, "object"),
    (Operation.UPDATE, "oldObject"),
}


def _object(
    wire: WireRequest, name: str, found: WireObject | None, fields: "_Fields"
) -> ReviewedObject | None:
    if found is None:
        if (wire.operation, name) in _REQUIRED:
            raise InvalidFieldError(f"required on {wire.operation}", field=f"request.{name}")
        return None
    if isinstance(found.metadata, ObjectMeta):
        # The server decodes into an int64; the JSON decoder here also knows larger integers.
        number = found.metadata.generation
        if isinstance(number, int) and not -_MAX_INT64 - 1 <= number <= _MAX_INT64:
            where = f"request.{name}.metadata.generation"
            raise InvalidFieldError("not a 64-bit integer", field=where)
    elif wire.operation is not Operation.CONNECT:
        raise InvalidFieldError("required", field=f"request.{name}.metadata")
    return ReviewedObject(found, partial(fields.of, name))


class _FieldsRequest(msgspec.Struct, rename="camel"):
    object: Fields | None = None
    old_object: Fields | None = None


_fields_decoder: Final = msgspec.json.Decoder(_ReviewOf[_FieldsRequest])


class _Fields:
    """Every top-level field of both objects, decoded in one pass when one of them is first read."""

    __slots__ = ("_body", "_found")

    def __init__(self, body: bytes) -> None:
        self._body: Final = body
        self._found: _FieldsRequest | None = None

    def of(self, name: str) -> Fields:
        if self._found is None:
            found = _fields_decoder.decode(self._body).request
            if any(len(fields or ()) > MOST_FIELDS for fields in (found.object, found.old_object)):
                raise msgspec.ValidationError(f"more than {MOST_FIELDS} top-level fields")
            self._found = found
        return (self._found.object if name == "object" else self._found.old_object) or {}


_attributes_decoder: Final = msgspec.json.Decoder(_ReviewOf[Fields])


def _attributes(body: bytes) -> dict[str, Any]:
    request = _attributes_decoder.decode(body).request
    objects = ("object", "oldObject")
    return {key: msgspec.json.decode(raw) for key, raw in request.items() if key not in objects}


def _invalid(error: msgspec.ValidationError) -> InvalidFieldError:
    text = str(error)
    where = _WHERE.search(text)
    reason = text if where is None else text[: where.start()]
    # The decoder's only message that repeats a value of the input.
    reason = _QUOTED_VALUE.sub("expected one of CREATE, UPDATE, DELETE, CONNECT", reason)
    field = where[1].replace("`", "") if where else ""
    missing = re.fullmatch(r"Object missing required field `([^`]+)`", reason)
    if missing:
        reason, field = "required", f"{field}.{missing[1]}" if field else missing[1]
    return InvalidFieldError(reason.replace("`", "'"), field=field)
