"""The part of ObjectMeta that genguard reads: versions, owners, and times, compared by instant.

Source of times: apimachinery pkg/apis/meta/v1/time.go and micro_time.go.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from genguard.objects.fields import Fields

_Unset = msgspec.UnsetType


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Partial `metadata` (apimachinery pkg/apis/meta/v1/types.go:ObjectMeta).

    `generation` tells absent (UNSET), null (None) and a number apart; the API server reads the
    first two as 0. Labels, annotations and owners stay raw JSON.
    """

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | _Unset | None = msgspec.UNSET
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] | None = None
    labels: msgspec.Raw | _Unset = msgspec.UNSET
    annotations: msgspec.Raw | _Unset = msgspec.UNSET
    owner_references: msgspec.Raw | _Unset = msgspec.UNSET

    @property
    def stored_generation(self) -> int:
        """The generation as the API server's int64 field holds it: absent and null are 0."""
        return self.generation if isinstance(self.generation, int) else 0

    @property
    def controller(self) -> "Owner":
        """The owner that is the controller; without one, an owner of no name.

        Raises msgspec.MsgspecError for what is no list of owners.
        """
        raw = self.owner_references
        return _controller(() if isinstance(raw, _Unset) else read_owners(raw))


_MOST_DIGITS: Final = 18
"""So a resourceVersion fits into an int64."""


def version_number(resource_version: str | None) -> int:
    """Return a resourceVersion as a number (KEP-5504); 0 when it is not one."""
    text = resource_version or ""
    is_number = len(text) <= _MOST_DIGITS and text.isascii() and text.isdecimal()
    return int(text) if is_number else 0


_decoder = msgspec.json.Decoder(ObjectMeta)
_fields: Final = msgspec.json.Decoder(Fields)


def decode_metadata(fields: Fields) -> ObjectMeta:
    """The typed part of `metadata`; raises KeyError without one, msgspec.MsgspecError if bad."""
    return _decoder.decode(fields["metadata"])


def without_managed_fields(fields: Fields) -> Fields:
    """Return an object without metadata.managedFields; raises as `decode_metadata`."""
    metadata = _fields.decode(fields["metadata"])
    if metadata.pop("managedFields", None) is None:
        return fields
    return {**fields, "metadata": msgspec.Raw(msgspec.json.encode(metadata))}


def at_version(fields: Fields, resource_version: str) -> Fields:
    """Return an object with another resourceVersion; raises as `decode_metadata`."""
    version = msgspec.Raw(msgspec.json.encode(resource_version))
    metadata = {**_fields.decode(fields["metadata"]), "resourceVersion": version}
    return {**fields, "metadata": msgspec.Raw(msgspec.json.encode(metadata))}


SET_BY_SERVER: Final = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink"}
    | {"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "generateName"}
)
"""Fields of metadata that the API server sets, or that say which object it is."""
LONGEST_UID: Final = 128
"""Bytes. A UUID has 36; longer texts are not kept."""


class Owner(msgspec.Struct, frozen=True):
    """One entry of metadata.ownerReferences."""

    uid: str = ""
    kind: str = ""
    controller: bool | None = None


_owners: Final = msgspec.json.Decoder(tuple[Owner, ...] | None)


def read_owners(references: bytes | msgspec.Raw) -> tuple[Owner, ...]:
    """Return the owners in raw ownerReferences; raises msgspec.MsgspecError for no such list."""
    return _owners.decode(references) or ()


def _controller(owners: Iterable[Owner]) -> Owner:
    return next((owner for owner in owners if owner.controller), Owner())


def read_owner_uid(references: msgspec.Raw | msgspec.UnsetType) -> str:
    """Return the uid of the controller among raw ownerReferences, or else of the first owner.

    "" without owners, and for what is no list of owners: the API server stores none.
    """
    if isinstance(references, msgspec.UnsetType):
        return ""
    try:
        owners = read_owners(references)
    except msgspec.ValidationError:
        return ""
    uid = _controller(owners).uid or (owners[0].uid if owners else "")
    return uid if len(uid.encode()) <= LONGEST_UID else ""


def parse_time(text: str) -> datetime | None:
    """An RFC 3339 time with its offset, or None when the text is no such time."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


def rfc3339(seconds: float) -> str:
    """Unix seconds as RFC 3339 in UTC, as exact as they are."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def same_instant(a: object, b: object) -> bool:
    """Equal when both name the same instant; what does not parse is equal only to itself."""
    if type(a) is type(b) and a == b:
        return True
    if not (isinstance(a, str) and isinstance(b, str)):
        return False
    left, right = parse_time(a), parse_time(b)
    return left is not None and left == right
