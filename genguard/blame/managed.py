"""Read metadata.managedFields: which manager owns each field of an object, and since when.

A manager that writes a field by an update takes it from all others; one that applies the same
value owns it beside them. Its time is that of its last change of any field: a field may be older.
Changes that webhooks make on the way count as the requester's.

fieldsV1 has `f:KEY` for a key, `k:{KEYS}` for an item of a list by its keys, `v:VALUE` for an item
of a set, `i:INDEX` for an item by index, and `.` for the object or list itself. What has nothing
below it is a value, or an atomic list or object that is owned as a whole.

Source: apimachinery pkg/apis/meta/v1/types.go:ManagedFieldsEntry,
pkg/util/managedfields/internal/fieldmanager.go and structuredmerge.go;
sigs.k8s.io/structured-merge-diff/v6/fieldpath/serialize-pe.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from genguard.blame.places import KEY_DEFAULTS, Place, children, leaves

BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""The manager of whatever an object had when server-side apply first met it without managers."""
_DEEPEST: Final = 200


class Manager(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of managedFields; `time` is RFC 3339, "" where the entry has none."""

    manager: str
    operation: str
    subresource: str
    time: str

    @property
    def through(self) -> str:
        """How it writes: `Apply`, `Update`, `Update /status`."""
        where = f" /{self.subresource}" if self.subresource else ""
        return f"{self.operation}{where}"


class UnreadableFieldsError(Exception):
    """The managedFields are none that an API server writes; the message says where."""


def owners(document: Mapping[str, Any]) -> dict[Place, tuple[Manager, ...]]:
    """Return the managers of each leaf, the latest first; a leaf without any is left out.

    Raises UnreadableFieldsError.
    """
    found: dict[Place, tuple[int, list[Manager]]] = {}
    metadata = document.get("metadata")
    entries = metadata.get("managedFields") if isinstance(metadata, dict) else None
    for index, entry in enumerate(entries or () if isinstance(entries, list | None) else [entries]):
        where = f"metadata.managedFields[{index}]"
        manager, fields = _read(entry, where)
        for claim in _claims(fields, document, (), where):
            for place, _ in leaves(*_at(document, claim)):
                # An owner of a whole object owns no key of it that somebody owns by itself.
                depth, managers = found.get(place, (0, []))
                if len(claim) > depth or place not in found:
                    found[place] = (len(claim), [manager])
                elif len(claim) == depth and manager not in managers:
                    managers.append(manager)
    return {place: _latest_first(managers) for place, (_, managers) in found.items()}


def _read(entry: Any, where: str) -> tuple[Manager, Mapping[str, Any]]:
    if not isinstance(entry, dict):
        raise UnreadableFieldsError(f"{where} is no object")
    texts = [entry.get(key, "") for key in ("manager", "operation", "subresource", "time")]
    if not all(one is None or isinstance(one, str) for one in texts):
        raise UnreadableFieldsError(f"{where} has a value that is no text")
    kind = entry.get("fieldsType", "FieldsV1")
    if kind != "FieldsV1":
        raise UnreadableFieldsError(f"{where}.fieldsType is not FieldsV1")
    fields = entry.get("fieldsV1") or {}
    if not isinstance(fields, dict):
        raise UnreadableFieldsError(f"{where}.fieldsV1 is no object")
    return Manager(*(one or "" for one in texts)), fields


def _claims(fields: Mapping[str, Any], value: Any, place: Place, where: str) -> Iterator[Place]:
    """Yield the places that an entry owns as a whole and that the object still has."""
    if len(place) > _DEEPEST:
        raise UnreadableFieldsError(f"{where}.fieldsV1 is nested too deep")
    for key, below in fields.items():
        if key == ".":
            if not list(children(value, place)):
                yield place
            continue
        found = _step(key, value, place, where)
        if found is None:
            continue  # it was removed since, or is of another version of the kind
        deeper, child = found
        if not isinstance(below, dict):
            raise UnreadableFieldsError(f"{where}.fieldsV1 has a value that is no object")
        if below:
            yield from _claims(below, child, deeper, where)
        else:
            yield deeper


def _step(key: str, value: Any, place: Place, where: str) -> tuple[Place, Any] | None:
    sort, colon, text = key.partition(":")
    if not colon or sort not in ("f", "k", "v", "i"):
        raise UnreadableFieldsError(f"{where}.fieldsV1 has a key that is none of f:, k:, v:, i:")
    steps = list(children(value, place))
    if sort == "f":
        found = (
            next((one for one in steps if one[0] == text), None)
            if (isinstance(value, dict))
            else None
        )
    else:
        try:
            wanted = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise UnreadableFieldsError(f"{where}.fieldsV1 has a key that is no JSON") from error
        items = steps if isinstance(value, list) else []
        found = next((one for i, one in enumerate(items) if _is(sort, wanted, one[1], i)), None)
    return None if found is None else ((*place, found[0]), found[1])


def _is(sort: str, wanted: Any, item: Any, index: int) -> bool:
    if sort == "i":
        return bool(wanted == index)
    if sort == "v":
        return bool(wanted == item)
    if not (isinstance(wanted, dict) and isinstance(item, dict)):
        return False
    return all(item.get(key, KEY_DEFAULTS.get(key)) == value for key, value in wanted.items())


def _at(document: Any, place: Place) -> tuple[Any, Place]:
    here: Place = ()
    for step in place:
        document = dict(children(document, here))[step]
        here = (*here, step)
    return document, place


def _latest_first(managers: list[Manager]) -> tuple[Manager, ...]:
    """Sort by time, an update before an apply of the same second; without a time comes last."""
    found = sorted(managers, key=lambda one: one.operation == "Apply")
    return tuple(sorted(found, key=lambda one: one.time, reverse=True))
