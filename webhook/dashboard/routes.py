"""Which page is where: each has a template for people, and JSON of the same for programs."""

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from aiohttp import web

from webhook.dashboard import chain, durations, findings, health, objects, terminating, thing
from webhook.dashboard.rendering import render, static
from webhook.dashboard.scene import (
    BadQueryError,
    BusyError,
    MissingError,
    Scene,
    Seen,
    Server,
    Sources,
    Turns,
)
from webhook.dashboard.stream import Stream
from webhook.objects.shown import json_line

Look = Callable[[Scene, Mapping[str, str], float], Awaitable[Seen]]


class Page(NamedTuple):
    """One page; a program is shown the same, unless it is told so."""

    path: str
    template: str
    look: Look
    api: str
    for_programs: Look | None = None


PAGES: Final = (
    Page("/", "findings.html", findings.open_ones, "/api/findings", findings.every_one),
    Page("/findings/{id}", "finding.html", findings.one, "/api/findings/{id}"),
    Page("/objects", "objects.html", objects.worst, "/api/objects", objects.every_one),
    Page("/object", "object.html", thing.one, "/api/object"),
    Page("/webhooks", "webhooks.html", chain.look, "/api/webhooks"),
    Page("/durations", "durations.html", durations.look, "/api/durations"),
    Page("/terminating", "terminating.html", terminating.look, "/api/terminating"),
    Page("/server", "server.html", health.look, "/api/server"),
    Page("/runbooks/{name}", "runbook.html", health.page_of, "/api/runbooks/{name}"),
)
_TYPES: Final = {
    "dashboard.css": "text/css",
    "dashboard.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_TITLES: Final = {
    HTTPStatus.BAD_REQUEST: "This cannot be asked for",
    HTTPStatus.NOT_FOUND: "Not known here",
    HTTPStatus.SERVICE_UNAVAILABLE: "Busy",
}


class Dashboard:
    """The pages of one server."""

    def __init__(self, sources: Sources) -> None:
        self._sources: Final = sources
        self._turns: Final = Turns()
        self._stream: Final = Stream(sources.detecting)

    def routes(self, server: Server) -> list[web.AbstractRouteDef]:
        """Everything that is shown of `server`."""
        scene = Scene(self._sources, server, self._turns)
        return [
            *(web.get(one.path, partial(self._html, scene, one)) for one in PAGES),
            *(
                web.get(one.api, partial(self._json, scene, one.for_programs or one.look))
                for one in PAGES
            ),
            web.get("/events", self._stream.listen, allow_head=False),
            web.get("/static/{name}", _static),
            web.get("/{path:.*}", self._nowhere),
        ]

    def close(self) -> None:
        """Show nothing more: the server stops."""
        self._stream.close()
        self._turns.close()

    async def _html(self, scene: Scene, page: Page, request: web.Request) -> web.Response:
        now = time.time()
        try:
            async with self._turns.turn():
                seen = await page.look(scene, {**request.query, **request.match_info}, now)
                values = {"model": seen.model, **seen.values, **self._common(request, now)}
                body = await self._turns.aside(lambda: render(page.template, values))
        except (BadQueryError, MissingError, BusyError) as error:
            return self._message(request, *_told(error))
        return web.Response(body=body, content_type="text/html", charset="utf-8")

    async def _json(self, scene: Scene, look: Look, request: web.Request) -> web.Response:
        try:
            async with self._turns.turn():
                seen = await look(scene, {**request.query, **request.match_info}, time.time())
                body = await self._turns.aside(lambda: json_line(seen.model).encode())
        except (BadQueryError, MissingError, BusyError) as error:
            status, why = _told(error)
            return _json(status, json_line({"error": why}).encode())
        return _json(HTTPStatus.OK, body)

    async def _nowhere(self, request: web.Request) -> web.Response:
        why = "There is no such page."
        if request.path.startswith("/api/"):
            return _json(HTTPStatus.NOT_FOUND, json_line({"error": why}).encode())
        return self._message(request, HTTPStatus.NOT_FOUND, why)

    def _message(self, request: web.Request, status: HTTPStatus, why: str) -> web.Response:
        values = {"title": _TITLES[status], "why": why, **self._common(request, time.time())}
        body = render("message.html", values)
        return web.Response(status=status, body=body, content_type="text/html", charset="utf-8")

    def _common(self, request: web.Request, now: float) -> dict[str, Any]:
        """What every page shows, whatever it is about."""
        last = self._sources.metrics.last_review or None
        about = self._sources.about()
        return {"now": now, "path": request.path, "last_review": last, "about": about}


def _told(error: Exception) -> tuple[HTTPStatus, str]:
    if isinstance(error, BusyError):
        return HTTPStatus.SERVICE_UNAVAILABLE, "Too many pages are asked for. Try again soon."
    if isinstance(error, MissingError):
        return HTTPStatus.NOT_FOUND, str(error)
    return HTTPStatus.BAD_REQUEST, str(error)


def _json(status: HTTPStatus, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json")


async def _static(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name not in _TYPES:
        raise web.HTTPNotFound
    return web.Response(body=static(name), content_type=_TYPES[name], charset="utf-8")
