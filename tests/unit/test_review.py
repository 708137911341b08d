"""review(): the whole upper line, without a server."""

import json

import pytest

from genguard.admission.review import V1, V1BETA1, Phase
from genguard.generation import Cause
from genguard.review import MOST_VALUES, Skipped, review
from genguard.review_setup import GenerationPatch
from tests.reviews import Answer, ask, clobbered, counted, make_dependencies, make_review


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_the_answer_has_the_version_of_the_question(version):
    answer = ask(clobbered(version=version))
    assert answer.document["apiVersion"] == version
    assert answer.patch != []


@pytest.mark.parametrize("phase", [Phase.INTENT, Phase.OUTCOME])
def test_intent_and_outcome_learn_and_never_patch(phase):
    answer = ask(
        clobbered(), make_dependencies(generation_patch=GenerationPatch.ALWAYS), phase=phase
    )
    assert answer.document["response"].keys() == {"uid", "allowed"}
    assert answer.result.prediction.cause is Cause.SUBRESOURCE_KEEPS


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
def test_where_there_is_no_object_to_store_there_is_no_patch(operation):
    """A patch there fails the user's request even with failurePolicy Ignore."""
    dependencies = make_dependencies(generation_patch=GenerationPatch.ALWAYS)
    for new in (None, {"metadata": {"generation": 9}, "status": {}}):
        asked = make_review(operation, "services", new, {"metadata": {"generation": 1}})
        assert ask(asked, dependencies).patch == []


def test_audit_only_says_what_it_would_do_and_does_not():
    answer = ask(clobbered(), make_dependencies(audit_only=True))
    assert answer.patch == []
    assert answer.annotations == {
        "preserve-observed-generation": "would set status.observedGeneration=3"
    }
    assert [one.path for one in answer.result.patch] == ["/status/observedGeneration"]


def test_a_counted_write_is_told_in_its_annotation():
    assert ask(counted()).annotations == {"generation": "2 spec-changed"}
    scaled = make_review(
        new={"spec": {"replicas": 2}}, old={"spec": {"replicas": 1}}, subresource="scale"
    )
    assert ask(scaled).annotations == {"generation": "moves replicas-changed"}
    unknown = make_review("UPDATE", "widgets", {"status": {"a": 1}}, {"status": {}})
    assert "not known" in ask(unknown).annotations["generation"]


def test_generation_is_counted_after_the_other_webhooks():
    """The requester changes a label; a webhook between the two calls changes what counts."""
    old = {"metadata": {"generation": 4}, "spec": {"replicas": 1}}
    asked = {"metadata": {"generation": 4, "labels": {"a": "b"}}, "spec": {"replicas": 1}}
    made = {**asked, "spec": {"replicas": 2}}
    dependencies = make_dependencies(generation_patch=GenerationPatch.ALWAYS)
    intent = ask(make_review(new=asked, old=old), dependencies, phase=Phase.INTENT)
    assert intent.result.prediction.cause is Cause.NOTHING_COUNTED
    answer = ask(make_review(new=made, old=old), dependencies)
    assert answer.result.prediction.cause is Cause.SPEC_CHANGED
    assert answer.object["metadata"]["generation"] == 5


@pytest.mark.parametrize(
    ("because", "spec", "skipped"),
    [
        ("nested too deep for the decoder", "[" * 2_000 + "]" * 2_000, Skipped.TOO_DEEP),
        ("an integer too long to read", "7" * 5_000, Skipped.UNREADABLE),
        ("a number no float holds", "1e999", Skipped.UNREADABLE),
        ("too many values", f"[{'[],' * 300_001}0]", Skipped.TOO_MANY_VALUES),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_what_cannot_be_examined_is_allowed_and_says_so(because, spec, skipped):
    body = json.dumps(make_review(new={"spec": "HERE"}, old={"spec": {}}))
    reply = review(body.replace('"HERE"', spec).encode(), Phase.MUTATE, make_dependencies(), 0.0)
    assert reply.result.skipped is skipped
    answer = Answer(json.loads(body), reply, Phase.MUTATE)
    assert answer.annotations == {"skipped": skipped.value}
    assert answer.patch == []


def test_a_large_object_with_as_many_values_as_are_examined_is_examined():
    body = json.dumps(make_review(new={"spec": "HERE"}, old={"spec": {}}))
    spec = f"[{'0,' * (MOST_VALUES - 1_000)}0]"
    reply = review(body.replace('"HERE"', spec).encode(), Phase.MUTATE, make_dependencies(), 0.0)
    assert reply.result.skipped is None
    assert reply.result.prediction is not None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"kind":"AdmissionReview"}'])
def test_what_is_no_review_is_refused_and_examined_by_nobody(body):
    reply = review(body, Phase.MUTATE, make_dependencies(), 0.0)
    assert reply.status == 400
    assert reply.result.request is None
    assert reply.result.rejected is not None


def test_what_is_nested_too_deep_and_names_no_uid_cannot_be_answered():
    asked = make_review(new={"spec": "HERE"}, old={})
    asked["request"]["uid"] = ""
    body = json.dumps(asked).replace('"HERE"', "[" * 2_000 + "]" * 2_000).encode()
    reply = review(body, Phase.MUTATE, make_dependencies(), 0.0)
    assert (reply.status, json.loads(reply.body)["field"]) == (400, "request.uid")


def test_types_nested_deeper_than_the_stack_are_not_examined():
    """Schemas nest in themselves: each level costs several calls of the comparison."""
    schemas = [{"type": "string"}, {"type": "number"}]
    for _ in range(400):
        schemas = [{"not": schema} for schema in schemas]
    new, old = (
        {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}
        for schema in schemas
    )
    answer = ask(make_review("UPDATE", "customresourcedefinitions.apiextensions.k8s.io", new, old))
    assert answer.annotations == {"skipped": "too-deep"}


def test_a_verdict_does_not_show_the_object_when_it_is_printed():
    asked = make_review(new={"spec": "canary-7f3a"}, old={"spec": {}})
    reply = review(json.dumps(asked).encode(), Phase.MUTATE, make_dependencies(), 0.0)
    assert "canary" not in repr(reply)
