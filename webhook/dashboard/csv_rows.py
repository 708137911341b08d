"""The rows of a page as CSV (RFC 4180), for spreadsheets and shells."""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

_FORMULA: Final = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""A spreadsheet takes a cell that begins so as a formula, which names of others must not be. The
last four are the full-width forms of the first four, which some spreadsheets read alike."""


def to_csv(rows: Iterable[Any]) -> bytes:
    """Return a table with a header, one line for each row.

    A field of a field has a name like `object.name`; the parts of a list are separated by spaces.
    """
    flat = [dict(_flatten("", msgspec.to_builtins(one))) for one in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(names)
    writer.writerows([row.get(name, "") for name in names] for row in flat)
    return text.getvalue().encode()


def _flatten(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flatten(f"{name}.{key}" if name else key, inner)
    elif isinstance(value, list | tuple):
        yield name, _cell(" ".join(_text(one) for one in value))
    else:
        yield name, _cell(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
