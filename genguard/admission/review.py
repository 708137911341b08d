"""AdmissionReview as on the wire, typed and partial, and whose webhooks are a genguard's.

Source: k8s.io/api admission/v1/types.go and admission/v1beta1/types.go, which have the same shape.
The API server mints a uid for each call (apiserver pkg/admission/plugin/webhook/request/
admissionreview.go:CreateAdmissionObjects), so the phases of a write are joined by what stays equal.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, Self
from urllib.parse import urlsplit

import msgspec

from genguard.objects.fields import NOT_CONTENT, Fields, mapping
from genguard.objects.metadata import ObjectMeta, decode_metadata
from genguard.objects.observed import Observed, read_observed

_LONGEST: Final = 4_096
_BYTES_OF_TEXTS: Final = 600
"""Eight of them, with the key itself."""


class JoinKey(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Equal for the phases and rounds of one write, different for the next one."""

    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    uid: str
    user: str
    resource_version: str
    dry_run: bool

    @property
    def location(self) -> "JoinKey":
        """The key of whatever object is created at this location."""
        return msgspec.structs.replace(self, uid="") if self.uid else self

    @property
    def is_remembered(self) -> bool:
        """Whether its names are short enough for an API server: forged ones could fill memory."""
        return self.size <= _LONGEST + _BYTES_OF_TEXTS

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes; four a character where one is not ASCII."""
        return sys.getsizeof("".join(msgspec.structs.astuple(self)[:-1])) + _BYTES_OF_TEXTS


class ObjectName(NamedTuple):
    """What is known of a write before its review is decoded; a name to be generated is ""."""

    group: str
    resource: str
    namespace: str
    name: str


V1: Final = "admission.k8s.io/v1"
V1BETA1: Final = "admission.k8s.io/v1beta1"
VERSIONS: Final = frozenset({V1, V1BETA1})

# `Raw | None` would accept nothing but null, so absent is an empty Raw.
NO_RAW: Final = msgspec.Raw()


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


_MOST_SEEN: Final = 1_000
_LONGEST_EXTRA: Final = 4_096
_LONGEST_PROCESS: Final = 253
USER_AGENT: Final = "genguard.io/user-agent"
_EXTRA: Final = "authentication.kubernetes.io/"
_PROCESS: Final = (f"{_EXTRA}pod-name", f"{_EXTRA}credential-id", USER_AGENT)
"""Keys of `userInfo.extra` that say which process it is, the best first (apiserver
pkg/authentication/serviceaccount/util.go:PodNameKey, pkg/authentication/user/user.go:
CredentialIDKey). The user agent is a key of genguard, for reviews made of an audit log."""
_extra_decoder: Final = msgspec.json.Decoder(dict[str, tuple[str, ...]] | None)


class UserInfo(msgspec.Struct, frozen=True):
    """Who asked; groups are not read."""

    username: str = ""
    extra: msgspec.Raw = NO_RAW

    @property
    def process(self) -> str:
        """Which process of the user asked; "" where that is not said."""
        return "" if len(self.extra) > _LONGEST_EXTRA else _process_in(bytes(self.extra))


@lru_cache(_MOST_SEEN)
def _process_in(extra: bytes) -> str:
    try:
        found = _extra_decoder.decode(extra) or {}
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""  # of another shape than the API server writes
    values = (found[key][0] for key in _PROCESS if found.get(key))
    return next(values, "")[:_LONGEST_PROCESS]


class WireObject(msgspec.Struct, frozen=True):
    """`object` or `oldObject`: the fields that nearly every review needs, read in one pass."""

    metadata: ObjectMeta | msgspec.UnsetType = msgspec.UNSET
    spec: msgspec.Raw = NO_RAW
    status: msgspec.Raw = NO_RAW


_NOT_READ: Final = Observed(None, ())
"""Means that `observed` has not been read yet; compared by identity."""


class ReviewedObject:
    """An object in a review. Further top-level fields are decoded when they are first read.

    metadata      typed and partial
    spec, status  raw JSON; None where the object has none
    """

    __slots__ = ("_fields", "_observed", "_read", "metadata", "spec", "status")

    def __init__(self, wire: WireObject, read: Callable[[], Fields]) -> None:
        """`read` finds every top-level field."""
        self.metadata: Final = ObjectMeta() if wire.metadata is msgspec.UNSET else wire.metadata
        self.spec: Final = None if wire.spec is NO_RAW else wire.spec
        self.status: Final = None if wire.status is NO_RAW else wire.status
        self._read: Final = read
        self._fields: Fields | None = None
        self._observed: Observed | None = _NOT_READ

    @classmethod
    def of(cls, fields: Fields) -> Self:
        """Make an object of its top-level fields. Raises msgspec.MsgspecError for bad metadata."""
        wire = WireObject(
            decode_metadata(fields), fields.get("spec", NO_RAW), fields.get("status", NO_RAW)
        )
        return cls(wire, lambda: fields)

    @property
    def fields(self) -> Fields:
        """Every top-level field, undecoded."""
        if self._fields is None:
            self._fields = self._read()
        return self._fields

    @property
    def content(self) -> Fields:
        """The top-level fields without `metadata`, `kind` and `apiVersion`."""
        return {key: raw for key, raw in self.fields.items() if key not in NOT_CONTENT}

    def get(self, key: str) -> msgspec.Raw | None:
        """One top-level field, undecoded; None where the object does not have it."""
        if key == "spec":
            return self.spec
        return self.status if key == "status" else self.fields.get(key)

    @property
    def observed(self) -> Observed | None:
        """The observedGeneration values of `status`; None where status is no object.

        Raises msgspec.DecodeError when status is no JSON.
        """
        if self._observed is _NOT_READ:
            self._observed = read_observed(self.status)
        return self._observed


class PatchOperation(msgspec.Struct, frozen=True):
    """One RFC 6902 operation of an answer; genguard only ever adds and replaces."""

    op: Literal["add", "replace"]
    path: str
    value: Any


class _Options(msgspec.Struct, rename="camel"):
    field_manager: str = ""


_options: Final = msgspec.json.Decoder(_Options | None)
_LONGEST_MANAGER: Final = 128
"""As the API server has it (apimachinery pkg/apis/meta/v1/validation: FieldManagerMaxLength)."""


class WireRequest(msgspec.Struct, frozen=True, rename="camel"):
    """`request` of an AdmissionReview; object and oldObject are read in part."""

    uid: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    operation: Operation
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: UserInfo = UserInfo()
    object: WireObject | None = None
    old_object: WireObject | None = None
    dry_run: bool | None = None
    options: msgspec.Raw = NO_RAW

    @property
    def field_manager(self) -> str:
        """The field manager, "" where none is told; decoded at each call.

        Raises msgspec.MsgspecError for options that are none.
        """
        options = None if self.options is NO_RAW else _options.decode(self.options)
        return options.field_manager[:_LONGEST_MANAGER] if options else ""


class WireReview(msgspec.Struct, frozen=True, rename="camel"):
    """The whole body."""

    api_version: str
    kind: str
    request: WireRequest


_LONGEST_NAMES: Final = 2_048
"""Bytes in memory: group and version are shown twice, 253 and 63 characters long at most."""
_NOT_ASKED: Final = JoinKey("", "", "", "", "", "", "", "", dry_run=False)
"""Means that the key has not been made yet; compared by identity."""


@dataclass(slots=True, eq=False, repr=False)
class AdmissionRequest:
    """One decoded request: what rules, generation and detection read.

    object       None on DELETE
    old_object   None on CREATE and CONNECT
    operation    CREATE, UPDATE, DELETE or CONNECT
    subresource  `status`, `scale`, ...; empty for the main resource
    _read        finds what is in `attributes`
    """

    api_version: str
    wire: WireRequest
    object: ReviewedObject | None
    old_object: ReviewedObject | None
    _read: Callable[[], dict[str, Any]] = dict
    operation: Operation = field(init=False)
    subresource: str = field(init=False)
    _join_key: JoinKey | None = field(default=_NOT_ASKED, init=False)

    def __post_init__(self) -> None:
        """Show what is asked for most."""
        self.operation, self.subresource = self.wire.operation, self.wire.sub_resource

    @property
    def object_name(self) -> ObjectName:
        """What it is about."""
        of = self.wire.resource
        return ObjectName(of.group, of.resource, self.wire.namespace, self.wire.name)

    @property
    def join_key(self) -> JoinKey | None:
        """The key that this review shares with the other phases of its write.

        None where there is no such key: a create has nothing stored yet.
        """
        if self._join_key is _NOT_ASKED:
            self._join_key = None
            if self.old_object is not None:
                old = self.old_object.metadata
                version = old.resource_version or ""
                self._join_key = self._key(self.wire.name, old.uid or "", version)
        return self._join_key

    def write_key(self, phase: Phase) -> JoinKey | None:
        """The key of an update of an object, of its creation, or of its deletion.

        None for a dry run, for what is none of these, and for names that no API server lets
        through. A deletion counts at its outcome alone. The name of a creation is a prefix where
        the API server makes the rest, and its version is the uid of the controller; the uid of
        the object is known at the outcome.
        Raises msgspec.MsgspecError for owners that are none.
        """
        shown = self.object
        if self.wire.dry_run:
            return None
        if self.operation is Operation.UPDATE:
            return None if shown is None else self.join_key
        is_outcome = phase is Phase.OUTCOME
        if self.operation is not Operation.CREATE:
            is_deleted = self.operation is Operation.DELETE and is_outcome
            shown = self.old_object if is_deleted else None
        if shown is None or self.subresource:
            return None
        metadata = shown.metadata
        prefix = metadata.generate_name or ""
        return self._key(
            prefix or self.wire.name or metadata.name or "",
            (metadata.uid or "") if is_outcome else "",
            metadata.controller.uid if prefix else "",
        )

    def _key(self, name: str, uid: str, version: str) -> JoinKey | None:
        wire, of = self.wire, self.wire.resource
        key = JoinKey(
            of.group,
            of.resource,
            wire.sub_resource,
            wire.namespace,
            name,
            uid,
            wire.user_info.username,
            version,
            bool(wire.dry_run),
        )
        return key if key.is_remembered else None

    @property
    def has_short_names(self) -> bool:
        """Whether kind and resource have names as the API server lets them through.

        What is remembered by kind and resource is bounded in number alone.
        """
        kind, resource = map(msgspec.structs.astuple, (self.wire.kind, self.wire.resource))
        names = "".join((*kind, *resource, self.wire.sub_resource))
        return sys.getsizeof(names) <= _LONGEST_NAMES

    @property
    def attributes(self) -> dict[str, Any]:
        """`request` as it was sent, without the objects; decoded at each call.

        Raises msgspec.MsgspecError for what `wire` does not check.
        """
        return self._read()


_PHASES: Final = frozenset({"/intent", "/mutate", "/repair", "/outcome"})
_NAME: Final = "genguard"
_LABEL: Final = "app.kubernetes.io/name"
"""On every configuration of manifests/; a namePrefix of kustomize does not change it."""


def own_phase(configuration: Mapping[str, Any], hook: Mapping[str, Any]) -> str:
    """The path of a genguard's webhook: /intent, /mutate, /outcome, or "/" for any other.

    "" for a webhook of others. A configuration is a genguard's by its label, or by a name and a
    path of the three. A field of the wrong type is not there.
    """
    metadata = mapping(configuration.get("metadata"))
    path = _path(mapping(hook.get("clientConfig")))
    if mapping(metadata.get("labels")).get(_LABEL) == _NAME:
        return path if path in _PHASES else "/"
    is_named = any(_NAME in str(part.get("name", "")) for part in (metadata, hook))
    return path if is_named and path in _PHASES else ""


def _path(client: Mapping[str, Any]) -> str:
    try:
        path = mapping(client.get("service")).get("path") or urlsplit(client.get("url") or "").path
    except (AttributeError, TypeError, ValueError):
        return ""
    return str(path)
