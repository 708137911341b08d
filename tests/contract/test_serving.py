"""What kube-apiserver sees of a server that works: the wire contract of one call."""

import asyncio
import json
from dataclasses import replace

import pytest

from genguard.admission.review import V1, V1BETA1, Phase
from genguard.review_setup import GenerationPatch, ReviewOptions
from tests.contract.hostile import CANARY, GOOD
from tests.contract.service import PATIENT, http_post, serving
from tests.contract_of_answers import violations
from tests.reviews import clobbered, make_review
from tests.waiting import patiently
from webhook.server.options import KEEPALIVE_SECONDS


def encoded(asked) -> bytes:
    return json.dumps(asked).encode()


@pytest.mark.parametrize("version", [V1, V1BETA1])
@pytest.mark.parametrize("phase", Phase)
async def test_every_phase_answers_every_version_within_the_contract(running, version, phase):
    asked = clobbered(version=version)
    answer = await running.post(encoded(asked), f"/{phase}?timeout=30s")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["apiVersion"] == version
    assert violations(asked, answer.json, phase) == []
    assert ("patch" in answer.json["response"]) == (phase is Phase.MUTATE)


async def test_audit_only_never_patches_and_tells_what_it_would_do(tmp_path):
    options = ReviewOptions(audit_only=True, generation_patch=GenerationPatch.ALWAYS)
    async with serving(tmp_path, options=options) as run:
        response = await run.review(clobbered())
        assert "patch" not in response
        told = response["auditAnnotations"]["preserve-observed-generation"]
        assert told == "would set status.observedGeneration=3"
        assert await run.samples("genguard_mends_total") == {
            'mode="would",resource="deployments.apps",rule="preserve-observed-generation"': 1.0
        }


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
async def test_delete_and_connect_never_carry_a_patch(tmp_path, operation):
    options = ReviewOptions(generation_patch=GenerationPatch.ALWAYS)
    async with serving(tmp_path, options=options) as run:
        for new in (None, {"metadata": {"generation": 9}}):
            asked = make_review(operation, "services", new, {"metadata": {"generation": 1}})
            assert "patch" not in await run.review(asked)


async def test_what_the_cluster_says_is_used_from_the_next_review_on(tmp_path):
    asked = make_review("CREATE", new={"spec": {}})
    async with serving(tmp_path, options=ReviewOptions()) as run:
        assert "patch" in await run.review(asked)
        run.setup.learn("1.36", ())
        assert "patch" not in await run.review(asked)


def test_idle_connections_outlive_those_of_the_api_server():
    """Go's client drops an idle connection after 90 s; who closes first races with a POST."""
    assert KEEPALIVE_SECONDS > 90


async def test_a_fault_of_our_own_is_told_without_a_word_of_the_object(running, logged):
    """It cannot happen; if it does, the log has the place and the client has no contents."""
    good, running.setup.dependencies = running.setup.dependencies, None
    answer = await running.post(GOOD.encode())
    assert (answer.status, answer.json["error"]) == (500, "internal")
    assert CANARY not in answer.body.decode()
    running.setup.dependencies = good
    assert (await running.post(GOOD.encode())).status == 200
    text = logged()
    assert CANARY not in text
    lines = [json.loads(line) for line in text.splitlines()]
    (failed,) = (line for line in lines if line["message"] == "handler failed")
    assert failed["error"] == "AttributeError"
    assert ".py:" in failed["at"]


async def test_over_its_budget_of_bytes_who_is_slowest_is_asked_to_come_again(tmp_path):
    """client-go repeats a 429 with Retry-After; the connection stays for that."""
    body = encoded(clobbered())
    limits = replace(PATIENT, body_bytes_in_flight=len(body) + 10)
    async with serving(tmp_path, limits=limits) as run:
        slow, quick = await run.connect(), await run.connect()
        await slow.send(http_post(body[:-1], Content_Length=str(len(body))))
        await asyncio.sleep(0.05)
        await quick.send(http_post(body[:-1], Content_Length=str(len(body))))
        answer = await slow.answer()
        assert (answer.status, answer.json["error"]) == (429, "overloaded")
        assert answer.headers["retry-after"] == "1"
        assert not answer.closes
        await quick.send(body[-1:])
        assert (await quick.answer()).status == 200
        await slow.send(body[-1:])
        assert (await slow.post(body)).status == 200
        assert (await run.samples("genguard_shed_total"))['reason="reading"'] == 1.0


async def test_one_body_that_is_larger_than_the_budget_is_asked_to_come_again(tmp_path):
    body = encoded(clobbered())
    async with serving(tmp_path, limits=replace(PATIENT, body_bytes_in_flight=100)) as run:
        wire = await run.connect()
        await wire.send(http_post(body[:-1], Content_Length=str(len(body))))
        assert (await wire.answer()).status == 429


async def test_the_budget_is_given_back_by_clients_that_leave(tmp_path):
    body = encoded(clobbered())
    limits = replace(PATIENT, body_bytes_in_flight=len(body) + 10)
    async with serving(tmp_path, limits=limits) as run:
        for _ in range(3):
            wire = await run.connect()
            await wire.send(http_post(body[:-1], Content_Length=str(len(body))))
            await wire.close()
        async with patiently():
            while (await run.samples("genguard_open_connections"))[""] > 0:
                await asyncio.sleep(0.01)
        wire = await run.connect()
        await wire.send(http_post(body[:-1], Content_Length=str(len(body))))
        await asyncio.sleep(0.05)
        await wire.send(body[-1:])
        assert (await wire.answer()).status == 200
