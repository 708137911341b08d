"""`make coverage-rows`: does the test that a row of tests/coverage.md names show what the row says?

In a copy of the repository, each mutation of coverage_mutations.yaml removes from a file that the
row names what the row says. Each test that the row names must then fail, and pass without it.

    python -m tools.coverage_rows                 rows whose tests need no control plane
    python -m tools.coverage_rows --live          the other tests: real servers (an hour)
    python -m tools.coverage_rows --rows 14,84    some rows alone
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import aiohttp.test_utils  # noqa: F401 - each fork has it
import cryptography.x509  # noqa: F401
import pytest
import yaml

from tests.architecture.source import ROOT

MUTATIONS = Path(__file__).with_name("coverage_mutations.yaml")
_LEFT_OUT = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info")
_OWN = frozenset({"certs", "genguard", "tests", "tools", "webhook"})
"""Packages of this repository, which are imported from the copy."""
_FAILED = 1
"""How pytest ends when it ran and a test failed. It did not even run with 2 and above."""
_NOT_RUN = 99
_LIVE = (
    "tests/e2e/", "tests/versions/", "tests/kind/", "tests/integration/", "tests/differential/",
    "tests/dashboard/", "tests/monitoring/", "tests/contract/",
)  # fmt: skip
"""Tests that start real servers, browsers or Prometheus."""
_IN_KIND = "tests/kind/"
"""Tests that need Docker and kind as well: `make kind-test` runs them."""
_READ_BY = {
    "tests/cases/generation/": "tests/unit/generation/test_generation_cases.py",
    "tests/cases/rules/": "tests/unit/rules/test_rule_cases.py",
    "tests/cases/detectors/": "tests/unit/detection/test_detectors.py",
    "tests/cases/counted.yaml": "tests/unit/detection/test_counted.py",
    "tests/cases/lint/": "tests/unit/lint/test_checks.py",
    "tests/cases/lint_definitions/": "tests/unit/lint/test_definition_checks.py",
    "tests/cases/status/terminating_counts.yaml": "tests/unit/status/test_terminating_pods.py",
    "tests/cases/status/terminating_skew.yaml": "tests/unit/server/test_terminating_metrics.py",
    "tests/cases/status/tracking/": "tests/unit/status/test_tracking.py",
    "tests/cases/status/": "tests/unit/status/test_status_cases.py",
    "tests/scenarios/expectations.yaml": "tests/scenarios/test_recorded.py",
    "tests/monitoring/cases.yaml": "tests/monitoring/test_rules.py",
    "tests/cases/explain/pages.yaml": "tests/unit/explain/test_pages.py",
}
"""Which tests read a file of cases; the first that fits."""


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
    page = (ROOT / "tests" / "coverage.md").read_text()
    return [
        Row(int(number), text, *(tuple(_NAMED.findall(cell)) for cell in cells))
        for number, text, *cells in _ROW.findall(page)
    ]


class Mutation(NamedTuple):
    """One textual change that removes what a row says."""

    row: int
    file: str
    find: str
    """It stands exactly once in the file."""
    replace: str
    shown: tuple[str, ...]
    """The tests of the row that must notice it; () are all."""

    @contextmanager
    def applied(self, folder: Path) -> Iterator[None]:
        """Change the file in the copy, and put it back with its time: Python compares it."""
        path = folder / self.file
        text, before = path.read_text(), path.stat()
        path.write_text(text.replace(self.find, self.replace))
        yield
        path.write_text(text)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def mutations() -> list[Mutation]:
    """All of them, in the order of the rows."""
    found = yaml.safe_load(MUTATIONS.read_text())["mutations"]
    return [
        Mutation(row, one["file"], one["find"], one["replace"], tuple(one.get("shown", ())))
        for row, listed in found.items()
        for one in listed
    ]


def unmutated() -> dict[int, str]:
    """Rows of which nothing in this repository can be removed, with the reason."""
    return dict(yaml.safe_load(MUTATIONS.read_text())["unmutated"])


def is_live(shown: str) -> bool:
    return selection(shown)[0].startswith(_LIVE)


def selection(shown: str) -> tuple[str, ...]:
    """What pytest is given for a test, or for a file of cases, that a row names."""
    for prefix, reader in _READ_BY.items():
        if shown.startswith(prefix):
            path = Path(shown)
            is_one = prefix.endswith("/") and path.suffix == ".yaml"
            return (reader, "-k", path.stem) if is_one else (reader,)
    return (shown,)


def pairs(*, live: bool, wanted: frozenset[int]) -> Iterator[tuple[Mutation, str]]:
    """Yield each mutation with each test that must notice it."""
    by_number: dict[int, Row] = {row.number: row for row in rows()}
    for mutation in mutations():
        for shown in mutation.shown or by_number[mutation.row].shown:
            if is_live(shown) is live and (not wanted or mutation.row in wanted):
                yield mutation, shown


def run(folder: Path, words: Sequence[str]) -> int:
    """Run pytest in the copy, in a fork that has pytest and the libraries; return how it ended."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    for name in [one for one in sys.modules if one.partition(".")[0] in _OWN]:
        del sys.modules[name]
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    os.environ |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    flags = ("-q", "-x", "-n", "0", "-p", "no:cacheprovider")
    code = _NOT_RUN
    try:
        code = int(pytest.main([*flags, *words]))
    finally:
        os._exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--live", action="store_true", help="tests that need real servers")
    parser.add_argument("--rows", default="", help="numbers of rows, with commas between them")
    given = parser.parse_args()
    wanted = frozenset(map(int, filter(None, given.rows.split(","))))
    by_test: defaultdict[tuple[str, ...], list[tuple[Mutation, str]]] = defaultdict(list)
    for mutation, shown in pairs(live=given.live, wanted=wanted):
        if shown.startswith(_IN_KIND) and shutil.which("kind") is None:
            print(f"row {mutation.row}: {shown} is not tried: there is no kind here", flush=True)
        else:
            by_test[selection(shown)].append((mutation, shown))
    noticed, faults = 0, []
    with tempfile.TemporaryDirectory(prefix="genguard-coverage-") as place:
        folder = Path(place) / "repository"
        shutil.copytree(ROOT, folder, ignore=_LEFT_OUT)
        (folder / ".venv").symlink_to(ROOT / ".venv")
        if code := run(folder, sorted({words[0] for words in by_test})):
            sys.exit(f"without a change the tests end with {code}")
        for words, found in by_test.items():
            for mutation, shown in found:
                with mutation.applied(folder):
                    code = run(folder, words)
                if code == _FAILED:
                    noticed += 1
                else:
                    why = "does not notice" if code == 0 else f"cannot be run ({code}) with"
                    faults.append(f"row {mutation.row}: {shown} {why} the change")
                    print(faults[-1], flush=True)
    total = sum(map(len, by_test.values()))
    print(f"{noticed} of {total} changes were noticed", *faults, sep="\n  ")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
