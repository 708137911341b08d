"""Rows as CSV: every field has a column, and no cell is a formula."""

import csv
import io

import pytest

from tests.unit.alerts.findings import finding
from webhook.dashboard.csv_rows import to_csv


def read(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def test_fields_of_fields_and_lists_have_one_cell_each():
    (row,) = read(to_csv([finding(paths=("/status/a", "/status/b"))]))
    assert row["object.name"] == "web"
    assert row["paths"] == "/status/a /status/b"
    assert row["count"] == "3"
    assert '"name":"old-operator/hook"' in row["actors"]


def test_rows_with_different_fields_share_a_header():
    first, second = read(to_csv([{"a": 1, "b": None}, {"b": True, "c": 'x,y\n"z"'}]))
    assert first == {"a": "1", "b": "", "c": ""}
    assert second == {"a": "", "b": "true", "c": 'x,y\n"z"'}


def test_without_rows_the_file_is_empty_but_there():
    assert to_csv([]).strip() == b""


@pytest.mark.parametrize(
    "text",
    [
        *("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"),
        *("\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM(A1)"),
    ],
)
def test_a_spreadsheet_takes_no_name_as_a_formula(text):
    (row,) = read(to_csv([{"name": text, "names": [text]}]))
    assert row == {"name": f"'{text}", "names": f"'{text}"}


def test_a_number_below_zero_stays_a_number():
    assert read(to_csv([{"left": -1.5}])) == [{"left": "-1.5"}]
