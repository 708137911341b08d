"""The manners of a client of the API server, over real HTTP, and servers that have none."""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web
from kubernetes.aio import client

from tests.unit.cluster.api import PATH, item
from tests.waiting import PATIENCE
from webhook.cluster import rest as module
from webhook.cluster import watch
from webhook.cluster.rest import RefusedError, Rest, TooLongError, UnreadableError
from webhook.cluster.watch import Collection

Answer = Callable[[web.Request], Any]


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[tuple[Rest, str]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        found = answer(request)
        if isinstance(found, web.StreamResponse):
            return found
        if isinstance(found, bytes):
            return await endless(request, found)
        return web.json_response(found)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with client.ApiClient(client.Configuration(host=url)) as connection:
        yield Rest(connection), url
    await runner.cleanup()


async def endless(request: web.Request, piece: bytes) -> web.StreamResponse:
    """Answer a piece again and again, without an end."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        try:
            await response.write(piece)
        except ConnectionError:
            return response


def listed(*items: Any, more: str = "", kind: str = "WidgetList", version: str = "example.org/v1"):
    metadata = {"resourceVersion": "5", "continue": more}
    return {"kind": kind, "apiVersion": version, "metadata": metadata, "items": list(items)}


def put_off(status: int, **headers: str) -> web.Response:
    body = {"kind": "Status", "message": "slow"}
    return web.json_response(body, status=status, headers=headers)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_what_is_put_off_is_asked_for_again_after_that_time(status, method):
    answers = iter([put_off(status, **{"Retry-After": "1"}), item("a", 1) | {"kind": "Widget"}])

    def answer(_: web.Request) -> Any:
        found = next(answers)
        return found | {"apiVersion": "example.org/v1"} if isinstance(found, dict) else found

    async with answering(answer) as (rest, _):
        began = time.monotonic()
        found = await rest.call(method, f"{PATH}/a", {} if method == "PATCH" else None)
    assert found["metadata"]["name"] == "a"
    assert time.monotonic() - began >= 1


@pytest.mark.parametrize(
    "headers", [{}, {"Retry-After": "3600"}, {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}]
)
async def test_what_is_put_off_beyond_the_deadline_is_a_refusal_at_once(headers):
    async with answering(lambda _: put_off(429, **headers)) as (rest, _):
        with pytest.raises(RefusedError, match=r"^slow \(429\)$"):
            await asyncio.wait_for(rest.get(PATH), PATIENCE)


async def test_a_list_is_read_page_by_page_and_each_object_has_its_kind():
    asked: list[str] = []

    def answer(request: web.Request) -> Any:
        asked.append(request.query["continue"])
        return listed(item("b", 2)) if asked[-1] else listed(item("a", 1), more="on")

    async with answering(answer) as (rest, _):
        found = await rest.list_all(PATH, kind="Widget")
    assert [(one["kind"], one["metadata"]["name"]) for one in found] == [
        ("Widget", "a"),
        ("Widget", "b"),
    ]
    assert asked == ["", "on"]


async def test_a_page_that_is_too_long_is_asked_for_in_halves(monkeypatch):
    monkeypatch.setattr(module, "_MOST_BYTES", 600)

    def answer(request: web.Request) -> Any:
        begin = int(request.query["continue"] or 0)
        end = min(begin + int(request.query["limit"]), 8)
        items = [item(f"{one}", 1) for one in range(begin, end)]
        return listed(*items, more=f"{end}" if end < 8 else "")

    async with answering(answer) as (rest, _):
        assert len(await rest.list_all(PATH)) == 8


BAD = {
    "an item without metadata": listed({}),
    "an item without a name": listed({"metadata": {"uid": "u"}}),
    "an item with other metadata": listed({"metadata": []}),
    "another kind": listed(item("a", 1) | {"kind": "Gadget"}),
    "another group": listed(kind="List", version="v1"),
    "no list": item("a", 1) | {"kind": "Widget", "apiVersion": "example.org/v1"},
    "items that are none": listed() | {"items": {"a": 1}},
    "an item that is none": listed(1),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_a_list_of_something_else_is_an_error(bad):
    async def locate() -> str:
        return PATH

    async with answering(lambda _: bad) as (rest, _):
        with pytest.raises(UnreadableError, match=PATH):
            await rest.list_all(PATH, kind="Widget")
        with pytest.raises(UnreadableError, match=PATH):
            async for _ in Collection(rest, locate, "Widget").changes():
                pass


@pytest.mark.parametrize("of_event", [False, True], ids=["answer", "line"])
async def test_what_never_ends_is_an_error(monkeypatch, of_event):
    monkeypatch.setattr(module, "_MOST_BYTES", 1 << 20)
    monkeypatch.setattr(watch, "_LONGEST_LINE", 1 << 20)

    async def locate() -> str:
        return PATH

    def answer(request: web.Request) -> Any:
        return listed() if of_event and "watch" not in request.query else b"{" * 65536

    async with answering(answer) as (rest, _):
        with pytest.raises(TooLongError):
            async for _ in Collection(rest, locate).changes():
                pass


@pytest.mark.parametrize("found", [item("a", 2) | {"kind": "Gadget"}, {"kind": "Widget"}, {}])
async def test_an_event_of_something_else_is_an_error(found):
    async def locate() -> str:
        return PATH

    def answer(request: web.Request) -> Any:
        if "watch" not in request.query:
            return listed()
        event = {"type": "ADDED", "object": {"apiVersion": "example.org/v1", **found}}
        return web.Response(text=json.dumps(event) + "\n")

    async with answering(answer) as (rest, _):
        with pytest.raises(UnreadableError, match=PATH):
            async for _ in Collection(rest, locate, "Widget").changes():
                pass


def liar(lists: Any) -> Answer:
    """An API server of Deployments and webhooks, whose lists are these."""
    hooks = "admissionregistration.k8s.io"

    def group(name: str) -> Any:
        version = {"groupVersion": f"{name}/v1", "version": "v1"}
        return {"name": name, "versions": [version], "preferredVersion": version}

    def resources(version: str, *kinds: str) -> Any:
        found = [
            {
                "name": f"{kind.lower()}s",
                "singularName": kind.lower(),
                "kind": kind,
                "namespaced": kind == "Deployment",
                "verbs": ["get", "list", "watch"],
            }
            for kind in kinds
        ]
        return {"kind": "APIResourceList", "groupVersion": version, "resources": found}

    known = {
        "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.3"},
        "/apis": {"kind": "APIGroupList", "groups": [group("apps"), group(hooks)]},
        "/api/v1": resources("v1"),
        "/apis/apps/v1": resources("apps/v1", "Deployment"),
        f"/apis/{hooks}/v1": resources(f"{hooks}/v1", "MutatingWebhookConfiguration"),
    }
    return lambda request: known.get(request.path) or lists(request)


def kubeconfig(folder: Path, url: str) -> str:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "none"}}],
    }
    (folder / "kubeconfig").write_text(json.dumps(config))
    return str(folder / "kubeconfig")


class Done(NamedTuple):
    exit_code: int
    output: str


async def test_a_watch_that_is_always_too_old_is_told_and_no_fight_is_claimed(tmp_path):
    lists = itertools.count()

    def answer(request: web.Request) -> Any:
        if "watch" in request.query and request.query.get("timeoutSeconds") != "1":
            body = {"kind": "Status", "code": 410, "message": "too old"}
            return web.json_response(body, status=410)
        _ = next(lists)
        *_, group, version, resource = request.path.split("/")
        kind = {"deployments": "Deployment"}.get(resource, "MutatingWebhookConfiguration")
        return listed(kind=f"{kind}List", version=f"{group}/{version}")

    done = await run(["watch", "deployments", "--timeout", "4s"], liar(answer), tmp_path)
    assert done.exit_code == 1
    assert "too old (410)" in done.output
    assert "no fight" not in done.output
    assert next(lists) <= 10, "two kinds, each tried and then listed with growing pauses"


async def run(verb: list[str], answer: Answer, folder: Path) -> Done:
    async with answering(answer) as (_, url):
        words = [*verb, "--kubeconfig", kubeconfig(folder, url)]
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("genguard"),
            *words,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
    return Done(process.returncode or 0, output.decode())
