"""CustomResourceDefinitions: which version has a status subresource."""

from typing import Any

import pytest

from genguard.generation import CustomResource, CustomResources, StatusSubresource
from genguard.generation.custom import BadDefinitionError, custom_strategy, from_definition
from genguard.generation.strategy import (
    Equality,
    OnCreate,
    OnDelete,
    Propagation,
    Strategy,
    SubresourceRule,
)
from tests.cases_loader import table

PRESENT, ABSENT, UNKNOWN = StatusSubresource


def definition(*versions: Any, **changes: Any) -> dict[str, Any]:
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.org", "names": names, "versions": list(versions), **changes}
    return {"metadata": {"name": "widgets.example.org"}, "spec": spec}


@table("objects/status_subresources.yaml", "subresources", "status")
def test_a_version_declares_its_status_subresource(case):
    (found,) = from_definition(definition({"name": "v1", "subresources": case["subresources"]}))
    status = StatusSubresource(case["status"])
    assert found == CustomResource("example.org", "v1", "widgets", "Widget", status), case.because


def test_each_version_answers_for_itself():
    with_status = {"name": "v1", "subresources": {"status": {}}}
    known = CustomResources(from_definition(definition({"name": "v1alpha1"}, with_status)))
    assert len(known) == 2
    assert known.find("example.org", "v1", "widgets")[0] is PRESENT
    assert known.find("example.org", "v1alpha1", "widgets")[0] is ABSENT
    assert known.find("example.org", "v2", "widgets")[0] is UNKNOWN
    assert known.find("other.org", "v1", "widgets")[0] is UNKNOWN
    assert known.has("example.org", "widgets")
    assert not known.has("other.org", "widgets")


def test_a_custom_resource_is_examined_as_its_strategy_in_the_api_server_does():
    assert custom_strategy(CustomResource("a.org", "v1", "bs", "B", PRESENT)) == Strategy(
        group="a.org",
        resource="bs",
        kind="B",
        on_create=OnCreate.ONE,
        compare=("",),
        equality=Equality.UNTYPED,
        subresources={"status": SubresourceRule.KEEP, "scale": SubresourceRule.SCALE},
        on_delete=OnDelete.FINALIZERS,
        propagation=Propagation.BACKGROUND,
        excluded=frozenset({"metadata", "status"}),
        source="apiextensions-apiserver/pkg/registry/customresource/strategy.go",
    )


@pytest.mark.parametrize(
    ("status", "excluded"),
    [(PRESENT, {"metadata", "status"}), (UNKNOWN, {"metadata", "status"}), (ABSENT, {"metadata"})],
)
def test_status_counts_where_it_is_certain_that_it_is_no_subresource(status, excluded):
    assert custom_strategy(CustomResource("a", "v1", "b", "B", status)).excluded == excluded


def test_one_that_nobody_described_has_a_strategy_by_its_name():
    status, strategy = CustomResources().find("a.org", "v1", "bs")
    assert status is UNKNOWN
    assert (strategy.group, strategy.resource, strategy.kind) == ("a.org", "bs", "")


def test_a_version_tells_whether_its_schema_takes_flipped_conditions():
    schema = {"openAPIV3Schema": {"type": "object", "properties": {}}}
    (found,) = from_definition(definition({"name": "v1", "schema": schema}))
    assert found.condition_fault == "the schema has no status"


def test_what_is_said_last_holds():
    both = [CustomResource("a", "v1", "b", "B", status) for status in (ABSENT, PRESENT)]
    assert CustomResources(both).find("a", "v1", "b")[0] is PRESENT


@table("objects/broken_definitions.yaml", "document", "message")
def test_a_definition_that_cannot_be_read_names_the_field(case):
    with pytest.raises(BadDefinitionError, match=case["message"]):
        from_definition(case["document"])
