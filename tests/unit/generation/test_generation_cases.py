"""Predictions against tests/cases/generation, through the pipeline and through the library."""

import pytest
from msgspec.structs import asdict

from genguard.generation import Cause, CustomResource, StatusSubresource, predict
from genguard.generation.strategy import (
    Equality,
    OnDelete,
    Propagation,
    SubresourceRule,
    parse_version,
)
from genguard.generation.table import load_rows, load_table
from tests.cases_loader import FOLDER, Case, load
from tests.reviews import ask, make_dependencies, make_review

KEYS = (
    "resource", "subresource", "operation", "server", "status", "old", "new", "options", "expect",
)  # fmt: skip
ROWS = [
    pytest.param(case, id=f"{file.stem}-{case.name.rpartition('-')[2]}")
    for file in sorted((FOLDER / "generation").iterdir())
    for case in load(f"generation/{file.name}", *KEYS)
]
CASES = [row.values[0] for row in ROWS]


def expected(case: Case) -> dict[str, object]:
    return {"effective": False, **case["expect"]}


@pytest.mark.parametrize("case", ROWS)
def test_a_review_is_predicted_as_the_api_server_counts(case):
    plural, _, group = case["resource"].partition(".")
    status = StatusSubresource(case.get("status", "unknown"))
    asked = make_review(
        case["operation"],
        case["resource"],
        case.get("new"),
        case.get("old"),
        subresource=case.get("subresource", ""),
        options=case.get("options"),
    )
    # A custom resource of which nobody said anything is not known at all.
    custom = [CustomResource(group, "v1", plural, "", status)] if case.get("status") else []
    dependencies = make_dependencies(server_version=case.get("server", "1.36"), custom=custom)
    prediction = ask(asked, dependencies).result.prediction
    assert prediction is not None
    assert asdict(prediction) == expected(case), case.because


@pytest.mark.parametrize("case", ROWS)
def test_the_library_agrees(case):
    prediction = predict(
        case["operation"],
        case["resource"],
        case.get("new"),
        case.get("old"),
        subresource=case.get("subresource", ""),
        options=case.get("options"),
        server_version=case.get("server", "1.36"),
        status_subresource=case.get("status") and case["status"] == "present",
    )
    assert asdict(prediction) == expected(case), case.because


def test_every_cause_and_every_rule_has_a_case():
    rows = {row.name: row for row in load_rows()}
    seen = [rows[case["resource"]] for case in CASES if case["resource"] in rows]
    removed = {case["resource"] for case in CASES if case["operation"] == "DELETE"}
    deleted = [rows[name] for name in removed if name in rows]
    rules = {
        rows[case["resource"]].subresources.get(case["subresource"])
        for case in CASES
        if case.get("subresource") and case["resource"] in rows
    }
    assert {case["expect"]["cause"] for case in CASES} == {cause.value for cause in Cause}
    assert rules >= set(SubresourceRule)
    assert {row.delete for row in deleted} >= set(OnDelete) - {OnDelete.NONE}
    assert {row.propagation for row in deleted} == set(Propagation)
    assert {one.equality for row in seen for one in row.behaviour} == {"semantic", "reflect"}
    assert len(Equality) == 3  # the third is custom resources'


def test_every_behaviour_that_begins_with_a_version_has_a_case_before_and_after():
    versions = {(case["resource"], parse_version(case.get("server", "1.36"))) for case in CASES}
    for row in load_rows():
        for entry in row.behaviour[1:]:
            major, minor = parse_version(entry.since)
            assert (row.name, (major, minor)) in versions
            assert (row.name, (major, minor - 1)) in versions


@pytest.mark.parametrize("row", load_rows(), ids=lambda row: row.name)
def test_every_kind_that_counts_counts_each_of_its_fields_once(row):
    """The table's own claim, through the whole way: one field changes, one step."""
    version = "1.37"
    strategy = load_table(version).find(row.group, row.resource)
    assert strategy is not None
    for pointer in strategy.compare:
        first, _, rest = pointer[1:].partition("/")
        old = {"metadata": {"generation": 5, "name": "a"}, "spec": None}
        new = {**old, first: {"a": "b"}}
        if rest:
            new = {"metadata": {"generation": 5, "name": "a", rest: {"a": "b"}}, "spec": None}
        found = predict("UPDATE", row.name, new, old, server_version=version)
        assert (found.generation, found.step) == (6, 1), pointer
    same = predict("UPDATE", row.name, {"status": {"a": 1}}, {"metadata": {"generation": 5}})
    assert same.step == 0 if row.persisted else same.step is None
