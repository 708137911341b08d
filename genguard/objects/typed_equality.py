"""Equality of built-in kinds: how the API server's Go types compare, over JSON.

Two rules of the API server, told apart by the kind's strategy:

- semantic (apimachinery pkg/api/equality/semantic.go and third_party/forked/golang/reflect):
  nil and empty lists and maps are equal, quantities compare by value, times by instant;
- reflect (reflect.DeepEqual): the same Go types, but nil and empty differ.

Which field is a list, a pointer or a Quantity is not visible in JSON. `type_shapes.json` holds it,
printed from the Go types by tests/controlplane/typeshapes. A pointer to an empty struct is not the
same as none; a zero number or string held by value is the same as absent. What the shapes do not
know (a newer field, IntOrString) compares as plain JSON.
"""

from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from genguard.objects.equality import same_json
from genguard.objects.instant import same_instant
from genguard.objects.quantity import same_quantity


class Shapes(msgspec.Struct, frozen=True):
    """Go types by name: field → code, as tests/controlplane/typeshapes/main.go defines codes."""

    roots: dict[str, str]
    types: dict[str, dict[str, str]]


@cache
def load_shapes() -> Shapes:
    """The shapes shipped with genguard (k8s.io/api v0.36 and v0.37)."""
    text = resources.files("genguard.objects").joinpath("type_shapes.json").read_bytes()
    return msgspec.json.decode(text, type=Shapes)


def field_code(group: str, version: str, kind: str, field: str) -> str:
    """The code of a kind's top-level field; "" (plain JSON) for a kind without shapes."""
    shapes = load_shapes()
    root = shapes.roots.get(f"{group or 'core'}/{version}/{kind}")
    return "" if root is None else shapes.types[root].get(field, "")


def same_raw_typed(
    code: str, a: msgspec.Raw | None, b: msgspec.Raw | None, *, nil_is_empty: bool
) -> bool:
    """Compare two undecoded values of one field; None stands for absent.

    As same_typed, but only the parts whose bytes differ are decoded: of a pod template that is
    mostly one field of one container.
    Raises msgspec.MsgspecError and RecursionError as msgspec.json.decode does.
    """
    if a == b:
        return True
    inside = code.lstrip("*")
    has_parts = inside.startswith(("[]", "{}")) or inside in load_shapes().types
    if not has_parts or a is None or b is None:
        return same_typed(code, _decoded(a), _decoded(b), nil_is_empty=nil_is_empty)
    try:
        return _same_raw_parts(inside, a, b, nil_is_empty=nil_is_empty)
    except msgspec.ValidationError:  # null, or another type than the shapes have
        return same_typed(code, _decoded(a), _decoded(b), nil_is_empty=nil_is_empty)


def _same_raw_parts(code: str, a: msgspec.Raw, b: msgspec.Raw, *, nil_is_empty: bool) -> bool:
    """Compare the parts of two lists, maps or structs; raises ValidationError for other JSON."""
    if code.startswith("[]"):
        items, others = _items_decoder.decode(a), _items_decoder.decode(b)
        return len(items) == len(others) and all(
            same_raw_typed(code[2:], one, other, nil_is_empty=nil_is_empty)
            for one, other in zip(items, others, strict=True)
        )
    left, right = _fields_decoder.decode(a), _fields_decoder.decode(b)
    if code.startswith("{}"):
        return left.keys() == right.keys() and all(
            same_raw_typed(code[2:], one, right[key], nil_is_empty=nil_is_empty)
            for key, one in left.items()
        )
    codes = load_shapes().types[code]
    return all(
        same_raw_typed(codes.get(key, ""), left.get(key), right.get(key), nil_is_empty=nil_is_empty)
        for key in left.keys() | right.keys()
    )


_items_decoder: Final = msgspec.json.Decoder(list[msgspec.Raw])
_fields_decoder: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _decoded(raw: msgspec.Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)


def same_typed(code: str, a: Any, b: Any, *, nil_is_empty: bool) -> bool:
    """Compare two decoded values of one field; None stands for absent and null.

    `nil_is_empty` is what tells Semantic.DeepEqual from reflect.DeepEqual.
    """
    if code.startswith("*"):
        if a is None or b is None:
            return a is b
        return same_typed(code[1:], a, b, nil_is_empty=nil_is_empty)
    if code.startswith("[]"):
        return _same_list(code[2:], a, b, nil_is_empty=nil_is_empty)
    if code.startswith("{}"):
        return _same_map(code[2:], a, b, nil_is_empty=nil_is_empty)
    scalar = _SCALARS.get(code)
    if scalar is not None:
        return scalar(a, b)
    return _same_struct(code, a, b, nil_is_empty=nil_is_empty)


def _same_list(code: str, a: Any, b: Any, *, nil_is_empty: bool) -> bool:
    if a is None or b is None:
        return a is b or (nil_is_empty and not a and not b)
    if not (isinstance(a, list) and isinstance(b, list)):
        return same_json(a, b)
    return len(a) == len(b) and all(
        same_typed(code, left, right, nil_is_empty=nil_is_empty)
        for left, right in zip(a, b, strict=True)
    )


def _same_map(code: str, a: Any, b: Any, *, nil_is_empty: bool) -> bool:
    if a is None or b is None:
        return a is b or (nil_is_empty and not a and not b)
    if not (isinstance(a, dict) and isinstance(b, dict)):
        return same_json(a, b)
    return a.keys() == b.keys() and all(
        same_typed(code, value, b[key], nil_is_empty=nil_is_empty) for key, value in a.items()
    )


def _same_struct(name: str, a: Any, b: Any, *, nil_is_empty: bool) -> bool:
    left, right = {} if a is None else a, {} if b is None else b
    if not (isinstance(left, dict) and isinstance(right, dict)):
        return same_json(left, right)
    codes = load_shapes().types[name]
    return all(
        same_typed(codes.get(key, ""), left.get(key), right.get(key), nil_is_empty=nil_is_empty)
        for key in left.keys() | right.keys()
    )


def _same_value(a: Any, b: Any) -> bool:
    # A scalar held by value cannot tell absent from zero.
    if a is None or b is None:
        return not a and not b
    return same_json(a, b)


def _same_raw_text(a: Any, b: Any) -> bool:
    """RawExtension holds bytes: equal only when written alike, so key order counts.

    Whitespace does not show in a review: the API server compacts it when it writes one.
    """
    return msgspec.json.encode(a) == msgspec.json.encode(b)


_SCALARS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "": same_json,
    "value": _same_value,
    "quantity": lambda a, b: same_quantity(a or 0, b or 0),
    "time": same_instant,
    "raw": _same_raw_text,
}
