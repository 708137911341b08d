"""The admission port's handler: HTTP in, the pipeline, HTTP out; the edge logs and counts."""

import time
from collections.abc import Callable, Generator
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol, cast

from aiohttp import StreamReader, web
from aiohttp.http_parser import RawRequestMessage

from webhook.admission.encode import encode_refusal
from webhook.admission.review import Phase
from webhook.pipeline import Dependencies, Reply, Skipped, allow, decode, judge
from webhook.server.answer import ReadyAnswer, whole_answer
from webhook.server.body import BadRequestError, OverloadedError, read_body, timeout_of
from webhook.server.clients import Refusal
from webhook.server.connection import Connection
from webhook.server.judging import Elsewhere, Judging
from webhook.server.limits import RETRY_AFTER_SECONDS, BodyBudget, Limits
from webhook.server.overload import Overload, Shed

PHASES: Final = {f"/{phase}": phase for phase in Phase}
_SURELY_IN_TIME: Final = 0.15
"""Seconds: less than the part of the shortest timeout, 1 s, that a request may have waited."""


class Observer(Protocol):
    """Is told of every answer: metrics, log, recording. Must neither block nor raise."""

    def answered(self, phase: Phase, body: bytes, reply: Reply, seconds: float) -> None:
        """One review was answered; `seconds` is what it took to judge."""

    def refused(self, reason: str) -> None:
        """A request was refused before its body was decoded."""


class AdmissionHandler:
    """Answers POST /intent, /mutate and /outcome."""

    def __init__(
        self,
        dependencies: Callable[[], Dependencies],
        observer: Observer,
        limits: Limits,
        overload: Overload,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """`dependencies` is asked at each request: they are replaced when the cluster changes."""
        self._dependencies: Final = dependencies
        self._observer: Final = observer
        self._limits: Final = limits
        self._overload: Final = overload
        self._budget: Final = BodyBudget(limits.body_bytes_in_flight)
        self._judging: Final = Judging(limits, elsewhere)
        self.draining = False
        self.last_request = time.monotonic()

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        """Answer one HTTP request."""
        connection = cast(Connection, request.protocol)  # AdmissionServer makes no other
        connection.headers_complete()
        try:
            response = await self._answer(request, connection)
        except OverloadedError as error:
            self._overload.count(error.shed, time.monotonic())
            response = self._response(request, _TOO_MUCH, error.status)
        except BadRequestError as error:
            self._observer.refused(error.code)
            response = _refusal(error.status, error.code, str(error))
            response.force_close()  # what is left of the body is not read
        finally:
            connection.request_done()
        if not isinstance(response, ReadyAnswer) and not self._stays_open(request):
            response.force_close()
        return response

    async def _answer(self, request: web.BaseRequest, connection: Connection) -> web.Response:
        if connection.is_stranger:
            refusal = _refusal(403, Refusal.NOT_ALLOWED, "this client's name is not allowed")
            refusal.force_close()  # what is left of the body is not read
            return refusal
        phase = PHASES.get(request.raw_path.partition("?")[0])
        if phase is None:
            self._observer.refused("unknown_path")
            return _refusal(404, "unknown_path", "POST /intent, /mutate or /outcome")
        if request.method != "POST":
            self._observer.refused("wrong_method")
            refusal = _refusal(405, "wrong_method", "send an AdmissionReview with POST")
            refusal.headers["Allow"] = "POST"
            return refusal
        body, connection.read_ahead = connection.read_ahead, b""
        body = body or await read_body(request, self._budget, self._limits.body_seconds)
        begun = self.last_request = time.monotonic()
        deps = self._dependencies()
        in_time = partial(self._check_in_time, request, connection.arrived)
        try:
            in_time()
            reply, seconds = await self._judging.review(body, phase, deps, in_time)
        except OverloadedError as error:
            if not deps.audit_only:
                raise
            self._overload.count(error.shed, begun)
            reply, seconds = _unjudged(body), 0.0
        self._observer.answered(phase, body, reply, seconds)
        return self._response(request, reply.body, reply.status)

    def steps(
        self, message: RawRequestMessage, payload: StreamReader, connection: Connection
    ) -> Generator[None, None, bytes | None]:
        """To the whole answer to an ordinary review; None for what takes more.

        Ordinary is what an API server sends nearly always: it is here to the end, and in time, and
        nothing has to be waited for. What was read of another is left on the connection.
        """
        phase = PHASES.get(message.path.partition("?")[0])
        begun = time.monotonic()
        if (
            phase is None
            or message.method != "POST"
            or message.headers.get("Content-Type") != "application/json"
            or "Content-Encoding" in message.headers
            or message.should_close
            or self.draining
            or connection.outdated
            or connection.is_stranger
            or begun - connection.arrived > _SURELY_IN_TIME
            or self._judging.is_large(payload.total_bytes)
        ):
            return None
        self.last_request = begun
        body = payload.read_nowait()
        request = decode(body)
        seconds = time.monotonic() - begun
        yield
        begun, deps = time.monotonic(), self._dependencies()
        if isinstance(request, Reply):
            reply = request
        elif self._judging.lacks(request, phase, deps, begun):
            connection.read_ahead = body
            return None
        else:
            reply = judge(request, phase, deps, begun, at=time.time())
        seconds += time.monotonic() - begun
        yield
        self._observer.answered(phase, body, reply, seconds)
        yield
        return whole_answer(reply.status, reply.body)

    def _check_in_time(self, request: web.BaseRequest, arrived: float) -> None:
        """Raises OverloadedError when an answer would come too late."""
        asked = timeout_of(request.raw_path)
        timeout = self._limits.answer_seconds if asked is None else asked
        if self._overload.is_too_late(time.monotonic() - arrived, timeout):
            raise OverloadedError(Shed.LATE)

    def _response(self, request: web.BaseRequest, body: bytes, status: int) -> web.Response:
        if status in ReadyAnswer.statuses and self._stays_open(request):
            return ReadyAnswer(status, body)
        response = web.Response(body=body, status=status, content_type="application/json")
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
        return response

    def _stays_open(self, request: web.BaseRequest) -> bool:
        """Connections outlive endpoint and certificate: only a closed one is made anew."""
        outdated = cast(Connection, request.protocol).outdated
        return request.keep_alive and not outdated and not self.draining


_TOO_MUCH: Final = encode_refusal("too much to do; retry", "", OverloadedError.code)


def _unjudged(body: bytes) -> Reply:
    request = decode(body)
    return request if isinstance(request, Reply) else allow(request, Skipped.OVERLOADED)


def _refusal(status: int, code: str, message: str) -> web.Response:
    body = encode_refusal(message, "", code)
    return web.Response(body=body, status=status, content_type="application/json")
