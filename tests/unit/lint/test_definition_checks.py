"""Every check of CustomResourceDefinitions: cases in which it fires, and in which it does not."""

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from genguard.linting.check import LintFinding
from genguard.linting.checks import CHECKS
from genguard.linting.lint import lint
from tests.cases_loader import Case, load, table
from tests.unit.lint.samples import definition
from tests.unit.lint.test_checks import STRANGE, configuration

AT = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = ("check", "fires", "level", "field", "version", "status", "conditions", "observed")


def findings(*documents: Any) -> tuple[LintFinding, ...]:
    return lint(documents, at=AT, live=False)


@table("lint_definitions", *KEYS)
def test_case(case: Case) -> None:
    told = [one for one in findings(definition(case.values)) if one.id == case["check"]]
    assert bool(told) is case["fires"], case.because
    if told:
        (one,) = told
        assert one.severity.value == case["level"]
        assert one.field == case["field"]
        assert (one.definition, one.webhook) == ("widgets.example.org", "")
        assert one.reason


def test_every_check_has_cases_of_both_kinds() -> None:
    cases = load("lint_definitions", *KEYS)
    for check in CHECKS:
        if check.of_definitions:
            kinds = {case["fires"] for case in cases if case["check"] == check.id}
            assert kinds == {True, False}, check.id


def test_a_sound_definition_is_not_spoken_of() -> None:
    assert findings(definition()) == ()


def test_each_served_version_is_checked_by_itself() -> None:
    document = definition({"version": {"subresources": None}})
    (version,) = document["spec"]["versions"]
    document["spec"]["versions"] = [
        {**version, "name": "v1alpha1", "served": False},
        {**version, "name": "v1beta1"},
        {**version, "name": "v1", "subresources": {"status": {}}},
    ]
    (one,) = findings(document)
    assert one.field.startswith("spec.versions[1].")
    assert one.message.startswith("v1beta1 ")


def test_a_definition_of_an_older_api_has_its_fields_elsewhere_and_is_passed_over() -> None:
    document = definition({"version": {"subresources": None}})
    assert findings({**document, "apiVersion": "apiextensions.k8s.io/v1beta1"}) == ()


def test_webhooks_come_before_definitions_of_the_same_severity() -> None:
    hook = configuration("z", {"timeoutSeconds": 20, "rule": {"resources": ["gadgets"]}})
    found = findings(definition({"version": {"subresources": None}}), hook)
    assert [one.subject for one in found] == ["z/sound.example.org", "widgets.example.org"]


@pytest.mark.parametrize(
    "path",
    [
        ("metadata",),
        ("metadata", "name"),
        ("spec",),
        ("spec", "versions"),
        ("spec", "versions", 0),
        *(
            ("spec", "versions", 0, *below)
            for below in (
                ("name",),
                ("served",),
                ("subresources",),
                ("subresources", "status"),
                ("schema",),
                ("schema", "openAPIV3Schema"),
                ("schema", "openAPIV3Schema", "properties"),
                ("schema", "openAPIV3Schema", "properties", "status"),
                *(
                    ("schema", "openAPIV3Schema", "properties", "status", *more)
                    for more in (
                        ("properties",),
                        ("x-kubernetes-preserve-unknown-fields",),
                        ("additionalProperties",),
                        ("properties", "observedGeneration"),
                        ("properties", "observedGeneration", "type"),
                        ("properties", "conditions"),
                        ("properties", "conditions", "type"),
                        ("properties", "conditions", "x-kubernetes-list-type"),
                        ("properties", "conditions", "x-kubernetes-list-map-keys"),
                        ("properties", "conditions", "items"),
                        ("properties", "conditions", "items", "properties"),
                        *(
                            ("properties", "conditions", "items", "properties", *last)
                            for last in (
                                ("observedGeneration",),
                                ("observedGeneration", "type"),
                                ("observedGeneration", "enum"),
                                ("observedGeneration", "minimum"),
                                ("observedGeneration", "maximum"),
                                ("observedGeneration", "multipleOf"),
                            )
                        ),
                    )
                ),
            )
        ),
    ],
    ids=lambda path: ".".join(map(str, path[-3:])),
)
@pytest.mark.parametrize("value", [*STRANGE, 0, -1, float("nan"), float("inf")], ids=repr)
def test_a_field_of_another_type_never_raises(path: tuple[Any, ...], value: Any) -> None:
    document = copy.deepcopy(definition())
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    findings(document)
