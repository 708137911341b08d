"""Command lines that are refused: the code, one line, and nothing on standard output."""

import shlex
from collections import Counter

import pytest
from click.testing import CliRunner

from tests.cases_loader import FOLDER, load, table
from tests.unit.cli.samples import serving, write_log
from webhook.cli import VERBS, main

KEYS = ("run", "code", "told")


@pytest.fixture(scope="module")
def server():
    with serving({"/api/findings/bad": b"[]"}) as url:
        yield url


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    write_log(tmp_path / "audit.log")
    (tmp_path / "file").write_text("text")
    definitions = FOLDER / "explain" / "definitions.yaml"
    (tmp_path / "definitions.yaml").write_text(definitions.read_text())


@pytest.mark.usefixtures("folder")
@table("cli/refused.yaml", *KEYS)
def test_what_is_refused_is_told_in_one_line(case, server):
    words = [server if word == "SERVER" else word for word in shlex.split(case["run"])]
    nowhere = {"HOME": "/missing", "KUBECONFIG": ""}
    done = CliRunner().invoke(main, words, prog_name="genguard", env=nowhere)
    assert (done.exit_code, done.stdout) == (case.get("code", 2), ""), done.output
    assert case["told"] in done.stderr, case.because
    assert len(done.stderr.splitlines()) == 1


def test_every_verb_is_tried_with_wrong_command_lines():
    rows = Counter(case["run"].split()[0] for case in load("cli/refused.yaml", *KEYS))
    assert {verb: rows[verb] for verb in VERBS if rows[verb] < 2} == {}
