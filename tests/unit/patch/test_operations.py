"""Edits to operations: right where they can be, dropped where they cannot."""

import copy
from typing import Any

import jsonpatch
import msgspec
import pytest

from genguard.admission.review import PatchOperation
from genguard.objects.fields import Path, fields_of
from genguard.objects.metadata import decode_metadata
from genguard.patch.operations import (
    GENERATION,
    CannotApplyError,
    Edit,
    Plan,
    apply_operation,
    plan_generation,
    plan_patch,
)
from tests.cases_loader import table

OBSERVED: Path = ("status", "observedGeneration")


def plan(document: dict[str, Any], *edits: tuple[Path, Any]) -> Plan:
    return plan_patch(fields_of(document), [Edit(path, value) for path, value in edits])


@pytest.mark.parametrize("given", [{}, {"generation": None}, {"generation": 3}], ids=str)
def test_a_generation_alone_needs_no_look_at_the_object_to_be_the_same_operation(given):
    fields = fields_of({"metadata": {"name": "a", **given}})
    asked = plan_patch(fields, [Edit(GENERATION, 4)]).operations
    assert asked == (plan_generation(decode_metadata(fields), 4),)


def as_list(found: Plan) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(one) for one in found.operations]


@table("patch/operations.yaml", "document", "path", "operation")
def test_an_edit_is_one_operation_at_the_deepest_parent(case):
    found = plan(case["document"], (tuple(case["path"]), 4))
    assert as_list(found) == ([case["operation"]] if case.get("operation") else []), case.because
    assert found.dropped == ()


@table("patch/no_place.yaml", "document", "path")
def test_an_edit_without_a_place_is_dropped_and_the_others_are_kept(case):
    document, path = {**case["document"], "metadata": {}}, tuple(case["path"])
    found = plan(document, (path, 4), (("metadata", "generation"), 2))
    assert [edit.path for edit in found.dropped] == [path], case.because
    assert as_list(found) == [{"op": "add", "path": "/metadata/generation", "value": 2}]
    assert jsonpatch.apply_patch(document, as_list(found))["metadata"] == {"generation": 2}


def test_edits_of_one_missing_parent_build_on_each_other():
    edits = ((("status", "a"), 1), (("status", "b"), 2))
    found = plan({}, *edits)
    assert jsonpatch.apply_patch({}, as_list(found)) == {"status": {"a": 1, "b": 2}}


def test_what_equals_the_wanted_value_in_python_alone_is_dropped_by_the_self_check():
    """1 is 1.0 to Python inside a list, and not to Go: nothing is claimed to be done."""
    found = plan({"a": [1.0]}, (("a",), [1]))
    assert (as_list(found), found.dropped) == ([], (Edit(("a",), [1]),))


def test_a_list_that_is_as_wanted_already_needs_no_operation():
    conditions = [{"type": "Ready", "observedGeneration": 4}]
    found = plan({"status": {"conditions": conditions}}, (("status", "conditions"), conditions))
    assert (as_list(found), found.dropped) == ([], ())


def test_what_was_edited_is_told_as_it_is_now_and_nothing_else():
    """Generation is predicted anew from it where status counts."""
    found = plan({"spec": {"a": 1}, "status": {"phase": "Running"}}, (OBSERVED, 4))
    assert list(found.edited) == ["status"]
    told = msgspec.json.decode(msgspec.json.encode(found.edited))
    assert told == {"status": {"phase": "Running", "observedGeneration": 4}}


def test_only_the_edited_fields_are_decoded():
    fields = {"spec": msgspec.Raw(b"no JSON"), "status": msgspec.Raw(b"{}")}
    assert plan_patch(fields, [Edit(OBSERVED, 4)]).dropped == ()


GOOD = {"a": {"b": [1, 2]}}


@pytest.mark.parametrize(
    "operation",
    [
        PatchOperation("add", "/a/c", 1),
        PatchOperation("add", "/a/b", 1),
        PatchOperation("replace", "/a/b", [3]),
        PatchOperation("replace", "/a/b/1", 3),
    ],
)
def test_the_self_check_applies_as_jsonpatch_does(operation):
    ours = copy.deepcopy(GOOD)
    apply_operation(ours, operation)
    assert ours == jsonpatch.apply_patch(GOOD, [msgspec.to_builtins(operation)])


@table("patch/refused.yaml", "op", "path", "told")
def test_the_self_check_refuses_what_does_not_fit_and_says_where(case):
    with pytest.raises(CannotApplyError) as refused:
        apply_operation(copy.deepcopy(GOOD), PatchOperation(case["op"], case["path"], 1))
    assert str(refused.value) == case["told"], case.because
