"""The Ready table is the document's: nine kinds, and tests that mean what they say."""

from typing import Any

import pytest

from genguard.status.checked_object import check_object
from genguard.status.kinds import KINDS
from genguard.status.ready_table import (
    BadReadyTableError,
    holds,
    load_ready_table,
    table_ready,
)
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
    return table_ready(check_object(changed(of, with_, without), NOW))


def test_the_table_has_nine_kinds_and_each_has_a_judge_of_its_own():
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


@pytest.mark.parametrize("kind", ["Pod", "PersistentVolumeClaim", "Service"])
def test_three_kinds_need_no_generation(kind: str):
    assert letter(kind, {"metadata.generation": 7}) is True


@pytest.mark.parametrize("group", ["serving.knative.dev/v1", "example.org/v1"])
def test_a_kind_of_the_same_name_in_another_group_is_another_kind(group: str):
    assert letter("Service", {"apiVersion": group}) is None


@pytest.mark.parametrize(
    ("with_", "ready", "because"),
    [
        ({"status.observedGeneration": "3"}, False, "a text equals no number"),
        ({"status.observedGeneration": 4}, False, "ahead is not equal"),
        ({"status.availableReplicas": True, "spec.replicas": 1}, False, "true is not 1"),
        ({"spec.replicas": None}, False, "null is the default 1, and there are 3"),
        ({"status.conditions": []}, False, "conditions is not empty"),
        ({"status.conditions": None}, False, "null conditions are empty"),
        ({"status.conditions": {"Available": "True"}}, False, "conditions are a list"),
        ({"status.conditions[Available].status": "Unknown"}, False, "Unknown is not True"),
        ({"status.terminatingReplicas": 4}, True, "the table does not know terminating pods"),
        ({"metadata.deletionTimestamp": "2027-01-15T08:00:00Z"}, True, "nor deletion"),
    ],
)
def test_the_letter_of_a_deployment(with_: dict[str, Any], ready: bool, because: str):
    assert letter("Deployment", with_) is ready, because


def test_an_item_that_is_no_object_matches_nothing():
    assert letter("Deployment", {"status.conditions": ["Available"]}) is False
    assert letter("ReplicaSet", {"status.conditions": ["ReplicaFailure"]}) is True
    assert letter("Pod", {"status.conditions": ["Ready"]}) is False


def test_a_service_of_an_unknown_type_is_not_ready():
    assert letter("Service", {"spec.type": "Magic"}) is False
    assert letter("Service", {"spec.type": ["ClusterIP"]}) is False


@pytest.mark.parametrize(
    ("min_available", "ready"), [(2, True), (3, False), ("2", False), ("50%", False), (None, False)]
)
def test_desired_healthy_equals_min_available_or_the_budget_is_not_ready(
    min_available: Any, ready: bool
):
    assert letter("PodDisruptionBudget", {"spec.minAvailable": min_available}) is ready


@pytest.mark.parametrize(
    "test",
    [
        ("equals", "status.a", "status.b"),
        ("equal", "status.a"),
        ("is", "data.a", "b"),
        ("is", "status", "a"),
        (),
    ],
)
def test_a_test_that_does_not_exist_is_refused(test: tuple[Any, ...]):
    with pytest.raises(BadReadyTableError):
        holds(test, check_object({}, NOW))
