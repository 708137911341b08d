"""The Ready table of "Improve .status", to the letter: ready_table.json and its small interpreter.

The letter compares what the API's fields hold. A counter that is absent or null is 0, spec.replicas
1 and spec.type ClusterIP, for so the API writes and reads them (omitempty, defaults of v1); nothing
else is filled in, and a value of the wrong type equals nothing. The answer is None outside the nine
kinds, and where `status` or `metadata.generation` is absent and the row needs it.

`spec.readyReplicas` and `spec.availableReplicas` of the document are no fields of these kinds; they
are read as `spec.replicas`. A row with a `type` holds for Services of that type.
"""

from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import msgspec

from webhook.objects.fields import ABSENT, get
from webhook.status.subject import Subject


class BadReadyTableError(ValueError):
    """ready_table.json cannot be interpreted; the message names the row and what is wrong."""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of the table. `amendment` says in what `ready` asks for less, or is empty."""

    group: str
    kind: str
    all: tuple[tuple[Any, ...], ...]
    """Tests: a name and its arguments, such as `["equal", "status.replicas", "spec.replicas"]`."""
    needs: tuple[str, ...] = ()
    type: str = ""
    amendment: str = ""


class _Table(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    absent_means: dict[str, Any]
    rows: tuple[Row, ...]


_Read = Callable[[Subject], Any]
_Test = Callable[[Subject], bool]


class _Compiled(NamedTuple):
    needs_status: bool
    needs_generation: bool
    tests: tuple[_Test, ...]


def table_ready(subject: Subject) -> bool | None:
    """Whether the table calls it Ready; None where the table says nothing."""
    rows = _compiled().get((subject.group, subject.kind))
    if rows is None:
        return None
    row = rows.get("")
    if row is None:
        kind = subject.spec.get("type")
        row = rows.get("ClusterIP" if kind is None else str(kind))
        if row is None:
            return False
    if row.needs_status and not subject.has_status:
        return None
    if row.needs_generation and subject.metadata.get("generation") is None:
        return None
    return all(holds(subject) for holds in row.tests)


def amendment(subject: Subject) -> str:
    """In what `ready` asks for less than the table, or nothing."""
    return next(
        (
            row.amendment
            for row in load_rows().rows
            if (row.group, row.kind) == (subject.group, subject.kind) and row.amendment
        ),
        "",
    )


@cache
def load_rows() -> _Table:
    """Read ready_table.json; raises msgspec.MsgspecError when it has another shape."""
    text = resources.files("webhook.status").joinpath("ready_table.json").read_bytes()
    return msgspec.json.decode(text, type=_Table)


@cache
def _compiled() -> dict[tuple[str, str], dict[str, _Compiled]]:
    table = load_rows()
    found: dict[tuple[str, str], dict[str, _Compiled]] = {}
    for row in table.rows:
        found.setdefault((row.group, row.kind), {})[row.type] = _Compiled(
            "status" in row.needs,
            "metadata.generation" in row.needs,
            tuple(compile_test(test, table.absent_means) for test in row.all),
        )
    return found


def compile_test(test: tuple[Any, ...], absent_means: dict[str, Any]) -> _Test:
    """One test as a function of the object; raises BadReadyTableError when it is none."""
    match test:
        case ("equal", str(left), str(right)):
            return _equal(_reader(left, absent_means), _reader(right, absent_means))
        case ("atLeast", str(left), str(right)):
            return _at_least(_reader(left, absent_means), _reader(right, absent_means))
        case ("is", str(path), str(value)):
            read = _reader(path, absent_means)
            return lambda subject: bool(read(subject) == value)
        case ("notEmpty", str(path)):
            read = _reader(path, absent_means)
            return lambda subject: _not_empty(read(subject))
        case ("every" | "some" | "none" as word, str(path), list(shapes)):
            return _items(word, _reader(path, absent_means), shapes)
    raise BadReadyTableError(f"ready_table.json: no such test as {test!r}")


def _reader(path: str, absent_means: dict[str, Any]) -> _Read:
    section, *keys = path.split(".")
    of = {
        "metadata": lambda subject: subject.metadata,
        "spec": lambda subject: subject.spec,
        "status": lambda subject: subject.status,
    }.get(section)
    if of is None:
        raise BadReadyTableError(f"ready_table.json: no such field as {path}")
    absent = absent_means.get(path, ABSENT)

    def read(subject: Subject) -> Any:
        found = get(of(subject), *keys)
        return absent if found is ABSENT or found is None else found

    return read


def _equal(left: _Read, right: _Read) -> _Test:
    def holds(subject: Subject) -> bool:
        one, other = left(subject), right(subject)
        return one == other and type(one) is type(other) and one is not ABSENT

    return holds


def _at_least(left: _Read, right: _Read) -> _Test:
    def holds(subject: Subject) -> bool:
        one, other = left(subject), right(subject)
        return type(one) is int and type(other) is int and one >= other

    return holds


def _items(word: str, read: _Read, shapes: list[dict[str, str]]) -> _Test:
    over = {"every": all, "some": any, "none": any}[word]
    wanted = word != "none"

    def matches(item: Any) -> bool:
        return any(
            all(
                _not_empty(found) if value == "*" else found == value
                for key, value in shape.items()
                for found in (get(item, key),)
            )
            for shape in shapes
        )

    def holds(subject: Subject) -> bool:
        items = read(subject)
        if not isinstance(items, list):
            return items is ABSENT and word != "some"
        return over(map(matches, items)) is wanted

    return holds


def _not_empty(value: Any) -> bool:
    return isinstance(value, str | list) and bool(value)
