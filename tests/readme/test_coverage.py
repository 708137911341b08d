"""docs/coverage.md has a row for each requirement, and what each row names exists."""

import re
from typing import NamedTuple

import pytest

from tests.e2e.genguard import ROOT

REQUIREMENTS = 109
_ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
_NAMED = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    number: int
    requirement: str
    held: tuple[str, ...]
    """Files of this repository."""
    shown: tuple[str, ...]
    """Files of tests or cases, or tests as pytest names them."""


def rows() -> list[Row]:
    page = (ROOT / "docs" / "coverage.md").read_text()
    return [
        Row(int(number), text, *(tuple(_NAMED.findall(cell)) for cell in cells))
        for number, text, *cells in _ROW.findall(page)
    ]


def test_each_requirement_has_a_row_of_its_own() -> None:
    assert [one.number for one in rows()] == list(range(1, REQUIREMENTS + 1))
    assert len({one.requirement for one in rows()}) == REQUIREMENTS


@pytest.mark.parametrize("row", rows(), ids=lambda row: str(row.number))
def test_what_holds_it_and_what_shows_it_exists(row: Row) -> None:
    assert row.held
    assert row.shown
    for name in (*row.held, *row.shown):
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not test or f"def {test}(" in (ROOT / path).read_text(), name
    assert all(one.startswith("tests/") for one in row.shown)
