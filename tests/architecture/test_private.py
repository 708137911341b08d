"""No module uses what another package keeps to itself, and none changes another module."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.source import shipped

PUBLIC = frozenset({"_asdict", "_fields", "_make", "_replace", "_exit"})
"""Documented names: methods of named tuples, which have an underscore so that no field has their
name, and os._exit, the one way out of a process whose event loop stands still."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def own_names(tree: ast.Module) -> set[str]:
    """Everything private that the module defines itself: variables, functions, attributes."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}:
                found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
    return found


def imported(tree: ast.Module) -> set[str]:
    """The names that imports bind."""
    return {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def foreign(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Private attributes of others, and private names that are imported, with their lines."""
    own = own_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            is_self = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            if not is_self:
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom):
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from ((node.lineno, part) for part in parts if is_private(part))


def patched(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Assignments to attributes of what was imported, which the whole process would share."""
    names = imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            root: ast.expr = node
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in names:
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
            yield node.lineno, ast.unparse(node)


def test_nothing_private_of_another_package_or_class_is_used(subtests: pytest.Subtests) -> None:
    for module in shipped():
        with subtests.test(module.name):
            assert list(foreign(module.tree)) == [], "ask its owner for something public"


def test_nothing_is_patched_for_the_whole_process(subtests: pytest.Subtests) -> None:
    for module in shipped():
        with subtests.test(module.name):
            assert list(patched(module.tree)) == [], "hand it over as an argument"


def test_a_private_attribute_and_a_patch_would_be_found() -> None:
    spoilt = ast.parse(
        "import logging\n"
        "from asyncio import sslproto\n"
        "from aiohttp.web_protocol import _ErrInfo\n"
        "logging._srcfile = None\n"
        "sslproto.SSLProtocol.max_size = 1\n"
        "print(request.protocol._waiter)\n"
    )
    assert [line for line, _ in foreign(spoilt)] == [3, 4, 6]
    assert [line for line, _ in patched(spoilt)] == [4, 5]
