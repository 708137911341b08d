"""The routes of the dashboard: each page as HTML for people and as JSON for programs.

`/api/server` and `/api/controllers` are for programs alone. `/api/changes` tells a page when to
reload its data, and holds nothing of any object.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import web

from genguard.detection.questions.numbers import Controllers
from genguard.objects.shown import json_line
from webhook.dashboard import broken, findings, object_page, objects, runbook, terminating, webhooks
from webhook.dashboard.finding_lists import count_open
from webhook.dashboard.headlines import count_objects, headline
from webhook.dashboard.page import (
    MissingError,
    PageContext,
    PageData,
    PageError,
    PageQueue,
    Sources,
    check_parameters,
    json_answer,
)
from webhook.dashboard.rendering import render, static
from webhook.server.lifecycle import AdmissionService
from webhook.tasks.supervisor import FailingTask


class Changes(msgspec.Struct, frozen=True, rename="camel"):
    """What a page asks for every second: when a number has changed, it loads itself again.

    finding_changes  how often findings have changed
    object_changes   how often objects have become settled or unsettled
    open             how many findings of each severity are open
    """

    finding_changes: int
    object_changes: int
    open: dict[str, int]


class ServerState(msgspec.Struct, frozen=True, rename="camel"):
    """The state of one replica; `missing` says why it is not ready, null if it is."""

    missing: str | None
    about: dict[str, str]
    not_after: str
    fingerprint: str
    watches: dict[str, bool]
    failing: tuple[FailingTask, ...]


async def _load_server(context: PageContext, query: Mapping[str, str], _: float) -> PageData:
    """Return the state of this replica."""
    check_parameters(query, ())
    sources, server = context.sources, context.server
    state = ServerState(
        missing=server.missing(),
        about=dict(sources.about()),
        not_after=server.certificate.not_after.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        fingerprint=server.certificate.fingerprint,
        watches=dict(sources.watching.states()),
        failing=sources.failing(),
    )
    return PageData(state, {})


async def _load_controllers(context: PageContext, query: Mapping[str, str], _: float) -> PageData:
    """Return all controllers, those who are wrong most often first."""
    check_parameters(query, ())
    detecting = context.sources.detecting
    writers = tuple(detecting.detection.reporting.writers())
    return PageData(Controllers(writers, detecting.detects), {})


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
_OF_FINDINGS: Final = (findings.load_home, findings.load_all, findings.load_finding, broken.load)
_TYPES: Final = {
    "dashboard.css": "text/css",
    "dashboard.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


class Dashboard:
    """The dashboard of one server."""

    def __init__(self, sources: Sources) -> None:
        self._sources: Final = sources
        self._queue: Final = PageQueue()
        self._shown = sources.detecting.latest
        self._finding_changes = 0
        self._open: dict[str, int] = {}

    def routes(self, service: AdmissionService) -> list[web.AbstractRouteDef]:
        """Return the routes of all pages about `service`."""
        context = PageContext(self._sources, service, self._queue)
        return [
            *(web.get(page.path, partial(self._html, context, page)) for page in PAGES),
            *(
                web.get(page.api, partial(self._json, context, page.load_json or page.load))
                for page in PAGES
            ),
            web.get("/api/broken", partial(self._json, context, broken.load)),
            web.get("/api/server", partial(self._json, context, _load_server)),
            web.get("/api/controllers", partial(self._json, context, _load_controllers)),
            web.get("/api/changes", partial(self._json, context, self._load_changes)),
            web.get("/static/{name}", _static),
            web.get("/{path:.*}", self._not_found),
        ]

    def close(self) -> None:
        """Stop the page queue."""
        self._queue.close()

    async def _load_changes(
        self, context: PageContext, query: Mapping[str, str], __: float
    ) -> PageData:
        check_parameters(query, ())
        detecting = self._sources.detecting
        if detecting.latest is not self._shown:
            shown, self._finding_changes = detecting.latest, self._finding_changes + 1
            self._shown, self._open = (
                shown,
                await context.queue.in_thread(lambda: count_open(shown)),
            )
        counts = {name: count for name, count in self._open.items() if count}
        return PageData(
            Changes(self._finding_changes, detecting.tracking.blocking_changes, counts), {}
        )

    async def _html(self, context: PageContext, page: Page, request: web.Request) -> web.Response:
        now = self._now(page.load)
        try:
            async with self._queue.wait_slot():
                if answer := await self._forwarded(context, request):
                    return answer
                seen = await page.load(context, {**request.query, **request.match_info}, now)
                values = {"model": seen.model, **seen.values, **self._common(request, now)}
                body = await self._queue.in_thread(lambda: render(page.template, values))
        except PageError as error:
            return self._message(request, error)
        return web.Response(body=body, content_type="text/html", charset="utf-8")

    async def _json(self, context: PageContext, load: Load, request: web.Request) -> web.Response:
        try:
            async with self._queue.wait_slot():
                # /api/server is about this replica. Changes are asked for too often to forward.
                is_own = load in (_load_server, self._load_changes)
                if not is_own and (answer := await self._forwarded(context, request)):
                    return answer
                now = self._now(load)
                seen = await load(context, {**request.query, **request.match_info}, now)
                body = await self._queue.in_thread(lambda: json_line(seen.model).encode())
        except PageError as error:
            return json_answer({"error": str(error)}, error.status)
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
        return await forwarding.ask(request, context.server.certificate.fingerprint)

    async def _not_found(self, request: web.Request) -> web.Response:
        error = MissingError("This page does not exist.")
        if request.path.startswith("/api/"):
            return json_answer({"error": str(error)}, error.status)
        return self._message(request, error)

    def _message(self, request: web.Request, error: PageError) -> web.Response:
        values = {"title": error.title, "why": str(error), **self._common(request, time.time())}
        body = render("message.html", values)
        return web.Response(
            status=error.status, body=body, content_type="text/html", charset="utf-8"
        )

    def _common(self, request: web.Request, now: float) -> dict[str, Any]:
        """Return the template variables of every page."""
        last = self._sources.metrics.last_review or None
        kind_of = findings.kinds_of(self._sources)
        return {
            "now": now,
            "path": request.path,
            "last_review": last,
            "about": self._sources.about(),
            "cluster": self._sources.cluster,
            "watched": self._sources.watching.states(),
            "headline": partial(headline, kind_of=kind_of),
            "objects_of": lambda finding: count_objects((finding,), kind_of),
            "stands_by_for": self._sources.stands_by_for,
            "saved_at": self._sources.saved_at(now),
        }


async def _static(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name not in _TYPES:
        raise web.HTTPNotFound
    return web.Response(body=static(name), content_type=_TYPES[name], charset="utf-8")
