"""The ops port: liveness, readiness, metrics, and the pages of the dashboard."""

import json
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final, NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric

from webhook.server.access import Access, Part
from webhook.server.connection import Connection, connection_of
from webhook.tasks.threads import in_thread

_OPEN: Final = frozenset({"/livez", "/readyz"})
_METRICS: Final = "/metrics"

SECURITY: Final = {
    # What is shown comes from objects of others: nothing of it may run, load or be framed.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_CROWDED: Final = """\
genguard: too many connections to the ops port are being answered already; try again.

Only /livez and /readyz are answered now. Close dashboards that nobody looks at.
"""
_CHALLENGES: Final = ('Bearer realm="genguard"', 'Basic realm="genguard", charset="UTF-8"')


class Readiness(NamedTuple):
    """Whether the server is ready.

    missing  why it answers no reviews; None when it does
    failing  the tasks that fail, a sentence each. The server stays ready: reviews are answered, and
             the same failure in every pod must not leave writes without any
    """

    missing: str | None
    failing: tuple[str, ...] = ()


def ops_application(
    registry: CollectorRegistry,
    ready: Callable[[], "Readiness"],
    access: Access,
    pages: Iterable[web.AbstractRouteDef],
) -> web.Application:
    """Make the application: GET /livez, /readyz and /metrics, and `pages`.

    `ready` says whether the server is ready.
    """

    async def livez(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        missing, failing = ready()
        if missing is None:
            return web.Response(text="".join(f"{line}\n" for line in ("ok", *failing)))
        return web.Response(
            status=503, text=json.dumps({"ready": False, "missing": missing}) + "\n"
        )

    async def metrics(_: web.Request) -> web.Response:
        # Read on the event loop, where the counters are used. Formatting takes far longer where
        # objects have names, and reviews must not wait for it.
        collected = _Collected(tuple(registry.collect()))
        return web.Response(
            body=await in_thread(generate_latest, collected),
            headers={"Content-Type": CONTENT_TYPE_LATEST},
        )

    application = web.Application(middlewares=[_guard(access)])
    application.on_response_prepare.append(_secure)
    application.add_routes(
        [
            web.get("/livez", livez),
            web.get("/readyz", readyz),
            web.get(_METRICS, metrics),
            *pages,
        ]
    )
    return application


def _guard(access: Access) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse before the path is looked up: an answer must not show which pages exist."""
        connection = connection_of(request)
        connection.headers_complete()
        try:
            return await answer(request, handler, connection)
        finally:
            connection.request_done()

    async def answer(
        request: web.Request, handler: Handler, connection: Connection
    ) -> web.StreamResponse:
        if request.path not in _OPEN:
            if connection.is_spare:
                crowded = web.Response(status=503, text=_CROWDED, headers={"Retry-After": "2"})
                crowded.force_close()
                return crowded
            part = Part.METRICS if request.path == _METRICS else Part.OBSERVED
            refusal = await access.refuses(request, part)
            if refusal is not None:
                response = web.Response(status=refusal.status, text=refusal.why)
                for challenge in _CHALLENGES if refusal.asks else ():
                    response.headers.add("WWW-Authenticate", challenge)
                if refusal.status == HTTPStatus.SERVICE_UNAVAILABLE:
                    response.headers["Retry-After"] = "2"
                return response
        return await handler(request)

    return guard


async def _secure(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SECURITY)


class _Collected(NamedTuple):
    """A registry of metrics that have been read already."""

    families: tuple[Metric, ...]

    def collect(self) -> tuple[Metric, ...]:
        return self.families
