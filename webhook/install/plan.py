"""What installing would do to each object: create it, update it, or nothing.

Reads   what the API server has, and what it says that it would have: the answer to a dry run of
        the very request, so defaults and other people's fields make no difference here
Result  one step an object, with the fields that would change; contents are never told
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from webhook.manifest.documents import title_of
from webhook.manifest.kustomize import Document
from webhook.objects.pointer import Path, to_field_path

_SERVERS_OWN: Final = frozenset(
    {"managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink"}
)
_TOLD: Final = 4


class Action(StrEnum):
    """What becomes of an object."""

    CREATE = "create"
    UPDATE = "update"
    UNCHANGED = "unchanged"
    DELETE = "delete"


class Step(NamedTuple):
    """One object; `fields` are those that change, `note` says why where that is not plain."""

    action: Action
    document: Document
    fields: tuple[str, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        told = ", ".join(self.fields[:_TOLD])
        if len(self.fields) > _TOLD:
            told += f" and {len(self.fields) - _TOLD} more"
        remark = "; ".join(filter(None, (told, self.note)))
        return f"{self.action:10}{title_of(self.document)}{f'  ({remark})' if remark else ''}"


def compare(wanted: Document, live: Document | None, would: Document) -> Step:
    """The step for one object; `live` is what there is, `would` what there would be."""
    if live is None:
        return Step(Action.CREATE, wanted)
    fields = tuple(dict.fromkeys(to_field_path(path) for path in differences(live, would)))
    return Step(Action.UPDATE if fields else Action.UNCHANGED, wanted, fields)


def differences(one: Any, other: Any, at: Path = ()) -> Iterator[Path]:
    """The deepest places where two documents differ, but for what only the server writes."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other} - _left_out(at)):
            yield from differences(one.get(key), other.get(key), (*at, key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (this, that) in enumerate(zip(one, other, strict=True)):
            yield from differences(this, that, (*at, index))
    elif one != other:
        yield at


def _left_out(at: Path) -> frozenset[str]:
    if at == ("metadata",):
        return _SERVERS_OWN
    return frozenset() if at else frozenset({"status"})
