"""An API server that keeps objects and shows them to lists and watches, over real HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web
from kubernetes.aio import client

from webhook.cluster.rest import Rest

Json = dict[str, Any]


class Store:
    """`put` and `drop` objects of a path such as /api/v1/namespaces/n/pods."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.silent: set[str] = set()
        """Paths that are refused, and those that never answer."""
        self._objects: dict[str, dict[str, Json]] = {}
        self._events: list[tuple[str, Json]] = []
        self._changed = asyncio.Condition()

    async def put(self, path: str, name: str, owner: str = "", **fields: Any) -> None:
        found = self._objects.setdefault(path, {})
        metadata: Json = {"name": name, "namespace": "n", "uid": name, "generation": 1}
        if owner:
            metadata["ownerReferences"] = [{"uid": owner, "controller": True}]
        version = str(len(self._events) + 1)
        one = fields | {"metadata": metadata | {"resourceVersion": version}}
        await self._tell(path, "MODIFIED" if name in found else "ADDED", one)
        found[name] = one

    async def drop(self, path: str, name: str) -> None:
        await self._tell(path, "DELETED", self._objects[path].pop(name))

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path in self.silent:
            await asyncio.sleep(60)
        if path in self.refused:
            return web.json_response({"message": "not for you"}, status=403)
        if "watch" in request.query:
            return await self._watch(request)
        items = [one for one in self._objects.get(path, {}).values() if _chosen(request, one)]
        metadata = {"resourceVersion": str(len(self._events))}
        root, group, version = path.split("/")[1:4]
        served = group if root == "api" else f"{group}/{version}"
        return web.json_response(
            {"apiVersion": served, "kind": "List", "metadata": metadata, "items": items}
        )

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        told = int(request.query["resourceVersion"])
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda told=told: len(self._events) > told)
            for path, event in self._events[told:]:
                if path == request.path and _chosen(request, event["object"]):
                    await response.write(msgspec.json.encode(event) + b"\n")
            told = len(self._events)

    async def _tell(self, path: str, kind: str, one: Json) -> None:
        self._events.append((path, {"type": kind, "object": one}))
        async with self._changed:
            self._changed.notify_all()


def _chosen(request: web.Request, one: Json) -> bool:
    wanted = request.query.get("fieldSelector", "")
    return not wanted or wanted == f"metadata.name={one['metadata']['name']}"


@asynccontextmanager
async def serving(store: Store) -> AsyncIterator[Rest]:
    application = web.Application()
    application.router.add_get("/{path:.*}", store.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    configuration = client.Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")
    async with client.ApiClient(configuration) as connection:
        yield Rest(connection)
    await runner.cleanup()
