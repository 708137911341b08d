"""`genguard explain` of definitions that nobody writes by hand: an answer, or a short error."""

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.unit.lint.samples import definition as sound

MOST_MEMORY = 512 * 1024 * 1024
SCHEMA = "the schema goes here"


def definition(schema: object) -> dict:
    return sound({"version": {"schema": {"openAPIV3Schema": schema}}})


def large() -> str:
    """10 MB in JSON."""
    field = {"type": "string", "description": "x" * 80}
    return json.dumps(definition({"properties": {f"field{n}": field for n in range(80_000)}}))


def deep() -> str:
    """Nested as deep as nobody's decoder goes."""
    levels = '{"properties":{"status":' * 5_000 + "{}" + "}}" * 5_000
    return json.dumps(definition(SCHEMA)).replace(f'"{SCHEMA}"', levels)


def in_yaml(schema: str, before: str = "") -> str:
    return before + yaml.safe_dump(definition(SCHEMA)).replace(SCHEMA, schema)


def multiplied() -> str:
    """9 to the 9th values, each list nine times the one before."""
    lists = [f"x0: &x0 [{', '.join(['lol'] * 9)}]"]
    lists += [f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]" for n in range(1, 9)]
    return in_yaml("{properties: {status: {properties: *x8}}}", "\n".join(lists) + "\n")


def matched_for_hours() -> str:
    """A pattern for which Python's regular expressions go back and forth."""
    text = {"type": "string"}
    leaves = dict.fromkeys(("type", "status", "reason", "lastTransitionTime"), text)
    leaves["message"] = {"type": "string", "pattern": r"^(\w+\s?)*$X"}
    conditions = {"type": "array", "items": {"type": "object", "properties": leaves}}
    status = {"type": "object", "properties": {"conditions": conditions}}
    return json.dumps(definition({"properties": {"status": status}}))


def odd() -> str:
    """Lists where objects belong."""
    return json.dumps(definition({"properties": {"status": {"properties": ["lol"]}}}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "code", "told"),
    [
        (large, 0, "Widget  widgets.example.org"),
        (deep, 2, "neither JSON nor YAML at line 1"),
        (multiplied, 2, "neither JSON nor YAML at line"),
        (matched_for_hours, 0, "Widget  widgets.example.org"),
        (odd, 0, "Widget  widgets.example.org"),
    ],
)
def test_it_is_explained_or_refused_within_the_memory(
    tmp_path: Path, make: Callable[[], str], code: int, told: str
):
    file = tmp_path / "crds"
    file.write_text(make())
    command = [sys.executable, "-m", "webhook", "explain", "--crds", str(file), "widgets"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY)),
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert told in done.stdout + done.stderr
