"""The admission port's handler: reads a request, has it reviewed, answers, counts and logs it.

join key of the body → fetch the intent of another replica, if one is missing → review()
"""

import logging
import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from aiohttp import web

from genguard.admission.decode import HEAD_BYTES, name_in_head
from genguard.admission.encode import encode_rejection
from genguard.admission.review import Phase
from genguard.objects.fields import to_field_path
from genguard.review import Dependencies, ReviewResult, Skipped, awaited_intent, review
from genguard.rules.annotations import MOST_SHOWN
from genguard.rules.assign_generation import AssignGeneration
from webhook.server.body import Bodies, LargeReviews, OverloadedError, RejectedRequestError
from webhook.server.certificate import ClientRejection
from webhook.server.connection import Connection, connection_of
from webhook.server.detecting import Detecting
from webhook.server.options import RETRY_AFTER_SECONDS, Limits
from webhook.server.overload import Overload, Rejected
from webhook.server.recorder import Recorder
from webhook.tasks.threads import in_thread
from webhook.telemetry.logs import LOGGER, is_heard
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.spans import ExportedSpans

if TYPE_CHECKING:
    from webhook.store.intents import SharedIntents

P = ParamSpec("P")
T = TypeVar("T")

_LONGEST_NAME: Final = 256
_TIMEOUT: Final = re.compile(r"timeout=([0-9]{1,4})s")
_Route = tuple[Phase | None, int | None]
PHASES: Final = {**{f"/{phase}": phase for phase in Phase}, "/repair": Phase.MUTATE}


@dataclass(slots=True)
class AdmissionHandler:
    """Answers POST /intent, /mutate and /outcome.

    dependencies   is called at each request: they are replaced when the cluster changes
    keeps_clients  whether clients may keep their connections; None: always
    """

    dependencies: Callable[[], Dependencies]
    metrics: Metrics
    detecting: Detecting
    limits: Limits
    recorder: Recorder | None = None
    remote_intents: "SharedIntents | None" = None
    spans: ExportedSpans | None = None
    keeps_clients: Callable[[], bool] | None = None
    draining: bool = False
    last_request: float = field(default_factory=time.monotonic)
    overload: Overload = field(init=False)
    _bodies: Bodies = field(init=False)
    _large_reviews: LargeReviews = field(init=False)

    def __post_init__(self) -> None:
        """Read bodies within the limits."""
        self._bodies, self._large_reviews = Bodies(self.limits), LargeReviews(self.limits)
        self.overload = Overload(self.limits.overload_quiet_seconds)

    @property
    def sends_away(self) -> bool:
        """Whether clients are to go elsewhere: this server drains, or stands by."""
        return self.draining or (self.keeps_clients is not None and not self.keeps_clients())

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        """Answer one HTTP request."""
        connection = connection_of(request)
        connection.headers_complete()
        arrived = 0 if self.spans is None else time.time_ns()
        phase, _ = route = route_of(request.raw_path)
        try:
            if connection.is_untrusted:  # its connection was counted
                message = "this client's name is not allowed"
                response = _rejection(
                    RejectedRequestError(403, ClientRejection.NOT_ALLOWED, message)
                )
            else:
                response = await self._answer(request, connection, route, arrived)
        except RejectedRequestError as error:
            response = _rejection(error)
            if isinstance(error, OverloadedError):
                self.overload.reject(error.rejected)
                self.detecting.shed(name_in_head(error.head))
            else:
                self.metrics.refuse(error.code)
            if self.spans is not None and phase is not None:
                reason = error.rejected if isinstance(error, OverloadedError) else error.code
                self.spans.rejected(request.headers, arrived, phase, reason, error.status)
        finally:
            connection.request_done()
        if not self._stays_open(request, connection):
            response.force_close()
        return response

    async def _answer(
        self, request: web.BaseRequest, connection: Connection, route: _Route, arrived: int
    ) -> web.Response:
        phase, asked_seconds = route
        if phase is None:
            raise RejectedRequestError(404, "unknown_path", "POST /intent, /mutate or /outcome")
        if request.method != "POST":
            raise RejectedRequestError(405, "wrong_method", "send an AdmissionReview with POST")
        body = await self._bodies.read(request, asked_seconds)
        begun = self.last_request = time.monotonic()
        seconds = self.limits.answer_seconds if asked_seconds is None else asked_seconds
        deps = self.dependencies()
        large, is_costly = self._large_reviews, self._large_reviews.takes(body)
        try:
            self._check_in_time(connection, begun, seconds)
            async with large.slot(len(body), deps) if is_costly else nullcontext(deps) as shared:
                begun = time.monotonic()
                if is_costly:
                    self._check_in_time(connection, begun, seconds)
                run = in_thread if is_costly else _at_once
                if (intents := self.remote_intents) is not None:
                    key = await run(awaited_intent, body, phase, deps)
                    if key is not None and intents.lacks(key):  # only another replica may know it
                        await intents.fetch(key, begun)
                        begun = time.monotonic()
                reply = await run(review, body, phase, shared, begun, at=time.time())
        except OverloadedError as error:
            if not deps.audit_only:
                error.head = body[:HEAD_BYTES]
                raise
            self.overload.reject(error.rejected)
            reply = review(body, phase, deps, begun, skip=Skipped.OVERLOADED)
        self.metrics.record(phase, reply, time.monotonic() - begun, audit_only=deps.audit_only)
        self._observe(phase, body, reply.result, audit_only=deps.audit_only, is_large=is_costly)
        if self.spans is not None:
            self.spans.reviewed(request.headers, arrived, phase, reply, audit_only=deps.audit_only)
        return web.Response(body=reply.body, status=reply.status, headers=_JSON)

    def _observe(
        self, phase: Phase, body: bytes, result: ReviewResult, *, audit_only: bool, is_large: bool
    ) -> None:
        """Record a review, hand it to detection, and log what was repaired, dropped or left out."""
        if result.rejected is not None:
            field, code = result.rejected.field, result.rejected.code
            fields = {"phase": phase, "field": field, "code": code}
            LOGGER.warning("undecodable", extra={"fields": fields})
            return
        if self.recorder is not None:
            self.recorder.record(phase, body)
        self.detecting.put(phase, result, len(body), is_large=is_large)
        if result.skipped is Skipped.OVERLOADED and result.request is not None:
            self.detecting.shed(result.request.object_name)
        # webhook/server/overload.py logs an overload once: it is no time for many lines.
        elif result.skipped is not None:
            fields = {"phase": phase, "why": result.skipped, **_where(result)}
            LOGGER.warning("not examined", extra={"fields": fields})
        message = "would repair" if audit_only else "repaired"
        for repair in result.repairs:
            # It acts on every counted write: its lines are for debugging.
            level = logging.DEBUG if repair.rule == AssignGeneration.name else logging.INFO
            if is_heard(level, message):
                shown = {to_field_path(edit.path): edit.shown for edit in repair.edits[:MOST_SHOWN]}
                done = {"rule": repair.rule, "edits": len(repair.edits), "set": shown}
                LOGGER.log(level, message, extra={"fields": {**done, **_where(result)}})
        if result.dropped:
            paths = [to_field_path(edit.path) for edit in result.dropped]
            LOGGER.error("patch dropped", extra={"fields": {"fields": paths, **_where(result)}})

    def _check_in_time(self, connection: Connection, now: float, seconds: float) -> None:
        """Raise OverloadedError when an answer would come too late for this client.

        A request that is alone is examined however late it is: rejecting it would save no time for
        another one. So the first review of a server that starts slowly is not lost.
        """
        waited = now - connection.arrived
        if self.overload.is_too_late(waited, seconds) and not connection.is_alone:
            raise OverloadedError(Rejected.LATE)

    def _stays_open(self, request: web.BaseRequest, connection: Connection) -> bool:
        """Whether the connection can be used again after this answer.

        A client that keeps a connection open notices neither a new certificate nor that this server
        drains or stands by, so the connection is closed then. After a request for an upgrade
        aiohttp's parser drops what came in the same piece, so the next request would be read from
        its middle.
        """
        return (
            request.keep_alive
            and not self.sends_away
            and not connection.outdated
            and "Upgrade" not in request.headers
        )


async def _at_once(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function on the event loop, in the way of `in_thread`."""
    return function(*args, **kwargs)


@lru_cache(64)
def route_of(raw_path: str) -> _Route:
    """The phase of a path, and the seconds of its `?timeout=2s`. A server sees few paths.

    The API server sends in this way how long it waits (apiserver pkg/util/webhook).
    """
    path, _, query = raw_path.partition("?")
    found = filter(None, map(_TIMEOUT.fullmatch, query.split("&")))
    return PHASES.get(path), next((int(match[1]) for match in found), None)


def _where(result: ReviewResult) -> dict[str, str]:
    if result.request is None:
        return {}
    wire = result.request.wire
    where = {
        "operation": wire.operation,
        "resource": wire.resource.resource,
        "group": wire.resource.group,
        "subresource": wire.sub_resource,
        "namespace": wire.namespace,
        "name": wire.name,
        "user": wire.user_info.username,
    }
    return {key: value[:_LONGEST_NAME] for key, value in where.items()}


_JSON: Final = {"Content-Type": "application/json"}


def _rejection(error: RejectedRequestError) -> web.Response:
    response = web.Response(
        body=encode_rejection(str(error), "", error.code), status=error.status, headers=_JSON
    )
    if isinstance(error, OverloadedError):
        response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
        return response
    if error.status == HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = "POST"
    response.force_close()  # what is left of the body is not read
    return response
