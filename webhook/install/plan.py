"""Compare an object with its manifest: create it, update it, or leave it unchanged.

Reads   the live object, and the API server's answer to a dry run of the same request. So defaults
        and fields of other owners are no difference
Result  one step for each object, with the names of the fields that would change, never values
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from genguard.objects.fields import Path, to_field_path
from webhook.manifest.documents import Document, title_of

_SERVER_FIELDS: Final = frozenset(
    {"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink"}
)
_NAMED_FIELDS: Final = 4


class Action(StrEnum):
    """What a step does to an object."""

    CREATE = "create"
    UPDATE = "update"
    UNCHANGED = "unchanged"
    DELETE = "delete"


class Step(NamedTuple):
    """One object: what is done, which fields change, and a note for the user."""

    action: Action
    document: Document
    fields: tuple[str, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        text = ", ".join(self.fields[:_NAMED_FIELDS])
        if len(self.fields) > _NAMED_FIELDS:
            text += f" and {len(self.fields) - _NAMED_FIELDS} more"
        remark = "; ".join(filter(None, (text, self.note)))
        return f"{self.action:10}{title_of(self.document)}{f'  ({remark})' if remark else ''}"


def compare(wanted: Document, live: Document | None, would: Document) -> Step:
    """Return the step for one object: `live` exists now, `would` is the answer to the dry run."""
    if live is None:
        return Step(Action.CREATE, wanted)
    fields = tuple(dict.fromkeys(to_field_path(path) for path in differences(live, would)))
    return Step(Action.UPDATE if fields else Action.UNCHANGED, wanted, fields)


def differences(one: Any, other: Any, at: Path = ()) -> Iterator[Path]:
    """Yield the deepest paths at which two documents differ, without fields of the server."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other} - _ignored(at)):
            yield from differences(one.get(key), other.get(key), (*at, key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (this, that) in enumerate(zip(one, other, strict=True)):
            yield from differences(this, that, (*at, index))
    elif one != other:
        yield at


def _ignored(at: Path) -> frozenset[str]:
    if at == ("metadata",):
        return _SERVER_FIELDS
    return frozenset() if at else frozenset({"status"})
