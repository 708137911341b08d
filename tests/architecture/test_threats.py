"""The threat model keeps to what is there: each row is proven, or says that nothing stops it."""

import ast
import re
from functools import cache

from tests.architecture.source import ROOT

TESTS = ROOT / "tests"
TEXT = (TESTS / "README.md").read_text()
MODEL = TEXT.partition("# Threat model")[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in MODEL.splitlines()
    if line.startswith("| ") and not line.startswith(("| threat |", "| fault |"))
]
KUBERNETES = [row for row in ROWS if row[0].isdecimal()]
PROOFS = re.findall(r"`([\w/]+\.py)::(\w+)`", MODEL)


@cache
def defined_in(path: str) -> frozenset[str]:
    """The functions of a file."""
    tree = ast.parse((TESTS / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


def test_a_proof_is_there() -> None:
    gone = [f"{path}::{name}" for path, name in set(PROOFS) if name not in defined_in(path)]
    assert gone == [], "tests/README.md names tests that are not there"


def test_a_row_is_proven_or_says_that_nothing_stops_it() -> None:
    unproven = [
        row[:2]
        for row in ROWS
        if not (row[-1] or "**open" in row[-2].lower() or "**Outside" in row[-2])
    ]
    assert unproven == [], "name a test, or say **Open** or **Outside**"


def test_all_of_the_official_threats_are_there() -> None:
    assert [row[0] for row in KUBERNETES] == [str(number) for number in range(1, 19)]


def test_there_are_threats_of_our_own() -> None:
    assert len(ROWS) - len(KUBERNETES) >= 20


def test_what_looks_like_a_proof_is_read_as_one() -> None:
    assert MODEL.count("::test_") == len(PROOFS)


def test_every_folder_is_told_of() -> None:
    told = set(re.findall(r"`(\w+)`", TEXT.partition("# Threat model")[0]))
    folders = {path.parent.name for path in TESTS.glob("*/test_*.py")} | {"unit", "cases"}
    assert folders <= told
