"""The ops port: liveness, readiness, metrics, and the pages of the dashboard."""

import json
from collections.abc import Callable, Iterable
from http import HTTPStatus
from types import SimpleNamespace
from typing import Final, cast

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from genguard.shipped import shipped
from webhook.server.access import REFUSALS, Access, Part
from webhook.server.connection import connection_of
from webhook.tasks.threads import in_thread

_OPEN: Final = frozenset({"/livez", "/readyz"})
_METRICS: Final = "/metrics"

SECURITY: Final = shipped("webhook.server", "headers.yaml", dict[str, str])
_CHALLENGES: Final = ('Bearer realm="genguard"', 'Basic realm="genguard", charset="UTF-8"')


def ops_application(
    registry: CollectorRegistry,
    missing: Callable[[], str | None],
    failing: Callable[[], Iterable[object]],
    access: Access,
    pages: Iterable[web.AbstractRouteDef],
) -> web.Application:
    """Make the application: GET /livez, /readyz and /metrics, and `pages`.

    missing  why the server answers no reviews; None when it does
    failing  the tasks that fail. The server stays ready: reviews are answered, and the same failure
             in every pod must not leave writes without any
    """

    async def livez(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        why = missing()
        if why is None:
            return web.Response(text="".join(f"{line}\n" for line in ("ok", *failing())))
        return web.Response(status=503, text=json.dumps({"ready": False, "missing": why}) + "\n")

    async def metrics(_: web.Request) -> web.Response:
        # Read on the event loop, where the counters are used. Formatting takes far longer where
        # objects have names, and reviews must not wait for it.
        found = tuple(registry.collect())
        collected = cast("CollectorRegistry", SimpleNamespace(collect=lambda: found))
        return web.Response(
            body=await in_thread(generate_latest, collected),
            headers={"Content-Type": CONTENT_TYPE_LATEST},
        )

    application = web.Application(middlewares=[_guard(access)])
    application.on_response_prepare.append(_secure)
    application.add_routes(
        [web.get("/livez", livez), web.get("/readyz", readyz), web.get(_METRICS, metrics), *pages]
    )
    return application


def _guard(access: Access) -> Middleware:
    async def refused(request: web.Request) -> web.Response | None:
        """Refuse before the path is looked up: an answer must not show which pages exist."""
        if request.path in _OPEN:
            return None
        if connection_of(request).is_spare:
            text, headers = REFUSALS["crowded"], {"Retry-After": "2"}
            crowded = web.Response(status=503, text=text, headers=headers)
            crowded.force_close()
            return crowded
        part = Part.METRICS if request.path == _METRICS else Part.OBSERVED
        denied = await access(request, part)
        if denied is None:
            return None
        response = web.Response(status=denied.status, text=denied.why)
        for challenge in _CHALLENGES if denied.asks else ():
            response.headers.add("WWW-Authenticate", challenge)
        if denied.status == HTTPStatus.SERVICE_UNAVAILABLE:
            response.headers["Retry-After"] = "2"
        return response

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = connection_of(request)
        connection.headers_complete()
        try:
            denied = await refused(request)
            return await handler(request) if denied is None else denied
        finally:
            connection.request_done()

    return guard


async def _secure(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SECURITY)
