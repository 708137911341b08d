"""Reads decoded JSON as Go code does: untyped, or converted to the Go type of its kind.

TypeMismatchError stands for an error of the Go code.

Untyped: apimachinery pkg/apis/meta/v1/unstructured/helpers.go (NestedFieldNoCopy, NestedString,
NestedInt64) and pkg/runtime/schema/group_version.go (ParseGroupVersion).

Typed, as in Argo CD and kubectl: a wrong type in any field that the Go type has makes the
conversion fail; null is the zero value; unknown fields are ignored. A float without a fraction is
an integer, and an int64 put into an int32 loses its upper bits. Source: apimachinery
pkg/runtime/converter.go (fromUnstructured) and the UnmarshalJSON of Time, Quantity and IntOrString.
tests/controlplane/gotypes prints go_types.json (k8s.io/api and k8s.io/kube-aggregator v0.36).
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

from genguard.objects.equality import parse_quantity
from genguard.objects.fields import ABSENT, Absent
from genguard.objects.metadata import parse_time
from genguard.shipped import shipped

Document = Mapping[str, Any]
"""A decoded object. `1.0` is a float and not an integer, as in Go."""


class TypeMismatchError(ValueError):
    """A field has another type than the tool expects; the message is its path."""


def kind_of(document: Document) -> tuple[str, str, str]:
    """Return the group, version and kind by which a tool chooses its rule.

    All are "" for an apiVersion with two slashes, as in Go.
    """
    group, _, version = text(document, "apiVersion").rpartition("/")
    return ("", "", "") if "/" in group else (group, version, text(document, "kind"))


def nested(document: Document, *path: str) -> Any:
    """Return the value at a path, or ABSENT; below null everything is absent.

    Raises TypeMismatchError when a step before the last is neither an object nor null.
    """
    value: Any = document
    for at, key in enumerate(path):
        if value is None:
            return ABSENT
        if not isinstance(value, Mapping):
            raise TypeMismatchError(".".join(path[:at]))
        value = value.get(key, ABSENT)
        if value is ABSENT:
            return ABSENT
    return value


def nested_string(document: Document, *path: str) -> str | Absent:
    """Return the string at a path, or ABSENT; raises TypeMismatchError, also for null."""
    value = nested(document, *path)
    if value is ABSENT or isinstance(value, str):
        return value
    raise TypeMismatchError(".".join(path))


def nested_integer(document: Document, *path: str) -> int | Absent:
    """Return the int64 at a path, or ABSENT; raises TypeMismatchError, also for null and 1.0."""
    value = nested(document, *path)
    if value is ABSENT or is_int64(value):
        return cast("int | Absent", value)
    raise TypeMismatchError(".".join(path))


def is_int64(value: object) -> bool:
    """Whether Go's JSON decoder keeps a value as an integer; it makes larger ones floats."""
    return type(value) is int and -(2**63) <= value < 2**63


def wrap(value: int, bits: int) -> int:
    """Return an integer as Go stores it in an int32 or int64: without the upper bits."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def text(document: Document, *path: str, default: str = "") -> str:
    """Return the string at a path; the default for anything else."""
    value = nested_or_absent(document, *path)
    return value if isinstance(value, str) else default


def number(document: Document, *path: str, default: int = 0) -> int:
    """Return the integer at a path; the default for anything else, also for 1.0."""
    value = nested_or_absent(document, *path)
    return cast(int, value) if is_int64(value) else default


def nested_or_absent(document: Document, *path: str) -> Any:
    """Return the value at a path; ABSENT where nested() raises."""
    try:
        return nested(document, *path)
    except TypeMismatchError:
        return ABSENT


_RFC3339: Final = re.compile(
    r"\d{4}-\d\d-\d\dT([01]\d|2[0-3])(:[0-5]\d){2}(\.\d+)?(Z|[+-]\d\d:[0-5]\d)", re.ASCII
)
ZERO_TIME: Final = datetime(1, 1, 1, tzinfo=UTC).timestamp()
"""Go's zero time, in Unix seconds."""


def unix_seconds(written: str) -> float | None:
    """Return a time as RFC 3339 has it, in Unix seconds, or None."""
    time = parse_time(written) if _RFC3339.fullmatch(written) else None
    return None if time is None else time.timestamp()


Types = Mapping[str, Mapping[str, str]]
"""Struct → field → type: a scalar of `_SCALARS`, a struct, or one of these after `[]` or `{}`."""
Typed = dict[str, Any]
"""A converted struct. A field that is absent or null has no key."""


def go_types() -> Types:
    """Load the Go types of go_types.json, by package and name: `apps/v1.Deployment`."""
    return shipped("genguard.status.views", "go_types.json", dict[str, dict[str, str]])


def convert(document: Document, struct: str, types: Types | None = None) -> Typed:
    """Convert an object to the Go type `struct`; raises TypeMismatchError with the wrong path."""
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
    """Convert an item of a list or map; null becomes its zero value, such as "" or {}."""
    if value is None:
        return {} if code in types else _ZEROS.get(code)
    return _value(types, code, value, path)


def _integer(value: Any) -> int | None:
    """Return a number without a fraction, such as 2.0, as an integer; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    # Beyond int64 it is a float in Go. The conversion is undefined; on amd64 it gives this.
    return int(value) if -(2**63) <= value < 2**63 else -(2**63)


def _int32(value: Any) -> int | None:
    integer = _integer(value)
    return None if integer is None else wrap(integer, 32)


def _int_or_string(value: Any) -> int | str | None:
    integer = value if isinstance(value, str) else _integer(value)
    return None if isinstance(integer, int) and wrap(integer, 32) != integer else integer


def _quantity(value: Any) -> str | float | None:
    if isinstance(value, str):
        return None if parse_quantity(value) is None else value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _bytes(value: Any) -> bytes | None:
    if isinstance(value, list):
        # The bytes of a Go slice; no rule reads them.
        return b"" if all(item is None or _integer(item) is not None for item in value) else None
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
    "int64": _integer,
    "time": lambda value: unix_seconds(value) if isinstance(value, str) else None,
    "quantity": _quantity,
    "intOrString": _int_or_string,
    "bytes": _bytes,
    "any": lambda value: value,
}
_ZEROS: Final[dict[str, Any]] = {"string": "", "bool": False, "int32": 0, "int64": 0}
