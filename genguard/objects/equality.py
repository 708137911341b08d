"""Equality of untyped JSON, as the API server compares custom resources.

Custom resources are compared as `map[string]interface{}` with Semantic.DeepEqual
(apiextensions-apiserver pkg/registry/customresource/strategy.go:PrepareForUpdate): there an int64
is never a float64, so `1` is not `1.0`; null is not `[]`; a missing key is not an empty one.
"""

from typing import Any

import msgspec


def same_json(a: Any, b: Any) -> bool:
    """Equal values of equal JSON types, keys in any order, lists in order.

    Iterative, so that depth costs no stack: the API server accepts 10,000 levels.
    """
    stack = [(a, b)]
    while stack:
        left, right = stack.pop()
        if type(left) is not type(right):
            return False
        if isinstance(left, dict):
            if left.keys() != right.keys():
                return False
            stack.extend((value, right[key]) for key, value in left.items())
        elif isinstance(left, list):
            if len(left) != len(right):
                return False
            stack.extend(zip(left, right, strict=True))
        elif left != right:
            return False
    return True


def same_raw(a: msgspec.Raw | None, b: msgspec.Raw | None) -> bool:
    """Compare two undecoded values; equal bytes answer without decoding.

    Raises msgspec.MsgspecError and RecursionError as msgspec.json.decode does.
    """
    if a is None or b is None:
        return a is b
    return a == b or same_json(msgspec.json.decode(a), msgspec.json.decode(b))
