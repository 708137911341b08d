"""What is applied to a custom resource, what is left out when it is evaluated, and whose it is."""

from typing import Any

import pytest

from genguard.status.evaluate import evaluate
from genguard.status.published import (
    EVERY,
    MANAGER,
    NotPublishableError,
    conditions_of,
    items_to_apply,
    items_to_release,
    read_owners,
    read_schema,
    read_stored,
    without_published,
)
from tests.cases_loader import table
from tests.statuses import NOW

AT = "2027-01-15T08:00:00Z"
EARLIER = "2027-01-15T07:00:00Z"
FULL = ("type", "status", "reason", "message", "lastTransitionTime", "observedGeneration")


def condition(name: str, status: str, reason: str = "", generation: int = 3) -> dict[str, Any]:
    return {
        "type": name,
        "status": status,
        "reason": reason or ("Ready" if name == "Ready" else "Settled"),
        "message": "as it was then",
        "lastTransitionTime": EARLIER,
        "observedGeneration": generation,
    }


def entry(manager: str, *names: str, leaves: tuple[str, ...] = FULL, operation: str = "Update"):
    fields = {f"f:{leaf}": {} for leaf in leaves}
    conditions = {f'k:{{"type":"{name}"}}': {".": {}, **fields} for name in names}
    return {
        "manager": manager,
        "operation": operation,
        "subresource": "status",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {"f:conditions": conditions}},
    }


def ours(*names: str, leaves: tuple[str, ...] = FULL) -> dict[str, Any]:
    return entry(MANAGER, *names, leaves=leaves, operation="Apply")


def widget(
    *conditions: dict[str, Any], managers: tuple[Any, ...] = (), **status: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"name": "one", "uid": "one", "generation": 3, "managedFields": list(managers)},
        "status": {"conditions": list(conditions), **status},
    }


@table("status/published.yaml", "conditions", "status", "schema", "applied")
def test_what_is_applied_is_what_is_not_stored_already(case):
    stored = [condition(**one) for one in case.get("conditions", ())]
    managers = (ours("Ready", "Settled"),) if stored else ()
    document = widget(*stored, managers=managers, **case["status"])
    evaluated = without_published(document)
    assert not stored or evaluated["status"] == case["status"], (
        "its own conditions are not evaluated"
    )
    wanted, declared = (
        conditions_of(evaluate(evaluated, at=NOW)),
        frozenset(case.get("schema", EVERY)),
    )
    items = items_to_apply(read_stored(document), wanted, declared, AT)
    if case["applied"] is None:
        assert items is None, case.because
        return
    assert items is not None
    for item, expected in zip(items, case["applied"], strict=True):
        assert {key: item[key] for key in expected} == expected, case.because
        assert item.keys() == declared or declared == EVERY


def test_a_status_of_nothing_but_ours_is_none_for_the_evaluate():
    document = widget(condition("Ready", "True"), managers=(ours("Ready"),))
    assert "status" not in without_published(document)


@table("status/publishers.yaml", "managers")
def test_what_anybody_else_wrote_is_evaluated_and_not_ours(case):
    managers = tuple(
        one["raw"]
        if "raw" in one
        else entry(
            one["manager"],
            one.get("name", "Ready"),
            leaves=tuple(one.get("leaves", FULL)),
            operation=one.get("operation", "Update"),
        )
        for one in case["managers"]
    )
    document = widget(condition("Ready", "False"), managers=managers, observedGeneration=3)
    assert without_published(document) is document, case.because
    assert read_stored(document).who_else("Ready") is not None


def test_who_else_is_named():
    managers = (entry("its-controller", "Ready"), ours("Settled"))
    document = widget(condition("Ready", "True"), condition("Settled", "True"), managers=managers)
    stored = read_stored(document)
    assert stored.who_else("Ready") == "its-controller"
    assert stored.who_else("Settled") is None
    assert read_stored(widget()).who_else("Ready") is None


def test_an_apply_leaves_what_another_writer_has_taken_as_it_is():
    """What is left out of an apply would be removed, and the other writer's condition break."""
    managers = (
        ours("Settled"),
        ours("Ready", leaves=("type", "reason", "message")),
        entry("other", "Ready", leaves=("status",)),
    )
    document = widget(
        condition("Ready", "False"),
        condition("Settled", "False", "InProgress"),
        managers=managers,
        observedGeneration=3,
    )
    wanted = conditions_of(evaluate(widget(observedGeneration=3), at=NOW))
    del wanted["Ready"]
    items = items_to_apply(read_stored(document), wanted, EVERY, AT)
    assert items is not None
    assert items[0]["type"] == "Settled"
    assert items[1:] == [{"type": "Ready", "reason": "Ready", "message": "as it was then"}]


def test_to_release_ours_is_to_apply_nothing_but_what_others_have_a_part_in():
    assert items_to_release(read_stored(widget(condition("Ready", "True")))) is None
    both = widget(
        condition("Ready", "True"),
        condition("Settled", "True"),
        managers=(ours("Settled"), ours("Ready", leaves=("message",)), entry("other", "Ready")),
    )
    assert items_to_release(read_stored(both)) == [{"type": "Ready", "message": "as it was then"}]


def definition(conditions: Any, *, subresource: bool = True) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": "v1",
        "schema": {
            "openAPIV3Schema": {
                "properties": {"status": {"properties": {"conditions": conditions}}}
            }
        },
    }
    if subresource:
        version["subresources"] = {"status": {}}
    return {"metadata": {"name": "widgets.example.org"}, "spec": {"versions": [version]}}


ITEMS = {"properties": {"type": {}, "status": {}}}
MAP = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], "items": ITEMS}


@table("status/unshared.yaml", "conditions", "subresource", "said")
def test_a_kind_whose_conditions_cannot_be_shared_is_refused_with_what_to_change(case):
    found = definition(MAP | case["conditions"], subresource=case.get("subresource", True))
    with pytest.raises(NotPublishableError, match=case["said"]) as error:
        read_schema(found, "v1")
    assert str(error.value).startswith("widgets.example.org: ")


def test_a_schema_says_which_fields_a_condition_takes():
    declared = read_schema(definition(MAP), "v1")
    assert "status" in declared
    assert "observedGeneration" not in declared
    loose = MAP | {"items": ITEMS | {"x-kubernetes-preserve-unknown-fields": True}}
    assert "observedGeneration" in read_schema(definition(loose), "v1")


def test_owners_of_an_object_without_managers_are_none():
    assert read_owners({"metadata": {}}) == {}
    assert read_owners({}) == {}
