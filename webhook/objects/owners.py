"""The owner of an object: the object that its controller made it for."""

from typing import Final

import msgspec

LONGEST_UID: Final = 128
"""Bytes. A UUID has 36; longer texts are not kept."""


class _Owner(msgspec.Struct, frozen=True):
    uid: str = ""
    controller: bool | None = None


_owners: Final = msgspec.json.Decoder(tuple[_Owner, ...] | None)


def read_owner_uid(references: msgspec.Raw | msgspec.UnsetType) -> str:
    """Return the uid of the controller among raw ownerReferences, or else of the first owner.

    "" without owners, and for what is no list of owners: the API server stores none.
    """
    if isinstance(references, msgspec.UnsetType):
        return ""
    try:
        owners = _owners.decode(references) or ()
    except msgspec.ValidationError:
        return ""
    first = owners[0] if owners else None
    found = next((owner for owner in owners if owner.controller), first)
    uid = found.uid if found else ""
    return uid if len(uid.encode()) <= LONGEST_UID else ""
