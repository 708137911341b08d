"""What a file or a cluster says never reaches a terminal as it is, in any form of output."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.cases_loader import Case, load, table
from tests.unit.cli.samples import DEFINITION, clobbered, recorded
from tests.unit.lint.test_checks import configuration
from webhook.cli import main

HOSTILE = "a\x1b[2J\r\n\x7f\x85\x9b31m\u202e\u2066\u200b\u2028\ufeff\U000e0041é漢"
"""Controls of ASCII and of C1, overrides of direction, separators, tags; and two letters."""


def hostile(value: Any, kept: tuple[str, ...] = ()) -> Any:
    """The document with a hostile end to every text, but for those that make it what it is."""
    if isinstance(value, dict):
        return {key: one if key in kept else hostile(one, kept) for key, one in value.items()}
    if isinstance(value, list):
        return [hostile(one, kept) for one in value]
    return value + HOSTILE if isinstance(value, str) else value


def run(*words: object) -> Result:
    nowhere = {"HOME": "/missing", "KUBECONFIG": ""}
    return CliRunner().invoke(main, list(map(str, words)), env=nowhere)


def written(path: Path, *documents: Any) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in documents))
    return path


REVIEW = hostile(
    clobbered(), ("apiVersion", "uid", "operation", "group", "version", "resource", "subResource")
) | {"kind": "AdmissionReview"}


def made(case: Case) -> Any:
    if "kept" in case.values:
        return hostile(case["document"], tuple(case["kept"]))
    text = json.dumps(case["document"]).replace('"HOSTILE"', json.dumps(HOSTILE))
    inner = json.dumps(json.dumps(HOSTILE)[1:-1])[1:-1]
    return json.loads(text.replace("<HOSTILE>", inner))


ROWS = load("cli/hostile_documents.yaml", "name", "kept", "document")
EVENT, BLAMED, OBJECT, POD = map(made, ROWS)
LINTED = hostile(configuration("bad", {"sideEffects": "Some"}), ("apiVersion", "kind"))
DEFINED = hostile(DEFINITION, ("apiVersion", "plural")) | {"kind": "CustomResourceDefinition"}
FILES = {
    "recorded": (REVIEW, EVENT),
    "phase": (recorded(HOSTILE, clobbered()),),
    "kind": ({"kind": HOSTILE},),
    "objects": (OBJECT, POD),
    "hook": (LINTED,),
    "definition": (DEFINED,),
    "log": (BLAMED,),
}


def said(folder: Path, words: str) -> Result:
    """What a command line prints: FILE is a file of FILES, HOSTILE a name that no file has."""
    places = {name: written(folder / name, *found) for name, found in FILES.items()}
    given = [places.get(word, word) for word in shlex.split(words)]
    return run(*(str(word).replace("HOSTILE", HOSTILE) for word in given))


@table("cli/hostile_output.yaml", "run")
def test_no_verb_prints_what_moves_a_cursor_or_turns_a_line(tmp_path, case):
    result = said(tmp_path, case["run"])
    assert isinstance(result.exception, SystemExit | None), result.exception
    printed = result.stdout + result.stderr
    assert printed
    assert [sign for sign in printed if not sign.isprintable() and sign != "\n"] == [], case.because


@pytest.mark.parametrize(
    "words",
    ["replay recorded", "status -f objects", "lint hook", "explain widgets --crds definition"],
)
def test_json_holds_the_same_text_escaped(tmp_path, words):
    printed = said(tmp_path, f"{words} -o json").stdout
    assert r"\u007f\u0085\u009b31m\u202e\u2066\u200b\u2028\ufeff\udb40\udc41é漢" in printed
    assert HOSTILE in "".join(text for line in printed.splitlines() for text in _texts(line))


def _texts(line: str) -> Iterator[str]:
    pending = [json.loads(line)]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict | list):
            pending += one.values() if isinstance(one, dict) else one


def test_yaml_says_the_same_as_json(tmp_path):
    path = written(tmp_path / "file", OBJECT, POD)
    first, second = yaml.safe_load_all(run("status", "-o", "yaml", "-f", path).stdout)
    lines = run("status", "-o", "json", "-f", path).stdout.splitlines()
    assert [first, second] == list(map(json.loads, lines))
