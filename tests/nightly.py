"""Which tests wait for `make test-all`: a table in README.md beside this file, with reasons."""

import re
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

_FOLDER: Final = Path(__file__).parent
_ROW: Final = re.compile(r"^\|((?: `[^`]+`)+) \| ([^|]+) \|(?: ([^|]+))? \|$", re.MULTILINE)


class Waiting(NamedTuple):
    """One row of the table.

    paths   files or folders, from the folder of this file
    reason  why they can wait
    alone   promises that nothing else shows: fields of tests/coverage.md, faults and threats
    """

    paths: tuple[str, ...]
    reason: str
    alone: tuple[str, ...]


@cache
def table() -> tuple[Waiting, ...]:
    """The rows of "What waits for the night"."""
    text = (_FOLDER / "README.md").read_text().partition("# What waits for the night")[2]
    return tuple(
        Waiting(
            tuple(re.findall(r"`([^`]+)`", paths)), reason, tuple(filter(None, alone.split("; ")))
        )
        for paths, reason, alone in _ROW.findall(text.partition("\n# ")[0])
    )


def waits(path: str) -> bool:
    """Whether a file, from the folder of this file, is in the table."""
    return any(path == each or path.startswith(f"{each}/") for row in table() for each in row.paths)


def by_day(names: Sequence[Any], *, every: int = 0, these: Collection[Any] = ()) -> list[Any]:
    """Each name as a parameter: by day `these` and each one in `every`, the others by night."""
    return [
        pytest.param(name, marks=() if is_by_day else pytest.mark.nightly)
        for number, name in enumerate(names)
        for is_by_day in [name in these or (every > 0 and number % every == 0)]
    ]


def by_turns(rows: Sequence[Any], columns: Sequence[Any], days: int = 0) -> list[Any]:
    """Each row with each column, by night; by day one in `days` of these, alternately.

    Without `days` each row comes once.
    """
    every = days or len(columns)
    return [
        pytest.param(one, other, marks=() if (row + column) % every == 0 else pytest.mark.nightly)
        for row, one in enumerate(rows)
        for column, other in enumerate(columns)
    ]
