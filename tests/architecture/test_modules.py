"""What every module promises: a sentence, a name, and no clock in the core."""

import ast
import subprocess
import sys
import tomllib
from collections import Counter

import pytest
from aiohttp import http_parser

from tests.architecture.source import ROOT, Module, below, shipped

MODULES = shipped()
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
(PURE,) = (
    contract["source_modules"]
    for contract in PYPROJECT["tool"]["importlinter"]["contracts"]
    if contract["name"].startswith("The core")
)
CORE = below(MODULES, PURE)
EVERY = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
IN_CORE = pytest.mark.parametrize("module", CORE, ids=lambda module: module.name)


@EVERY
def test_a_module_opens_with_one_sentence(module: Module):
    first, _, rest = module.docstring.partition("\n")
    assert first.endswith("."), "the first line is a sentence"
    assert ". " not in first, "and one alone"
    assert not rest or rest.startswith("\n"), "then a blank line"


@EVERY
def test_a_module_is_named_for_what_it_does(module: Module):
    last = module.name.rpartition(".")[2].removeprefix("_")
    assert last not in {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}


def test_most_modules_are_of_a_size_to_keep_in_mind():
    lines = sorted(len(module.text.splitlines()) for module in MODULES)
    assert lines[len(lines) // 2] <= 120


_CLOCKS = {"now", "utcnow", "today", "monotonic", "perf_counter", "process_time", "time_ns"}
_EFFECTS = {"open", "print", "input", "exec", "eval", "breakpoint"}


@IN_CORE
def test_the_core_reads_no_clock_and_touches_nothing(module: Module):
    calls = [node.func for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    attributes = {call.attr for call in calls if isinstance(call, ast.Attribute)}
    names = {call.id for call in calls if isinstance(call, ast.Name)}
    assert not attributes & _CLOCKS, "time is an argument"
    assert not names & _EFFECTS


@IN_CORE
def test_the_core_keeps_no_state_of_its_own(module: Module):
    """A global that can change would make two replicas, or two runs, answer differently."""
    assert not [node for node in ast.walk(module.tree) if isinstance(node, ast.Global)]


def test_the_core_is_what_the_contract_names():
    assert "webhook.pipeline" in PURE
    assert len(CORE) > 30


@EVERY
def test_no_error_is_swallowed_without_a_word(module: Module):
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, "say what is caught"
            silent = len(node.body) == 1 and isinstance(node.body[0], ast.Pass)
            assert not silent, "contextlib.suppress says it better"


def test_each_exception_is_drawn_once():
    names = Counter(
        node.name
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_help_and_replay_do_not_load_the_kubernetes_client():
    """It takes half a second, which every `genguard --help` would wait for."""
    code = "import sys, webhook.cli; print('kubernetes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_server_does_not_load_the_runtime_of_cel():
    """It belongs into the worker process, which has limits."""
    code = "import sys, webhook.cli, webhook.verbs.serving; print('cel_expr_python' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_requests_are_parsed_by_the_compiled_parser():
    """The pure one is slower, and had more of the smuggling CVEs."""
    assert http_parser.HttpRequestParser is not http_parser.HttpRequestParserPy


def test_no_module_is_imported_by_nobody():
    imported = "\n".join(module.text for module in MODULES)
    entries = {"webhook", "webhook.__main__", "certs.__main__", "certs"}
    found_by_their_folder = {"webhook.lint.checks", "webhook.status.kinds"}
    for module in MODULES:
        folder, _, last = module.name.rpartition(".")
        if folder in found_by_their_folder:
            continue
        if module.name not in entries and not module.path.name.startswith("__init__"):
            assert module.name in imported or f" {last}" in imported, module.name
