"""No part of a document that has another type than it should makes lint raise."""

import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from genguard.linting.lint import lint
from tests.unit.lint.samples import definition
from tests.unit.lint.test_checks import configuration

AT = datetime(2026, 1, 1, tzinfo=UTC)
STRANGE = [
    *(None, 3, 0, -1, float("nan"), float("inf"), "text", True),
    *([], ["text"], [None], [3], {}, {"a": 1}),
]
NUMBER = {"type": "integer", "enum": [1], "minimum": 0, "maximum": 9, "multipleOf": 1}
SELECTOR = {
    "matchLabels": {"a": "b"},
    "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
}
HOOK = {
    "namespaceSelector": SELECTOR,
    "objectSelector": SELECTOR,
    "matchConditions": [{"name": "a", "expression": "true"}],
    "failurePolicy": "Fail",
    "rule": {"apiGroups": [""], "scope": "*"},
}
DOCUMENTS: list[dict[str, Any]] = [
    definition({"observed": NUMBER}),
    definition({"status": {"x-kubernetes-preserve-unknown-fields": True, "properties": {}}}),
    definition({"status": {"additionalProperties": True, "properties": {}}}),
    configuration("a", HOOK),
    {"kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 443}]}},
]


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where each part of a document stands."""
    if not isinstance(value, dict | list):
        return
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*above, key)
        yield from places(part, (*above, key))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one["kind"])
def test_a_part_of_another_type_never_raises(document: dict[str, Any]) -> None:
    for place in places(document):
        for value in STRANGE:
            changed = copy.deepcopy(document)
            part: Any = changed
            for step in place[:-1]:
                part = part[step]
            part[place[-1]] = value
            lint([changed, configuration("b", {})], at=AT, live=False)


def test_what_is_no_document_never_raises() -> None:
    lint(STRANGE, at=AT, live=False)
