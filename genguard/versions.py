"""Examines successive versions of objects, as a watch shows them: what no webhook sees.

The API server sends writes of webhook configurations and of admission policies to no webhook
(apiserver pkg/admission/plugin/webhook/rules/rules.go:IsExemptAdmissionConfigurationResource).
Each new version is examined as a write that was seen at its outcome alone. Its user is not known:
the field manager that wrote it last stands for one.

Bounded in objects and in bytes: the last version of each object is kept, compressed.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from zstandard import ZstdCompressor, ZstdDecompressor

from genguard.admission.review import (
    V1,
    AdmissionRequest,
    GroupVersionKind,
    GroupVersionResource,
    Operation,
    ReviewedObject,
    UserInfo,
    WireRequest,
)
from genguard.detection.reduce import Reviewed
from genguard.detection.write import MANAGER
from genguard.generation.transition import Engine, predict_with
from genguard.objects.bounded import Bounded
from genguard.objects.fields import Fields
from genguard.objects.metadata import at_version, without_managed_fields
from genguard.shipped import shipped

_KINDS: Final = shipped("genguard", "versions.yaml", dict[str, Any])
SENT_TO_NO_WEBHOOK: Final[tuple[str, ...]] = tuple(_KINDS["sent to no webhook"])
"""Kinds whose writes the API server sends to no webhook, as kubectl names them."""
NEVER_WATCHED: Final[dict[str, str]] = _KINDS["never watched"]
"""Kinds that are not watched, and why."""
MOST_OBJECTS: Final = 20_000
MOST_BYTES: Final = 24 * 1024 * 1024
_BYTES_OF_OBJECT: Final = 500
_LONGEST_VERSION: Final = 8 * 1024 * 1024
_NOBODY: Final = "unknown"


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of managedFields (apimachinery pkg/apis/meta/v1/types.go:ManagedFieldsEntry)."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    fields_v1: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="fieldsV1")


class _Managed(msgspec.Struct, rename="camel"):
    managed_fields: tuple[_Entry, ...] | None = None


_managed: Final = msgspec.json.Decoder(_Managed)
_kept: Final = msgspec.msgpack.Decoder(dict[str, bytes])


class _Version(NamedTuple):
    """The last version of an object: its entries by manager, and its fields, compressed."""

    entries: dict[tuple[str, str, str], int]
    packed: bytes


Examine = Callable[[Reviewed, float], None]
"""Takes the outcome of a write, and the time in seconds since the epoch."""


class Versions:
    """Remembers the last version of each object, and has each change examined."""

    def __init__(self, engine: Callable[[], Engine], examine: Examine) -> None:
        """`engine` returns what predicts generation now."""
        self._engine: Final = engine
        self._examine: Final = examine
        self._known: Final[Bounded[str, _Version]] = Bounded(MOST_OBJECTS, MOST_BYTES)

    @property
    def bytes(self) -> int:
        """About how many bytes of memory the versions take."""
        return self._known.bytes

    def see(self, resource: str, found: Fields, now: float) -> None:
        """Take in the current version of an object; `now` is seconds since the epoch.

        resource  its plural, such as `services`
        Raises KeyError and msgspec.MsgspecError for an object that cannot be decoded.
        """
        fields = without_managed_fields(found)
        metadata = ReviewedObject.of(fields).metadata
        uid = metadata.uid or ""
        entries = _managed.decode(found["metadata"]).managed_fields or ()
        before = self._known.get(uid)
        digests = {_of(entry): hash((entry.time, bytes(entry.fields_v1))) for entry in entries}
        plain = {key: bytes(raw) for key, raw in fields.items()}
        packed = ZstdCompressor().compress(msgspec.msgpack.encode(plain))
        self._known.put(uid, _Version(digests, packed), _BYTES_OF_OBJECT + len(packed))
        if before is None or before.packed == packed:
            return
        changed = [
            entry for entry in entries if before.entries.get(_of(entry)) != digests[_of(entry)]
        ]
        lost = [_Entry(*key) for key in sorted(before.entries.keys() - digests.keys())]
        # A manager that loses a field keeps the time of its write; so does one that writes twice in
        # a second. One that loses its last field has no entry more: nobody else is named then.
        candidates = changed or lost or entries
        dated = [entry for entry in candidates if entry.time is not None or entry in lost]
        writer = max(dated, key=lambda entry: entry.time or 0, default=_Entry(manager=_NOBODY))
        known = ZstdDecompressor().decompress(before.packed, max_output_size=_LONGEST_VERSION)
        old = ReviewedObject.of({k: msgspec.Raw(raw) for k, raw in _kept.decode(known).items()})
        if old.metadata.resource_version != metadata.resource_version:
            request = _request(resource, old, ReviewedObject.of(fields), writer)
            strategy, status = self._engine().strategy(request)
            self._examine(Reviewed(request, predict_with(strategy, status, request), status), now)

    def gone(self, uid: str) -> None:
        """Forget an object that was deleted."""
        self._known.pop(uid)


def _of(entry: _Entry) -> tuple[str, str, str]:
    return entry.manager, entry.operation, entry.subresource


def _request(
    resource: str, old: ReviewedObject, new: ReviewedObject, writer: _Entry
) -> AdmissionRequest:
    metadata = new.metadata
    kind, api_version = (
        msgspec.json.decode(new.fields[key], type=str) for key in ("kind", "apiVersion")
    )
    group, _, version = api_version.rpartition("/")
    wire = WireRequest(
        uid="",
        kind=GroupVersionKind(group, version, kind),
        resource=GroupVersionResource(group, version, resource),
        operation=Operation.UPDATE,
        sub_resource=writer.subresource if writer.subresource == "status" else "",
        name=metadata.name or "",
        namespace=metadata.namespace or "",
        user_info=UserInfo(f"{MANAGER}{writer.manager}"),
        options=msgspec.Raw(msgspec.json.encode({"fieldManager": writer.manager})),
    )
    # Until it is stored an object shows the version that it comes from.
    shown = ReviewedObject.of(at_version(new.fields, old.metadata.resource_version or ""))
    # No condition is evaluated that would see more of a request.
    seen = {"name": wire.name, "namespace": wire.namespace}
    return AdmissionRequest(V1, wire, shown, old, lambda: seen)
