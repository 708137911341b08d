"""Why a body is no AdmissionReview.

    UndecodableReviewError         400  what, where and what to do, never a value of the object
    ├── NotJSONError               400  not one JSON document
    ├── InvalidFieldError          400  a field is missing or of the wrong type
    ├── UnsupportedVersionError    400  neither admission.k8s.io/v1 nor v1beta1
    └── TooDeepError               400  nested beyond what the API server itself reads

Undecodable means that no `uid` can be answered. Everything decodable is answered with 200.
"""

from typing import ClassVar


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


class TooDeepError(UndecodableReviewError):
    """Nested deeper than any API server accepts, so none can have sent it."""

    code = "too_deep"
