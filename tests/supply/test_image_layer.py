"""What the Dockerfile removes and cuts off is not missed: in a copy where its steps were done."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import _core

from tools import image_layer, symbols
from tools.wheel import ROOT
from webhook.cli import VERBS

_LICENCE = re.compile(r"(?i)licen[cs]e|copying|notice|authors")
_MOST_BYTES = 95_000_000
"""With bytecode; the base image has about 130 MB, and both together are to stay below 250 MB."""
_IMPORT = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
"""
_USE = """
import asyncio
from datetime import UTC, datetime
import certs, uvloop, yaml, zstandard
from genguard.status.health_rules import Key
from webhook.cel.evaluator import Evaluator

async def three():
    return 3

assert uvloop.run(three()) == 3
assert zstandard.decompress(zstandard.compress(b"status")) == b"status"
assert yaml.load("a: [1]", yaml.CSafeLoader) == {"a": [1]}
assert certs.issue(names=["localhost"], at=datetime.now(UTC))
with Evaluator() as evaluator:
    key = next(iter(Key))
    complaints = (evaluator.complaint("'a,b'.split(',').size() ==", key) for _ in range(5))
    # A machine under load may not start the worker in time: then it is started again.
    assert any("Syntax error" in one for one in complaints)
"""


class Layer:
    """The packages as they are in the image."""

    def __init__(self, folder: Path, licences: set[str]) -> None:
        self.folder = folder
        self.licences = licences

    def run(self, *words: str) -> str:
        """Run Python with these packages alone; returns its output."""
        done = subprocess.run(
            [sys.executable, "-S", *words],
            cwd=self.folder.parent,
            env={**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def licences(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*.dist-info/**/*")
        if path.is_file() and _LICENCE.search(path.name)
    }


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Layer:
    folder = tmp_path_factory.mktemp("image") / "site-packages"
    image_layer.install(folder)
    found = licences(folder)
    assert all(list(folder.glob(pattern)) for pattern in image_layer.left_out())
    image_layer.shrink(folder)
    return Layer(folder, found)


def imported(path: Path) -> Iterator[str]:
    """The modules that a file names in imports, also in those that wait until they are wanted."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.slow
def test_every_module_that_is_shipped_or_named_in_an_import_is_there(layer: Layer) -> None:
    files = [
        path
        for package in ("certs", "genguard", "manifests", "webhook")
        for path in sorted((layer.folder / package).rglob("*.py"))
        if path.parent != layer.folder / "genguard/reproduce/folder"  # copied, and never imported
    ]
    own = {
        ".".join(path.relative_to(layer.folder).with_suffix("").parts).removesuffix(".__init__")
        for path in files
        if path.name != "__main__.py"
    }
    named = {name for path in files for name in imported(path)}
    layer.run("-c", _IMPORT, *sorted(own | named))


@pytest.mark.slow
def test_every_verb_describes_itself(layer: Layer) -> None:
    for verb in VERBS:
        assert "Usage:" in layer.run("-m", "webhook", verb, "--help")


@pytest.mark.slow
def test_compiled_modules_work_without_their_symbols(layer: Layer) -> None:
    layer.run("-c", _USE)


@pytest.mark.slow
def test_every_licence_stays(layer: Layer) -> None:
    assert len(layer.licences) > len(image_layer.locked()) / 2
    assert licences(layer.folder) == layer.licences


@pytest.mark.slow
def test_it_is_as_small_as_the_page_says(layer: Layer) -> None:
    layer.run("-m", "compileall", "-q", str(layer.folder))
    found = image_layer.total(layer.folder)
    assert found < _MOST_BYTES
    page = (ROOT / "docs" / "install.md").read_text()
    (said,) = re.findall(r"genguard's layer has (\d+) MB", page)
    assert int(said) == pytest.approx(found / 1e6, abs=2)


def test_a_compiled_module_is_cut_behind_what_is_loaded() -> None:
    content = Path(_core.__file__).read_bytes()
    cut = symbols.without_symbols(content)
    header = 64
    assert len(cut) < len(content)
    assert cut[header:] == content[header : len(cut)]
    assert symbols.without_symbols(cut) == cut


@pytest.mark.parametrize("content", [b"", b"# text", b"\x7fELF\x01\x01 of 32 bits"])
def test_what_is_no_such_module_stays_as_it_is(content: bytes) -> None:
    assert symbols.without_symbols(content) == content
