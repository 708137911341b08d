"""An API server of one collection that does as it is told, over real HTTP."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from kubernetes.aio import client

from webhook.cluster.rest import Rest

DEEP = "nested deep"
"""A value in whose place an answer has 1,500 levels, which the json module cannot write."""
PATH = "/apis/example.org/v1/widgets"


def item(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": f"{version}"}}


def event(type_: str, name: str, version: int) -> dict[str, Any]:
    typed = {"apiVersion": "example.org/v1", "kind": "Widget"}
    return {"type": type_, "object": typed | item(name, version)}


def failure(code: int) -> dict[str, Any]:
    return {"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "told why"}}


class Api:
    """`lists` are pages and `watches` are events, each one answer; a number is a refusal."""

    def __init__(self) -> None:
        self.lists: list[list[dict[str, Any]] | int] = []
        self.watches: list[list[dict[str, Any]] | int] = []
        self.asked: list[dict[str, str]] = []
        self.version = 100

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        if "watch" in request.query:
            events = self.watches.pop(0)
            if isinstance(events, int):
                return _refusal(events)
            response = web.StreamResponse()
            await response.prepare(request)
            for one in events:
                for half in _halves(_text(one).encode() + b"\n"):
                    await response.write(half)
            return response
        page = self.lists.pop(0)
        if isinstance(page, int):
            return _refusal(page)
        more = "more" if self.lists else ""
        metadata = {"resourceVersion": f"{self.version}"} | ({"continue": more} if more else {})
        listed = {
            "apiVersion": "example.org/v1",
            "kind": "WidgetList",
            "metadata": metadata,
            "items": page,
        }
        return web.json_response(text=_text(listed))


@asynccontextmanager
async def serving(api: Api) -> AsyncIterator[Rest]:
    application = web.Application()
    application.router.add_get(PATH, api.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    configuration = client.Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")
    async with client.ApiClient(configuration) as connection:
        yield Rest(connection)
    await runner.cleanup()


def _text(value: Any) -> str:
    return json.dumps(value).replace(f'"{DEEP}"', '{"f:a":' * 1_500 + "{}" + "}" * 1_500)


def _halves(line: bytes) -> list[bytes]:
    """A line comes as the network likes."""
    return [line[: len(line) // 2], line[len(line) // 2 :]]


def _refusal(code: int) -> web.Response:
    return web.json_response({"kind": "Status", "message": "told why"}, status=code)
