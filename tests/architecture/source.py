"""The source as text and trees: what tests of the architecture read."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Module:
    """One file of a package that is shipped."""

    path: Path

    @property
    def name(self) -> str:
        """Its dotted name."""
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(part for part in parts if part != "__init__")

    @cached_property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.tree) or ""


@cache
def shipped() -> tuple[Module, ...]:
    """Every module of webhook, certs and genguard; each is read and parsed once."""
    folders = ("webhook", "certs", "genguard")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return tuple(Module(path) for path in sorted(paths))


def below(modules: Sequence[Module], packages: list[str]) -> list[Module]:
    """Those that are one of the packages or in one."""
    return [
        module
        for module in modules
        if any(f"{module.name}.".startswith(f"{package}.") for package in packages)
    ]
