"""The one loader of table cases: YAML under tests/cases, where each case says why it holds.

    tests/cases/generation/pods.yaml                       a list of cases
    tests/cases/rules/assign_generation/acts/create.yaml   one case

A case without `because`, or with a key its table does not know, is refused: a slip of the pen must
not make a case that says nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

FOLDER: Final = Path(__file__).parent / "cases"


class BadCaseError(Exception):
    """A case that cannot be what its author meant; the message names file and case."""


class _Loader(yaml.CSafeLoader):
    """YAML as JSON people mean it: a time stays the text that it is."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if not tag.endswith(":timestamp")]
    for first, found in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a table; `name` is file and number, `because` is the reason."""

    name: str
    because: str
    values: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)


def load(where: str, *keys: str) -> list[Case]:
    """Every case of a file or folder below tests/cases; `keys` are what a case may hold."""
    path = FOLDER / where
    files = sorted(path.rglob("*.yaml")) if path.is_dir() else [path]
    found = [case for file in files for case in _read(file, {*keys, "because"})]
    if not found:
        raise FileNotFoundError(f"{path}: no case")
    return found


def table(where: str, *keys: str) -> Any:
    """`@table("equality/quantity.yaml", "a", "b")` runs a test once for each case."""
    cases = load(where, *keys)
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


def read_beside(module: str, name: str) -> Any:
    """What a YAML file beside a module holds: `read_beside(__file__, "names.yaml")`."""
    return _load(Path(module).with_name(name))


def _load(file: Path) -> Any:
    return yaml.load(file.read_text("utf-8"), Loader=_Loader)  # noqa: S506 - a SafeLoader


def _read(file: Path, known: set[str]) -> Iterator[Case]:
    document = _load(file)
    rows = document if isinstance(document, list) else [document]
    for number, row in enumerate(rows, start=1):
        name = f"{file.stem}-{number}" if isinstance(document, list) else file.stem
        if not isinstance(row, dict) or not isinstance(row.get("because"), str):
            raise BadCaseError(f"{file}: case {number} has no reason: write `because: ...`")
        if unknown := row.keys() - known:
            raise BadCaseError(f"{file}: case {number} has unknown keys {sorted(unknown)}")
        yield Case(name, row["because"], {k: v for k, v in row.items() if k != "because"})
