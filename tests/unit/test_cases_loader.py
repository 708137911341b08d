"""The loader of cases refuses what would let a case say nothing."""

import pytest

from tests import cases_loader
from tests.cases_loader import BadCaseError, load


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(cases_loader, "FOLDER", tmp_path)
    return tmp_path


def test_a_file_holds_one_case_or_a_list_and_a_folder_holds_files(folder):
    (folder / "one.yaml").write_text("{because: it is so, a: 1}")
    (folder / "two.yaml").write_text("- {because: first, a: 2}\n- {because: second}\n")
    found = load(".", "a")
    assert [case.name for case in found] == ["one", "two-1", "two-2"]
    assert [case.get("a") for case in found] == [1, 2, None]
    assert found[0].because == "it is so"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{a: 1}", "one.yaml: case 1 has no reason"),
        ("- {because: so}\n- {a: 1}", "one.yaml: case 2 has no reason"),
        ("{because: 5, a: 1}", "has no reason"),
        ("just text", "has no reason"),
        ("{because: so, expct: 1}", r"unknown keys \['expct'\]"),
    ],
)
def test_a_case_without_a_reason_or_with_a_slip_of_the_pen_is_refused(folder, text, told):
    (folder / "one.yaml").write_text(text)
    with pytest.raises(BadCaseError, match=told):
        load("one.yaml", "a")


def test_a_table_without_cases_is_refused(folder):
    with pytest.raises(FileNotFoundError, match="no case"):
        load(".")


def test_a_time_stays_the_text_that_it_is(folder):
    (folder / "one.yaml").write_text("{because: so, a: 2026-01-01T00:00:00Z}")
    (case,) = load("one.yaml", "a")
    assert case["a"] == "2026-01-01T00:00:00Z"
