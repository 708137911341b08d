"""Connections of a port, with the deadlines and the cap that aiohttp leaves out.

aiohttp waits for ever for the rest of a request's headers (aio-libs/aiohttp#13681), and for a
client that does not read its answer. So a client that sends a byte a minute, or reads none, holds a
connection for nothing. Here aiohttp's protocol is wrapped in one that knows what a connection is
waiting for and until when, and each port has a cap on how many connections exist.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Final, cast

from aiohttp import web

from webhook.admission.encode import encode_refusal
from webhook.server.clients import Clients
from webhook.server.lag import LoopLag
from webhook.telemetry.logs import LOGGER

_SWEEP_SECONDS: Final = 1.0
_NEVER: Final = float("inf")
_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*\r\n", re.IGNORECASE)
_MOST_HEADS: Final = 32
"""Requests that aiohttp parses ahead of the one that it answers."""
_FAILED: Final = encode_refusal("genguard failed; its log says where", "", "internal")


@dataclass(frozen=True, slots=True)
class PortLimits:
    """Seconds and counts of one port.

    connections  at once, TLS handshakes included
    headers      seconds from the connection, or from a request's first byte, to whole headers
    idle         seconds without a request until a connection is closed
    spare        connections more where all others are busy: see Connection.is_spare
    makes_room   the connection that has waited longest for its client gives way to a new one
    """

    connections: int
    headers: float
    idle: float
    spare: int = 0
    makes_room: bool = False


class State(Enum):
    """What a connection is waiting for."""

    HEADERS = auto()  # the rest of a request's headers
    ANSWER = auto()  # our answer, which has deadlines of its own
    REQUEST = auto()  # the next request, or the client that has to read its answer


class Connection(asyncio.Protocol):
    """One connection: aiohttp's protocol, and what it is waiting for."""

    def __init__(self, http: "Http", connections: "OpenConnections") -> None:
        http.connection = self
        self._http: Http | None = http
        self._connections: Final = connections
        self._transport: asyncio.Transport | None = None
        self._epoch: Final = connections.epoch
        self.state = State.HEADERS
        self.since = connections.now()
        """When this state began, on the loop's clock."""
        self.due = _NEVER
        """When the sweep drops it, on the loop's clock."""
        self.arrived = 0.0
        """When the latest bytes came at the earliest, on the clock of time.monotonic."""
        self.is_stranger = False
        """Whether its peer has a good certificate of a name that is not allowed."""
        self.is_spare = False
        """Whether it is over the cap: it is told so, unless it is a probe."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is over; from now on headers are due."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by its methods
        self._wait(State.HEADERS, self._connections.limits.headers)
        self._connections.add(self)
        clients = self._connections.clients
        self.is_stranger = clients is not None and not clients.knows(transport)
        if self._http is not None:
            self._http.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._connections.discard(self)
        http, self._http = self._http, None  # or each would keep the other in memory
        if http is not None:
            http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Start the clock when a request begins on a connection that was idle."""
        self.arrived = self._connections.lag.before_last
        if self.state is State.REQUEST:
            self._wait(State.HEADERS, self._connections.limits.headers)
        for piece in _pieces(data):
            if self._http is not None:
                self._http.data_received(piece)

    def eof_received(self) -> None:
        """As asyncio.Protocol: the transport closes."""
        if self._http is not None:
            self._http.eof_received()

    def pause_writing(self) -> None:
        """As asyncio.Protocol."""
        if self._http is not None:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        """As asyncio.Protocol."""
        if self._http is not None:
            self._http.resume_writing()

    def headers_complete(self) -> None:
        """Called when a request is handled: from now on its handler looks at the time."""
        self.state, self.due = State.ANSWER, _NEVER

    def request_done(self) -> None:
        """Called when a request is handled to the end: its answer has to be read."""
        limits = self._connections.limits
        # aiohttp closes after `idle` a connection whose answers have been read.
        self._wait(State.REQUEST, limits.idle + limits.headers)

    def _wait(self, state: State, seconds: float) -> None:
        self.state, self.since = state, self._connections.now()
        self.due = self.since + seconds

    @property
    def outdated(self) -> bool:
        """Began under a certificate that is no longer served: to be closed after its answer."""
        return self._epoch != self._connections.epoch

    def close_gently(self) -> None:
        """Close the connection once what was written to it is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Drop the connection without a word; it no longer counts."""
        self._connections.discard(self)
        if self._transport is not None:
            self._transport.abort()


def _pieces(data: bytes) -> Iterable[bytes]:
    """Cut data behind the head of each request, where more than one request may be in it.

    aiohttp forgets a request that it has parsed when what follows in the same piece is no HTTP.
    What an API server sends is one request, and is not cut.
    """
    end = data.find(_HEAD_END)
    if end < 0:
        return (data,)
    end += len(_HEAD_END)
    declared = _LENGTH.search(data, 0, end)
    is_one = declared is not None and len(data) - end <= int(declared[1])
    return (data,) if is_one else _cut(data)


def _cut(data: bytes) -> Iterator[bytes]:
    """Pieces that end with the head of a request.

    A request in chunks is not cut: a fault in them is refused at once where they come with their
    head, and otherwise with the deadline of the body.
    """
    start = 0
    for _ in range(_MOST_HEADS):
        end = data.find(_HEAD_END, start)
        if end < 0 or b"transfer-encoding" in data[start:end].lower():
            break
        yield data[start : end + len(_HEAD_END)]
        start = end + len(_HEAD_END)
    if start < len(data):
        yield data[start:]


class Http(web.RequestHandler):
    """aiohttp's protocol of one connection, which answers what is no HTTP in words of our own."""

    __slots__ = ("_on_drop", "connection")

    connection: Connection

    def __init__(self, server: web.Server, on_drop: Callable[[str], None], **kwargs: Any) -> None:
        super().__init__(server, auto_decompress=False, **kwargs)
        self._on_drop: Final = on_drop

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
            self._on_drop("client_left")
            raise exc  # in the middle of its request: there is nobody to answer
        if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            self._on_drop("bad_http")
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


def connection_of(request: web.BaseRequest) -> Connection:
    """The connection that a request came over."""
    return cast(Http, request.protocol).connection  # no port has another protocol


class OpenConnections:
    """The open connections of one port; drops those that are overdue."""

    def __init__(
        self,
        limits: PortLimits,
        on_drop: Callable[[str], None],
        lag: LoopLag,
        clients: Clients | None = None,
    ) -> None:
        """`clients`: who may talk; without, everybody."""
        self.limits: Final = limits
        self.lag: Final = lag
        self.clients: Final = clients
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
        return any(one.state is State.ANSWER for one in self._open)

    def now(self) -> float:
        """The loop's clock."""
        return self._loop.time()

    def add(self, connection: Connection) -> None:
        """Take in a new connection."""
        connection.is_spare = len(self._open) >= self.limits.connections
        self._open.add(connection)

    def discard(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._open.discard(connection)

    def oldest_waiting(self) -> Connection | None:
        """The connection that has waited longest for its client; None: all are being answered."""
        waiting = [one for one in self._open if one.state is not State.ANSWER]
        return min(waiting, key=lambda one: one.since, default=None)

    def retire(self) -> None:
        """Have every connection of now closed after its next answer, none of them in between."""
        self.epoch += 1

    def close_idle(self, before: float) -> None:
        """Close connections whose last request came before a time, on the clock of time.monotonic.

        Those that are waiting for an answer, or have begun a request, stay.
        """
        idle = [one for one in self._open if one.state is State.REQUEST]
        for connection in [one for one in idle if one.arrived < before]:
            connection.close_gently()

    def close(self) -> None:
        """Stop looking for overdue ones."""
        self._sweep.cancel()

    def _drop_overdue(self) -> None:
        # Not now: a process that stood still has not read yet what was sent to it in time.
        awake = self.lag.before_last
        for connection in [one for one in self._open if one.due < awake]:
            slow = "slow-headers" if connection.state is State.HEADERS else "slow-reader"
            self.on_drop(slow)
            connection.abort()
        self._sweep = self._loop.call_later(_SWEEP_SECONDS, self._drop_overdue)
