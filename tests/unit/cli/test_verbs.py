"""What every verb has in common: complete help, one line for what is wrong, colours for people."""

import ast
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import import_module

import click
import pytest
import yaml
from click.testing import CliRunner

import webhook
from genguard.detection.finding import Confidence, Severity
from genguard.status.drawing import Cell, Tone
from genguard.status.view import Health
from genguard.status.wait_goal import _GOALS
from genguard.trace.report import TraceConclusion
from tests.architecture.source import shipped
from tests.cases_loader import FOLDER
from webhook import cli
from webhook.cli import errors, main, output
from webhook.cli.options import TOLD
from webhook.doctor.facts import Level

ROOT = FOLDER.parents[1]
CONTEXT = click.Context(main, info_name="genguard")
VERBS = main.list_commands(CONTEXT)


def verb(name):
    found = main.get_command(CONTEXT, name)
    assert found is not None
    return found


def run(*args: str, **env):
    return CliRunner().invoke(main, args, prog_name="genguard", env=env)


@pytest.mark.parametrize("name", VERBS)
def test_help_tells_every_flag_and_the_exit_codes(name):
    result = run(name, "--help", COLUMNS="80")
    assert result.exit_code == 0
    assert re.search(r"The\s+exit\s+code\s+is\s+0", result.stdout)
    assert max(map(len, result.stdout.splitlines())) <= 80
    for parameter in verb(name).params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, parameter.opts
            assert parameter.opts[-1] in result.stdout


@pytest.mark.parametrize("name", VERBS)
def test_help_ends_with_examples_that_fit_the_terminal_and_are_understood(
    name, tmp_path, monkeypatch
):
    _, _, shown = run(name, "--help").stdout.partition("Examples:\n")
    monkeypatch.chdir(tmp_path)
    comments, commands = shown.splitlines()[::2], shown.splitlines()[1::2]
    assert commands
    assert len(comments) == len(commands)
    for comment, command in zip(comments, commands, strict=True):
        assert comment.startswith("    # ")
        assert max(len(comment), len(command)) <= 80
        program, first, *arguments = shlex.split(command)
        assert (program, first) == ("genguard", name)
        verb(name).make_context(name, arguments, parent=CONTEXT)


FOUND = ("ending", "quiet", "resolved", *Severity, *Confidence)
STATES = {
    "wait": _GOALS,
    "findings": FOUND,
    "status": Health,
    "doctor": Level,
    "trace": TraceConclusion,
}


@pytest.mark.parametrize(("name", "words"), STATES.items())
def test_each_state_and_goal_that_is_printed_stands_in_the_help(name, words):
    assert set(words) <= set(re.findall(r"[\w=-]+", run(name, "--help").stdout))


def test_each_flag_that_is_explained_is_one_of_the_verb():
    flags = {name: {max(one.opts, key=len) for one in verb(name).params} for name in VERBS}
    for name in VERBS:
        assert TOLD[name].flags.keys() <= flags[name], name
    assert TOLD["all"].flags.keys() <= set().union(*flags.values())


def test_the_list_of_verbs_groups_them_and_tells_each_in_a_whole_sentence():
    listed = run("--help").stdout
    assert re.findall(r"^(\w[\w ]+):$", listed, re.MULTILINE) == [*cli.GROUPS, "Options"]
    for name in VERBS:
        assert re.search(rf"^  {name} +[A-Z].*[^.]\.$", listed, re.MULTILINE), name


def test_every_verb_of_a_module_is_listed():
    names = [one.name for one in pkgutil.iter_modules(cli.__path__)]
    found = [one for name in names for one in vars(import_module(f"webhook.cli.{name}")).values()]
    verbs = {one.name for one in found if isinstance(one, click.Command)}
    assert verbs - {cli.main.name} == set(VERBS)


def test_each_error_that_a_verb_tells_by_its_name_is_declared():
    declared = {
        node.name
        for module in shipped()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    }
    assert frozenset().union(*errors.EXPECTED.values()) <= declared


def test_alone_it_prints_its_help_on_standard_output():
    done = run()
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == run("--help").stdout == run("help").stdout == run("help", "help").stdout


@pytest.mark.parametrize("name", VERBS)
def test_help_of_a_verb_is_asked_for_as_of_kubectl(name):
    assert run("help", name).stdout == run(name, "--help").stdout


def test_help_of_a_misspelt_verb_names_the_one_that_is_meant():
    done = run("help", "findigs")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Did you mean findings?" in done.stderr


@pytest.fixture
def cluster_flags(monkeypatch):
    """Run a command line, and return what findings was given."""
    given = {}
    monkeypatch.setattr(verb("findings"), "callback", lambda **flags: given.update(flags))

    def flags(*words: str) -> dict[str, str]:
        done = run(*words)
        assert done.exit_code == 0, done.stderr
        return {name: given[name] for name in ("namespace", "context", "kubeconfig")}

    return flags


@pytest.mark.parametrize(
    "words",
    [
        "-n shop --context c --kubeconfig k findings",
        "findings -n shop --context c --kubeconfig k",
        "--namespace=shop --context=c findings --kubeconfig=k",
        "-nshop --kubeconfig k --context before findings --context c",
    ],
)
def test_flags_of_the_cluster_stand_before_the_verb_or_behind_it(cluster_flags, words):
    given = cluster_flags(*words.split())
    assert given == {"namespace": "shop", "context": "c", "kubeconfig": "k"}


@pytest.mark.parametrize("name", VERBS)
def test_each_short_flag_has_the_long_name_of_kubectl(name):
    long = {
        "-o": "--output", "-n": "--namespace", "-A": "--all-namespaces", "-l": "--selector",
        "-f": "--filename", "-w": "--watch", "-R": "--recursive",
    }  # fmt: skip
    for parameter in verb(name).params:
        for flag in parameter.opts:
            if len(flag) == 2:
                assert long[flag] in parameter.opts


def test_one_sentence_says_what_it_does_for_people_wherever_they_find_it():
    tagline = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["description"]
    chart = yaml.safe_load((ROOT / "charts" / "genguard" / "Chart.yaml").read_text())
    assert run("--help").stdout.splitlines()[2].strip() == f"{tagline}."
    assert chart["description"] == tagline
    assert f'image.description="{tagline}"' in (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("name", VERBS)
def test_an_unknown_flag_is_told_in_a_line_with_the_next_step(name):
    result = run(name, "--frobnicate")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: No such option")
    assert result.stderr.endswith(f"see genguard {name} --help\n")
    assert result.stderr.count("\n") == 1


def test_the_version_is_that_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == webhook.__version__
    assert run("version").stdout.startswith(f"genguard {webhook.__version__}, Kubernetes 1.28 to")


def test_colours_are_for_terminals_and_for_those_who_want_them(monkeypatch):
    rows = [(Cell("web"), Cell("no", Tone.BAD))]
    monkeypatch.delenv("NO_COLOR", raising=False)
    (line,) = output.lines(rows)
    assert "\x1b[31m" in line
    monkeypatch.setenv("NO_COLOR", "1")
    assert output.lines(rows) == ["web  no"]


SERVERS_OWN = {"certs", "cryptography", "jinja2", "prometheus_client"}
HEAVY = ("aiohttp", "asyncio", "kubernetes", "yaml", *SERVERS_OWN)
"""They load for as long as such a verb runs, or longer."""


LIGHT = ("findings", "explain", "blame", "dashboard", "status", "wait", "lint", "completion")
"""Verbs whose help does without the clients of the Kubernetes API and of servers."""


def loaded(*words: str) -> set[str]:
    """Which of HEAVY a run loads."""
    program = (
        "import sys; from webhook.cli import main\n"
        f"try: main({words!r}, prog_name='genguard')\n"
        f"finally: print(*set(sys.modules) & set({HEAVY!r}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return set(done.stderr.splitlines()[-1].split()) if done.stderr.strip() else set()


@pytest.mark.parametrize("words", [[], ["help"], ["version"]])
def test_what_asks_nobody_loads_nothing_for_it(words):
    assert loaded(*words) == set()


@pytest.mark.parametrize("name", LIGHT)
def test_help_of_what_people_type_comes_at_once(name):
    assert not loaded("help", name) & {"aiohttp", "jinja2", "kubernetes"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["status"], ["findings"], ["blame", "deploy/web"], ["wait", "deploy/web"], ["watch"]]
)
def test_what_asks_a_cluster_loads_nothing_of_the_server(words, tmp_path):
    """As far as a kubeconfig that is not there, which is read when everything is loaded."""
    found = loaded(*words, f"--kubeconfig={tmp_path}/none")
    assert "kubernetes" in found
    assert not found & SERVERS_OWN


@pytest.mark.slow
@pytest.mark.parametrize("name", ["genguard", "kubectl-genguard", "kubectl_complete-genguard"])
def test_each_program_starts(name, tmp_path):
    """As the installed script would: module and function from pyproject.toml."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts[name].partition(":")
    program = tmp_path / name
    program.write_text(f"from {module} import {function}\n{function}()\n")
    args = ["expl"] if "complete" in name else ["replay", "--nothing"]
    done = subprocess.run(
        [sys.executable, program, *args], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if "complete" in name:
        assert done.stdout.splitlines() == [f"explain\t{cli.VERBS['explain']}", ":4"]
    else:
        path = name.replace("-", " ")
        assert done.stderr == f"Error: No such option '--nothing'; see {path} replay --help\n"
        assert done.returncode == 2


@pytest.mark.slow
def test_bash_completes_verbs_flags_and_kinds(tmp_path):
    """The real shell with the real script."""
    program = tmp_path / "genguard"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m webhook "$@"\n')
    program.chmod(0o755)
    ask = """
        source <(genguard completion bash)
        complete_words() {
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
            _genguard_completion genguard
            echo "${COMPREPLY[@]}"
        }
        complete_words genguard repl
        complete_words genguard help dash
        complete_words genguard -n shop blam
        complete_words genguard lint --fail
        complete_words genguard explain deploym
    """
    done = subprocess.run(
        ["bash", "-c", ask], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.stdout.split() == [
        *("replay", "dashboard", "blame", "--fail-on", "deployments.apps")
    ]
