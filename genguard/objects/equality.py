"""Equality as the API server compares objects, over JSON: untyped, and with its Go types.

Custom resources are compared as `map[string]interface{}` with Semantic.DeepEqual
(apiextensions-apiserver pkg/registry/customresource/strategy.go:PrepareForUpdate): there an int64
is never a float64, so `1` is not `1.0`; null is not `[]`; a missing key is not an empty one.

Built-in kinds have two rules, told apart by the kind's strategy:

- semantic (apimachinery pkg/api/equality/semantic.go and third_party/forked/golang/reflect):
  nil and empty lists and maps are equal, quantities compare by value, times by instant;
- reflect (reflect.DeepEqual): the same Go types, but nil and empty differ.

Which field is a list, a pointer or a Quantity is not visible in JSON. `type_shapes.json` holds it,
printed from the Go types by tests/controlplane/typeshapes. A pointer to an empty struct is not the
same as none; a zero number or string held by value is the same as absent. What the shapes do not
know (a newer field, IntOrString) compares as plain JSON.
"""

import re
from collections.abc import Callable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from functools import cache, partial
from typing import Any, Final

import msgspec

from genguard.objects.metadata import same_instant
from genguard.shipped import shipped

_SHAPE: Final = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,4})|([a-zA-Z]{0,2}))",
    re.ASCII,  # other digits are none to Go, and some to Decimal
)
_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)  # the default has 28 digits
_SUFFIXES: Final = {
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate((*"num", "", *"kMGTPE"), -3)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}


def parse_quantity(text: str) -> Decimal | None:
    """`1Gi` → 1073741824, `100m` → 0.1; None when the text is no quantity."""
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        return None
    number, exponent, suffix = match.groups()
    if exponent:
        return Decimal(number + exponent)
    scale = _SUFFIXES.get(suffix)
    return None if scale is None else _EXACT.multiply(Decimal(number), scale)


def same_quantity(a: object, b: object) -> bool:
    """Equal by value; a number counts as its text; what does not parse is equal only to itself."""
    if type(a) is type(b) and a == b:
        return True
    left, right = _parse(a), _parse(b)
    return left is not None and right is not None and left == right


def _parse(value: object) -> Decimal | None:
    if isinstance(value, str):
        return parse_quantity(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return parse_quantity(str(value))
    return None


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


class Shapes(msgspec.Struct, frozen=True):
    """Go types by name: field → code, as tests/controlplane/typeshapes/main.go defines codes."""

    roots: dict[str, str]
    types: dict[str, dict[str, str]]


@cache
def load_shapes() -> Shapes:
    """The shapes shipped with genguard (k8s.io/api v0.36 and v0.37)."""
    return shipped("genguard.objects", "type_shapes.json", Shapes)


def field_code(group: str, version: str, kind: str, field: str) -> str:
    """The code of a kind's top-level field; "" (plain JSON) for a kind without shapes."""
    shapes = load_shapes()
    root = shapes.roots.get(f"{group or 'core'}/{version}/{kind}")
    return "" if root is None else shapes.types[root].get(field, "")


_items: Final = msgspec.json.Decoder(list[msgspec.Raw])
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NULL: Final = msgspec.Raw(b"null")


def _decoded(raw: msgspec.Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)


def same_typed(
    code: str, a: msgspec.Raw | None, b: msgspec.Raw | None, *, nil_is_empty: bool
) -> bool:
    """Compare two undecoded values of one field; None stands for absent, and null is the same.

    `nil_is_empty` is what tells Semantic.DeepEqual from reflect.DeepEqual. Only the parts whose
    bytes differ are decoded: in a pod template that is mostly one field of one container.
    Raises msgspec.MsgspecError and RecursionError as msgspec.json.decode does.
    """
    if a == b:
        return True
    a, b = None if a == _NULL else a, None if b == _NULL else b
    while code.startswith("*"):
        if a is None or b is None:
            return a is b
        code = code[1:]
    scalar = _SCALARS.get(code)
    if scalar is not None:
        return scalar(_decoded(a), _decoded(b))
    try:
        return _same_parts(code, a, b, nil_is_empty=nil_is_empty)
    except msgspec.ValidationError:  # another type than the shapes have
        return same_json(_decoded(a), _decoded(b))


def _same_parts(
    code: str, a: msgspec.Raw | None, b: msgspec.Raw | None, *, nil_is_empty: bool
) -> bool:
    """Compare the parts of two lists, maps or structs; raises ValidationError for other JSON."""
    same = partial(same_typed, nil_is_empty=nil_is_empty)
    if not code.startswith(("[]", "{}")):
        left, right = ({} if raw is None else _fields.decode(raw) for raw in (a, b))
        codes = load_shapes().types[code]
        keys = left.keys() | right.keys()
        return all(same(codes.get(key, ""), left.get(key), right.get(key)) for key in keys)
    if a is None or b is None:
        return a is b or (nil_is_empty and not _decoded(a) and not _decoded(b))
    if code.startswith("[]"):
        items, others = _items.decode(a), _items.decode(b)
        return len(items) == len(others) and all(map(partial(same, code[2:]), items, others))
    left, right = _fields.decode(a), _fields.decode(b)
    return left.keys() == right.keys() and all(
        same(code[2:], value, right[key]) for key, value in left.items()
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
