"""Every verb with flags that are wrong, and what is misspelt."""

import pytest
from click.testing import CliRunner

from tests.malformed.table import ROWS
from webhook.cli import VERBS, main


def run(*words: str):
    return CliRunner().invoke(main, words, prog_name="genguard")


def test_every_verb_is_in_the_table_with_wrong_flags():
    assert set(ROWS) == set(VERBS)
    assert all(len(row.flags) >= 2 for row in ROWS.values())


@pytest.mark.parametrize("verb", ROWS)
def test_a_wrong_flag_is_told_in_a_line_and_the_code_is_2(verb, tmp_path, monkeypatch, subtests):
    monkeypatch.setenv("HOME", str(tmp_path))
    for words, told in ROWS[verb].flags:
        more = [f"--cert-dir={tmp_path}"] if verb == "serve" and "tls" not in words[0] else []
        with subtests.test(" ".join(words)):
            done = run(verb, *words, *more)
            assert isinstance(done.exception, SystemExit), done.exc_info
            assert done.exit_code == 2
            assert told in done.stderr
            assert done.stderr.count("\n") == 1
            assert f"genguard {verb} --help" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["stauts"], "Did you mean status? See genguard --help"),
        (["instal"], "Did you mean install?"),
        (["compleet", "bash"], "No such command 'compleet'"),
        (["status", "--kubeconfg=x"], "Did you mean --kubeconfig? See genguard status --help"),
    ],
)
def test_what_is_misspelt_is_answered_with_what_is_meant(words, told):
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
