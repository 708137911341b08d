"""Evaluates the literal Ready table of "Improve .status", which is in ready_table.json.

Absent and null counters are 0, spec.replicas is 1 and spec.type is ClusterIP, because the API omits
zeros and has these defaults (v1). No other default applies, and a value of the wrong type equals
nothing. The answer is None for kinds that the table does not name, and when a row needs `status` or
`metadata.generation` and it is absent.

The table names `spec.readyReplicas` and `spec.availableReplicas`, which these kinds do not have;
they are read as `spec.replicas`. A row with a `type` is for Services of that type.
"""

from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple

import msgspec

from genguard.objects.fields import ABSENT
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


_Read = tuple[int, tuple[str, ...], Any]
"""The index of the section, the keys below it, and the value of absent and null."""
_Sections = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
_SECTIONS: Final = ("metadata", "spec", "status")
_Test = Callable[[_Sections], bool]
_Shapes = tuple[tuple[tuple[str, str], ...], ...]


class _Compiled(NamedTuple):
    needs_status: bool
    needs_generation: bool
    tests: tuple[_Test, ...]


def table_ready(obj: CheckedObject) -> bool | None:
    """Return whether the table calls an object Ready; None when it has no answer."""
    rows = _compiled().get((obj.group, obj.kind))
    if rows is None:
        return None
    row = rows.get("")
    if row is None:
        service_type = obj.spec.get("type")
        row = rows.get("ClusterIP" if service_type is None else str(service_type))
        if row is None:
            return False
    if row.needs_status and not obj.has_status:
        return None
    if row.needs_generation and obj.metadata.get("generation") is None:
        return None
    sections = (obj.metadata, obj.spec, obj.status)
    return all(holds(sections) for holds in row.tests)


@cache
def load_ready_table() -> ReadyTable:
    """Read ready_table.json; raises msgspec.MsgspecError when it is malformed."""
    text = resources.files("genguard.status").joinpath("ready_table.json").read_bytes()
    return msgspec.json.decode(text, type=ReadyTable)


@cache
def _compiled() -> dict[tuple[str, str], dict[str, _Compiled]]:
    table = load_ready_table()
    found: dict[tuple[str, str], dict[str, _Compiled]] = {}
    for row in table.rows:
        compiled = _Compiled(
            "status" in row.needs,
            "metadata.generation" in row.needs,
            tuple(compile_test(test, table.absent_means) for test in row.all),
        )
        for group in row.groups:
            found.setdefault((group, row.kind), {})[row.type] = compiled
    return found


def compile_test(test: tuple[Any, ...], absent_means: dict[str, Any]) -> _Test:
    """Turn one test into a function of metadata, spec and status; raises BadReadyTableError."""
    match test:
        case ("equal", str(left), str(right)):
            return _equal(_reader(left, absent_means), _reader(right, absent_means))
        case ("atLeast", str(left), str(right)):
            return _at_least(_reader(left, absent_means), _reader(right, absent_means))
        case ("is", str(path), str(value)):
            read = _reader(path, absent_means)
            return lambda sections: bool(_read(sections, read) == value)
        case ("notEmpty", str(path)):
            read = _reader(path, absent_means)
            return lambda sections: _not_empty(_read(sections, read))
        case ("every" | "some" | "none" as quantifier, str(path), list(shapes)):
            matches = tuple(tuple(shape.items()) for shape in shapes)
            return _items(quantifier, _reader(path, absent_means), matches)
    raise BadReadyTableError(f"ready_table.json: unknown test {test!r}")


def _reader(path: str, absent_means: dict[str, Any]) -> _Read:
    section, *keys = path.split(".")
    if section not in _SECTIONS or not keys:
        raise BadReadyTableError(f"ready_table.json: unknown field {path}")
    return _SECTIONS.index(section), tuple(keys), absent_means.get(path, ABSENT)


def _read(sections: _Sections, read: _Read) -> Any:
    index, keys, absent = read
    found: Any = sections[index]
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return absent if found is None else found


def _equal(left: _Read, right: _Read) -> _Test:
    def holds(sections: _Sections) -> bool:
        one, other = _read(sections, left), _read(sections, right)
        return one == other and type(one) is type(other) and one is not ABSENT

    return holds


def _at_least(left: _Read, right: _Read) -> _Test:
    def holds(sections: _Sections) -> bool:
        one, other = _read(sections, left), _read(sections, right)
        return type(one) is int and type(other) is int and one >= other

    return holds


def _items(quantifier: str, read: _Read, shapes: _Shapes) -> _Test:
    found_is_good, missed_is_bad = quantifier == "some", quantifier == "every"

    def holds(sections: _Sections) -> bool:
        items = _read(sections, read)
        if not isinstance(items, list):
            return items is ABSENT and quantifier != "some"
        for item in items:
            if _matches(item, shapes):
                if not missed_is_bad:
                    return found_is_good
            elif missed_is_bad:
                return False
        return not found_is_good

    return holds


def _matches(item: Any, shapes: _Shapes) -> bool:
    if not isinstance(item, dict):
        return False
    for shape in shapes:
        for key, value in shape:
            found = item.get(key)
            if found != value and not (value == "*" and _not_empty(found)):
                break
        else:
            return True
    return False


def _not_empty(value: Any) -> bool:
    return isinstance(value, str | list) and bool(value)
