"""The owners of an object, and which of them is its controller."""

from collections.abc import Iterable
from typing import Final

import msgspec

LONGEST_UID: Final = 128
"""Bytes. A UUID has 36; longer texts are not kept."""


class Owner(msgspec.Struct, frozen=True):
    """One entry of metadata.ownerReferences."""

    uid: str = ""
    controller: bool | None = None


_owners: Final = msgspec.json.Decoder(tuple[Owner, ...] | None)


def read_owners(references: bytes | msgspec.Raw) -> tuple[Owner, ...]:
    """Return the owners in raw ownerReferences; raises msgspec.MsgspecError for no such list."""
    return _owners.decode(references) or ()


def controller_uid(owners: Iterable[Owner]) -> str:
    """Return the uid of the owner that is the controller, "" without one."""
    return next((one.uid for one in owners if one.controller), "")


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
    first = owners[0] if owners else None
    found = next((owner for owner in owners if owner.controller), first)
    uid = found.uid if found else ""
    return uid if len(uid.encode()) <= LONGEST_UID else ""
