"""A stored object is read whole, its status is patched, and Events are created."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio import client

from genguard.detection.finding import FoundObject
from tests.unit.cluster.objects import deployment, path_of
from webhook.cluster.rest import Rest
from webhook.cluster.stored_objects import StoredObjects, event_creator

WEB = deployment("web")
FOUND = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "uid": WEB.uid, "resourceVersion": "7"},
    "status": {},
}


class Api:
    """One object, and the requests that came."""

    def __init__(self) -> None:
        self.asked: list[web.Request] = []
        self.bodies: list[Any] = []
        self.status = 200

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request)
        text = await request.text()
        self.bodies.append(json.loads(text) if text else None)
        found = FOUND if self.status == 200 else {"kind": "Status", "message": "told why"}
        return web.json_response(found, status=self.status)


@pytest.fixture
async def api() -> Api:
    return Api()


@pytest.fixture
async def objects(api: Api) -> AsyncIterator[StoredObjects]:
    application = web.Application()
    application.router.add_get(path_of(WEB), api.answer)
    application.router.add_patch(f"{path_of(WEB)}/status", api.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    configuration = client.Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")
    async with client.ApiClient(configuration) as connection:
        yield StoredObjects(Rest(connection))
    await runner.cleanup()


async def test_an_object_is_read_as_it_is_stored(objects):
    assert await objects.read(WEB) == FOUND


async def test_one_with_another_uid_is_gone(objects):
    other = FoundObject(WEB.group, WEB.version, WEB.resource, WEB.namespace, WEB.name, "another")
    assert await objects.read(other) is None


@pytest.mark.parametrize("name", ["", ".."])
async def test_a_name_that_leads_elsewhere_is_not_asked_for(objects, api, name):
    other = FoundObject(WEB.group, WEB.version, WEB.resource, WEB.namespace, name, "")
    assert await objects.read(other) is None
    assert api.asked == []


async def test_a_patch_is_a_json_patch_of_the_subresource_status(objects, api):
    operations = [{"op": "add", "path": "/status/observedGeneration", "value": 3}]
    assert await objects.patch_status(WEB, operations) == FOUND
    (request,) = api.asked
    assert request.method == "PATCH"
    assert request.path == f"{path_of(WEB)}/status"
    assert request.headers["Content-Type"] == "application/json-patch+json"
    assert dict(request.query) == {"fieldManager": "genguard"}
    assert api.bodies == [operations]


class EventsApi:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []

    async def call(self, method: str, path: str, body: Any) -> None:
        self.calls.append((method, path, body))


async def test_an_event_is_posted_to_its_namespace_as_it_is():
    api, event = EventsApi(), {"kind": "Event", "note": "told"}
    await event_creator(api)("shop", event)
    assert api.calls == [("POST", "/apis/events.k8s.io/v1/namespaces/shop/events", event)]


async def test_a_namespace_that_is_no_name_leads_nowhere_else():
    api = EventsApi()
    await event_creator(api)("../../pods", {})
    assert api.calls[0][1] == "/apis/events.k8s.io/v1/namespaces/..%2F..%2Fpods/events"
