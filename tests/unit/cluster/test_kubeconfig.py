"""A kubeconfig that cannot be used is refused in one line, by every verb."""

import os

import pytest
from click.testing import CliRunner

from webhook.cli import main
from webhook.cluster.kubeconfig import NoClusterError, check_kubeconfig

GOOD = """
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {token: secret}}]
current-context: a
"""
BAD = {
    "": "the file is empty",
    "a: 1\n---\nb: 2": "it must hold one document",
    "a: 1\n\tb: 2": "line 2: found a tab character",
    "a: [1": "line 2: did not find expected",
    "just text": "no kubeconfig",
    "[1, 2]": "no kubeconfig",
    "clusters: 5": "Expected `array | null`, got `int` - at `clusters`",
    "contexts: [{context: {}}]": "missing required field `name` - at `contexts[0]`",
    "users: [{name: a, user: secret}]": "got `str` - at `users[0].user`",
    "clusters: [{name: a, cluster: {server: secret}}]": "`clusters[0].cluster.server` must begin",
}
VERBS = (
    ["status", "deploy/web"],
    ["wait", "deploy/web"],
    ["doctor"],
    ["explain", "deploy.spec"],
    ["install", "--dry-run"],
    ["lint"],
    ["serve"],
    ["trace", "deploy/web"],
    ["uninstall", "--yes"],
)


def refused(paths):
    with pytest.raises(NoClusterError) as found:
        check_kubeconfig(str(paths))
    return str(found.value)


def test_a_good_file_passes_and_of_several_one_may_be_missing(tmp_path):
    (tmp_path / "good").write_text(GOOD)
    check_kubeconfig(f"{tmp_path / 'missing'}{os.pathsep}{tmp_path / 'good'}")


@pytest.mark.parametrize(("content", "reason"), BAD.items(), ids=range(len(BAD)))
def test_a_bad_file_is_named_with_what_is_wrong_and_no_value_of_it(content, reason, tmp_path):
    file = tmp_path / "config"
    file.write_text(content)
    message = refused(file)
    assert message.startswith(f"--kubeconfig {file}: ")
    assert reason in message
    assert "secret" not in message
    assert "\n" not in message


def test_what_is_no_text_or_no_file_is_refused(tmp_path):
    (tmp_path / "random").write_bytes(b"\xfb\x00\xff")
    assert refused(tmp_path / "random").endswith("no text in YAML")
    assert refused(tmp_path).endswith("Is a directory")
    assert refused(tmp_path / "missing").endswith("no such file")


@pytest.mark.parametrize("content", ["a: 1\n---\nb: 2", "clusters: 5"])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_every_verb_says_it_in_one_line(verb, content, tmp_path):
    file = tmp_path / "config"
    file.write_text(content)
    done = CliRunner().invoke(main, [*verb, "--kubeconfig", str(file)])
    assert done.exit_code in (1, 2), done.output
    assert isinstance(done.exception, SystemExit)
    assert done.output.count(str(file)) == 1
    assert "Traceback" not in done.output
