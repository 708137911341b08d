"""Read metadata.managedFields: which manager owns each field of an object, and since when.

A manager that writes a field by an update takes it from all others; one that applies the same
value owns it beside them. Its time is that of its last change of any field: a field may be older.
The API server writes them by what is asked for, before webhooks act: a value that one changes is
the requester's, and one that it removes is still said to be.

fieldsV1 has `f:KEY` for a key, `k:{KEYS}` for an item of a list by its keys, `v:VALUE` for an item
of a set, `i:INDEX` for an item by index, and `.` for the object or list itself. What has nothing
below it is a value, or an atomic list or object that is owned as a whole.

Source: apimachinery pkg/apis/meta/v1/types.go:ManagedFieldsEntry,
pkg/util/managedfields/internal/fieldmanager.go and structuredmerge.go; apiserver
pkg/endpoints/handlers/create.go and update.go;
sigs.k8s.io/structured-merge-diff/v6/fieldpath/serialize-pe.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from genguard.blame.field_paths import KEY_DEFAULTS, FieldPath, Item, children, leaves
from genguard.objects.fields import ABSENT, get

BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""The manager of whatever an object had when server-side apply first met it without managers."""


class Manager(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of managedFields; `time` is RFC 3339, None where the entry has none."""

    api_version: str = ""
    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: str | None = None
    fields_v1: dict[str, Any] | None = None

    @property
    def through(self) -> str:
        """How it writes: `Apply`, `Update`, `Update /status`."""
        where = f" /{self.subresource}" if self.subresource else ""
        return f"{self.operation}{where}"


class UnreadableFieldsError(Exception):
    """The managedFields are none that an API server writes; the message says where."""


def owners(document: Mapping[str, Any]) -> dict[FieldPath, tuple[Manager, ...]]:
    """Return the managers of each leaf, the latest first; a leaf without any is left out.

    Raises UnreadableFieldsError.
    """
    found: dict[FieldPath, tuple[int, list[Manager]]] = {}
    try:
        for manager in _entries(document):
            for claim, value in _claims(manager.fields_v1 or {}, document, ()):
                for path, _ in () if value is ABSENT else leaves(value, claim):
                    # An owner of a whole object owns no key of it that somebody owns by itself.
                    depth, managers = found.get(path, (0, []))
                    if len(claim) > depth or path not in found:
                        found[path] = (len(claim), [manager])
                    elif len(claim) == depth and managers[-1] is not manager:
                        managers.append(manager)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UnreadableFieldsError(f"metadata.managedFields cannot be read: {error}") from error
    return {
        # An update before an apply of the same second; without a time comes last.
        path: tuple(
            sorted(all_, key=lambda by: (by.time or "", by.operation != "Apply"), reverse=True)
        )
        for path, (_, all_) in found.items()
    }


def taken(document: Mapping[str, Any]) -> dict[FieldPath, tuple[Manager]]:
    """Return who sent each field that was gone before it was stored.

    Who removes it later takes it from its manager, too. Raises as `owners` does.
    """
    return {
        path: (manager,)
        for manager in _entries(document)
        if manager.api_version == document.get("apiVersion")
        for path, value in _claims(manager.fields_v1 or {}, document, ())
        if value is ABSENT
    }


def atomic_paths(document: Mapping[str, Any]) -> frozenset[FieldPath]:
    """Return the objects and lists that are one value: somebody owns each, and nobody a part.

    They are the atomic lists and objects of the schema. None is known of unreadable managedFields.
    """
    try:
        entries = _entries(document)
        claims = {
            claim for entry in entries for claim, _ in _claims(entry.fields_v1 or {}, document, ())
        }
    except (msgspec.MsgspecError, RecursionError):
        return frozenset()
    return frozenset(claims - {claim[:depth] for claim in claims for depth in range(1, len(claim))})


def _entries(document: Mapping[str, Any]) -> list[Manager]:
    entries = get(document, "metadata", "managedFields")
    return msgspec.convert([] if entries is ABSENT else entries, list[Manager] | None) or []


def _claims(
    fields: Mapping[str, Any], value: Any, path: FieldPath
) -> Iterator[tuple[FieldPath, Any]]:
    """Yield what an entry owns as a whole; a key that the object lacks is ABSENT."""
    for key, below in fields.items():
        if key == ".":
            if not value:
                yield path, value
            continue
        for step, child in _named(key, value, path):
            if below and isinstance(below, dict):
                yield from _claims(below, child, (*path, step))
            else:
                yield (*path, step), child


def _named(key: str, value: Any, path: FieldPath) -> Iterator[tuple[str, Any]]:
    sort, _, text = key.partition(":")
    if sort == "f":
        if isinstance(value, dict) or value is ABSENT:
            yield text, get(value, text)
        return
    wanted = msgspec.json.decode(text)
    for step, item in children(value, path):
        if isinstance(step, Item) and _is(sort, wanted, item, step.at):
            yield step, item
            return


def _is(sort: str, wanted: Any, item: Any, index: int) -> bool:
    if sort == "i":
        return bool(wanted == index)
    if sort == "v":
        return bool(wanted == item)
    if not (isinstance(wanted, dict) and isinstance(item, dict)):
        return False
    return all(item.get(key, KEY_DEFAULTS.get(key)) == value for key, value in wanted.items())
