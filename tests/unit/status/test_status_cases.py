"""What evaluate() answers, row by row: tests/cases/status."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest

from genguard.status import kinds
from genguard.status.evaluate import evaluate
from genguard.status.kinds import KINDS
from genguard.status.kinds.cluster import SILENT_KINDS
from genguard.status.trees import group_and_kind
from genguard.status.view import Health
from tests.cases_loader import Case, load, table
from tests.statuses import KEYS, NOW, document_of, view_of

FIELDS = {
    "progress": "progress",
    "tableReady": "table_ready",
    "reconciledGeneration": "reconciled_generation",
    "observedGeneration": "observed_generation",
    "terminatingReplicas": "terminating_replicas",
    "failed": "failed",
    "finished": "finished",
    "deleting": "deleting",
    "trafficReady": "traffic_ready",
    "applicationQualified": "application_qualified",
}
"""What a row says only where it matters."""
CASES_OF_KINDS = [
    (group_and_kind(document_of(case)), case["ready"])
    for case in load("status/kinds", *KEYS, *FIELDS)
]


@table("status/kinds", *KEYS, *FIELDS)
def test_each_kind_is_evaluated_by_its_own_rules(case: Case):
    assert told(case) == expected(case)


@pytest.mark.parametrize(
    ("group", "kind"),
    [(group, kind) for (group, kind), rule in KINDS.items() if not rule.status_unwritten],
)
def test_every_kind_has_cases_in_which_it_is_ready_and_in_which_it_is_not(group, kind):
    answers = {ready for found, ready in CASES_OF_KINDS if found == (group, kind)}
    assert answers == {True, False}, f"add the missing cases of {kind} to tests/cases/status/kinds"


@pytest.mark.parametrize(("group", "kind"), sorted(SILENT_KINDS))
def test_a_kind_without_a_status_is_ready_as_soon_as_it_is_stored(group, kind):
    document = {"apiVersion": f"{group}/v1".lstrip("/"), "kind": kind, "metadata": {"name": "a"}}
    view = evaluate(document, at=NOW)
    assert (view.ready, view.settled, view.health, view.reasons) == (True, True, Health.GREEN, ())


def test_no_kind_has_two_rules():
    modules = [
        import_module(found.name) for found in iter_modules(kinds.__path__, f"{kinds.__name__}.")
    ]
    assert sum(len(module.RULES) for module in modules) == len(KINDS)


@table("status/generation.yaml", *KEYS, *FIELDS)
def test_status_has_to_speak_of_the_generation_of_now(case: Case):
    assert told(case) == expected(case)


@table("status/probes.yaml", *KEYS, *FIELDS)
def test_probes_make_a_good_object_yellow_and_never_change_ready_or_settled(case: Case):
    assert told(case) == expected(case)


@table("status/standard_fields.yaml", *KEYS, *FIELDS)
def test_what_a_controller_says_by_the_standard_is_read(case: Case):
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
