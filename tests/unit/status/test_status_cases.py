"""What evaluate() answers, row by row: tests/cases/status."""

from typing import Any

import pytest

from tests.cases_loader import Case, load, table
from tests.statuses import KEYS, changed, view_of
from webhook.status.kinds.table import KINDS

FIELDS = {
    "progress": "progress",
    "tableReady": "table_ready",
    "reconciledGeneration": "reconciled_generation",
    "observedGeneration": "observed_generation",
    "terminatingReplicas": "terminating_replicas",
    "failed": "failed",
    "finished": "finished",
    "deleting": "deleting",
}
"""What a row says only where it matters."""


@table("status/kinds", *KEYS, *FIELDS)
def test_each_kind_is_judged_by_its_own_rules(case: Case):
    assert told(case) == expected(case)


def kind_of(case: Case) -> tuple[str, str]:
    document = changed(case["of"])
    return document.get("apiVersion", "").rpartition("/")[0], document["kind"]


CASES = load("status/kinds", *KEYS, *FIELDS)
OWN_RULES = sorted(
    name for name, kind in KINDS.items() if not kind.silent and name[0] != "extensions"
)
"""extensions/v1beta1 has the rules of the groups into which its kinds moved."""


@pytest.mark.parametrize("name", OWN_RULES, ids="/".join)
def test_a_rule_has_a_case_that_is_ready_and_one_that_is_not(name: tuple[str, str]):
    assert {case["ready"] for case in CASES if kind_of(case) == name} == {True, False}


@table("status/generation.yaml", *KEYS, *FIELDS)
def test_status_has_to_speak_of_the_generation_of_now(case: Case):
    assert told(case) == expected(case)


@table("status/wrong_types.yaml", *KEYS, *FIELDS)
def test_a_wrong_type_blocks_and_says_so(case: Case):
    assert told(case) == expected(case)


def told(case: Case) -> dict[str, Any]:
    view = view_of(case)
    return {
        "ready": view.ready,
        "settled": view.settled,
        "health": view.health,
        "reasons": [str(reason) for reason in view.reasons],
        **{key: getattr(view, name) for key, name in FIELDS.items() if key in case.values},
    }


def expected(case: Case) -> dict[str, Any]:
    return {
        "ready": case["ready"],
        "settled": case["settled"],
        "health": case["health"],
        "reasons": case.get("reasons", []),
        **{key: case[key] for key in FIELDS if key in case.values},
    }
