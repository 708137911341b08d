"""The admission port's handler: HTTP in, the pipeline, HTTP out; the edge logs and counts."""

import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol

from aiohttp import web

from webhook.admission.encode import encode_refusal
from webhook.admission.review import Phase
from webhook.pipeline import Dependencies, Reply, Skipped, allow, decode
from webhook.server.answer import ReadyAnswer
from webhook.server.body import BadRequestError, Bodies, OverloadedError, read_body, timeout_of
from webhook.server.clients import Refusal
from webhook.server.connection import Connection, connection_of
from webhook.server.judging import Elsewhere, Judging
from webhook.server.limits import RETRY_AFTER_SECONDS, Limits
from webhook.server.overload import Overload, Shed

PHASES: Final = {f"/{phase}": phase for phase in Phase}


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
        self._bodies: Final = Bodies(limits.body_bytes_in_flight)
        self._judging: Final = Judging(limits, elsewhere)
        self.draining = False
        self.last_request = time.monotonic()

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        """Answer one HTTP request."""
        connection = connection_of(request)
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
        body = await read_body(request, self._bodies, self._limits.body_seconds)
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
        """Connections outlive endpoint and certificate: only a closed one is made anew.

        Nothing is upgraded to. After a request that asks for it aiohttp's parser drops what came
        in the same piece, so the next request would be read from its middle.
        """
        outdated = connection_of(request).outdated or "Upgrade" in request.headers
        return request.keep_alive and not outdated and not self.draining


_TOO_MUCH: Final = encode_refusal("too much to do; retry", "", OverloadedError.code)


def _unjudged(body: bytes) -> Reply:
    request = decode(body)
    return request if isinstance(request, Reply) else allow(request, Skipped.OVERLOADED)


def _refusal(status: int, code: str, message: str) -> web.Response:
    body = encode_refusal(message, "", code)
    return web.Response(body=body, status=status, content_type="application/json")
