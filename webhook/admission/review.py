"""AdmissionReview as it stands on the wire, typed and partial.

Source: k8s.io/api admission/v1/types.go and admission/v1beta1/types.go, which have the same shape.
"""

from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from webhook.objects.fields import Fields
from webhook.objects.metadata import ObjectMeta, decode_metadata
from webhook.objects.observed import Observed, read_observed

V1: Final = "admission.k8s.io/v1"
V1BETA1: Final = "admission.k8s.io/v1beta1"
VERSIONS: Final = frozenset({V1, V1BETA1})

# `Raw | None` would accept nothing but null, so absent is an empty Raw.
NO_OPTIONS: Final = msgspec.Raw()


class Operation(StrEnum):
    """What the user asked the API server to do."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class Phase(StrEnum):
    """Which of genguard's three registrations sent the review."""

    INTENT = "intent"
    MUTATE = "mutate"
    OUTCOME = "outcome"


class GroupVersionKind(msgspec.Struct, frozen=True):
    """`{"group": "apps", "version": "v1", "kind": "Deployment"}`."""

    group: str
    version: str
    kind: str


class GroupVersionResource(msgspec.Struct, frozen=True):
    """`{"group": "apps", "version": "v1", "resource": "deployments"}`."""

    group: str
    version: str
    resource: str


class UserInfo(msgspec.Struct, frozen=True):
    """Who asked; groups and extra are not read."""

    username: str = ""


_NOT_READ: Final = Observed(None, ())
"""A value of its own, told apart by identity."""


class ReviewedObject:
    """An object in a review: raw top-level fields, and what is read of them once, when asked."""

    __slots__ = ("_metadata", "_observed", "fields")

    def __init__(self, fields: Fields) -> None:
        self.fields: Final = fields
        # By hand: functools.cached_property takes a lock on Python 3.11.
        self._metadata: ObjectMeta | None = None
        self._observed: Observed | None = _NOT_READ

    @property
    def metadata(self) -> ObjectMeta:
        """Typed metadata; decoded and checked by `decode_review` where the operation needs it."""
        if self._metadata is None:
            self._metadata = decode_metadata(self.fields)
        return self._metadata

    @property
    def observed(self) -> Observed | None:
        """The observedGeneration values of `status`; None where status is no object.

        Raises msgspec.DecodeError when status is no JSON.
        """
        if self._observed is _NOT_READ:
            self._observed = read_observed(self.fields.get("status"))
        return self._observed


class PatchOperation(msgspec.Struct, frozen=True):
    """One RFC 6902 operation of an answer; genguard only ever adds and replaces."""

    op: Literal["add", "replace"]
    path: str
    value: Any


class WireRequest(msgspec.Struct, frozen=True, rename="camel"):
    """`request` of an AdmissionReview; object and oldObject stay raw below their first level."""

    uid: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    operation: Operation
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: UserInfo = UserInfo()
    object: Fields | None = None
    old_object: Fields | None = None
    dry_run: bool | None = None
    options: msgspec.Raw = NO_OPTIONS


class WireReview(msgspec.Struct, frozen=True, rename="camel"):
    """The whole body."""

    api_version: str
    kind: str
    request: WireRequest


class AdmissionRequest:
    """One decoded request: what rules, generation and detection read.

    `object` is None on DELETE, `old_object` is None on CREATE and CONNECT.
    """

    __slots__ = ("api_version", "object", "old_object", "wire")

    def __init__(
        self,
        api_version: str,
        wire: WireRequest,
        object_: ReviewedObject | None,
        old_object: ReviewedObject | None,
    ) -> None:
        self.api_version: Final = api_version
        self.wire: Final = wire
        self.object: Final = object_
        self.old_object: Final = old_object

    @property
    def operation(self) -> Operation:
        """CREATE, UPDATE, DELETE or CONNECT."""
        return self.wire.operation

    @property
    def subresource(self) -> str:
        """`status`, `scale`, ...; empty for the main resource."""
        return self.wire.sub_resource
