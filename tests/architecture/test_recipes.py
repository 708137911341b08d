"""The recipes of CONTRIBUTING.md, each followed in a copy of the repository."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

_LEFT_OUT = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info")
_RECIPE = re.compile(r"^## (Add .*?)$(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(
    r'^```\w+ (\S+)(?: (after|instead)="([^"\n]*)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE
)
_SECONDS = 240.0


@dataclass(frozen=True)
class Block:
    """One code block: a new file, or lines for a file that exists."""

    path: str
    how: str
    """What `text` does; empty for a new file."""
    place: str
    """A part of the line above the new lines; or what the new text stands instead of."""
    text: str

    def write(self, folder: Path) -> None:
        """Do in `folder` what a reader does with this block."""
        file = folder / self.path
        if not self.how:
            assert not file.exists(), f"{self.path} exists: choose another name"
            file.write_text(self.text)
            return
        lines = file.read_text().splitlines(keepends=True)
        places = [number for number, line in enumerate(lines, 1) if self.place in line]
        assert places, f"{self.path} has no line with {self.place!r}"
        if self.how == "after":
            lines.insert(places[0], self.text)
        else:
            line = lines[places[0] - 1]
            lines[places[0] - 1] = line.replace(self.place, self.text.rstrip("\n"))
        file.write_text("".join(lines))


@dataclass(frozen=True)
class Recipe:
    """One section of CONTRIBUTING.md."""

    title: str
    text: str

    def item(self, name: str) -> str:
        """What the list at the top of the recipe says behind this name."""
        found = re.search(rf"^- {name}: `([^`]*)`", self.text, re.MULTILINE)
        assert found, f"the recipe has no line '- {name}: `...`'"
        return found[1]

    @property
    def writer(self) -> str:
        """The command that writes the page of cases; empty where people write it."""
        found = re.search(r"^- Cases: `.*`, written by `(.*)`$", self.text, re.MULTILINE)
        return found[1] if found else ""

    @property
    def blocks(self) -> list[Block]:
        return [Block(*found) for found in _BLOCK.findall(self.text)]


RECIPES = [Recipe(*found) for found in _RECIPE.findall((ROOT / "CONTRIBUTING.md").read_text())]
EACH = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the repository in which nothing has been changed yet."""
    folder = tmp_path / "repository"
    shutil.copytree(ROOT, folder, ignore=_LEFT_OUT)
    return folder


def run(told: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of a recipe, with the Python that runs this test."""
    program, *words = shlex.split(told)
    assert program in (".venv/bin/python", "make")
    command = [sys.executable, *words]
    if program == "make":
        command = [program, "--old-file=install", f"PY={sys.executable}", *words]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def test_there_are_recipes_for_all_that_is_added_often() -> None:
    assert [recipe.title for recipe in RECIPES] == [
        "Add a kind",
        "Add a status rule",
        "Add a detector",
        "Add a lint check",
        "Add a flag",
        "Add a metric",
    ]


@EACH
def test_whoever_follows_a_recipe_is_done(recipe: Recipe, copy: Path) -> None:
    for block in recipe.blocks:
        block.write(copy)
    for command in filter(None, (recipe.writer, recipe.item("Command"))):
        done = run(command, copy)
        assert done.returncode == 0, done.stdout + done.stderr


@EACH
def test_the_command_tells_that_the_cases_were_forgotten(recipe: Recipe, copy: Path) -> None:
    cases = recipe.item("Cases")
    assert recipe.writer or cases in {block.path for block in recipe.blocks}
    for block in recipe.blocks:
        if block.path != cases:
            block.write(copy)
    done = run(recipe.item("Command"), copy)
    assert done.returncode == 1, done.stdout + done.stderr
    assert recipe.writer or Path(cases).stem.replace("_", "-") in done.stdout.lower()


@EACH
def test_the_module_is_the_one_that_the_recipe_names(recipe: Recipe) -> None:
    assert recipe.item("Module") in {block.path for block in recipe.blocks}
