"""Laws for every module that is shipped. A failing test lists the modules that break its law."""

import ast
import subprocess
import sys
import tomllib
from collections import Counter

from aiohttp import http_parser

from tests.architecture.source import ROOT, Module, below, shipped

MODULES = shipped()
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
(PURE,) = (
    contract["source_modules"]
    for contract in PYPROJECT["tool"]["importlinter"]["contracts"]
    if contract["name"].startswith("The core does no I/O")
)
CORE = below(MODULES, PURE)
_SAYS_NOTHING = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}
_CLOCKS = {"now", "utcnow", "today", "monotonic", "perf_counter", "process_time", "time_ns"}
_EFFECTS = {"open", "print", "input", "exec", "eval", "breakpoint"}


def begins_with_a_sentence(docstring: str) -> bool:
    first, _, rest = docstring.partition("\n")
    return first.endswith(".") and (not rest or rest.startswith("\n"))


def reads_a_clock_or_has_an_effect(module: Module) -> bool:
    calls = [node.func for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    attributes = {call.attr for call in calls if isinstance(call, ast.Attribute)}
    names = {call.id for call in calls if isinstance(call, ast.Name)}
    return bool(attributes & _CLOCKS or names & _EFFECTS)


def swallows_errors(module: Module) -> bool:
    """Whether it catches everything, or passes where contextlib.suppress says it better."""
    return any(
        node.type is None or (len(node.body) == 1 and isinstance(node.body[0], ast.Pass))
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler)
    )


def is_discovered(package: str) -> bool:
    """Whether a module imports whatever is in the folder of this package."""
    parent, _, last = package.rpartition(".")
    return any(
        "iter_modules" in module.text and (module.name == package or last in module.text)
        for module in below(MODULES, [parent or package])
    )


def test_the_docstring_of_a_module_begins_with_a_sentence():
    assert [m.name for m in MODULES if not begins_with_a_sentence(m.docstring)] == []


def test_a_module_is_named_for_what_it_does():
    last = {module: module.name.rpartition(".")[2].removeprefix("_") for module in MODULES}
    assert [module.name for module in MODULES if last[module] in _SAYS_NOTHING] == []


def test_the_core_reads_no_clock_and_has_no_effects():
    """Time is an argument."""
    assert [module.name for module in CORE if reads_a_clock_or_has_an_effect(module)] == []


def test_the_core_keeps_no_state_of_its_own():
    """A global that changes makes two replicas, or two runs, answer differently."""
    changing = [
        module.name
        for module in CORE
        if any(isinstance(node, ast.Global) for node in ast.walk(module.tree))
    ]
    assert changing == []


def test_the_core_holds_the_pipeline():
    assert "genguard.review" in {module.name for module in CORE}


def test_no_error_is_swallowed():
    assert [module.name for module in MODULES if swallows_errors(module)] == []


def test_each_exception_is_declared_once():
    names = Counter(
        node.name
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_every_module_is_imported_somewhere():
    imported = "\n".join(module.text for module in MODULES)
    unused = []
    for module in MODULES:
        package, _, last = module.name.rpartition(".")
        is_start = module.path.name in ("__init__.py", "__main__.py")
        is_named = module.name in imported or f" {last}" in imported
        is_copied = f'"{last}.py"' in imported
        if not (is_start or is_named or is_copied or is_discovered(package)):
            unused.append(module.name)
    assert unused == []


def loaded_by(code: str) -> set[str]:
    """The modules that a new Python has loaded after this code."""
    command = [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_help_and_replay_do_not_load_the_kubernetes_client():
    """It takes half a second, for which every `genguard --help` would wait."""
    assert "kubernetes" not in loaded_by("import webhook.cli")


def test_the_server_does_not_load_the_runtime_of_cel():
    """It belongs into the worker process, which has limits."""
    loaded = loaded_by("import webhook.serve.app, webhook.cli.serve, webhook.cel.evaluator")
    assert "cel_expr_python" not in loaded


def test_requests_are_parsed_by_the_compiled_parser():
    """The parser in Python is slower and had more CVEs of request smuggling."""
    assert http_parser.HttpRequestParser is not http_parser.HttpRequestParserPy
