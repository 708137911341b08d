"""The rules that genguard ships: a file a project in the folder library, with its cases beside it.

A file PROJECT.yaml has the rules, PROJECT.cases.yaml the cases. They are data, and the expressions
are our own; each file names the API types and controllers that it was read from.
"""

from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any, Final

from genguard.formats.kube_yaml import load_document
from genguard.status.health_rules import BadRuleError, HealthRule, parse_rules
from genguard.status.rule_cases import Case, parse_cases

_FOLDER: Final = "library"
_ENDS: Final = ".yaml"
_CASES: Final = ".cases.yaml"


@cache
def load_library() -> tuple[HealthRule, ...]:
    """Return every rule; the file of a rule is its source. Raises BadRuleError."""
    found: dict[tuple[str, str], HealthRule] = {}
    for name, document in _documents(cases=False):
        for rule in parse_rules(document, f"library: {name}"):
            known = found.setdefault((rule.group, rule.kind), rule)
            if known is not rule:
                raise BadRuleError(f"{rule.source}: {rule} is also in {known.source}")
    return tuple(found.values())


def load_library_cases() -> Iterator[tuple[str, Case]]:
    """Yield the cases of each project, with the name of the project. Raises BadRuleError."""
    for name, document in _documents(cases=True):
        for case in parse_cases(document):
            yield name, case


def _documents(*, cases: bool) -> Iterator[tuple[str, Any]]:
    folder = resources.files(__package__) / _FOLDER
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        end = _CASES if cases else _ENDS
        if file.name.endswith(end) and file.name.endswith(_CASES) is cases:
            yield file.name.removesuffix(end), load_document(file.read_bytes())
