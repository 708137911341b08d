"""The ops port: is it alive, is it ready, what did it count."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric

from webhook.detection.finding import Finding
from webhook.server.objects import answer_objects
from webhook.status.tracking import Tracking

_REGISTRY: Final = web.AppKey("registry", CollectorRegistry)
_READY: Final[web.AppKey[Callable[[], str | None]]] = web.AppKey("ready")
_FINDINGS: Final[web.AppKey[Callable[[], tuple[Finding, ...]]]] = web.AppKey("findings")
_TRACKING: Final = web.AppKey("tracking", Tracking)


def ops_application(
    registry: CollectorRegistry,
    ready: Callable[[], str | None],
    findings: Callable[[], tuple[Finding, ...]],
    tracking: Tracking,
) -> web.Application:
    """GET /livez, /readyz, /metrics, /api/findings and /api/objects.

    `ready` says what is missing, None when nothing is.
    """
    application = web.Application()
    application[_REGISTRY] = registry
    application[_READY] = ready
    application[_FINDINGS] = findings
    application[_TRACKING] = tracking
    application.add_routes(
        [
            web.get("/livez", _livez),
            web.get("/readyz", _readyz),
            web.get("/metrics", _metrics),
            web.get("/api/findings", _findings),
            web.get("/api/objects", _objects),
        ]
    )
    return application


async def _findings(request: web.Request) -> web.Response:
    body = msgspec.json.encode({"findings": request.app[_FINDINGS]()})
    return web.Response(body=body, content_type="application/json")


async def _objects(request: web.Request) -> web.Response:
    return await answer_objects(request.app[_TRACKING], request.query, time.time())


async def _livez(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _readyz(request: web.Request) -> web.Response:
    missing = request.app[_READY]()
    if missing is None:
        return web.Response(text="ok\n")
    return web.Response(status=503, text=json.dumps({"ready": False, "missing": missing}) + "\n")


class _Collected(NamedTuple):
    """A registry of what has been read."""

    families: tuple[Metric, ...]

    def collect(self) -> tuple[Metric, ...]:
        return self.families


async def _metrics(request: web.Request) -> web.Response:
    # Read here, since nobody else may touch what is counted; to write it down takes far longer
    # where objects have names, and reviews must not wait for it.
    collected = _Collected(tuple(request.app[_REGISTRY].collect()))
    return web.Response(
        body=await asyncio.to_thread(generate_latest, collected),
        headers={"Content-Type": CONTENT_TYPE_LATEST},
    )
