"""Decoded JSON read as Go code reads unstructured objects, which raises where Go has an error.

Source: apimachinery pkg/apis/meta/v1/unstructured/helpers.go (NestedFieldNoCopy, NestedString,
NestedInt64) and pkg/runtime/schema/group_version.go (ParseGroupVersion).
"""

import re
from collections.abc import Mapping
from datetime import date
from typing import Any, Final, NamedTuple, cast

from webhook.objects.fields import ABSENT, Absent

Document = Mapping[str, Any]
"""One object's decoded JSON; `1.0` is a float and not an integer, as in Go."""


class TypeMismatchError(ValueError):
    """A field has a type that the view does not expect; the message is its path."""


class GroupVersionKind(NamedTuple):
    """All three are "" for an apiVersion with two slashes, as in Go."""

    group: str
    version: str
    kind: str

    @property
    def name(self) -> str:
        """`apps/Deployment`; the core group goes unnamed."""
        return f"{self.group}/{self.kind}" if self.group else self.kind


def kind_of(document: Document) -> GroupVersionKind:
    """Group, version and kind by which the views choose their rule."""
    group, slash, version = text(document, "apiVersion").rpartition("/")
    if "/" in group:
        return GroupVersionKind("", "", "")
    return GroupVersionKind(group if slash else "", version, text(document, "kind"))


def nested(document: Document, *path: str) -> Any:
    """The value at a path or ABSENT; below null everything is absent.

    Raises TypeMismatchError where a step before the last is neither an object nor null.
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
    """Raises TypeMismatchError for what is no string, null included."""
    value = nested(document, *path)
    if value is ABSENT or isinstance(value, str):
        return value
    raise TypeMismatchError(".".join(path))


def nested_integer(document: Document, *path: str) -> int | Absent:
    """Raises TypeMismatchError for what is no int64; null and 1.0 are none."""
    value = nested(document, *path)
    if value is ABSENT or is_int64(value):
        return cast("int | Absent", value)
    raise TypeMismatchError(".".join(path))


def is_int64(value: object) -> bool:
    """What Go's JSON decoder keeps as an integer; a larger one becomes a float there."""
    return type(value) is int and -(2**63) <= value < 2**63


def wrap(value: int, bits: int) -> int:
    """An integer put into an int32 or int64 of Go, which drops the upper bits."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def text(document: Document, *path: str, default: str = "") -> str:
    """A string at a path; the default for anything else."""
    value = tolerant(document, *path)
    return value if isinstance(value, str) else default


def number(document: Document, *path: str, default: int = 0) -> int:
    """An integer at a path; the default for anything else, 1.0 included."""
    value = tolerant(document, *path)
    return cast(int, value) if is_int64(value) else default


def tolerant(document: Document, *path: str) -> Any:
    """As nested(), but ABSENT below what is no object."""
    try:
        return nested(document, *path)
    except TypeMismatchError:
        return ABSENT


_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_FOUR_CENTURIES: Final = 146_097
"""Days, after which the calendar repeats: Go has a year 0, Python has not."""
_EPOCH: Final = date(1970, 1, 1).toordinal()
_SECOND: Final = 1_000_000_000
ZERO_TIME: Final = (1 - _EPOCH) * 86_400 * _SECOND
"""Go's zero time, the first instant of year 1, in Unix nanoseconds."""


def unix_nanoseconds(written: str) -> int | None:
    """The instant that Go's time.Parse(time.RFC3339, …) reads, in Unix nanoseconds; None if none.

    Go takes an hour of one digit, a comma before fractions, and offsets up to 24:60.
    """
    match = _RFC3339.fullmatch(written)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    shift = 400 if year < 400 else 0  # noqa: PLR2004 - as the centuries
    try:
        days = date(year + shift, month, day).toordinal() - _FOUR_CENTURIES * shift // 400
    except ValueError:
        return None
    fraction, sign, hours, minutes = match.groups()[6:]
    east_hours, east_minutes = int(hours or 0), int(minutes or 0)
    if hour > 23 or max(minute, second) > 59 or east_hours > 24 or east_minutes > 60:  # noqa: PLR2004
        return None
    offset = (east_hours * 3600 + east_minutes * 60) * (-1 if sign == "-" else 1)
    whole = (days - _EPOCH) * 86_400 + hour * 3600 + minute * 60 + second - offset
    return whole * _SECOND + int((fraction or "")[:9].ljust(9, "0"))
