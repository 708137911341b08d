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
    durations,
    findings,
    object_page,
    objects,
    runbook,
    server,
    silencing,
    terminating,
    webhooks,
)
from webhook.dashboard.csv_rows import to_csv
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
    """One page: `load` returns its data, `load_json` that of its JSON where it differs.

    rows       the field of the data that holds the rows of its CSV; "" for a page without CSV
    load_rows  returns the data of the CSV where it differs from that of the JSON
    """

    path: str
    template: str
    load: Load
    api: str
    load_json: Load | None = None
    rows: str = ""
    load_rows: Load | None = None


PAGES: Final = (
    Page(
        "/",
        "findings.html",
        findings.load_home,
        "/api/findings",
        findings.load_all,
        "findings",
        findings.load_rows,
    ),
    Page("/findings/{id}", "finding.html", findings.load_finding, "/api/findings/{id}"),
    Page("/objects", "objects.html", objects.load, "/api/objects", objects.load_all, "objects"),
    Page("/object", "object.html", object_page.load, "/api/object"),
    Page("/webhooks", "webhooks.html", webhooks.load, "/api/webhooks", rows="webhooks"),
    Page("/durations", "durations.html", durations.load, "/api/durations", rows="kinds"),
    Page(
        "/terminating", "terminating.html", terminating.load, "/api/terminating", rows="terminating"
    ),
    Page("/server", "server.html", server.load, "/api/server"),
    Page("/runbooks/{name}", "runbook.html", runbook.load, "/api/runbooks/{name}"),
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
            web.get("/api/controllers", partial(self._json, context, durations.load_controllers)),
            *(
                web.get(f"{one.api}.csv", partial(self._rows_as_csv, context, one))
                for one in PAGES
                if one.rows
            ),
            web.get("/api/silences", partial(self._json, context, silencing.load)),
            web.post("/api/findings/{id}/silence", partial(self._change, context)),
            web.get("/events", self._stream.listen, allow_head=False),
            web.get("/static/{name}", _static),
            web.get("/{path:.*}", self._not_found),
        ]

    def close(self) -> None:
        """Stop the event stream and the page queue."""
        self._stream.close()
        self._queue.close()

    async def _html(self, context: PageContext, page: Page, request: web.Request) -> web.Response:
        now = time.time()
        try:
            async with self._queue.wait_turn():
                seen = await page.load(context, {**request.query, **request.match_info}, now)
                values = {"model": seen.model, **seen.values, **self._common(request, now)}
                body = await self._queue.in_thread(lambda: render(page.template, values))
        except (BadQueryError, MissingError, BusyError) as error:
            return self._message(request, *_status_and_message(error))
        return web.Response(body=body, content_type="text/html", charset="utf-8")

    async def _json(self, context: PageContext, load: Load, request: web.Request) -> web.Response:
        return await self._data(
            context, load, request, lambda model: json_line(model).encode(), "application/json"
        )

    async def _rows_as_csv(
        self, context: PageContext, page: Page, request: web.Request
    ) -> web.Response:
        return await self._data(
            context,
            page.load_rows or page.load_json or page.load,
            request,
            lambda model: to_csv(getattr(model, page.rows)),
            "text/csv",
        )

    async def _data(
        self,
        context: PageContext,
        load: Load,
        request: web.Request,
        encode: Callable[[Any], bytes],
        content_type: str,
    ) -> web.Response:
        try:
            async with self._queue.wait_turn():
                seen = await load(context, {**request.query, **request.match_info}, time.time())
                body = await self._queue.in_thread(lambda: encode(seen.model))
        except (BadQueryError, MissingError, BusyError) as error:
            status, why = _status_and_message(error)
            return json_answer({"error": why}, status)
        return web.Response(body=body, content_type=content_type)

    async def _change(self, context: PageContext, request: web.Request) -> web.Response:
        if self._sources.read_only:
            why = "nobody may change anything here: the server runs with --ops-read-only"
            return json_answer({"error": why}, HTTPStatus.FORBIDDEN)
        if active := self._sources.stands_by_for:
            why = f"this pod stands by, and alerts nobody: ask the active one, {active}"
            return json_answer({"error": why}, HTTPStatus.CONFLICT)
        return await silencing.change(context, request)

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
            "silence_of": lambda finding: self._sources.silences.find(finding, now),
            "headline": partial(headline, kind_of=kind_of),
            "objects_of": partial(about, kind_of=kind_of),
            "read_only": self._sources.read_only,
            "stands_by_for": self._sources.stands_by_for,
            "silence_durations": silencing.DURATIONS,
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
