"""The contract check itself: it must see every way to break an answer."""

import json
from typing import Any

import pytest

from genguard.admission.encode import encode_allowed, encode_rejection
from genguard.admission.review import V1, V1BETA1, PatchOperation, Phase
from tests.cases_loader import Case, table
from tests.contract_of_answers import violations
from tests.reviews import make_review

PATCH = (PatchOperation("add", "/a", 1),)


def answer(patch: tuple[PatchOperation, ...] = PATCH, version: str = V1) -> dict[str, Any]:
    return json.loads(
        encode_allowed(version, "u", patch=patch, audit_annotations={"generation": "1"})
    )


def asked(operation: str = "UPDATE", version: str = V1) -> dict[str, Any]:
    objects = {"old": {}} if operation == "DELETE" else {"new": {}, "old": {}}
    made = make_review(operation, **objects, version=version)
    made["request"]["uid"] = "u"
    return made


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_a_good_answer_breaks_nothing(version):
    assert violations(asked(version=version), answer(version=version), Phase.MUTATE) == []


@table("admission/broken.yaml", "response", "review", "told")
def test_a_broken_answer_is_told(case: Case) -> None:
    broken = answer()
    broken["response"] = {**broken["response"], **case.get("response", {})}
    told = violations(asked(), {**broken, **case.get("review", {})}, Phase.MUTATE)
    assert case["told"] in told, case.because


@pytest.mark.parametrize("phase", [Phase.INTENT, Phase.OUTCOME])
def test_only_mutate_may_patch(phase):
    assert violations(asked(), answer(), phase) == [f"a patch in phase {phase}"]
    assert violations(asked(), answer(()), phase) == []


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
def test_a_patch_without_an_object_is_told(operation):
    assert "a patch where there is no object" in violations(
        asked(operation), answer(), Phase.MUTATE
    )


def test_an_answer_without_operations_carries_no_patch_at_all():
    response = answer(())["response"]
    assert response.keys() == {"uid", "allowed", "auditAnnotations"}
    bare = json.loads(encode_allowed(V1, "u"))["response"]
    assert bare == {"uid": "u", "allowed": True}


def test_a_rejection_says_what_and_where():
    body = json.loads(encode_rejection("required", "request.uid", "invalid_field"))
    assert body == {"error": "invalid_field", "field": "request.uid", "message": "required"}
