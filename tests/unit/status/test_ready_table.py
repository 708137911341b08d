"""The Ready table is the document's: nine kinds, and tests that mean what they say."""

from typing import Any

import pytest

from genguard.status.checked_object import CheckedObject
from genguard.status.kinds import KINDS
from genguard.status.ready_table import BadReadyTableError, holds, load_ready_table, table_ready
from tests.cases_loader import table
from tests.statuses import NOW, changed

NINE = {
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
    ("apps", "ReplicaSet"),
    ("", "Pod"),
    ("", "Service"),
    ("", "PersistentVolumeClaim"),
    ("policy", "PodDisruptionBudget"),
    ("", "ReplicationController"),
}


def letter(of: str, with_: dict[str, Any] | None = None, without: list[str] | None = None) -> Any:
    return table_ready(CheckedObject.of(changed(of, with_, without), NOW))


def test_the_table_has_nine_kinds_and_each_has_a_evaluate_of_its_own():
    assert {(row.groups[0], row.kind) for row in load_ready_table().rows} == NINE
    assert KINDS.keys() >= NINE


@pytest.mark.parametrize("kind", [kind for _, kind in sorted(NINE)])
def test_a_good_object_is_ready_by_the_letter(kind: str):
    assert letter(kind) is True


@pytest.mark.parametrize("kind", [kind for _, kind in sorted(NINE) if kind != "Service"])
def test_without_the_status_it_needs_the_table_says_nothing(kind: str):
    assert letter(kind, without=["status"]) is None
    assert letter(kind, {"status": None}) is None


@pytest.mark.parametrize("kind", [kind for group, kind in sorted(NINE) if group or kind[0] == "R"])
def test_without_the_generation_it_needs_the_table_says_nothing(kind: str):
    assert letter(kind, without=["metadata.generation"]) is None
    assert letter(kind, without=["status.observedGeneration"]) is False


@table("status/letter.yaml", "of", "with", "table")
def test_the_letter_of_the_table(case):
    assert letter(case["of"], case["with"]) is case["table"], case.because


def test_a_test_that_does_not_exist_is_refused():
    for test in (("equals", "status.a", "status.b"), ("is", "data.a", "b"), ("is", "status", "a")):
        with pytest.raises(BadReadyTableError):
            holds(test, CheckedObject.of({}, NOW))
