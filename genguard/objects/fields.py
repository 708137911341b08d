"""An object as its top-level fields, each still raw JSON, and the values read out of them."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal

import msgspec

Fields = dict[str, msgspec.Raw]
"""Top-level key → its undecoded JSON value: `{"metadata": Raw, "spec": Raw, ...}`."""

NOT_CONTENT: Final = frozenset({"metadata", "kind", "apiVersion"})
"""Top-level fields that say what an object is: the rest is what it holds."""


class _Absent(Enum):
    ABSENT = "absent"


ABSENT: Final = _Absent.ABSENT
"""No such field: not the same as null, empty or zero."""
Absent = Literal[_Absent.ABSENT]


def fields_of(document: Mapping[str, Any]) -> Fields:
    """Split a decoded document into raw fields; numbers keep their type (`1` is not `1.0`)."""
    return {key: msgspec.Raw(msgspec.json.encode(value)) for key, value in document.items()}


def decode_field(fields: Fields, key: str) -> Any:
    """The decoded value of a top-level field, or ABSENT.

    Raises msgspec.MsgspecError (not JSON, number out of range) and RecursionError (too deep).
    """
    raw = fields.get(key)
    return ABSENT if raw is None else msgspec.json.decode(raw)


def get(value: Any, *path: str) -> Any:
    """Walk into decoded JSON objects; ABSENT when a step is missing or not an object."""
    for key in path:
        if not isinstance(value, dict):
            return ABSENT
        value = value.get(key, ABSENT)
    return value


def count_values(text: bytes) -> int:
    """Return about how many values JSON has, or more: separators in texts are counted, too.

    It takes 1 µs for each KiB, a tenth of decoding.
    """
    return sum(map(text.count, (b",", b"[", b"{")))
