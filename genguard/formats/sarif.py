"""SARIF 2.1.0, the format that code scanning services show beside the code.

Source  OASIS, Static Analysis Results Interchange Format 2.1.0
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import yaml

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_STEP: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_KEYS: Final = ("name", "type")


class SarifResult(NamedTuple):
    """One finding.

    level    error, warning or note
    subject  the object, with the field behind the last slash
    kinds    those that the object may have: it is the first of its name that has one of them
    """

    rule: str
    level: str
    subject: str
    field: str
    message: str
    kinds: Sequence[str]
    name: str


def make_sarif(
    rules: Mapping[str, str],
    results: Iterable[SarifResult],
    texts: Mapping[str, str],
    *,
    version: str,
    fingerprint: str,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a log with one run. `version` is genguard's.

    rules        what can be found by its id, and why it matters
    texts        the files by name, for the lines of fields; none for what was read from a cluster
    fingerprint  the name of what keeps the identity of a result when lines above it are added
    notes        what could not be looked at
    """
    described = [
        {
            "id": name,
            "shortDescription": {"text": name.replace("-", " ")},
            "fullDescription": {"text": reason},
            "help": {"text": reason},
        }
        for name, reason in rules.items()
    ]
    there: dict[tuple[str, str], tuple[str, yaml.Node]] = {}
    for file, text in texts.items():
        for kind, node in _documents(text):
            there.setdefault((kind, _word(_inside(node).get("metadata"), "name")), (file, node))
    made = []
    for finding in results:
        logical = {"fullyQualifiedName": f"{finding.subject}/{finding.field}", "kind": "member"}
        location: dict[str, Any] = {"logicalLocations": [logical]}
        keys = ((kind, finding.name) for kind in finding.kinds)
        known = next((there[key] for key in keys if key in there), None)
        if texts:
            file = known[0] if known else next(iter(texts))
            region = {"region": {"startLine": _line(known[1], finding.field)}} if known else {}
            location["physicalLocation"] = {"artifactLocation": {"uri": _uri(file)}} | region
        identity = f"{finding.rule}\n{finding.subject}\n{finding.field}".encode()
        result = {
            "ruleId": finding.rule,
            "ruleIndex": list(rules).index(finding.rule),
            "level": finding.level,
            "message": {"text": f"{finding.subject} {finding.field}: {finding.message}"},
            "locations": [location],
            "partialFingerprints": {fingerprint: hashlib.sha256(identity).hexdigest()[:32]},
        }
        made.append(result)
    driver = {"name": "genguard", "semanticVersion": version, "rules": described}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": made}
    if notes:
        told = [{"level": "warning", "message": {"text": note}} for note in notes]
        run["invocations"] = [{"executionSuccessful": False, "toolExecutionNotifications": told}]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


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
            items, kind = _inside(node).get("items"), _word(node, "kind")
            if not isinstance(items, yaml.SequenceNode):
                yield kind, node
                continue
            for item in items.value:
                # The items of a CustomResourceDefinitionList need not say their kind.
                yield _word(item, "kind") or kind.removesuffix("List"), item
    except yaml.YAMLError:
        return


def _line(node: yaml.Node, path: str) -> int:
    """Return the line of a field, or of the nearest one above it that is there."""
    for step in _STEP.findall(path):
        found = _inside(node).get("".join(step))
        if found is None:
            break
        node = found
    return int(node.start_mark.line) + 1


def _inside(node: yaml.Node | None) -> dict[str, yaml.Node]:
    """Return what an object has by its keys; an item of a list by its index, type and name."""
    if isinstance(node, yaml.MappingNode):
        return {_text(key): value for key, value in reversed(node.value)}
    if not isinstance(node, yaml.SequenceNode):
        return {}
    by_index = {str(index): item for index, item in enumerate(node.value)}
    labels = {_word(item, key): item for item in reversed(node.value) for key in _KEYS}
    return {**labels, **by_index}


def _word(node: yaml.Node | None, key: str) -> str:
    return _text(_inside(node).get(key))


def _text(node: yaml.Node | None) -> str:
    return node.value if isinstance(node, yaml.ScalarNode) else ""
