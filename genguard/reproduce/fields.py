"""The fields of a recorded object that people, controllers and webhooks write."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from genguard.objects.fields import ABSENT
from genguard.reproduce.loop import Field
from genguard.reproduce.recorded import Document

_OF_SERVER: Final = (
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink", "generateName",
)  # fmt: skip


def own_fields(document: Document, *, with_kind: bool = False) -> Document:
    """Return an object without what the server writes."""
    kept: Document = {
        key: value for key, value in document.items() if key not in ("apiVersion", "kind")
    }
    metadata = document.get("metadata") or {}
    kept["metadata"] = {key: one for key, one in metadata.items() if key not in _OF_SERVER}
    if with_kind:
        names = {key: metadata[key] for key in ("name", "namespace") if metadata.get(key)}
        if "name" not in names:
            names["generateName"] = "object-"
        kind: Document = {key: document[key] for key in ("apiVersion", "kind") if key in document}
        kept = {**kind, **kept, "metadata": {**names, **kept["metadata"]}}
    return kept


def without(document: Document, fields: AbstractSet[Field], at: Field = ()) -> Document:
    """Return an object without these fields."""
    return {
        key: without(value, fields, (*at, key)) if isinstance(value, dict) else value
        for key, value in document.items()
        if (*at, key) not in fields
    }


def differences(old: Any, new: Any, field: Field = ()) -> Iterator[tuple[Field, Any, Any]]:
    """Yield each field that differs, with both values; a list is one value."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            if field != ("metadata",) or key not in _OF_SERVER:
                yield from differences(old.get(key, ABSENT), new.get(key, ABSENT), (*field, key))
    elif old is ABSENT and isinstance(new, dict) and new:
        yield from differences({}, new, field)
    elif new is ABSENT and isinstance(old, dict) and old:
        yield from differences(old, {}, field)
    elif old is ABSENT or new is ABSENT or old != new:
        yield field, old, new


def is_renewed(values: Sequence[Any]) -> bool:
    """Whether a field never had the same text or number again."""
    plain = [one for one in values if isinstance(one, str | int) and not isinstance(one, bool)]
    return 1 < len(plain) == len(values) == len(set(plain))
