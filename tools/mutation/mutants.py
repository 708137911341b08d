"""Copies the repository and puts every fault of one package into the copy, all switched off."""

import ast
import shutil
from contextlib import chdir
from pathlib import Path
from typing import Final, NamedTuple

from mutmut.mutation.file_mutation import MutatedFile, mutate_file_contents
from mutmut.utils.format_utils import get_mutant_name, mangled_name_from_mutant_name

ROOT: Final = Path(__file__).parents[2]
_COPIED: Final = ("webhook", "certs", "manifests", "genguard", "tests", "tools")


class Mutant(NamedTuple):
    """A fault: the function, its changed lines before and after; "" where a line is gone or new."""

    function: str
    was: str
    now: str


def plant(package: str, folder: Path) -> dict[str, Mutant]:
    """Copy the repository to `folder` and mutate `package` there; return mutmut's name → fault."""
    shutil.rmtree(folder, ignore_errors=True)
    for copied in _COPIED:
        shutil.copytree(ROOT / copied, folder / copied, ignore=shutil.ignore_patterns("*.pyc"))
    settings = (ROOT / "pyproject.toml").read_text()
    # mutmut looks for its own settings here and does not work without them.
    (folder / "pyproject.toml").write_text(f'{settings}\n[tool.mutmut]\nsource_paths = ["."]\n')
    mutants: dict[str, Mutant] = {}
    for path in sorted(source.relative_to(ROOT) for source in (ROOT / package).rglob("*.py")):
        if path.name == "__init__.py":  # mutmut's own names would become public there
            continue
        with chdir(folder):
            mutated = mutate_file_contents(str(path), _undecorated((ROOT / path).read_text()))
        (folder / path).write_text(mutated.code)
        lines = mutated.code.splitlines()
        for name in mutated.mutant_names:
            mutants[get_mutant_name(path, name)] = _mutant(path, name, mutated, lines)
    return mutants


def _undecorated(code: str) -> str:
    """Write `name = property(name)` below a property: mutmut leaves decorated functions alone."""
    lines = code.splitlines()
    classes = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ClassDef))
    bodies = (node for each in classes for node in each.body)
    methods = [node for node in bodies if isinstance(node, ast.FunctionDef)]
    for method in sorted(methods, key=lambda method: method.lineno, reverse=True):
        match method.decorator_list:
            case [ast.Name(("property" | "cached_property") as kind) as decorator]:
                assignment = f"{method.name} = {kind}({method.name})"
                lines.insert(method.end_lineno or 0, " " * method.col_offset + assignment)
                del lines[decorator.lineno - 1]
    return "\n".join(lines)


def _mutant(path: Path, name: str, mutated: MutatedFile, lines: list[str]) -> Mutant:
    """Describe one fault: `x_f__mutmut_1` is in the function f, `xǁAǁf__mutmut_1` in A.f."""
    mangled = mangled_name_from_mutant_name(name)
    texts = []
    for variant in (f"{mangled}__mutmut_orig", name):
        span = mutated.line_span_by_function_name[variant]
        texts.append([line.replace(variant, mangled) for line in lines[span.start - 1 : span.end]])
    before, after = _difference(*texts)
    function = mangled.removeprefix("x").removeprefix("_").lstrip("ǁ").replace("ǁ", ".")
    return Mutant(f"{'.'.join(path.with_suffix('').parts)}.{function}", before, after)


def _difference(before: list[str], after: list[str]) -> tuple[str, str]:
    """Cut off the lines with which both texts begin and end; join the rest of each."""
    while before and after and before[0] == after[0]:
        before, after = before[1:], after[1:]
    while before and after and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    was, now = (" ".join(line.strip() for line in lines) for lines in (before, after))
    return was, now
