"""Write lint findings as SARIF 2.1.0, the format that code scanning services show beside the code.

Reads   findings, and the text of the files that were checked, to find the line of each field
Result  one log with one run; a field that is in no readable file has no line. A configuration or
        definition that several files have is shown in the first one
Source  OASIS, Static Analysis Results Interchange Format 2.1.0
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import yaml

from genguard.linting.check import Check, DefinitionCheck, Level, LintFinding
from genguard.linting.definition import DEFINITION
from genguard.linting.hook import MUTATING, VALIDATING

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {Level.ERROR: "error", Level.WARNING: "warning", Level.INFO: "note"}
_CHECKED: Final = frozenset({DEFINITION, MUTATING, VALIDATING})
_STEP: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


class Place(NamedTuple):
    """Where a field is: the file as it was named, and the line, from 1; 0 if it is not known."""

    file: str
    line: int


class Sources:
    """What was checked in files, by name, with the lines of its fields."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """`texts` holds each file by its name; a text that is no YAML or JSON has no lines."""
        self._files: Final = tuple(texts)
        self._found: Final[dict[tuple[bool, str], tuple[str, yaml.Node]]] = {}
        for file, text in texts.items():
            for kind, node in _documents(text):
                name = _text(_child(_child(node, "metadata"), "name"))
                if kind in _CHECKED:
                    self._found.setdefault((kind == DEFINITION, name), (file, node))

    def place(self, finding: LintFinding) -> Place | None:
        """Return the place of a finding's field, or of the nearest field above it that is there.

        None where there are no files, as for the configurations of a cluster.
        """
        key = bool(finding.definition), finding.subject.partition("/")[0]
        if key in self._found:
            file, node = self._found[key]
            return Place(file, _deepest(node, finding.field).start_mark.line + 1)
        return Place(self._files[0], 0) if self._files else None


def to_sarif(
    findings: Iterable[LintFinding],
    checks: Sequence[Check | DefinitionCheck],
    sources: Sources,
    version: str,
) -> dict[str, Any]:
    """Return the log; `version` is genguard's."""
    rules = [
        {
            "id": one.id,
            "shortDescription": {"text": one.id.replace("-", " ")},
            "fullDescription": {"text": one.reason},
            "help": {"text": one.reason},
        }
        for one in checks
    ]
    index = {one.id: number for number, one in enumerate(checks)}
    driver = {"name": "genguard", "semanticVersion": version, "rules": rules}
    results = [_result(one, index[one.id], sources.place(one)) for one in findings]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
        ],
    }


def _result(finding: LintFinding, rule: int, place: Place | None) -> dict[str, Any]:
    logical = {"fullyQualifiedName": f"{finding.subject}/{finding.field}", "kind": "member"}
    location: dict[str, Any] = {"logicalLocations": [logical]}
    if place is not None:
        physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(place.file)}}
        if place.line:
            physical["region"] = {"startLine": place.line}
        location["physicalLocation"] = physical
    # The same problem keeps its identity when lines above it are added.
    identity = f"{finding.id}\n{finding.subject}\n{finding.field}".encode()
    return {
        "ruleId": finding.id,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.subject} {finding.field}: {finding.message}"},
        "locations": [location],
        "partialFingerprints": {"genguardLint/v1": hashlib.sha256(identity).hexdigest()[:32]},
    }


def _uri(file: str) -> str:
    """Return a relative reference, or a file URI for an absolute path; - is standard input."""
    path = PurePosixPath(file.replace("\\", "/"))
    if file == "-":
        return "stdin"
    return f"file://{quote(str(path))}" if path.is_absolute() else quote(str(path))


def _documents(text: str) -> Iterator[tuple[str, yaml.Node]]:
    """Yield each document of a file and each item of a List, with its kind, as far as readable."""
    try:
        for node in yaml.compose_all(text, Loader=yaml.CSafeLoader):
            items, kind = _child(node, "items"), _text(_child(node, "kind"))
            if not isinstance(items, yaml.SequenceNode):
                yield kind, node
                continue
            for item in items.value:
                # The items of a CustomResourceDefinitionList need not say their kind.
                yield _text(_child(item, "kind")) or kind.removesuffix("List"), item
    except yaml.YAMLError:
        return


def _deepest(node: yaml.Node, path: str) -> yaml.Node:
    for index, name in _STEP.findall(path):
        found = _child(node, int(index) if index else name)
        if found is None:
            break
        node = found
    return node


def _child(node: yaml.Node | None, step: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if _text(key) == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        found: yaml.Node = node.value[step]
        return found
    return None


def _text(node: yaml.Node | None) -> str:
    return node.value if isinstance(node, yaml.ScalarNode) else ""
