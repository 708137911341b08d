"""Every check of CustomResourceDefinitions: cases in which it fires, and in which it does not."""

from datetime import UTC, datetime
from typing import Any

from genguard.linting.check import LintFinding
from genguard.linting.checks import CHECKS
from genguard.linting.lint import lint
from tests.cases_loader import Case, load, table
from tests.unit.lint.samples import definition
from tests.unit.lint.test_checks import configuration

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
