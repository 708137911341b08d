"""Files with lines that are too long: reported with file and line, and the rest goes on."""

import gzip
import json
import tracemalloc

import pytest
from click.testing import CliRunner, Result

from tests.unit.cli.samples import DEFINITION, clobbered, lines, recorded, replay, write_lines
from tests.unit.lint.test_checks import configuration
from webhook.cli import main

FILLER = "x" * (2 << 20)
LONG = recorded("mutate", clobbered()) | {"filler": FILLER}
OBJECT = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}


def run(*words: object) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_replay_leaves_out_the_line_and_examines_the_others(tmp_path, name):
    path = write_lines(tmp_path / name, clobbered(), LONG, clobbered())
    result = replay("--max-line", 1, "-o", "json", path)
    assert result.exit_code == 1
    assert [line["type"] for line in lines(result)] == ["review", "review", "summary"]
    assert json.loads(result.stderr) == {
        "type": "error",
        "where": f"{path}:2",
        "message": "a line longer than 1 MiB: raise --max-line to read it",
    }
    assert replay("--max-line", 3, path).exit_code == 0
    assert replay(path).exit_code == 0


@pytest.mark.slow
def test_what_a_small_file_unpacks_to_is_not_held(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b'{"kind":"' + b"x" * (64 << 20)))
    tracemalloc.start()
    try:
        result = replay("--max-line", 1, path)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert f"{path}:1: a line longer than 1 MiB" in result.stderr


@pytest.mark.parametrize("key", ["kind", "apiVersion", "request"])
def test_a_line_of_lists_costs_no_multiple_of_its_length(tmp_path, key):
    path = tmp_path / "a"
    path.write_text(f'{{"{key}":[{"[]," * (1 << 20)}0]}}\n')
    tracemalloc.start()
    try:
        result = replay(path)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    assert f"{path}:1: " in result.stderr


@pytest.mark.parametrize("output", ["json", "table"])
def test_status_leaves_out_the_object_and_examines_the_others(tmp_path, output):
    path = write_lines(tmp_path / "a", OBJECT, OBJECT | {"filler": FILLER}, OBJECT)
    result = run("status", "-o", output, "-f", path, "--max-line", "1")
    assert result.exit_code == 1
    assert result.stdout.count("Namespace") == 2
    assert result.stderr == (
        f"{path}: a line longer than 1 MiB at line 2 was left out; raise --max-line to read it\n"
    )
    assert run("status", "-f", path, "--max-line", "3").exit_code == 0


def test_lint_refuses_the_file(tmp_path):
    path = write_lines(tmp_path / "a", configuration("a", {}), {"filler": FILLER})
    result = run("lint", path, "--max-line", "1")
    assert result.exit_code == 1
    told = "a line longer than 1 MiB at line 2 was left out; raise --max-line to read it"
    assert f"{path}: {told}" in result.stderr
    assert run("lint", path, "--max-line", "3").exit_code == 0


@pytest.mark.parametrize(
    "words",
    [("explain", "widgets", "--crds"), ("replay", "-", "--crds"), ("replay", "-", "--webhooks")],
)
def test_files_of_flags_have_the_same_limit(tmp_path, words):
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.write(json.dumps(DEFINITION).encode())
        file.truncate(65 << 20)
    result = run(*words, path)
    assert result.exit_code == 2
    assert f"{words[-1]} {path}: a line longer than 64 MiB at line 1" in result.stderr
