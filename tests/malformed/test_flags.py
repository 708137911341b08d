"""Every verb with flags that are wrong, and what is misspelt."""

import pytest
from click.testing import CliRunner

from tests.malformed.table import ROWS
from webhook.cli import VERBS, main


def run(*words: str):
    return CliRunner().invoke(main, words, prog_name="genguard")


def test_every_verb_is_in_the_table_with_wrong_flags():
    assert set(ROWS) == set(VERBS)
    assert all(len(row.flags) + bool(row.misspelt) >= 2 for row in ROWS.values())


def refused_in_a_line(verb: str, *words: str) -> str:
    done = run(verb, *words)
    assert isinstance(done.exception, SystemExit), done.exc_info
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert f"genguard {verb} --help" in done.stderr
    return done.stderr


@pytest.mark.parametrize("verb", ROWS)
def test_a_wrong_flag_is_told_in_a_line_and_the_code_is_2(verb, tmp_path, monkeypatch, subtests):
    monkeypatch.setenv("HOME", str(tmp_path))
    for words in ROWS[verb].flags:
        more = [f"--cert-dir={tmp_path}"] if verb == "serve" and "tls" not in words[0] else []
        with subtests.test(" ".join(words)):
            refused_in_a_line(verb, *words, *more)


@pytest.mark.parametrize("verb", [verb for verb, row in ROWS.items() if row.misspelt])
def test_a_flag_that_is_misspelt_is_answered_with_the_one_that_is_meant(verb):
    words, meant = ROWS[verb].misspelt
    assert f"Did you mean {meant}?" in refused_in_a_line(verb, *words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["stauts"], "Did you mean status? See genguard --help"),
        (["instal"], "Did you mean install?"),
        (["compleet", "bash"], "No such command 'compleet'"),
        (["status", "--kubeconfg=x"], "Did you mean --kubeconfig? See genguard status --help"),
        (["explain", "deploy", "--server=http://h"], "--server is for finding/ID"),
        (["blame", "deploy/web", "-f", "x", "--server=http://h"], "leave them out"),
    ],
)
def test_a_wrong_command_line_is_answered_with_what_is_meant(words, told):
    done = run(*words)
    assert done.exit_code == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_kind_that_is_misspelt_is_answered_with_what_is_meant(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    done = run("explain", "deploymnets.apps")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "did you mean deployments.apps?" in done.stderr
