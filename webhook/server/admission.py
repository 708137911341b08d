"""The admission port's handler: HTTP in, the pipeline, HTTP out; the edge logs and counts."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, ParamSpec, Protocol, TypeVar

from aiohttp import web

from webhook.admission.encode import encode_refusal
from webhook.admission.join import JoinKey
from webhook.admission.review import Phase
from webhook.pipeline import Dependencies, Reply, awaited_intent, decode, judge, review
from webhook.server.answer import ReadyAnswer
from webhook.server.body import BadRequestError, OverloadedError, read_body
from webhook.server.connection import Connection
from webhook.server.large import LARGE_BYTES, Turns, for_thread
from webhook.server.limits import RETRY_AFTER, BodyBudget, Limits

P = ParamSpec("P")
T = TypeVar("T")

PHASES: Final = {f"/{phase}": phase for phase in Phase}


class Observer(Protocol):
    """Is told of every answer: metrics, log, recording. Must neither block nor raise."""

    def answered(self, phase: Phase, body: bytes, reply: Reply, seconds: float) -> None:
        """One review was answered; `seconds` is what it took to judge."""

    def refused(self, reason: str) -> None:
        """A request was refused before its body was decoded."""


class Elsewhere(Protocol):
    """What other replicas know of the writes on their way. `now` as review() takes it."""

    def lacks(self, key: JoinKey, now: float) -> bool:
        """Whether it has to be fetched: it is not known here already."""

    async def fetch(self, key: JoinKey, now: float) -> None:
        """Put it where review() finds it. Never raises, and takes 20 ms at most."""


class AdmissionHandler:
    """Answers POST /intent, /mutate and /outcome."""

    def __init__(
        self,
        dependencies: Callable[[], Dependencies],
        observer: Observer,
        limits: Limits,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """`dependencies` is asked at each request: they are replaced when the cluster changes."""
        self._elsewhere: Final = elsewhere
        self._dependencies: Final = dependencies
        self._observer: Final = observer
        self._limits: Final = limits
        self._budget: Final = BodyBudget(limits.body_bytes_in_flight)
        self._turns: Final = Turns(limits)
        self.draining = False
        self.last_request = time.monotonic()

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        """Answer one HTTP request."""
        connection = request.protocol
        if isinstance(connection, Connection):
            connection.headers_complete()
        try:
            response = await self._answer(request)
        except BadRequestError as error:
            self._observer.refused(error.code)
            response = _refusal(error.status, error.code, str(error))
            if isinstance(error, OverloadedError):
                response.headers.update(RETRY_AFTER)
            else:
                response.force_close()  # what is left of the body is not read
        finally:
            if isinstance(connection, Connection):
                connection.request_done()
        if not isinstance(response, ReadyAnswer) and not self._stays_open(request):
            response.force_close()
        return response

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        phase = PHASES.get(request.raw_path.partition("?")[0])
        if phase is None:
            self._observer.refused("unknown_path")
            return _refusal(404, "unknown_path", "POST /intent, /mutate or /outcome")
        if request.method != "POST":
            self._observer.refused("wrong_method")
            refusal = _refusal(405, "wrong_method", "send an AdmissionReview with POST")
            refusal.headers["Allow"] = "POST"
            return refusal
        body = await read_body(request, self._budget, self._limits.body_seconds)
        begun = self.last_request = time.monotonic()
        if len(body) > LARGE_BYTES:
            reply, waited = await self._review_large(body, phase, begun)
        elif self._elsewhere is None:
            reply, waited = review(body, phase, self._dependencies(), begun, at=time.time()), 0.0
        else:
            reply, waited = await self._review(body, phase, self._dependencies(), _at_once)
        self._observer.answered(phase, body, reply, time.monotonic() - begun - waited)
        if reply.status == HTTPStatus.OK and self._stays_open(request):
            return ReadyAnswer(reply.body)
        return web.Response(body=reply.body, status=reply.status, content_type="application/json")

    async def _review_large(self, body: bytes, phase: Phase, came: float) -> tuple[Reply, float]:
        async with self._turns.turn(len(body)):
            waited = time.monotonic() - came
            deps = for_thread(self._dependencies())
            reply, asked = await self._review(body, phase, deps, asyncio.to_thread)
        return reply, waited + asked

    async def _review(
        self, body: bytes, phase: Phase, deps: Dependencies, run: "_Run"
    ) -> tuple[Reply, float]:
        """review() in its steps, and the seconds spent on what another replica knows."""
        now, waited, elsewhere = time.monotonic(), 0.0, self._elsewhere
        request = await run(decode, body)
        if isinstance(request, Reply):
            return request, waited
        key = None if elsewhere is None else await run(awaited_intent, request, phase, deps)
        if elsewhere is not None and key is not None and elsewhere.lacks(key, now):
            began = time.monotonic()
            await elsewhere.fetch(key, now)
            waited = time.monotonic() - began
        return await run(judge, request, phase, deps, now, at=time.time()), waited

    def _stays_open(self, request: web.BaseRequest) -> bool:
        """Connections outlive endpoint and certificate: only a closed one is made anew."""
        connection = request.protocol
        outdated = isinstance(connection, Connection) and connection.outdated
        return request.keep_alive and not outdated and not self.draining


class _Run(Protocol):
    """Calls a function, here or in a thread."""

    def __call__(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]: ...


async def _at_once(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    return function(*args, **kwargs)


def _refusal(status: int, code: str, message: str) -> web.Response:
    body = encode_refusal(message, "", code)
    return web.Response(body=body, status=status, content_type="application/json")
