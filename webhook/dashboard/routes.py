"""The routes of the dashboard: each page as HTML for people and as JSON for programs."""

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from aiohttp import web

from genguard.objects.shown import json_line
from webhook.dashboard import (
    broken,
    findings,
    object_page,
    objects,
    runbook,
    server,
    terminating,
    webhooks,
)
from webhook.dashboard.headlines import about, headline
from webhook.dashboard.page import (
    BadQueryError,
    BusyError,
    MissingError,
    PageContext,
    PageData,
    PageQueue,
    Server,
    Sources,
    json_answer,
)
from webhook.dashboard.rendering import render, static
from webhook.dashboard.stream import Stream

Load = Callable[[PageContext, Mapping[str, str], float], Awaitable[PageData]]


class Page(NamedTuple):
    """One page: `load` returns its data, `load_json` that of its JSON where it differs."""

    path: str
    template: str
    load: Load
    api: str
    load_json: Load | None = None


PAGES: Final = (
    Page("/", "findings.html", findings.load_home, "/api/findings", findings.load_all),
    Page("/findings/{id}", "finding.html", findings.load_finding, "/api/findings/{id}"),
    Page("/objects", "objects.html", objects.load, "/api/objects", objects.load_all),
    Page("/object", "object.html", object_page.load, "/api/object"),
    Page("/webhooks", "webhooks.html", webhooks.load, "/api/webhooks"),
    Page("/terminating", "terminating.html", terminating.load, "/api/terminating"),
    Page("/runbooks/{name}", "runbook.html", runbook.load, "/api/runbooks/{name}"),
)
_OF_FINDINGS: Final = (
    findings.load_home,
    findings.load_all,
    findings.load_finding,
    broken.load,
)
_TYPES: Final = {
    "dashboard.css": "text/css",
    "dashboard.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_TITLES: Final = {
    HTTPStatus.BAD_REQUEST: "Invalid request",
    HTTPStatus.NOT_FOUND: "Not found",
    HTTPStatus.SERVICE_UNAVAILABLE: "Busy",
}


class Dashboard:
    """The dashboard of one server."""

    def __init__(self, sources: Sources) -> None:
        self._sources: Final = sources
        self._queue: Final = PageQueue()
        self._stream: Final = Stream(sources.detecting)

    def routes(self, service: Server) -> list[web.AbstractRouteDef]:
        """Return the routes of all pages about `service`."""
        context = PageContext(self._sources, service, self._queue)
        return [
            *(web.get(one.path, partial(self._html, context, one)) for one in PAGES),
            *(
                web.get(one.api, partial(self._json, context, one.load_json or one.load))
                for one in PAGES
            ),
            web.get("/api/broken", partial(self._json, context, broken.load)),
            web.get("/api/server", partial(self._json, context, server.load)),
            web.get("/api/controllers", partial(self._json, context, server.load_controllers)),
            web.get("/events", self._stream.listen, allow_head=False),
            web.get("/static/{name}", _static),
            web.get("/{path:.*}", self._not_found),
        ]

    def close(self) -> None:
        """Stop the event stream and the page queue."""
        self._stream.close()
        self._queue.close()

    async def _html(self, context: PageContext, page: Page, request: web.Request) -> web.Response:
        now = self._now(page.load)
        try:
            async with self._queue.wait_turn():
                if answer := await self._forwarded(context, request):
                    return answer
                seen = await page.load(context, {**request.query, **request.match_info}, now)
                values = {"model": seen.model, **seen.values, **self._common(request, now)}
                body = await self._queue.in_thread(lambda: render(page.template, values))
        except (BadQueryError, MissingError, BusyError) as error:
            return self._message(request, *_status_and_message(error))
        return web.Response(body=body, content_type="text/html", charset="utf-8")

    async def _json(self, context: PageContext, load: Load, request: web.Request) -> web.Response:
        try:
            async with self._queue.wait_turn():
                # What is said of a server is about this one.
                is_own = load is server.load
                if not is_own and (answer := await self._forwarded(context, request)):
                    return answer
                now = self._now(load)
                seen = await load(context, {**request.query, **request.match_info}, now)
                body = await self._queue.in_thread(lambda: json_line(seen.model).encode())
        except (BadQueryError, MissingError, BusyError) as error:
            status, why = _status_and_message(error)
            return json_answer({"error": why}, status)
        return web.Response(body=body, content_type="application/json")

    def _now(self, load: Load) -> float:
        """Return the time of a page: on a standby, findings are as they were saved."""
        now = time.time()
        return self._sources.saved_at(now) if load in _OF_FINDINGS else now

    async def _forwarded(self, context: PageContext, request: web.Request) -> web.Response | None:
        """Return the answer of the active pod; None on that pod, or where it gives none."""
        forwarding = self._sources.forwarding
        if forwarding is None or not self._sources.stands_by_for:
            return None
        return await forwarding.ask(request, context.server.fingerprint)

    async def _not_found(self, request: web.Request) -> web.Response:
        why = "This page does not exist."
        if request.path.startswith("/api/"):
            return json_answer({"error": why}, HTTPStatus.NOT_FOUND)
        return self._message(request, HTTPStatus.NOT_FOUND, why)

    def _message(self, request: web.Request, status: HTTPStatus, why: str) -> web.Response:
        values = {"title": _TITLES[status], "why": why, **self._common(request, time.time())}
        body = render("message.html", values)
        return web.Response(status=status, body=body, content_type="text/html", charset="utf-8")

    def _common(self, request: web.Request, now: float) -> dict[str, Any]:
        """Return the template variables of every page."""
        last = self._sources.metrics.last_review or None
        kind_of = findings.kinds_of(self._sources)
        return {
            "now": now,
            "path": request.path,
            "last_review": last,
            "about": self._sources.about(),
            "headline": partial(headline, kind_of=kind_of),
            "objects_of": partial(about, kind_of=kind_of),
            "stands_by_for": self._sources.stands_by_for,
            "saved_at": self._sources.saved_at(now),
        }


def _status_and_message(error: Exception) -> tuple[HTTPStatus, str]:
    if isinstance(error, BusyError):
        return (
            HTTPStatus.SERVICE_UNAVAILABLE,
            "The server handles too many requests for pages. Try again in a few seconds.",
        )
    if isinstance(error, MissingError):
        return HTTPStatus.NOT_FOUND, str(error)
    return HTTPStatus.BAD_REQUEST, str(error)


async def _static(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name not in _TYPES:
        raise web.HTTPNotFound
    return web.Response(body=static(name), content_type=_TYPES[name], charset="utf-8")
