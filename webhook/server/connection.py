"""The connections of a port: how they are accepted, their deadlines, and how many there may be.

aiohttp waits for ever for the rest of a request's headers (aio-libs/aiohttp#13681), and for a
client that does not read its answer. So a client that sends a byte a minute, or reads none, holds a
connection for nothing. Here aiohttp's protocol is wrapped in another one, which knows what a
connection is waiting for and until when.

asyncio's own server hands a connection to its protocol after the TLS handshake. A client that never
begins the handshake is unknown until then and holds a descriptor, as many as it likes. Here
connections are accepted one by one, so that those in their handshake count as well.
"""

import asyncio
import errno
import os
import re
import socket
import ssl
import time
from asyncio import sslproto
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from http import HTTPStatus
from typing import Any, Final, cast

from aiohttp import web

from genguard.admission.encode import encode_refusal
from webhook.server.clients import Clients
from webhook.server.limits import TLS_BUFFER_BYTES
from webhook.server.overload import LoopLag
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER

TOO_MANY: Final = "too-many-connections"
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
    spare        more connections where all others are busy: see Connection.is_spare
    makes_room   the connection that has waited longest for its client is closed for a new one
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
    """One connection: aiohttp's protocol, and what the connection is waiting for."""

    def __init__(self, http: "Http", connections: "OpenConnections") -> None:
        http.connection = self
        self._http: Http | None = http
        self._connections: Final = connections
        self._limits: Final = connections.limits
        self._transport: asyncio.Transport | None = None
        self._epoch: Final = connections.epoch
        self.state = State.HEADERS
        self.since = time.monotonic()
        """When this state began, on the clock of time.monotonic, as all times here."""
        self.due = _NEVER
        """When the sweep drops the connection."""
        self.arrived = 0.0
        """When the latest bytes came at the earliest."""
        self.is_untrusted = False
        """Whether its client has a good certificate, but of a name that is not allowed."""
        self.is_spare = False
        """Whether it is over the cap: it is answered with 503, unless it is a probe."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the headers of a request: the TLS handshake is over."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by its methods
        self._wait(State.HEADERS, self._limits.headers)
        self._connections.add(self)
        clients = self._connections.clients
        self.is_untrusted = clients is not None and not clients.allows(transport)
        if self._http is not None:
            self._http.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._connections.discard(self)
        http, self._http = self._http, None  # or each would keep the other in memory
        if http is not None:
            http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Hand data to aiohttp, cut into requests where it may hold more than one.

        aiohttp forgets a request that it has parsed when what follows in the same piece is no HTTP.
        What an API server sends is one request, and is not cut.
        """
        self.arrived = self._connections.lag.before_last
        if self.state is State.REQUEST:
            self._wait(State.HEADERS, self._limits.headers)
        http = self._http
        if http is None:
            return
        end = data.find(_HEAD_END) + len(_HEAD_END)
        if end < len(_HEAD_END):
            http.data_received(data)
            return
        length = _LENGTH.search(data, 0, end)
        if length is not None and len(data) - end <= int(length[1]):
            http.data_received(data)
            return
        for piece in _cut(data):
            if self._http is not None:  # aiohttp may have closed the connection in between
                http.data_received(piece)

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
        """Stop this deadline: a request is being handled, and its handler has deadlines itself."""
        self.state, self.due = State.ANSWER, _NEVER

    def request_done(self) -> None:
        """Begin to wait for the client to read the answer, and for its next request."""
        # aiohttp closes after `idle` a connection whose answers have been read.
        self._wait(State.REQUEST, self._limits.idle + self._limits.headers)

    def _wait(self, state: State, seconds: float) -> None:
        self.state, self.since = state, time.monotonic()
        self.due = self.since + seconds

    @property
    def is_alone(self) -> bool:
        """Whether no other connection of the port has begun a request that is not answered."""
        return self._connections.has_no_request_beside(self)

    @property
    def has_request(self) -> bool:
        """Whether bytes of a request came that is not answered yet."""
        return self.state is State.ANSWER or (self.state is State.HEADERS and self.arrived > 0.0)

    @property
    def outdated(self) -> bool:
        """Whether it began under a certificate that is no longer served."""
        return self._epoch != self._connections.epoch

    def close_gently(self) -> None:
        """Close the connection once what was written to it is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Drop the connection at once; it no longer counts."""
        self._connections.discard(self)
        if self._transport is not None:
            self._transport.abort()


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
    protocol: Http = request.protocol  # type: ignore[assignment] # no port has another protocol
    return protocol.connection


class OpenConnections:
    """The open connections of one port; drops those that are overdue."""

    def __init__(
        self,
        limits: PortLimits,
        on_drop: Callable[[str], None],
        lag: LoopLag,
        clients: Clients | None = None,
    ) -> None:
        """`clients` are those that are allowed; None allows everybody."""
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
        """Whether some request has begun and is not answered."""
        return any(each.state is State.ANSWER for each in self._open)

    def has_no_request_beside(self, connection: Connection) -> bool:
        """Whether every other connection waits for its client."""
        return not any(each.has_request for each in self._open if each is not connection)

    def add(self, connection: Connection) -> None:
        """Take in a new connection."""
        connection.is_spare = len(self._open) >= self.limits.connections
        self._open.add(connection)

    def discard(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._open.discard(connection)

    def oldest_waiting(self) -> Connection | None:
        """The connection that has waited longest for its client; None where each is answered."""
        waiting = [each for each in self._open if each.state is not State.ANSWER]
        return min(waiting, key=lambda each: each.since, default=None)

    def retire(self) -> None:
        """Have every present connection closed after its next answer."""
        self.epoch += 1

    def close_idle(self, before: float) -> None:
        """Close connections whose last request came before a time.

        Those that are waiting for an answer, or have begun a request, stay.
        """
        for each in list(self._open):
            if each.state is State.REQUEST and each.arrived < before:
                each.close_gently()

    def close(self) -> None:
        """Stop looking for connections that are overdue."""
        self._sweep.cancel()

    def _drop_overdue(self) -> None:
        # Not now: a process that stood still has not read yet what was sent to it in time.
        read_until = self.lag.before_last
        for each in [each for each in self._open if each.due < read_until]:
            if each.state is State.REQUEST:
                self.on_drop("slow-reader")
            elif each.has_request:
                self.on_drop("slow-headers")
            # else no byte ever came: Go's clients, the API server's too, open connections ahead
            each.abort()
        self._sweep = self._loop.call_later(_SWEEP_SECONDS, self._drop_overdue)


_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_FULL_SECONDS: Final = 1.0
_OF_CLIENT: Final = frozenset(
    {
        errno.ECONNABORTED,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENOPROTOOPT,
        errno.EPROTO,
        errno.ETIMEDOUT,
    }
)
"""Errors of a connection that is not accepted (man 2 accept); the next one may be good."""


class ListenError(OSError):
    """An address or a port cannot be listened on; the message names its flag."""


@contextmanager
def naming_flags(address: tuple[str, str], port: tuple[str, int]) -> Iterator[None]:
    """Say which flag gives an address or port that cannot be had.

    Each is the flag with its value. Raises ListenError.
    """
    try:
        yield
    except socket.gaierror as error:
        text = "no such name or address"
        raise ListenError(f"{address[0]} {address[1]}: {text}") from error
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        if error.errno == errno.EADDRNOTAVAIL:
            raise ListenError(f"{address[0]} {address[1]}: {reason}") from error
        step = f"give another {port[0]}"
        if error.errno == errno.EADDRINUSE:
            step += f", or end the program that has it: ss -ltnp 'sport = :{port[1]}'"
        raise ListenError(f"{port[0]} {port[1]}: {reason}; {step}") from error


class _Place:
    """An address on which a port listens, and its socket; a new one once that is of no more use."""

    def __init__(self, family: int, address: tuple[Any, ...], backlog: int) -> None:
        self._family: Final = family
        self._backlog: Final = backlog
        self.address = address
        self.listening: socket.socket | None = None

    def listen(self) -> socket.socket:
        """Return the socket that listens. Raises OSError when the address is taken."""
        if self.listening is None:
            self.listening = socket.create_server(
                self.address, family=self._family, backlog=self._backlog
            )
            self.listening.setblocking(False)  # noqa: FBT003 - takes no name
            self.address = self.listening.getsockname()  # with the port, where any was asked for
        return self.listening


class Listener:
    """Accepts the connections of one port.

    A socket that accepts no more is a failure of its task: the supervisor logs and shows it, and
    starts the task again, with a new socket.
    """

    def __init__(
        self,
        server: web.Server,
        connections: OpenConnections,
        context: ssl.SSLContext | None,
        handshake_seconds: float,
        *,
        name: str,
        supervisor: Supervisor,
    ) -> None:
        """`server` handles the requests; without `context` connections are plain, without TLS.

        `name` is that of the port, for its tasks.
        """
        self._server: Final = server
        self._connections: Final = connections
        self._context: Final = context
        self._handshake_seconds: Final = handshake_seconds
        self._name: Final = name
        self._supervisor: Final = supervisor
        self._loop: Final = asyncio.get_running_loop()
        self._places: Final[dict[str, _Place]] = {}
        """By the name of the task that accepts there."""
        self._handshakes: Final[dict[asyncio.Task[None], float]] = {}
        """When each began, oldest first."""
        self.port = 0

    async def open(self, host: str, port: int, backlog: int) -> None:
        """Listen on all addresses of `host`. Raises OSError when one is taken."""
        found = await self._loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, _, _, _, address in dict.fromkeys(found):
            place = _Place(family, address, backlog)
            place.listen()
            self.port = self.port or place.address[1]
            name = f"{self._name} {place.address[0]}"
            self._places[name] = place
            self._supervisor.start(name, partial(self._accept, place))

    @property
    def is_serving(self) -> bool:
        """Whether new connections are accepted, on each address."""
        return bool(self._places) and all(one.listening for one in self._places.values())

    async def close(self) -> None:
        """Accept no more; connections that are open stay."""
        if self._places:
            await self._supervisor.end(tuple(self._places))
        ending = list(self._handshakes)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _accept(self, place: "_Place") -> None:
        """Accept connections. Raises OSError when the socket is of no more use."""
        with place.listen() as listening:
            try:
                while True:
                    await self._accept_next(listening)
                    await asyncio.sleep(0)  # many that come at once keep nobody else waiting
            finally:
                place.listening = None

    async def _accept_next(self, listening: socket.socket) -> None:
        try:
            accepted, _ = await self._loop.sock_accept(listening)
        except OSError as error:
            if error.errno in _FULL:
                facts = {"error": errno.errorcode[error.errno], "action": "raise ulimit -n"}
                LOGGER.error("no connection can be accepted", extra={"facts": facts})
                await asyncio.sleep(_FULL_SECONDS)
            elif error.errno not in _OF_CLIENT:
                raise
            return
        if self._has_room():
            handshake = asyncio.create_task(self._connect(accepted))
            self._handshakes[handshake] = time.monotonic()
            handshake.add_done_callback(self._forget)
        else:
            self._connections.on_drop(TOO_MANY)
            accepted.close()

    def _has_room(self) -> bool:
        """Whether one more connection may be; may drop another for it.

        A handshake always gives way: it takes milliseconds, unless its client lets it hang.
        """
        limits = self._connections.limits
        count = len(self._connections) + len(self._handshakes)
        if count < limits.connections:
            return True
        waiting = self._connections.oldest_waiting() if limits.makes_room else None
        handshake, began = next(iter(self._handshakes.items()), (None, 0.0))
        if handshake is not None and (waiting is None or began < waiting.since):
            self._handshakes.pop(handshake)
            handshake.cancel()
        elif waiting is not None:
            waiting.abort()
        else:
            return count < limits.connections + limits.spare
        self._connections.on_drop(TOO_MANY)
        return True

    def _forget(self, handshake: asyncio.Task[None]) -> None:
        self._handshakes.pop(handshake, None)

    async def _connect(self, accepted: socket.socket) -> None:
        with suppress(OSError):  # the client has gone, or speaks no TLS, or is too slow for it
            if self._context is None:
                await self._loop.connect_accepted_socket(self._protocol, accepted)
            elif isinstance(self._loop, asyncio.SelectorEventLoop):
                await self._connect_with_small_buffer(accepted, self._context)
            else:
                await self._loop.connect_accepted_socket(
                    self._protocol,
                    accepted,
                    ssl=self._context,
                    ssl_handshake_timeout=self._handshake_seconds,
                )

    async def _connect_with_small_buffer(
        self, accepted: socket.socket, context: ssl.SSLContext
    ) -> None:
        """As asyncio's connect_accepted_socket with `ssl`, but for the size of the buffer."""
        shaken = self._loop.create_future()
        tls = _SmallBufferTLS(
            self._loop,
            self._protocol(),
            context,
            shaken,
            server_side=True,
            ssl_handshake_timeout=self._handshake_seconds,  # type: ignore[arg-type] # any number
        )
        transport, _ = await self._loop.connect_accepted_socket(lambda: tls, accepted)
        try:
            await shaken
        except BaseException:
            transport.close()
            raise

    def _protocol(self) -> Connection:
        """Make the protocol of one connection."""
        http = Http(
            self._server,
            self._connections.on_drop,
            loop=self._loop,
            keepalive_timeout=self._connections.limits.idle,
            access_log=None,
            max_headers=64,
        )
        return Connection(http, self._connections)


class _SmallBufferTLS(sslproto.SSLProtocol):
    """asyncio's TLS with a buffer of two records instead of 256 KiB; uvloop's touches no more."""

    max_size = TLS_BUFFER_BYTES
