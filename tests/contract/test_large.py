"""Reviews of megabytes: the same answers as all others, and nobody waits for them."""

import asyncio
import json
import threading
from base64 import b64decode
from dataclasses import replace

import pytest

from genguard.admission.review import Phase
from genguard.objects.fields import count_values
from genguard.review import review
from genguard.review_setup import GenerationPatch, ReviewOptions, ReviewSetup
from tests.contract.costly import COSTLY, NEARLY_LARGE
from tests.contract.service import PATIENT, Running, serving
from tests.reviews import clobbered, make_review
from tests.waiting import PATIENCE
from webhook.server.body import LargeReviews
from webhook.server.options import Limits

OPTIONS = ReviewOptions(generation_patch=GenerationPatch.ALWAYS)
LARGE = Limits().large_from
ROOM = {"data": {"padding": "x" * LARGE}}
"""Makes a review large, whatever else is in it."""


def large(operation="UPDATE", resource="pods", new=None, old=None, **more):
    return make_review(operation, resource, {**ROOM, **(new or {})}, old, **more)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize(
    "asked",
    [
        large("CREATE", new={"spec": {}}),
        large(new={"spec": {"a": 1}}, old={"spec": {"a": 2}, **ROOM}),
        large(new={"status": {}}, old={"status": {"observedGeneration": 3}}, subresource="status"),
        large(new={"status": 1}, old={"status": {}}, subresource="status"),
        make_review("DELETE", "pods", old=ROOM),
    ],
    ids=["create", "spec", "status", "odd status", "delete"],
)
async def test_the_answer_is_that_of_the_pipeline(tmp_path, phase, asked):
    body = json.dumps(asked).encode()
    expected = review(body, phase, ReviewSetup(OPTIONS).dependencies, 0.0)
    async with serving(tmp_path, options=OPTIONS) as run:
        answer = await run.post(body, f"/{phase}?timeout=30s")
    assert (answer.status, answer.body) == (expected.status, expected.body)


async def test_what_is_nested_too_deep_is_allowed_unread(running):
    body = json.dumps(large("CREATE", new={"spec": "DEEP"})).encode()
    answer = await running.post(body.replace(b'"DEEP"', b"[" * 2_000 + b"]" * 2_000))
    assert answer.json["response"]["auditAnnotations"] == {"skipped": "too-deep"}


@pytest.mark.parametrize("body", [b"{" * LARGE * 2, b'{"a": "' + b"x" * LARGE + b'"}'])
async def test_what_is_no_review_is_refused(running, body):
    assert (await running.post(body)).status == 400


async def test_an_intent_that_came_in_a_large_review_is_put_back_into_the_next(running):
    sent = large(new={"status": {"observedGeneration": 1}}, old={}, subresource="status")
    await running.review(sent, "/intent")
    sent["request"]["object"]["status"] = {}
    response = await running.review(sent)
    assert json.loads(b64decode(response["patch"])) == [
        {"op": "add", "path": "/status/observedGeneration", "value": 1}
    ]
    again = await running.review(sent)
    assert again["auditAnnotations"] == response["auditAnnotations"]


@pytest.mark.parametrize("name", COSTLY)
def test_a_body_of_many_values_is_small_and_yet_a_large_review(name):
    for path, body in COSTLY[name](0):
        assert len(body) < LARGE, path
        assert LargeReviews(Limits()).takes(body), path


@pytest.mark.parametrize("name", NEARLY_LARGE)
def test_a_body_of_nearly_too_many_values_is_examined_on_the_event_loop(name):
    for _, body in NEARLY_LARGE[name](0):
        limits = Limits()
        assert limits.large_values * 0.95 < count_values(body)
        assert not LargeReviews(limits).takes(body)


@pytest.mark.parametrize("name", ["containers resized", "conditions cleared"])
async def test_of_many_values_the_answer_is_that_of_the_pipeline(tmp_path, name):
    setup = ReviewSetup(OPTIONS)
    async with serving(tmp_path, options=OPTIONS) as run:
        for path, body in COSTLY[name](0):
            expected = review(body, Phase(path[1:]), setup.dependencies, 0.0)
            answer = await run.post(body, f"{path}?timeout=30s")
            assert (answer.status, answer.body) == (expected.status, expected.body)


class Held:
    """A rule that examines large reviews for as long as it is told to."""

    name = "held"

    def __init__(self) -> None:
        self.begun, self.end = threading.Event(), threading.Event()

    def evaluate(self, review):
        if "data" in review.request.object.fields or review.request.subresource == "resize":
            self.begun.set()
            assert self.end.wait(PATIENCE)
        return ()


def hold(run: Running) -> Held:
    rule = Held()
    run.setup.dependencies = replace(run.setup.dependencies, repair_rules=(rule,))
    return rule


MANY_VALUES = dict(COSTLY["containers resized"](0))["/mutate"]


@pytest.mark.parametrize(
    "body", [json.dumps(large("CREATE")).encode(), MANY_VALUES], ids=["bytes", "values"]
)
async def test_others_are_answered_while_a_large_review_is_examined(running, body):
    rule = hold(running)
    slow = asyncio.create_task(running.post(body))
    await asyncio.to_thread(rule.begun.wait, PATIENCE)
    for _ in range(3):
        assert (await running.post(json.dumps(clobbered()).encode())).status == 200
    assert not slow.done()
    rule.end.set()
    assert (await slow).status == 200


async def test_more_than_may_wait_are_asked_to_come_again(tmp_path):
    body = json.dumps(large("CREATE")).encode()
    async with serving(tmp_path, limits=replace(PATIENT, large_bytes=len(body))) as run:
        rule = hold(run)
        slow = asyncio.create_task(run.post(body))
        await asyncio.to_thread(rule.begun.wait, PATIENCE)
        shed = await run.post(body)
        assert (shed.status, shed.headers["retry-after"]) == (429, "1")
        rule.end.set()
        assert (await slow).status == 200
        assert (await run.post(body)).status == 200
