"""Webhooks called one after the other, and once more, as an API server does it."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from genguard.converge.chain import Link, NotCalledError, Passed, run_at_once

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


def looks(_: dict[str, Any]) -> Patch:
    return []


def copies_size(document: dict[str, Any]) -> Patch:
    return [{"op": "add", "path": "/spec/copy", "value": document["spec"]["size"]}]


def doubles_once(document: dict[str, Any]) -> Patch:
    size = document["spec"]["size"]
    return [{"op": "replace", "path": "/spec/size", "value": 2}] if size == 1 else []


def through(*acting: tuple[Link, Act], matches: Callable[[str], bool] = bool) -> Passed:
    acts = {link.name: act for link, act in acting}

    def call(name: str, review: dict[str, Any]) -> Any:
        return answer(acts[name](review["request"]["object"]))

    links = [link for link, _ in acting]
    return run_at_once(links, REVIEW, lambda name, _: matches(name), call)


@pytest.mark.parametrize(
    ("acting", "calls", "spec", "because"),
    [
        (
            [(Link("a"), looks), (Link("b"), adds("seen"))],
            ["a", "b"],
            {"size": 1, "seen": 1},
            "each is called once, in order",
        ),
        (
            [(Link("a", reinvoked=True), copies_size), (Link("b"), doubles_once)],
            ["a", "b", "a"],
            {"size": 2, "copy": 2},
            "who was called before a change is called again",
        ),
        (
            [(Link("a"), copies_size), (Link("b"), doubles_once)],
            ["a", "b"],
            {"size": 2, "copy": 1},
            "with reinvocationPolicy Never it is not",
        ),
        (
            [(Link("a", reinvoked=True), adds("seen"))],
            ["a"],
            {"size": 1, "seen": 1},
            "nobody is called again for a change of its own",
        ),
        (
            [(Link("a", reinvoked=True), adds("a")), (Link("b", reinvoked=True), adds("b"))],
            ["a", "b", "a", "b"],
            {"size": 1, "a": 2, "b": 2},
            "there is one more pass, in which a change brings back those behind it",
        ),
    ],
)
def test_webhooks_are_called_as_an_api_server_calls_them(acting, calls, spec, because):
    passed = through(*acting)
    assert [one.webhook for one in passed.steps] == calls, because
    assert passed.object["spec"] == spec, because
    assert REVIEW["request"]["object"] == {"metadata": {"name": "one"}, "spec": {"size": 1}}


def test_who_does_not_match_is_not_called():
    acting = [(Link("a"), adds("a")), (Link("b"), adds("b"))]
    passed = through(*acting, matches=lambda name: name == "b")
    assert [one.webhook for one in passed.steps] == ["b"]


@pytest.mark.parametrize(
    ("said", "refused", "missed"),
    [
        ({"response": {"allowed": False, "status": {"message": "no"}}}, "a: no", {}),
        ({"response": {"allowed": False}}, "a: refused without a reason", {}),
        (
            {"response": {"allowed": False, "status": {"message": None}}},
            "a: refused without a reason",
            {},
        ),
        ({"response": {"allowed": True, "patch": None}}, "", {}),
        ({"response": {"allowed": True, "patch": "W1\n0="}}, "", {}),
        ({}, "", {"a": "its answer is not valid"}),
        ([], "", {"a": "its answer is not valid"}),
        ({"response": {"allowed": True, "patch": "%"}}, "", {"a": "its answer is not valid"}),
        (
            {"response": {"allowed": True, "patch": "bm9uZQ=="}},
            "",
            {"a": "its answer is not valid"},
        ),
        (answer([{"op": "remove", "path": "/no"}]), "", {"a": "its patch does not apply"}),
        (answer([{"op": "replace", "path": "", "value": 1}]), "", {"a": "its patch leaves no"}),
        (NotCalledError("nobody listens"), "", {"a": "nobody listens"}),
    ],
)
def test_a_refusal_ends_a_write_and_a_bad_answer_is_told(said, refused, missed):
    def call(_: str, __: dict[str, Any]) -> Any:
        if isinstance(said, NotCalledError):
            raise said
        return said

    passed = run_at_once([Link("a")], REVIEW, lambda *_: True, call)
    assert passed.refused == refused
    assert passed.missed.keys() == missed.keys()
    assert all(passed.missed[name].startswith(text) for name, text in missed.items())
    assert passed.object == REVIEW["request"]["object"]


def test_what_cannot_be_applied_is_told_without_a_value():
    answered = answer([{"op": "test", "path": "/spec/size", "value": "canary"}])
    passed = run_at_once([Link("a")], REVIEW, lambda *_: True, lambda *_: answered)
    assert passed.missed == {"a": "its patch does not apply: JsonPatchTestFailed"}
