"""What waits for the night is in a table, with its reason, and with promises shown only there."""

import re
import subprocess
from collections.abc import Iterator

from tests.architecture.source import ROOT
from tests.architecture.test_threats import ROWS
from tests.nightly import table, waits

TESTS = ROOT / "tests"
NIGHTLY_PROGRAMS = (
    *("tools.binaries", "tools.krew", "tests.supply.sandbox"),
    *("tests.dashboard.binaries", "tests.dashboard.browser", "tests.faults.faketime"),
)
"""Modules that find or build programs which `make controlplane` gets and `make test` does not."""
COVERAGE = (TESTS / "coverage.md").read_text()


def promises() -> Iterator[tuple[str, list[str]]]:
    """The number or the name of each, and the files that show it; kind tests have their command."""
    for row in ROWS:
        name = next(cell for cell in row if not cell.isdecimal())
        yield name, re.findall(r"`([\w/]+\.py)::", row[-1])
    for number, cells in re.findall(r"^\| (\d+) \| (.*) \|$", COVERAGE, re.MULTILINE):
        yield number, re.findall(r"`tests/([^`:]+)", cells.rpartition(" | ")[2])


def test_a_promise_is_shown_by_make_test_or_the_table_says_that_it_waits() -> None:
    waiting = {
        name
        for name, files in promises()
        if files and all(waits(file) or file.startswith("kind/") for file in files)
    }
    assert waiting == {name for row in table() for name in row.alone}


def test_what_waits_is_there_and_has_a_reason() -> None:
    assert [path for row in table() for path in row.paths if not (TESTS / path).exists()] == []
    assert [row.paths for row in table() if len(row.reason) <= 10] == []


def test_no_test_that_does_not_wait_needs_a_program_that_make_test_does_not_build() -> None:
    needed = re.compile(rf"^from ({'|'.join(NIGHTLY_PROGRAMS)}) import", re.MULTILINE)
    files = {path.relative_to(TESTS).as_posix(): path for path in TESTS.rglob("test_*.py")}
    assert [
        name
        for name, path in files.items()
        if not waits(name) and not name.startswith("kind/") and needed.search(path.read_text())
    ] == [], "give it to the night, or let `make test` in the Makefile build the program"


def test_each_row_is_read() -> None:
    text = (TESTS / "README.md").read_text().partition("# What waits for the night")[2]
    assert len(table()) == text.partition("\n# ")[0].count("\n| `") > 5


def test_most_tests_do_not_wait() -> None:
    files = [path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")]
    assert sum(map(waits, files)) < len(files) / 6


def test_make_quick_names_tests_that_are_there():
    shown = subprocess.run(["make", "-pn"], cwd=ROOT, capture_output=True, text=True, check=False)
    (words,) = re.findall(r"^QUICK := (.*)$", shown.stdout, re.MULTILINE)
    named = [word.partition("::")[0].removeprefix("--ignore=") for word in words.split()]
    assert named
    assert not [name for name in named if not (ROOT / name).exists()]
