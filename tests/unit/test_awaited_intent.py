"""awaited_intent(): the reviews for which a server with a shared store has to ask."""

import json

import pytest

from genguard.admission.decode import decode_review
from genguard.admission.review import Phase
from genguard.review import awaited_intent
from tests.reviews import clobbered, make_dependencies, make_review

LOST = clobbered()
ALL_THERE = make_review(
    new={"status": {"observedGeneration": 3, "conditions": [{"observedGeneration": 3}]}},
    old={"status": {"observedGeneration": 3}},
    subresource="status",
)


def encoded(review: dict) -> bytes:
    return json.dumps(review).encode()


@pytest.mark.parametrize("body", [b"", b"{}", b"[" * 2_000 + b"]" * 2_000])
def test_for_what_is_no_review_nobody_is_asked(body):
    assert awaited_intent(body, Phase.MUTATE, make_dependencies()) is None


@pytest.mark.parametrize(
    ("asked", "phase", "because"),
    [
        (ALL_THERE, Phase.MUTATE, "nothing that was sent can be missing"),
        (LOST, Phase.INTENT, "it is the intent"),
        (LOST, Phase.OUTCOME, "nothing is put back any more"),
        (make_review(new={"spec": {"a": 1}}, old={"spec": {}}), Phase.MUTATE, "no status"),
        (make_review(new={"status": {}}, old={"status": {}}), Phase.MUTATE, "status is dropped"),
        (make_review("DELETE", old={"status": {}}), Phase.MUTATE, "no object"),
        (make_review("CREATE", new={"status": {}}), Phase.MUTATE, "nothing joins its phases"),
        (make_review(new={"status": 1}, old={}, subresource="status"), Phase.MUTATE, "no status"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_intent_could_change_the_examination(asked, phase, because):
    assert awaited_intent(encoded(asked), phase, make_dependencies()) is None


def test_for_a_status_that_cannot_be_read_nobody_is_asked():
    """Nested just as deep as the decoder goes, and asked for deeper in the stack."""
    deep = b'{"observedGeneration":3,"a":' + b'{"a":' * 700 + b"1" + b"}" * 701
    body = json.dumps(make_review(new={"status": "HERE"}, old={}, subresource="status")).encode()
    body = body.replace(b'"HERE"', deep)

    def deeper(levels: int) -> object:
        return (
            deeper(levels - 1)
            if levels
            else awaited_intent(body, Phase.MUTATE, make_dependencies())
        )

    assert deeper(400) is None


def test_the_intent_of_a_write_that_lost_something_is_awaited():
    key = awaited_intent(encoded(LOST), Phase.MUTATE, make_dependencies())
    assert key is not None
    assert key == decode_review(encoded(LOST)).join_key


def test_further_fields_that_are_restored_may_be_missing_from_any_status():
    dependencies = make_dependencies(restore="status.observedGeneration,status.phase")
    assert awaited_intent(encoded(ALL_THERE), Phase.MUTATE, dependencies) is not None
