"""Webhooks called one after the other, and once more, as an API server does it."""

import base64
import json
from collections.abc import Callable
from typing import Any

from genguard.converge.chain import Link, NotCalledError, Passed
from genguard.testing.webhooks import run_at_once
from tests.cases_loader import table

Patch = list[dict[str, Any]]
Act = Callable[[dict[str, Any]], Patch]
REVIEW = {"request": {"uid": "1", "object": {"metadata": {"name": "one"}, "spec": {"size": 1}}}}


def answer(patch: Patch) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    return {"response": {"uid": "1", "allowed": True, "patchType": "JSONPatch", "patch": encoded}}


def adds(name: str) -> Act:
    return lambda document: [
        {"op": "add", "path": f"/spec/{name}", "value": document["spec"].get(name, 0) + 1}
    ]


def through(*acting: tuple[Link, Act], matches: Callable[[str], bool] = bool) -> Passed:
    acts = {link.name: act for link, act in acting}

    def call(name: str, review: dict[str, Any]) -> Any:
        return answer(acts[name](review["request"]["object"]))

    links = [link for link, _ in acting]
    return run_at_once(links, REVIEW, lambda name, _: matches(name), call)


def test_who_does_not_match_is_not_called():
    acting = [(Link("a"), adds("a")), (Link("b"), adds("b"))]
    passed = through(*acting, matches=lambda name: name == "b")
    assert [one.webhook for one in passed.steps] == ["b"]


@table("converge/answers.yaml", "said", "refused", "missed")
def test_a_refusal_ends_a_write_and_a_bad_answer_is_told(case):
    passed = run_at_once([Link("a")], REVIEW, lambda *_: True, lambda *_: case["said"])
    assert passed.refused == case["refused"], case.because
    assert passed.missed.keys() == ({"a"} if case["missed"] else set())
    assert passed.missed.get("a", "").startswith(case["missed"])
    assert passed.object == REVIEW["request"]["object"]


def test_a_webhook_that_cannot_be_asked_is_told():
    def call(_: str, __: dict[str, Any]) -> Any:
        raise NotCalledError("nobody listens")

    passed = run_at_once([Link("a")], REVIEW, lambda *_: True, call)
    assert (passed.refused, passed.missed) == ("", {"a": "nobody listens"})


def test_what_cannot_be_applied_is_told_without_a_value():
    answered = answer([{"op": "test", "path": "/spec/size", "value": "canary"}])
    passed = run_at_once([Link("a")], REVIEW, lambda *_: True, lambda *_: answered)
    assert passed.missed == {"a": "its patch does not apply: JsonPatchTestFailed"}
