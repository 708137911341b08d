"""Edits → RFC 6902 operations, checked by applying them before they are sent.

An operation that does not apply fails the user's request even with failurePolicy Ignore
(apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go:callAttrMutatingHook), so edits that
do not survive the check are dropped, never sent.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, Protocol

import msgspec

from webhook.admission.review import PatchOperation
from webhook.objects.fields import ABSENT
from webhook.objects.metadata import ObjectMeta
from webhook.objects.pointer import Path, to_pointer
from webhook.patch.apply import CannotApplyError, apply_operation
from webhook.patch.edit import Edit

_pointer: Final = lru_cache(256)(to_pointer)
"""Rules edit few places, again and again."""
GENERATION: Final[Path] = ("metadata", "generation")


class Plan(NamedTuple):
    """Operations to send, the edits that could not be turned into any, and what was edited.

    `edited` holds the touched top-level fields as they are after the operations; what no edit led
    into is still raw.
    """

    operations: tuple[PatchOperation, ...]
    dropped: tuple[Edit, ...]
    edited: dict[str, Any]


class Readable(Protocol):
    """An object, or its fields."""

    def get(self, key: str, /) -> msgspec.Raw | None:
        """One top-level field, undecoded; None where there is none."""


def plan_generation(metadata: ObjectMeta, generation: int) -> PatchOperation:
    """What sets metadata.generation: it applies to any object whose metadata has been read."""
    op: Literal["add", "replace"] = "add" if metadata.generation is msgspec.UNSET else "replace"
    return PatchOperation(op, _pointer(GENERATION), generation)


def plan_patch(fields: Readable, edits: Iterable[Edit]) -> Plan:
    """Operations that carry out `edits` on the object; edits already true need none.

    Decodes only what lies on the way to an edit: a pod's managedFields stay unread.
    """
    document: dict[str, Any] = {}
    operations: list[PatchOperation] = []
    dropped: list[Edit] = []
    for edit in edits:
        key = str(edit.path[0])
        if key not in document and (raw := fields.get(key)) is not None:
            document[key] = raw
        try:
            wanted = _operations(document, edit)
            for operation in wanted:
                apply_operation(document, operation)
            _check(document, edit)
        except CannotApplyError:
            # What an earlier operation of this edit did to the scratch document is harmless:
            # it was only ever an empty parent.
            dropped.append(edit)
        else:
            operations += wanted
    return Plan(tuple(operations), tuple(dropped), document)


def _operations(document: Any, edit: Edit) -> list[PatchOperation]:
    """At most one operation: the deepest existing parent gets the value, wrapped as needed."""
    parent = document
    for depth, token in enumerate(edit.path):
        child = _child(parent, edit.path, depth)
        if child is ABSENT or (child is None and depth < len(edit.path) - 1):
            value = edit.value
            for missing in reversed(edit.path[depth + 1 :]):
                if isinstance(missing, int):
                    raise CannotApplyError  # there is no list to index
                value = {missing: value}
            # "add" replaces the null of a parent and creates what is absent.
            return [PatchOperation("add", _pointer((*edit.path[:depth], token)), value)]
        parent = child
    if type(parent) is type(edit.value) and parent == edit.value:
        return []
    return [PatchOperation("replace", _pointer(edit.path), edit.value)]


_Level = dict[str, msgspec.Raw] | list[msgspec.Raw] | str | float | int | bool | None
_level_decoder: Final = msgspec.json.Decoder(_Level)


def _child(parent: Any, path: Path, depth: int) -> Any:
    """One step down; a raw value that is met is decoded in its place, to the end at the last."""
    token = path[depth]
    if isinstance(parent, dict) and isinstance(token, str):
        child = parent.get(token, ABSENT)
    elif isinstance(parent, list) and isinstance(token, int) and 0 <= token < len(parent):
        child = parent[token]
    else:
        raise CannotApplyError  # a scalar, or an index where names are, or beyond the end
    if isinstance(child, msgspec.Raw):
        last = depth == len(path) - 1
        child = msgspec.json.decode(child) if last else _level_decoder.decode(child)
        parent[token] = child
    return child


def _check(document: Any, edit: Edit) -> None:
    value = document
    for depth in range(len(edit.path)):
        value = _child(value, edit.path, depth)
    if msgspec.json.encode(value) != msgspec.json.encode(edit.value):
        raise CannotApplyError
