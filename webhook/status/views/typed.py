"""An object converted into its Go type, as Argo CD and kubectl do before they judge it.

A wrong type in any field that the Go type knows makes the conversion fail; null is the field's
zero; unknown fields are passed over. A whole float is an integer, and an int64 put into an int32
loses its upper bits. Source: apimachinery pkg/runtime/converter.go (fromUnstructured) and the
UnmarshalJSON of Time, Quantity and IntOrString. `go_types.json` is printed by
tests/controlplane/gotypes (k8s.io/api and k8s.io/kube-aggregator v0.36).
"""

import binascii
from base64 import b64decode
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from webhook.objects.quantity import is_quantity
from webhook.status.views.reading import Document, TypeMismatchError, unix_nanoseconds, wrap

Types = Mapping[str, Mapping[str, str]]
"""Struct → field → code: a scalar of `_SCALARS`, a struct, or one of these after `[]` or `{}`."""
Typed = dict[str, Any]
"""A converted struct without its zero pointers: a field that is absent or null has no key."""


@cache
def go_types() -> Types:
    """The types shipped with genguard, by package and name: `apps/v1.Deployment`."""
    shipped = resources.files("webhook.status.views").joinpath("go_types.json").read_bytes()
    return msgspec.json.decode(shipped, type=dict[str, dict[str, str]])


def convert(document: Document, struct: str, types: Types | None = None) -> Typed:
    """The object as the Go type `struct`; raises TypeMismatchError with the path that misfits."""
    return _struct(go_types() if types is None else types, struct, document, "")


def _struct(types: Types, struct: str, value: Any, path: str) -> Typed:
    if not isinstance(value, Mapping):
        raise TypeMismatchError(path)
    return {
        key: _value(types, code, value[key], f"{path}.{key}" if path else key)
        for key, code in types[struct].items()
        if value.get(key) is not None
    }


def _value(types: Types, code: str, value: Any, path: str) -> Any:
    scalar = _SCALARS.get(code)
    if scalar is not None:
        converted = scalar(value)
        if converted is None:
            raise TypeMismatchError(path)
        return converted
    if code.startswith("[]"):
        if not isinstance(value, list):
            raise TypeMismatchError(path)
        return [_item(types, code[2:], item, f"{path}[{at}]") for at, item in enumerate(value)]
    if code.startswith("{}"):
        if not isinstance(value, Mapping):
            raise TypeMismatchError(path)
        return {
            key: _item(types, code[2:], item, f"{path}[{key!r}]") for key, item in value.items()
        }
    return _struct(types, code, value, path)


def _item(types: Types, code: str, value: Any, path: str) -> Any:
    """An item cannot be left out as a field can: null is its zero, "" or an empty struct."""
    if value is None:
        return {} if code in types else _ZEROS.get(code)
    return _value(types, code, value, path)


def _whole(value: Any) -> int | None:
    """A number without a fraction; 2.0 is one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    # Beyond int64 it is a float in Go, and becomes this on amd64: Go leaves the case open.
    return int(value) if -(2**63) <= value < 2**63 else -(2**63)


def _int32(value: Any) -> int | None:
    whole = _whole(value)
    return None if whole is None else wrap(whole, 32)


def _int_or_string(value: Any) -> int | str | None:
    whole = value if isinstance(value, str) else _whole(value)
    return None if isinstance(whole, int) and wrap(whole, 32) != whole else whole


def _quantity(value: Any) -> str | float | None:
    if isinstance(value, str):
        return value if is_quantity(value.strip(" ")) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _bytes(value: Any) -> bytes | None:
    if isinstance(value, list):
        # As the bytes of Go's slice; nobody reads them here.
        return b"" if all(item is None or _whole(item) is not None for item in value) else None
    if not isinstance(value, str):
        return None
    try:
        return b64decode(value.replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return None


_SCALARS: Final[dict[str, Callable[[Any], Any]]] = {
    "string": lambda value: value if isinstance(value, str) else None,
    "bool": lambda value: value if isinstance(value, bool) else None,
    "int32": _int32,
    "int64": _whole,
    "time": lambda value: unix_nanoseconds(value) if isinstance(value, str) else None,
    "quantity": _quantity,
    "intOrString": _int_or_string,
    "bytes": _bytes,
    "any": lambda value: value,
}
_ZEROS: Final[dict[str, Any]] = {"string": "", "bool": False, "int32": 0, "int64": 0}
