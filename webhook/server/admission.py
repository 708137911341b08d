"""The admission port's handler: reads a request, has it reviewed, writes the answer.

join key of the body → fetch the intent of another replica, if one is missing → review()
"""

import time
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import web

from genguard.admission.encode import encode_refusal
from genguard.admission.review import JoinKey, Phase
from genguard.review import Dependencies, Reply, Skipped, awaited_intent, review
from webhook.server.body import (
    Bodies,
    LargeReviews,
    OverloadedError,
    RefusedRequestError,
    for_thread,
    is_large,
    timeout_of,
)
from webhook.server.certificate import Refusal
from webhook.server.connection import Connection, connection_of
from webhook.server.observe import Observations
from webhook.server.options import RETRY_AFTER_SECONDS, Limits
from webhook.server.overload import Overload, Rejected
from webhook.tasks.threads import in_thread
from webhook.telemetry.spans import ExportedSpans

if TYPE_CHECKING:
    from webhook.store.intents import SharedIntents

PHASES: Final = {f"/{phase}": phase for phase in Phase}


class AdmissionHandler:
    """Answers POST /intent, /mutate and /outcome."""

    def __init__(
        self,
        dependencies: Callable[[], Dependencies],
        observer: Observations,
        limits: Limits,
        overload: Overload,
        remote_intents: "SharedIntents | None" = None,
        *,
        spans: ExportedSpans | None = None,
        keeps_clients: Callable[[], bool] | None = None,
    ) -> None:
        """`dependencies` is called at each request: they are replaced when the cluster changes.

        keeps_clients  whether clients may keep their connections; None: always
        """
        self._dependencies: Final = dependencies
        self._observer: Final = observer
        self._limits: Final = limits
        self._overload: Final = overload
        self._remote_intents: Final = remote_intents
        self._spans: Final = spans
        self._bodies: Final = Bodies(limits)
        self._large_reviews: Final = LargeReviews(limits)
        self._keeps_clients: Final = keeps_clients
        self.draining = False
        self.last_request = time.monotonic()

    @property
    def sends_away(self) -> bool:
        """Whether clients are to go elsewhere: this server drains, or stands by."""
        return self.draining or (self._keeps_clients is not None and not self._keeps_clients())

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        """Answer one HTTP request."""
        connection = connection_of(request)
        connection.headers_complete()
        arrived = 0 if self._spans is None else time.time_ns()
        phase, asked_seconds = _route(request.raw_path)
        try:
            if connection.is_untrusted:  # its connection was counted
                message = "this client's name is not allowed"
                response = _refusal(RefusedRequestError(403, Refusal.NOT_ALLOWED, message))
            else:
                response = await self._answer(request, connection, phase, asked_seconds, arrived)
        except RefusedRequestError as error:
            response = _refusal(error)
            if isinstance(error, OverloadedError):
                self._overload.count(error.rejected)
                self._observer.detecting.shed(None)
            else:
                self._observer.metrics.refuse(error.code)
            if self._spans is not None and phase is not None:
                reason = error.rejected if isinstance(error, OverloadedError) else error.code
                self._spans.rejected(request.headers, arrived, phase, reason, error.status)
        finally:
            connection.request_done()
        if not self._stays_open(request, connection):
            response.force_close()
        return response

    async def _answer(
        self,
        request: web.BaseRequest,
        connection: Connection,
        phase: Phase | None,
        asked_seconds: int | None,
        arrived: int,
    ) -> web.Response:
        if phase is None:
            raise RefusedRequestError(404, "unknown_path", "POST /intent, /mutate or /outcome")
        if request.method != "POST":
            raise RefusedRequestError(405, "wrong_method", "send an AdmissionReview with POST")
        body = await self._bodies.read(request, asked_seconds)
        begun = self.last_request = time.monotonic()
        seconds = self._limits.answer_seconds if asked_seconds is None else asked_seconds
        deps = self._dependencies()
        is_costly = is_large(body, self._limits)
        try:
            self._check_in_time(connection, begun, seconds)
            if not is_costly:
                if self._remote_intents is not None:
                    key = awaited_intent(body, phase, deps)
                    if key is not None and await _fetch(self._remote_intents, key, begun):
                        begun = time.monotonic()
                reply = review(body, phase, deps, begun, at=time.time())
            else:
                async with self._large_reviews.turn(len(body)):
                    begun = time.monotonic()
                    self._check_in_time(connection, begun, seconds)
                    reply = await self._review_in_thread(body, phase, deps, begun)
        except OverloadedError as error:
            if not deps.audit_only:
                raise
            self._overload.count(error.rejected)
            reply = review(body, phase, deps, begun, skip=Skipped.OVERLOADED)
        seconds, audits = time.monotonic() - begun, deps.audit_only
        self._observer.answered(phase, body, reply, seconds, audit_only=audits, is_large=is_costly)
        if self._spans is not None:
            self._spans.reviewed(request.headers, arrived, phase, reply, audit_only=deps.audit_only)
        return web.Response(body=reply.body, status=reply.status, headers=_JSON)

    async def _review_in_thread(
        self, body: bytes, phase: Phase, deps: Dependencies, now: float
    ) -> Reply:
        """Review a large body without keeping the event loop from the others."""
        shared = for_thread(deps)
        if self._remote_intents is not None:
            key = await in_thread(awaited_intent, body, phase, deps)
            if key is not None:
                await _fetch(self._remote_intents, key, now)
        return await in_thread(review, body, phase, shared, now, at=time.time())

    def _check_in_time(self, connection: Connection, now: float, seconds: float) -> None:
        """Raise OverloadedError when an answer would come too late for this client.

        A request that is alone is judged however late it is: rejecting it would save no time for
        another one. So the first review of a server that starts slowly is not lost.
        """
        waited = now - connection.arrived
        if self._overload.is_too_late(waited, seconds) and not connection.is_alone:
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


async def _fetch(intents: "SharedIntents", key: JoinKey, now: float) -> bool:
    """Fetch an intent that only another replica may know; return whether it was asked for."""
    if not intents.lacks(key):
        return False
    await intents.fetch(key, now)
    return True


@lru_cache(64)
def _route(raw_path: str) -> tuple[Phase | None, int | None]:
    """The phase of a path, and the seconds of its `?timeout=`: a server is sent few of them."""
    return PHASES.get(raw_path.partition("?")[0]), timeout_of(raw_path)


_JSON: Final = {"Content-Type": "application/json"}


def _refusal(error: RefusedRequestError) -> web.Response:
    response = web.Response(
        body=encode_refusal(str(error), "", error.code), status=error.status, headers=_JSON
    )
    if isinstance(error, OverloadedError):
        response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
        return response
    if error.status == HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = "POST"
    response.force_close()  # what is left of the body is not read
    return response
