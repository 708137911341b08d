"""Edits → RFC 6902 operations, checked by applying them before they are sent.

An operation that does not apply fails the user's request even with failurePolicy Ignore
(apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go:callAttrMutatingHook), so edits that
do not survive the check are dropped, never sent.
"""

from collections.abc import Iterable
from copy import deepcopy
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, Protocol

import msgspec

from genguard.admission.review import PatchOperation
from genguard.objects.fields import ABSENT, Path, from_pointer, to_pointer
from genguard.objects.metadata import ObjectMeta


class Edit(msgspec.Struct, frozen=True):
    """Set the value at `path`. Missing objects on the path are made, items of lists are not."""

    path: Path
    value: Any

    @property
    def shown(self) -> Any:
        """The value for logs and audit annotations; '...' for every field but generations."""
        if not str(self.path[-1]).lower().endswith("generation"):
            return "..."
        number = isinstance(self.value, int) or str(self.value).lstrip("-").isdecimal()
        return self.value if number else "..."


_pointer: Final = lru_cache(256)(to_pointer)
"""Cached: rules edit few paths, again and again."""
_tokens: Final = lru_cache(256)(from_pointer)
GENERATION: Final[Path] = ("metadata", "generation")


class CannotApplyError(Exception):
    """An operation does not fit the document; the API server would fail the user's request."""


class Plan(NamedTuple):
    """A patch, and what is left out of it.

    operations  to be sent
    dropped     edits for which there is no operation that applies
    edited      the edited top-level fields as they are after the operations; parts of them that no
                edit leads into are still raw JSON
    """

    operations: tuple[PatchOperation, ...]
    dropped: tuple[Edit, ...]
    edited: dict[str, Any]


class Readable(Protocol):
    """An object, or its fields."""

    def get(self, key: str, /) -> msgspec.Raw | None:
        """A top-level field as raw JSON; None where the object does not have it."""


def plan_generation(metadata: ObjectMeta, generation: int) -> PatchOperation:
    """The operation that sets metadata.generation; it applies to every object with metadata."""
    op: Literal["add", "replace"] = "add" if metadata.generation is msgspec.UNSET else "replace"
    return PatchOperation(op, _pointer(GENERATION), generation)


def plan_patch(fields: Readable, edits: Iterable[Edit]) -> Plan:
    """Turn `edits` of an object into operations; an edit that is already true needs none.

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
    """At most one operation: it puts the value, wrapped as needed, into the deepest parent."""
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
    """The child of `parent` at a step of the path; raw JSON is decoded and put in its place.

    The last step of the path decodes all of a value, the others only its next level.
    """
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


def apply_operation(document: Any, operation: PatchOperation) -> None:
    """Apply one operation in place, as strictly as RFC 6902 section 4 asks.

    Items of a list are only replaced: genguard never inserts into one. Raises CannotApplyError
    when the parent is missing or a scalar, or the index is out of range.
    """
    *parents, last = _tokens(operation.path)
    target = document
    for depth, token in enumerate(parents):
        target = _step(target, token, parents[: depth + 1])
    if isinstance(target, dict):
        if operation.op == "replace" and last not in target:
            raise CannotApplyError(f"nothing to replace at {operation.path}")
        target[last] = deepcopy(operation.value)
    elif isinstance(target, list) and operation.op == "replace":
        target[_index(target, last, operation.path)] = deepcopy(operation.value)
    else:
        raise CannotApplyError(f"the parent of {operation.path} cannot take an {operation.op}")


def _step(target: Any, token: str, so_far: list[str]) -> Any:
    if isinstance(target, dict) and token in target:
        return target[token]
    if isinstance(target, list):
        return target[_index(target, token, to_pointer(so_far))]
    raise CannotApplyError(f"no such path: {to_pointer(so_far)}")


def _index(target: list[Any], text: str, pointer: str) -> int:
    if not text.isdecimal() or (text != "0" and text.startswith("0")):
        raise CannotApplyError(f"no list index at {pointer}")
    if int(text) >= len(target):
        raise CannotApplyError(f"index out of range at {pointer}")
    return int(text)
