"""Find which fields differ between two views of an object, and which observedGeneration was lost.

Relies  on genguard.detection.changes, which matches list items by their type, name or uid
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from genguard.admission.review import AdmissionRequest
from genguard.detection.changes import Change, changes
from genguard.objects.fields import ABSENT, Fields

_OBSERVED: Final = "observedGeneration"


class ChangeType(StrEnum):
    """How a field changed."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


class Clobber(StrEnum):
    """How an observedGeneration was damaged."""

    CLEARED = "cleared"  # absent, null, 0 or ""
    LOWERED = "lowered"


class Effect(NamedTuple):
    """One field that differs. The values are object contents: printed only with --values."""

    pointer: str
    change: ChangeType
    clobber: Clobber | None
    discarded: bool  # the API server ignores this field in such a write
    before: Any
    after: Any


def effects(before: AdmissionRequest, after: AdmissionRequest, *, status: bool) -> list[Effect]:
    """List the fields that changed between two views; `status`: the resource has that subresource.

    Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
    """
    a, b = _fields(before), _fields(after)
    return _effects(a, b, sorted(a.keys() | b.keys()), after.subresource, status=status)


def requested_effects(first: AdmissionRequest, *, status: bool) -> list[Effect]:
    """List what the requester changed: stored object against first view, without metadata.

    Raises as `effects` does.
    """
    old = first.old_object.content if first.old_object is not None else {}
    new = first.object.content if first.object is not None else {}
    keys = sorted(old.keys() | new.keys())
    found = _effects(old, new, keys, first.subresource, status=status)
    return [one for one in found if not one.discarded]


def carried(view: AdmissionRequest, *, status: bool) -> list[str]:
    """Name the observedGeneration values of a view that a webhook could clobber: none is lost else.

    Raises as `effects` does.
    """
    if view.object is None or _discarded("status", view.subresource, status=status):
        return []
    observed = view.object.observed
    if observed is None:
        return []
    own = ["status.observedGeneration"] if observed.own is not None else []
    return own + [
        f"status.conditions[{one.type}].observedGeneration"
        for one in observed.conditions
        if one.type is not None and one.observed is not None
    ]


def status_as_reported(document: Mapping[str, Any], *, status: bool) -> dict[str, Any]:
    """Make a merge patch that gives a stored object the observedGeneration values that it lacks.

    Its controller would send the same: the generation of now. Once a value is cleared in the stored
    object, a write that does not carry it cannot show who clears it. The patch is empty when
    nothing is lacking, or the object has no generation.
    """
    generation = document.get("metadata", {}).get("generation")
    found = document.get("status")
    if not generation or not (isinstance(found, dict) or (status and found is None)):
        return {}
    given = found or {}
    changed: dict[str, Any] = {}
    if _is_cleared(given.get(_OBSERVED, ABSENT)):
        changed[_OBSERVED] = generation
    conditions = given.get("conditions")
    if isinstance(conditions, list) and all(isinstance(one, dict) for one in conditions):
        # A merge patch replaces a list as a whole.
        whole = [
            {**one, _OBSERVED: generation} if _is_cleared(one.get(_OBSERVED, ABSENT)) else one
            for one in conditions
        ]
        if whole != conditions:
            changed["conditions"] = whole
    return {"status": changed} if changed else {}


def _effects(
    before: Fields, after: Fields, keys: list[str], subresource: str, *, status: bool
) -> list[Effect]:
    decoded: dict[str, tuple[Any, Any]] = {}
    found = []
    for change in changes(before, after, keys):
        top = str(change.key[0])
        if top not in decoded:
            decoded[top] = _decoded(before, top), _decoded(after, top)
        old, new = decoded[top]
        discarded = _discarded(top, subresource, status=status)
        found.append(_effect(change, old, new, discarded=discarded))
    return found


def _effect(change: Change, old: Any, new: Any, *, discarded: bool) -> Effect:
    kind = (
        ChangeType.ADDED
        if change.added
        else ChangeType.REMOVED
        if change.removed
        else ChangeType.CHANGED
    )
    before, after = _at(old, change.key[1:]), _at(new, change.key[1:])
    clobber = None
    # A condition that was removed as a whole is not a cleared observedGeneration.
    whole = len(change.key) > 2 and _at(new, change.key[1:-1]) is ABSENT  # noqa: PLR2004
    if change.key[0] == "status" and change.key[-1] == _OBSERVED and not discarded and not whole:
        clobber = _clobber(before, after)
    return Effect(change.pointer, kind, clobber, discarded, before, after)


def _clobber(before: Any, after: Any) -> Clobber | None:
    if _is_cleared(before):
        return None
    if _is_cleared(after):
        return Clobber.CLEARED
    if type(before) is int and type(after) is int and after < before:
        return Clobber.LOWERED
    return None


def _is_cleared(value: Any) -> bool:
    return value is ABSENT or value is None or value == "" or (type(value) is int and value == 0)


def _discarded(key: str, subresource: str, *, status: bool) -> bool:
    """Whether the API server ignores this field. A status write changes status alone."""
    if subresource == "status":
        return key not in {"status", "metadata"}
    return key == "status" and status


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return the value at the key of a Change. A step into a list is `field=name` or an index."""
    for token in path:
        if isinstance(value, dict):
            value = value.get(token, ABSENT)
        elif isinstance(value, list) and isinstance(token, int):
            value = value[token] if token < len(value) else ABSENT
        elif isinstance(value, list):
            field, _, name = str(token).partition("=")
            named = (one for one in value if isinstance(one, dict) and one.get(field) == name)
            value = next(named, ABSENT)
        else:
            return ABSENT
    return value


def _decoded(fields: Fields, key: str) -> Any:
    raw = fields.get(key)
    return ABSENT if raw is None else msgspec.json.decode(raw)


def _fields(view: AdmissionRequest) -> Fields:
    return view.object.fields if view.object is not None else {}
