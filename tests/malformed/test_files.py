"""Every verb that reads a file, and every flag that names one, with files that are none."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
import pytest
from click.testing import CliRunner

from tests.cases_loader import read_beside
from tests.malformed.table import ROWS
from webhook.cli import VERBS, main

LEVELS = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
BOMB = f"kind: Pod\na0: &a0 [x, x, x, x, x, x, x, x, x]\n{LEVELS}"
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "canary-7f3a"}}


def content(data: bytes | str) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(data.encode() if isinstance(data, str) else data) and None


BAD: Final[dict[str, Callable[[Path], Any]]] = {
    "missing": lambda path: None,
    "a folder": Path.mkdir,
    "binary": content(b"\x7fELF\x02\x01\x01\x00\xff\xfe canary-7f3a"),
    "a gzip file that was cut": content(gzip.compress(json.dumps(POD).encode() * 50)[:40]),
    "empty": content(""),
    "an enormous line": content(b'{"canary-7f3a": "' + b"x" * (2 << 20) + b'"}\n'),
    "another kind": content(json.dumps(POD)),
    "a YAML bomb": content(BOMB),
    "nested without end": content("[" * 50_000),
    "half a document": content('{"kind": "Pod", "metadata": {"na'),
}
_DATA: Final = read_beside(__file__, "files.yaml")
GOOD_OF_SOME: Final = _DATA["good"]
"""Verbs and files that end well, and why."""
OF_LINES: Final = ("replay", "blame")
"""Verbs that read one document a line: they report each, and the rest goes on."""


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def lines_of(done: Any) -> list[str]:
    return [line for line in done.stderr.splitlines() if line]


def spoilt(folder: Path, name: str) -> Path:
    """A bad file in a folder of its own."""
    (folder / name).mkdir()
    path = folder / name / "file"
    BAD[name](path)
    return path


@pytest.mark.parametrize("verb", [verb for verb, row in ROWS.items() if row.reads])
def test_a_file_that_is_read_is_told_in_a_line_and_the_code_is_1(verb, tmp_path, subtests):
    for name in BAD:
        with subtests.test(name):
            it_is_told_in_a_line(verb, name, spoilt(tmp_path, name))


def it_is_told_in_a_line(verb: str, name: str, path: Path) -> None:
    size = ["--max-line=1"] if "--max-line=1" not in ROWS[verb].reads else []
    done = CliRunner().invoke(main, [verb, *size, *ROWS[verb].reads, str(path)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    assert "Traceback" not in done.output
    if f"{verb} {name}" in GOOD_OF_SOME:
        assert done.exit_code == 0
        assert len(lines_of(done)) <= 1
        return
    assert done.exit_code in ((0, 1) if verb == "wait" and name == "another kind" else (1,))
    told = lines_of(done)
    if verb in OF_LINES and name == "a YAML bomb":
        assert all(str(path) in line for line in told)
        return
    assert 1 <= len(told) <= 2, "one for the file, and for some one for the verb"
    assert name == "another kind" or verb == "wait" or str(path) in told[0]
    assert "canary" not in done.stderr or name == "another kind"


def flags_of_files() -> list[tuple[str, str]]:
    """Every flag of a verb that names a file or folder."""
    found = []
    for verb in VERBS:
        command = main.get_command(None, verb)  # type: ignore[arg-type]
        assert command is not None
        found += [
            (verb, parameter.opts[-1])
            for parameter in command.params
            if isinstance(parameter, click.Option) and isinstance(parameter.type, click.Path)
        ]
    return found


BESIDE: Final = _DATA["beside"]
"""What a flag needs beside it."""
CANNOT_SERVE: Final = _DATA["cannot_serve"]
"""Flags of files with which the code is 1, and why; with others it is 2."""
WELL: Final = _DATA["well"]
"""Verbs, flags and files that are no fault, and why."""
IS_APPENDED: Final = ("serve", "--record")
"""What stands in the file is not read."""


def is_a_fault(verb: str, flag: str, name: str) -> bool:
    """Whether a file is no good for a flag."""
    if (verb, flag) == IS_APPENDED:
        return name == "a folder"
    return f"{verb} {flag} {name}" not in WELL


@pytest.mark.parametrize(("verb", "flag"), flags_of_files())
def test_a_file_that_a_flag_names_is_told_in_a_line(verb, flag, tmp_path, subtests):
    for name in BAD:
        if is_a_fault(verb, flag, name):
            with subtests.test(name):
                a_flags_file_is_told_in_a_line(verb, flag, name, spoilt(tmp_path, name))


def a_flags_file_is_told_in_a_line(verb: str, flag: str, name: str, path: Path) -> None:
    beside = [word.replace("FILE", str(path)) for word in BESIDE.get(f"{verb} {flag}", ())]
    if verb == "serve" and "--tls" not in flag and flag != "--cert-dir":
        beside += [f"--cert-dir={path.with_name('certs')}", "--secure-port=0", "--ops-port=0"]
    done = CliRunner().invoke(main, [verb, f"{flag}={path}", *beside], input="")
    assert isinstance(done.exception, SystemExit), done.exc_info
    assert done.exit_code == (1 if flag in CANNOT_SERVE and "folder" not in name else 2), (
        done.output
    )
    assert len(lines_of(done)) == 1
    assert str(path) in done.stderr
    assert "canary" not in done.stderr or flag == "--config", "a key is a flag that is misspelt"


def test_each_verb_that_reads_a_file_is_tried():
    reads = set()
    for verb in VERBS:
        command = main.get_command(None, verb)  # type: ignore[arg-type]
        assert command is not None
        if {"files"} & {parameter.name for parameter in command.params}:
            reads.add(verb)
    assert {verb for verb, row in ROWS.items() if row.reads} == reads
