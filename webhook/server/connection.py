"""One connection of the admission port, with the deadlines that aiohttp leaves out.

aiohttp waits for ever for the rest of a request's headers (aio-libs/aiohttp#13681), so a client
that sends a byte a minute holds a connection for nothing. Here a connection that has begun, or
has begun a request, must have sent whole headers within a deadline, and there is a cap on how
many connections exist.

An ordinary review is answered as soon as it is whole, together with all that came in the same turn
of the event loop. aiohttp's own way makes a task of each request, which the event loop comes to two
rounds later: that costs as much as judging it.
"""

import asyncio
from collections.abc import Callable, Generator
from http import HTTPStatus
from typing import Any, Final, Protocol, cast

from aiohttp import StreamReader, web
from aiohttp.http_parser import RawRequestMessage

from webhook.admission.encode import encode_refusal
from webhook.server.answer import whole_answer
from webhook.server.clients import Clients
from webhook.server.in_step import Steps, Together
from webhook.server.lag import LoopLag
from webhook.server.limits import Limits
from webhook.telemetry.logs import LOGGER

_SWEEP_SECONDS: Final = 1.0
_REST_SECONDS: Final = 0.005
_SOON_BYTES: Final = 32 * 1024
"""Head and body of a request are sent one after the other: a third of those that the bench sends is
read in two pieces, the second a moment after the first. So much is waited for, and so long."""
_FAILED: Final = encode_refusal("genguard failed; its log says where", "", "internal")


class Handler(Protocol):
    """Answers requests."""

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        """The response to a request."""

    def steps(
        self, message: RawRequestMessage, payload: StreamReader, connection: "Connection"
    ) -> Generator[None, None, bytes | None]:
        """To a whole answer; None for a request that takes more, which is then handed to a call."""


class Connection(web.RequestHandler):
    """aiohttp's protocol, which tells its server when a request begins and when it is handled."""

    __slots__ = (
        "_clients",
        "_connections",
        "_epoch",
        "_handler",
        "_patience",
        "_real_transport",
        "_together",
        "arrived",
        "due",
        "is_stranger",
        "read_ahead",
    )

    def __init__(self, server: "AdmissionServer", **kwargs: Any) -> None:
        super().__init__(server, **kwargs)
        self._connections = server.open_connections
        self._handler = server.handler
        self._clients = server.clients
        self._together = server.together
        self._real_transport: asyncio.Transport | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._epoch = self._connections.epoch
        self.due: float | None = None
        self.arrived = 0.0
        """When the latest bytes came at the earliest, on the clock of time.monotonic."""
        self.is_stranger = False
        """Whether its peer has a good certificate of a name that is not allowed."""
        self.read_ahead = b""  # the body of a request that is handed to a call after it was read

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse what is over the cap; otherwise the headers are due from now on."""
        super().connection_made(transport)
        self._real_transport = cast(asyncio.Transport, transport)  # uvloop's is one by its methods
        self._connections.add(self)
        self.is_stranger = self._clients is not None and not self._clients.knows(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection."""
        self._wait_no_longer()
        self._connections.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Start the clock when a request begins on a connection that was idle."""
        self.arrived = self._connections.lag.before_last
        if self.due is None:
            self.due = self._connections.due()
        waiter = self._waiter
        if waiter is None or waiter.done():
            super().data_received(data)  # aiohttp's start() is at work on a request
            return
        self._waiter = None  # or any request would wake it
        super().data_received(data)
        self._waiter = waiter
        if self._messages:
            # As start() does after each request; from now on, or it might still be closed as idle.
            self._next_keepalive_close_time = self._connections.now() + self._keepalive_timeout
            self._together.join(self)

    def answer(self) -> Steps:
        """Answer what has come, if that is one ordinary review; or have aiohttp answer it."""
        waiter = self._waiter
        if waiter is None or (waiter.done() and not waiter.cancelled()):
            return  # start() has been woken since
        asked = self._only_request()
        if asked is not None and _rest_comes_soon(*asked):
            if self._patience is None:
                self._patience = self._loop.call_later(_REST_SECONDS, self._hand_over)
            return
        answer = None if asked is None else (yield from self._whole_answer(*asked))
        transport, parser = self.transport, self._parser
        if answer is None or transport is None or parser is None:
            self._hand_over()
            return
        self._wait_no_longer()
        # What start() does of this after each request.
        self._messages.clear()
        parser.message_consumed()
        transport.write(answer)
        self.due = None

    def _only_request(self) -> tuple[RawRequestMessage, StreamReader] | None:
        """None where several have come, or HTTP that could not be read."""
        if len(self._messages) != 1:
            return None
        message, payload = self._messages[0]
        return (message, payload) if isinstance(message, RawRequestMessage) else None

    def _whole_answer(
        self, message: RawRequestMessage, payload: StreamReader
    ) -> Generator[None, None, bytes | None]:
        if not payload.is_eof() or self.transport is None or self.writing_paused:
            return None
        try:
            return (yield from self._handler.steps(message, payload, self))
        except Exception:  # noqa: BLE001 - as handle_error, where aiohttp catches it
            LOGGER.error("handler failed", exc_info=True)
            return whole_answer(HTTPStatus.INTERNAL_SERVER_ERROR, _FAILED)

    def _hand_over(self) -> None:
        """Wake aiohttp's start(), which goes on with what is there."""
        self._wait_no_longer()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _wait_no_longer(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002
        """Only after a pause: aiohttp's own parses nothing once more after each body."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def headers_complete(self) -> None:
        """Called by the handler: the body has its own deadline."""
        self.due = _NEVER

    def request_done(self) -> None:
        """Called by the handler: idle connections are kept for the client's reuse."""
        self.due = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer HTTP that cannot be read; aiohttp's own text repeats the line that is wrong."""
        del message
        if isinstance(exc, ConnectionError):
            self._connections.on_drop("client_left")
            raise exc  # in the middle of its request: there is nobody to answer
        if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            self._connections.on_drop("bad_http")
            LOGGER.warning("bad http", extra={"facts": {"error": type(exc).__name__}})
            body = encode_refusal("this is no HTTP/1.1 request", "", "bad_http")
        else:
            LOGGER.error("handler failed", exc_info=exc)
            body = _FAILED
        if request.writer.output_size > 0:
            raise ConnectionError("a part of another answer is sent already")
        response = web.Response(status=status, body=body, content_type="application/json")
        response.force_close()
        return response

    @property
    def outdated(self) -> bool:
        """Began under a certificate that is no longer served: to be closed after its answer."""
        return self._epoch != self._connections.epoch

    def close_gently(self) -> None:
        """Close the connection once what was written to it is sent."""
        if self._real_transport is not None:
            self._real_transport.close()

    def abort(self) -> None:
        """Drop the connection without a word."""
        if self._real_transport is not None:
            self._real_transport.abort()


def _rest_comes_soon(message: RawRequestMessage, payload: StreamReader) -> bool:
    size = message.headers.get("Content-Length", "")
    return not payload.is_eof() and size.isdecimal() and int(size) <= _SOON_BYTES


_NEVER: Final = float("inf")


class OpenConnections:
    """Every open connection; drops the ones whose headers are overdue or that are too many."""

    def __init__(self, limits: Limits, on_drop: Callable[[str], None], lag: LoopLag) -> None:
        self._limits: Final = limits
        self.lag: Final = lag
        self.on_drop: Final = on_drop
        self._open: Final[set[Connection]] = set()
        self.epoch = 0
        self._loop: Final = asyncio.get_running_loop()
        self._sweep: asyncio.TimerHandle = self._loop.call_later(_SWEEP_SECONDS, self._drop_overdue)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def busy(self) -> bool:
        """Some request has begun and is not answered."""
        return any(one.due == _NEVER for one in self._open)

    def now(self) -> float:
        """The loop's clock."""
        return self._loop.time()

    def due(self) -> float:
        """When headers that begin now must be complete, on the loop's clock."""
        return self.now() + self._limits.header_seconds

    def add(self, connection: Connection) -> None:
        """Take in a new connection, or drop it when there are too many."""
        if len(self._open) >= self._limits.connections:
            self.on_drop("too-many-connections")
            connection.abort()
            return
        connection.due = self.due()
        self._open.add(connection)

    def discard(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._open.discard(connection)

    def retire(self) -> None:
        """Have every connection of now closed after its next answer, none of them in between."""
        self.epoch += 1

    def close_idle(self, before: float) -> None:
        """Close connections whose last request came before a time, on the clock of time.monotonic.

        Those that are waiting for an answer, or have begun a request, stay.
        """
        for connection in [one for one in self._open if one.due is None and one.arrived < before]:
            connection.close_gently()

    def close(self) -> None:
        """Stop looking for overdue ones."""
        self._sweep.cancel()

    def _drop_overdue(self) -> None:
        # Not now: a process that stood still has not read yet what was sent to it in time.
        awake = self.lag.before_last
        for connection in [one for one in self._open if one.due is not None and one.due < awake]:
            self.on_drop("slow-headers")
            connection.abort()
        self._sweep = self._loop.call_later(_SWEEP_SECONDS, self._drop_overdue)


class AdmissionServer(web.Server):
    """aiohttp's low-level server making our connections: no routing table on the hot path."""

    def __init__(
        self,
        handler: Handler,
        limits: Limits,
        on_drop: Callable[[str], None],
        lag: LoopLag,
        clients: Clients | None = None,
        **kwargs: Any,
    ) -> None:
        """`clients`: who may talk; without, everybody."""
        super().__init__(handler, **kwargs)
        self.clients: Final = clients
        self._limits: Final = limits
        self.handler: Final = handler
        self.open_connections: Final = OpenConnections(limits, on_drop, lag)
        self.together: Final = Together()

    def __call__(self) -> Connection:
        """Make the protocol of one connection."""
        return Connection(self, loop=self._loop, **self._kwargs)
