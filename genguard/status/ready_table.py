"""Evaluates the literal Ready table of "Improve .status", which is in ready_table.json.

Absent and null counters are 0, spec.replicas is 1 and spec.type is ClusterIP, because the API omits
zeros and has these defaults (v1). No other default applies, and a value of the wrong type equals
nothing. The answer is None for kinds that the table does not name, and when a row needs `status` or
`metadata.generation` and it is absent.

The table names `spec.readyReplicas` and `spec.availableReplicas`, which these kinds do not have;
they are read as `spec.replicas`. A row with a `type` is for Services of that type.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec

from genguard.objects.fields import ABSENT
from genguard.shipped import shipped
from genguard.status.checked_object import CheckedObject


class BadReadyTableError(ValueError):
    """ready_table.json has an unknown test or field; the message names it."""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of the table. `amendment` says how `ready` differs from it, or is empty."""

    groups: tuple[str, ...]
    kind: str
    all: tuple[tuple[Any, ...], ...]
    """Tests: a name and its arguments, such as `["equal", "status.replicas", "spec.replicas"]`."""
    needs: tuple[str, ...] = ()
    type: str = ""
    amendment: str = ""


class ReadyTable(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The whole file."""

    absent_means: dict[str, Any]
    rows: tuple[Row, ...]


_SECTIONS: Final = ("metadata", "spec", "status")


def load_ready_table() -> ReadyTable:
    """Read ready_table.json; raises msgspec.MsgspecError when it is malformed."""
    return shipped("genguard.status", "ready_table.json", ReadyTable)


@cache
def _rows_by_kind() -> dict[tuple[str, str], dict[str, Row]]:
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for row in load_ready_table().rows:
        for group in row.groups:
            found.setdefault((group, row.kind), {})[row.type] = row
    return found


def table_ready(obj: CheckedObject) -> bool | None:
    """Return whether the table calls an object Ready; None when it has no answer."""
    rows = _rows_by_kind().get((obj.group, obj.kind))
    if rows is None:
        return None
    service_type = obj.spec.get("type")
    row = rows.get("") or rows.get("ClusterIP" if service_type is None else str(service_type))
    if row is None:
        return False
    if "status" in row.needs and not obj.has_status:
        return None
    if "metadata.generation" in row.needs and obj.metadata.get("generation") is None:
        return None
    return all(holds(test, obj) for test in row.all)


def holds(test: tuple[Any, ...], obj: CheckedObject) -> bool:
    """Whether one test of a row holds; raises BadReadyTableError for an unknown one."""
    match test:
        case ("equal", str(left), str(right)):
            first, other = _read(obj, left), _read(obj, right)
            return first == other and type(first) is type(other) and first is not ABSENT
        case ("atLeast", str(left), str(right)):
            first, other = _read(obj, left), _read(obj, right)
            return type(first) is int and type(other) is int and first >= other
        case ("is", str(path), str(value)):
            return bool(_read(obj, path) == value)
        case ("notEmpty", str(path)):
            return _not_empty(_read(obj, path))
        case ("every" | "some" | "none" as quantifier, str(path), list(shapes)):
            items = _read(obj, path)
            if not isinstance(items, list):
                return items is ABSENT and quantifier != "some"
            found = list(_matches(items, shapes))
            return {"every": all(found), "some": any(found), "none": not any(found)}[quantifier]
    raise BadReadyTableError(f"ready_table.json: unknown test {test!r}")


def _read(obj: CheckedObject, path: str) -> Any:
    section, *keys = path.split(".")
    if section not in _SECTIONS or not keys:
        raise BadReadyTableError(f"ready_table.json: unknown field {path}")
    found: Any = getattr(obj, section)
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return load_ready_table().absent_means.get(path, ABSENT) if found is None else found


def _matches(items: list[Any], shapes: list[dict[str, str]]) -> Iterator[bool]:
    """Yield for each item whether it has all fields of one of the shapes; `*` is any value."""
    for item in items:
        yield isinstance(item, dict) and any(
            all(
                item.get(key) == value or (value == "*" and _not_empty(item.get(key)))
                for key, value in shape.items()
            )
            for shape in shapes
        )


def _not_empty(value: Any) -> bool:
    return isinstance(value, str | list) and bool(value)
