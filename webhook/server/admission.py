"""The admission port's handler: reads a request, has it reviewed, writes the answer.

join key of the body → fetch the intent of another replica, if one is missing → review()
"""

import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import ClassVar, Final, Protocol

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from genguard.admission.encode import encode_refusal
from genguard.admission.review import JoinKey, Phase
from genguard.review import Dependencies, Reply, Skipped, awaited_intent, review
from webhook.server.body import BadRequestError, Bodies, OverloadedError, read_body, timeout_of
from webhook.server.clients import Refusal
from webhook.server.connection import Connection, connection_of
from webhook.server.large import LargeReviews, for_thread, is_large, user_of
from webhook.server.limits import RETRY_AFTER_SECONDS, Limits
from webhook.server.overload import Overload, Rejected
from webhook.tasks.threads import in_thread

PHASES: Final = {f"/{phase}": phase for phase in Phase}


class Observer(Protocol):
    """Gets every answer, for metrics, log and recording. Must neither block nor raise."""

    def answered(
        self, phase: Phase, body: bytes, reply: Reply, seconds: float, *, audit_only: bool
    ) -> None:
        """Take in one answered review; judging it took so many seconds."""

    def refused(self, reason: str) -> None:
        """Take in a request that was refused before its body was decoded."""

    def shed(self) -> None:
        """Take in a review that was rejected undecoded, because there was too much to do."""


class RemoteIntents(Protocol):
    """The intents that other replicas remember. `now` as review() takes it."""

    def lacks(self, key: JoinKey, now: float) -> bool:
        """Whether this replica does not know the intent of a write, but another one may."""

    async def fetch(self, key: JoinKey, now: float) -> None:
        """Put the intent where review() finds it. Never raises, and takes 20 ms at most."""


class ReviewSpans(Protocol):
    """Exports a span for each review. Must neither block nor raise.

    headers  of the request; `traceparent` names the span of the API server
    arrived  when the request began, in nanoseconds of Unix time
    """

    def reviewed(
        self,
        headers: Mapping[str, str],
        arrived: int,
        phase: Phase,
        reply: Reply,
        *,
        audit_only: bool,
    ) -> None:
        """Take in one answered review."""

    def rejected(
        self, headers: Mapping[str, str], arrived: int, phase: Phase, reason: str, status: int
    ) -> None:
        """Take in a review that was refused before its body was decoded."""


class AdmissionHandler:
    """Answers POST /intent, /mutate and /outcome."""

    def __init__(
        self,
        dependencies: Callable[[], Dependencies],
        observer: Observer,
        limits: Limits,
        overload: Overload,
        remote_intents: RemoteIntents | None = None,
        *,
        spans: ReviewSpans | None = None,
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
        self._bodies: Final = Bodies(limits.body_bytes_in_flight)
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
        try:
            response = await self._answer(request, connection, arrived)
        except OverloadedError as error:
            self._overload.count(error.rejected, time.monotonic())
            self._observer.shed()
            self._trace_rejected(request, arrived, error.rejected, error.status)
            response = self._response(request, connection, _OVERLOADED, error.status)
        except BadRequestError as error:
            self._observer.refused(error.code)
            self._trace_rejected(request, arrived, error.code, error.status)
            response = _refusal(error.status, error.code, str(error))
            response.force_close()  # what is left of the body is not read
        finally:
            connection.request_done()
        if not isinstance(response, ReadyAnswer) and not self._stays_open(request, connection):
            response.force_close()
        return response

    async def _answer(
        self, request: web.BaseRequest, connection: Connection, arrived: int
    ) -> web.Response:
        if connection.is_untrusted:
            refusal = _refusal(403, Refusal.NOT_ALLOWED, "this client's name is not allowed")
            refusal.force_close()  # what is left of the body is not read
            return refusal
        phase, asked_seconds = _route(request.raw_path)
        if phase is None:
            self._observer.refused("unknown_path")
            return _refusal(404, "unknown_path", "POST /intent, /mutate or /outcome")
        if request.method != "POST":
            self._observer.refused("wrong_method")
            refusal = _refusal(405, "wrong_method", "send an AdmissionReview with POST")
            refusal.headers["Allow"] = "POST"
            return refusal
        body = await read_body(request, self._bodies, self._limits.body_seconds, asked_seconds)
        begun = self.last_request = time.monotonic()
        seconds = self._limits.answer_seconds if asked_seconds is None else asked_seconds
        deps = self._dependencies()
        try:
            self._check_in_time(connection, begun, seconds)
            if not is_large(body, self._limits):
                if self._remote_intents is not None:
                    key = awaited_intent(body, phase, deps)
                    if key is not None and await _fetch(self._remote_intents, key, begun):
                        begun = time.monotonic()
                reply = review(body, phase, deps, begun, at=time.time())
            else:
                async with self._large_reviews.turn(user_of(body), len(body)):
                    begun = time.monotonic()
                    self._check_in_time(connection, begun, seconds)
                    reply = await self._review_in_thread(body, phase, deps, begun)
        except OverloadedError as error:
            if not deps.audit_only:
                raise
            self._overload.count(error.rejected, begun)
            reply = review(body, phase, deps, begun, skip=Skipped.OVERLOADED)
        self._observer.answered(
            phase, body, reply, time.monotonic() - begun, audit_only=deps.audit_only
        )
        if self._spans is not None:
            self._spans.reviewed(request.headers, arrived, phase, reply, audit_only=deps.audit_only)
        return self._response(request, connection, reply.body, reply.status)

    def _trace_rejected(
        self, request: web.BaseRequest, arrived: int, reason: str, status: int
    ) -> None:
        if self._spans is None:
            return
        phase, _ = _route(request.raw_path)
        if phase is not None:
            self._spans.rejected(request.headers, arrived, phase, reason, status)

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

    def _response(
        self, request: web.BaseRequest, connection: Connection, body: bytes, status: int
    ) -> web.Response:
        if status in ReadyAnswer.statuses and self._stays_open(request, connection):
            return ReadyAnswer(status, body)
        response = web.Response(body=body, status=status, content_type="application/json")
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
        return response

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


async def _fetch(intents: RemoteIntents, key: JoinKey, now: float) -> bool:
    """Fetch an intent that only another replica may know; return whether it was asked for."""
    if not intents.lacks(key, now):
        return False
    await intents.fetch(key, now)
    return True


@lru_cache(64)
def _route(raw_path: str) -> tuple[Phase | None, int | None]:
    """The phase of a path, and the seconds of its `?timeout=`: a server is sent few of them."""
    return PHASES.get(raw_path.partition("?")[0]), timeout_of(raw_path)


_OVERLOADED: Final = encode_refusal("too much to do; retry", "", OverloadedError.code)


def _refusal(status: int, code: str, message: str) -> web.Response:
    body = encode_refusal(message, "", code)
    return web.Response(body=body, status=status, content_type="application/json")


_HEADS: Final[Mapping[int, bytes]] = {
    HTTPStatus.OK: b"HTTP/1.1 200 OK\r\n",
    HTTPStatus.BAD_REQUEST: b"HTTP/1.1 400 Bad Request\r\n",
    HTTPStatus.TOO_MANY_REQUESTS: b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: %d\r\n"
    % RETRY_AFTER_SECONDS,
    HTTPStatus.INTERNAL_SERVER_ERROR: b"HTTP/1.1 500 Internal Server Error\r\n",
}
_REST: Final = b"%bContent-Type: application/json\r\nDate: %b\r\nContent-Length: %d\r\n\r\n%b"


class ReadyAnswer(web.Response):
    """A JSON answer whose head and body are written in one piece.

    aiohttp builds, checks and joins the headers of every response anew, which costs more than
    judging a pod; of nearly all answers here only the length and the second differ. This class
    answers what aiohttp asks of a response (web_protocol.py:RequestHandler.finish_response) and has
    none of its state. It is for connections that stay open; any other answer is a web.Response.
    """

    statuses: ClassVar = frozenset(_HEADS)

    # The parent's __init__ would build what is not needed.
    def __init__(self, status: int, body: bytes) -> None:
        self._whole: Final = _REST % (_HEADS[status], _date(int(time.time())), len(body), body)
        self._writer: AbstractStreamWriter | None = None

    @property
    def keep_alive(self) -> bool:
        """Always true."""
        return True

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        """Remember where to write; nothing is written before the body is."""
        self._writer = request.writer
        return request.writer

    async def write_eof(self, data: bytes = b"") -> None:
        """Write head and body at once."""
        del data  # a response in one piece has no more of it
        if self._writer is not None:
            await self._writer.write(self._whole)


@lru_cache(1)
def _date(second: int) -> bytes:
    """The value of the Date header, in Unix seconds: made once a second."""
    return formatdate(second, usegmt=True).encode()
