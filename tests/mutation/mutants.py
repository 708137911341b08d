"""A copy of the product with every mutant of a package in it, made by mutmut, asleep."""

import ast
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Final, NamedTuple

from mutmut.mutation.file_mutation import MutatedFile, mutate_file_contents
from mutmut.utils.format_utils import get_mutant_name, mangled_name_from_mutant_name

ROOT: Final = Path(__file__).parents[2]
_COPIED: Final = ("webhook", "certs", "manifests", "tests")


class Mutant(NamedTuple):
    """One change of one function, as its lines read; "" where a line is gone or new."""

    function: str
    was: str
    now: str


def plant(sources: tuple[str, ...], folder: Path) -> dict[str, Mutant]:
    """Copy everything there and mutate the modules of `sources`; mutants by mutmut's names."""
    shutil.rmtree(folder, ignore_errors=True)
    for copied in _COPIED:
        shutil.copytree(ROOT / copied, folder / copied, ignore=shutil.ignore_patterns("*.pyc"))
    settings = (ROOT / "pyproject.toml").read_text()
    # Here mutmut looks for its own settings, which it cannot do without.
    (folder / "pyproject.toml").write_text(f'{settings}\n[tool.mutmut]\nsource_paths = ["."]\n')
    found: dict[str, Mutant] = {}
    for path in sorted(_modules(sources)):
        with chdir(folder):
            mutated = mutate_file_contents(str(path), _undecorated(path.read_text()))
        (folder / path).write_text(mutated.code)
        lines = mutated.code.splitlines()
        for name in mutated.mutant_names:
            found[get_mutant_name(path, name)] = _mutant(path, name, mutated, lines)
    return found


def _modules(sources: tuple[str, ...]) -> Iterator[Path]:
    for source in sources:
        whole = ROOT / source
        for path in whole.rglob("*.py") if whole.is_dir() else [whole]:
            if path.name != "__init__.py":  # mutmut's own names would be public
                yield path.relative_to(ROOT)


def _undecorated(code: str) -> str:
    """Each property made of its method below it: mutmut passes over what is decorated."""
    lines = code.splitlines()
    classes = (one for one in ast.walk(ast.parse(code)) if isinstance(one, ast.ClassDef))
    methods = [one for each in classes for one in each.body if isinstance(one, ast.FunctionDef)]
    for method in sorted(methods, key=lambda one: one.lineno, reverse=True):
        match method.decorator_list:
            case [ast.Name(("property" | "cached_property") as kind) as decorator]:
                made = f"{method.name} = {kind}({method.name})"
                lines.insert(method.end_lineno or 0, " " * method.col_offset + made)
                del lines[decorator.lineno - 1]
    return "\n".join(lines)


def _mutant(path: Path, name: str, mutated: MutatedFile, lines: list[str]) -> Mutant:
    """`x_f__mutmut_1` is of the function f, `xǁAǁf__mutmut_1` of A.f."""
    mangled = mangled_name_from_mutant_name(name)
    texts = []
    for one in (f"{mangled}__mutmut_orig", name):
        span = mutated.line_span_by_function_name[one]
        texts.append([text.replace(one, mangled) for text in lines[span.start - 1 : span.end]])
    before, after = _difference(*texts)
    function = mangled.removeprefix("x").removeprefix("_").lstrip("ǁ").replace("ǁ", ".")
    return Mutant(f"{'.'.join(path.with_suffix('').parts)}.{function}", before, after)


def _difference(before: list[str], after: list[str]) -> tuple[str, str]:
    """What is left of two texts without the lines in which they begin and end alike."""
    while before and after and before[0] == after[0]:
        before, after = before[1:], after[1:]
    while before and after and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    was, now = (" ".join(line.strip() for line in lines) for lines in (before, after))
    return was, now
