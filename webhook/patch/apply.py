"""RFC 6902 add and replace on a decoded document: the self-check before a patch is sent."""

from copy import deepcopy
from functools import lru_cache
from typing import Any, Final

from webhook.admission.review import PatchOperation
from webhook.objects.pointer import from_pointer, to_pointer

_tokens: Final = lru_cache(256)(from_pointer)


class CannotApplyError(Exception):
    """An operation does not fit the document; the API server would fail the user's request."""


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
    raise CannotApplyError(f"no such place: {to_pointer(so_far)}")


def _index(target: list[Any], text: str, pointer: str) -> int:
    if not text.isdecimal() or (text != "0" and text.startswith("0")):
        raise CannotApplyError(f"no list index at {pointer}")
    if int(text) >= len(target):
        raise CannotApplyError(f"index out of range at {pointer}")
    return int(text)
