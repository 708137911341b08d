"""The contract check itself: it must see every way to break an answer."""

import base64
import json
from typing import Any

import pytest

from genguard.admission.encode import encode_allowed, encode_refusal
from genguard.admission.review import V1, V1BETA1, PatchOperation, Phase
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


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"uid": "x"}, "uid is not the request's"),
        ({"allowed": False}, "genguard never denies"),
        ({"allowed": "yes"}, "genguard never denies"),
        ({"patch": None}, "patch and patchType go together"),
        ({"patchType": None}, "patch and patchType go together"),
        ({"patchType": "MergePatch"}, "patchType is not JSONPatch"),
        ({"patch": "%%%"}, "patch is not base64 of JSON"),
        ({"patch": base64.b64encode(b"{").decode()}, "patch is not base64 of JSON"),
        ({"patch": base64.b64encode(b"{}").decode()}, "patch is not a list of operations"),
        ({"auditAnnotations": {"a/b": ""}}, "audit annotation key 'a/b' is not a qualified name"),
        ({"auditAnnotations": {"": ""}}, "audit annotation key '' is not a qualified name"),
    ],
)
def test_a_broken_response_is_told(changes, told):
    broken = answer()
    broken["response"] = {**broken["response"], **changes}
    assert told in violations(asked(), broken, Phase.MUTATE)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"apiVersion": V1BETA1}, "apiVersion is not the request's"),
        ({"kind": "Review"}, "kind is not AdmissionReview"),
        ({"response": None}, "response is missing"),
    ],
)
def test_a_broken_envelope_is_told(changes, told):
    assert told in violations(asked(), {**answer(), **changes}, Phase.MUTATE)


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


def test_a_refusal_says_what_and_where():
    body = json.loads(encode_refusal("required", "request.uid", "invalid_field"))
    assert body == {"error": "invalid_field", "field": "request.uid", "message": "required"}
