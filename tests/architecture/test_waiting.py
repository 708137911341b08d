"""No test gives up on what is only late, and none asserts how long something took."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

LEAST_SECONDS = 30
TESTS = ROOT / "tests"
NOT_IN_MAKE_TEST = {"kind", "soak", "bench", "demo", "fuzz"}
"""They measure, or have a `make` target of their own."""
WAITING = {"wait", "wait_for", "wait_until", "timeout", "result", "join", "communicate"}
CLOCKS = {"monotonic", "perf_counter", "process_time", "monotonic_ns", "perf_counter_ns"}
MEANT = "  # meant: "
"""Behind it stands why a wait is short: that it ends without what was waited for, say."""

FILES = sorted(
    path for path in TESTS.rglob("*.py") if path.relative_to(TESTS).parts[0] not in NOT_IN_MAKE_TEST
)


@cache
def parsed(path: Path) -> tuple[list[str], ast.Module]:
    text = path.read_text()
    return text.splitlines(), ast.parse(text)


def _seconds(node: ast.expr, known: dict[str, float]) -> float | None:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)
    return known.get(node.id) if isinstance(node, ast.Name) else None


def _constants(tree: ast.Module) -> dict[str, float]:
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and type(node.value.value) in (int, float):
                found[target.id] = float(node.value.value)
    return found


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def short_waits(tree: ast.Module) -> Iterator[int]:
    """The lines of calls that wait for less than LEAST_SECONDS."""
    known = _constants(tree)
    loops = [one.test for one in ast.walk(tree) if isinstance(one, ast.While)]
    pauses = {id(part) for test in loops for part in ast.walk(test)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or id(node) in pauses:
            continue
        given = [one.value for one in node.keywords if one.arg == "timeout"]
        if _name(node) in WAITING:
            given += node.args[1:2] if _name(node) in ("wait_for", "wait_until") else node.args[:1]
        seconds = [_seconds(one, known) for one in given]
        if any(one is not None and 0 < one < LEAST_SECONDS for one in seconds):
            yield node.lineno


def _asks_a_clock(part: ast.AST) -> bool:
    return any(isinstance(one, ast.Call) and _name(one) in CLOCKS for one in ast.walk(part))


def asserted_durations(tree: ast.Module) -> Iterator[int]:
    """The lines of asserts that compare with a clock, where they say "less than"."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assert):
            continue
        for part in ast.walk(node.test):
            if (
                isinstance(part, ast.Compare)
                and any(isinstance(one, ast.Lt | ast.LtE) for one in part.ops)
                and _asks_a_clock(part)
                and any(isinstance(one, ast.BinOp) for one in ast.walk(part))
            ):
                yield node.lineno


@pytest.mark.parametrize("law", [short_waits, asserted_durations])
def test_no_test_depends_on_how_fast_the_machine_is(law) -> None:
    found = []
    for path in FILES:
        lines, tree = parsed(path)
        found += [
            f"{path.relative_to(ROOT)}:{number}: {lines[number - 1].strip()}"
            for number in law(tree)
            if MEANT not in lines[number - 1]
        ]
    assert found == []


@pytest.mark.parametrize(
    ("law", "line"),
    [
        (short_waits, "asyncio.timeout(5)"),
        (short_waits, "wait_until(ready, 20, what='ready')"),
        (short_waits, "urlopen(url, timeout=10)"),
        (short_waits, "S = 3.0\nprocess.wait(S)"),
        (asserted_durations, "assert time.monotonic() - begun < 3.0"),
    ],
)
def test_it_is_found(law, line) -> None:
    assert list(law(ast.parse(line)))


def test_longer_waits_are_not() -> None:
    text = "asyncio.timeout(60)\nwait_until(ready, what='it')\nassert time.monotonic() - a > 3"
    tree = ast.parse(text)
    assert not [*short_waits(tree), *asserted_durations(tree)]
