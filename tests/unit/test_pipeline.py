"""review(): the whole upper line, without a server."""

import json

import pytest

from tests.reviews import Answer, ask, judge, make_review
from webhook.admission.review import V1, V1BETA1, Phase
from webhook.compose import GenerationPatch, Judge, JudgeOptions
from webhook.generation import Cause, CustomResource, StatusSubresource
from webhook.pipeline import Skipped, review


def clobbered(**arguments):
    """A status write that lost what was stored."""
    return make_review(
        new={"status": {}}, old={"status": {"observedGeneration": 3}}, subresource="status",
        **arguments,
    )  # fmt: skip


def counted():
    return make_review(
        new={"metadata": {"generation": 1}, "spec": {"replicas": 2}},
        old={"metadata": {"generation": 1}, "spec": {"replicas": 1}},
    )


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_the_answer_has_the_version_of_the_question(version):
    answer = ask(clobbered(version=version))
    assert answer.document["apiVersion"] == version
    assert answer.patch != []


@pytest.mark.parametrize("phase", [Phase.INTENT, Phase.OUTCOME])
def test_intent_and_outcome_learn_and_never_patch(phase):
    answer = ask(clobbered(), judge(generation_patch=GenerationPatch.ALWAYS), phase=phase)
    assert answer.document["response"].keys() == {"uid", "allowed"}
    assert answer.verdict.prediction.cause is Cause.SUBRESOURCE_KEEPS


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
def test_where_there_is_no_object_to_store_there_is_no_patch(operation):
    """A patch there fails the user's request even with failurePolicy Ignore."""
    dependencies = judge(generation_patch=GenerationPatch.ALWAYS, shadow=("services",))
    for new in (None, {"metadata": {"generation": 9}, "status": {}}):
        asked = make_review(operation, "services", new, {"metadata": {"generation": 1}})
        assert ask(asked, dependencies).patch == []


def test_audit_only_says_what_it_would_do_and_does_not():
    answer = ask(clobbered(), judge(audit_only=True))
    assert answer.patch == []
    assert answer.annotations == {
        "preserve-observed-generation": "would set status.observedGeneration=3"
    }
    assert [one.path for one in answer.verdict.patch] == ["/status/observedGeneration"]


def test_a_reinvoked_call_repeats_what_it_said_and_mends_no_second_time():
    dependencies = judge()
    first = ask(clobbered(), dependencies, now=0.0)
    again = clobbered()
    again["request"]["object"] = first.object
    second = ask(again, dependencies, now=1.0)
    assert second.patch == []
    assert second.annotations == first.annotations != {}


def test_a_reinvoked_call_mends_what_a_later_webhook_broke_and_says_the_same():
    dependencies = judge()
    first = ask(clobbered(), dependencies, now=0.0)
    second = ask(clobbered(), dependencies, now=1.0)
    assert second.patch == first.patch
    assert second.annotations == first.annotations


def test_a_new_intent_ends_what_an_earlier_write_was_told():
    dependencies = judge()
    ask(counted(), dependencies, now=0.0)
    same = make_review(new={"spec": {"replicas": 1}}, old={"spec": {"replicas": 1}})
    ask(same, dependencies, phase=Phase.INTENT, now=1.0)
    assert ask(same, dependencies, now=2.0).annotations == {}


def test_a_counted_write_is_told_in_its_annotation():
    assert ask(counted()).annotations == {"generation": "2 spec-changed"}
    scaled = make_review(
        new={"spec": {"replicas": 2}}, old={"spec": {"replicas": 1}}, subresource="scale"
    )
    assert ask(scaled).annotations == {"generation": "moves replicas-changed"}
    unknown = make_review("UPDATE", "widgets", {"status": {"a": 1}}, {"status": {}})
    assert "not known" in ask(unknown).annotations["generation"]


@pytest.mark.parametrize(
    ("mode", "connected", "patches"),
    [
        (GenerationPatch.ALWAYS, False, True),
        (GenerationPatch.ALWAYS, True, True),
        (GenerationPatch.NEVER, False, False),
        (GenerationPatch.NEVER, True, False),
        (GenerationPatch.AUTO, False, True),
        (GenerationPatch.AUTO, True, False),
    ],
)
def test_generation_is_patched_unless_a_connected_server_overrides_it(mode, connected, patches):
    judging = Judge(JudgeOptions(generation_patch=mode))
    if connected:
        judging.learn("1.36", ())
    assert bool(ask(counted(), judging.dependencies).patch) is patches


def test_what_the_cluster_says_of_itself_wins_over_a_file():
    said, learnt = (
        CustomResource("example.org", "v1", "widgets", "Widget", status)
        for status in (StatusSubresource.PRESENT, StatusSubresource.ABSENT)
    )
    judging = Judge(JudgeOptions(custom_resources=(said,)))
    asked = make_review(
        "UPDATE", "widgets", {"status": {"a": 1}}, {"metadata": {"generation": 1}, "status": {}}
    )
    assert ask(asked, judging.dependencies).verdict.prediction.step == 0
    judging.learn("v1.36.3", (learnt,))
    assert ask(asked, judging.dependencies).verdict.prediction.step == 1
    assert judging.knows("example.org", "widgets")
    assert judging.knows("", "pods")
    assert not judging.knows("example.org", "gadgets")


def test_learning_keeps_the_intents_that_are_on_their_way():
    judging = Judge(JudgeOptions())
    intent = make_review(new={"status": {"observedGeneration": 5}}, old={}, subresource="status")
    ask(intent, judging.dependencies, phase=Phase.INTENT)
    judging.learn("1.36", ())
    answer = ask(make_review(new={}, old={}, subresource="status"), judging.dependencies)
    assert answer.object["status"] == {"observedGeneration": 5}


def test_the_same_bytes_in_are_the_same_bytes_out():
    body = json.dumps(clobbered()).encode()
    replies = {review(body, Phase.MUTATE, judge(), 0.0).body for _ in range(3)}
    assert len(replies) == 1


@pytest.mark.parametrize(
    ("because", "spec", "skipped"),
    [
        ("nested too deep for the decoder", "[" * 2_000 + "]" * 2_000, Skipped.TOO_DEEP),
        ("an integer too long to read", "7" * 5_000, Skipped.UNREADABLE),
        ("a number no float holds", "1e999", Skipped.UNREADABLE),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_what_cannot_be_judged_is_allowed_and_says_so(because, spec, skipped):
    body = json.dumps(make_review(new={"spec": "HERE"}, old={"spec": {}}))
    reply = review(body.replace('"HERE"', spec).encode(), Phase.MUTATE, judge(), 0.0)
    assert reply.verdict.skipped is skipped
    answer = Answer(json.loads(body), reply, Phase.MUTATE)
    assert answer.annotations == {"skipped": skipped.value}
    assert answer.patch == []


def test_a_verdict_does_not_show_the_object_when_it_is_printed():
    asked = make_review(new={"spec": "canary-7f3a"}, old={"spec": {}})
    reply = review(json.dumps(asked).encode(), Phase.MUTATE, judge(), 0.0)
    assert "canary" not in repr(reply)
