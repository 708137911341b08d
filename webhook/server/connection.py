"""The connections of a port: how many there may be, and until when each may be silent.

aiohttp waits for ever for the rest of a request's headers (aio-libs/aiohttp#13681), and for a
client that does not read its answer. Here each connection has one deadline, for what it waits for
at the moment, and those that are overdue are dropped.

asyncio's server hands a connection over after the TLS handshake: clients that never begin one would
hold descriptors that nobody counts. So connections are accepted and counted here, before asyncio
has them.
"""

import asyncio
import errno
import math
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final, cast

from aiohttp import web

from genguard.admission.encode import encode_rejection
from webhook.server.certificate import Clients
from webhook.server.options import KEEPALIVE_SECONDS, Limits
from webhook.server.overload import LoopLag
from webhook.telemetry.logs import LOGGER

TOO_MANY: Final = "too-many-connections"
_PAUSE_SECONDS: Final = 1.0
"""Until connections are accepted again where no descriptor was left."""
_FAILED: Final = encode_rejection("genguard failed; its log says where", "", "internal")


class Connection(web.RequestHandler):
    """One connection: aiohttp's protocol with a deadline. Times are those of time.monotonic.

    handshake     the TLS handshake, until it is over
    arrived       when the latest bytes came at the earliest; 0.0 before the first
    since         when it began to wait for its client
    deadline      when it is dropped
    is_answering  whether a request is being handled, which has a deadline of its own
    has_begun     whether bytes of a request came that is not being handled yet
    is_spare      whether it is over the cap: it is answered with 503, unless it is a probe
    is_untrusted  whether its client has a good certificate, but of a name that is not allowed
    """

    def __init__(self, port: "Port") -> None:
        super().__init__(
            port.server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=port.idle_seconds,
            access_log=None,  # type: ignore[arg-type] # its default is no logger for all that
            max_headers=64,
            auto_decompress=False,
        )
        self._port: Final = port
        self._epoch: Final = port.epoch
        self.handshake: asyncio.Task[None] | None = None
        self.arrived = 0.0
        self.since = time.monotonic()
        self.deadline = math.inf
        self.is_answering = self.has_begun = False
        self.is_spare = self.is_untrusted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the headers of a request: the TLS handshake is over."""
        clients = self._port.clients
        self.is_untrusted = clients is not None and not clients.allows(transport)
        super().connection_made(transport)
        self._wait(self._port.header_seconds)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection."""
        self._port.connections.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note when a request begins."""
        self.arrived = self._port.lag.before_last
        if not self.is_answering and not self.has_begun:
            self.has_begun = True
            self._wait(self._port.header_seconds)
        super().data_received(data)

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
            self._port.on_drop("client_left")
            raise exc  # in the middle of its request: there is nobody to answer
        if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            self._port.on_drop("bad_http")
            LOGGER.warning("bad http", extra={"fields": {"error": type(exc).__name__}})
            body = encode_rejection("this is no HTTP/1.1 request", "", "bad_http")
        else:
            LOGGER.error("handler failed", exc_info=exc)
            body = _FAILED
        if request.writer.output_size > 0:
            raise ConnectionError("a part of another answer is sent already")
        response = web.Response(status=status, body=body, content_type="application/json")
        response.force_close()
        return response

    def headers_complete(self) -> None:
        """Stop this deadline: a request is being handled, and its handler has one itself."""
        self.is_answering, self.has_begun, self.deadline = True, False, math.inf

    def request_done(self) -> None:
        """Begin to wait for the client to read the answer, and for its next request."""
        self.is_answering = False
        # aiohttp closes after `idle` a connection whose answers have been read.
        self._wait(self._port.idle_seconds + self._port.header_seconds)

    def _wait(self, seconds: float) -> None:
        self.since = time.monotonic()
        self.deadline = self.since + seconds

    @property
    def has_request(self) -> bool:
        """Whether bytes of a request came that is not answered yet."""
        return self.is_answering or self.has_begun

    @property
    def is_alone(self) -> bool:
        """Whether no other connection of the port has begun a request that is not answered."""
        return not any(each.has_request for each in self._port.connections - {self})

    @property
    def outdated(self) -> bool:
        """Whether it began under a certificate that is no longer served."""
        return self._epoch != self._port.epoch

    def abort(self) -> None:
        """Drop the connection at once; it no longer counts."""
        self._port.connections.discard(self)
        if self.handshake is not None:
            self.handshake.cancel()
        if self.transport is not None:
            self.transport.abort()


def connection_of(request: web.BaseRequest) -> Connection:
    """The connection that a request came over: no port has another protocol."""
    return cast(Connection, request.protocol)


class Port:
    """A port that listens, and its open connections; drops those that are overdue."""

    def __init__(
        self,
        server: web.Server,
        limits: Limits,
        lag: LoopLag,
        on_drop: Callable[[str], None],
        *,
        context: ssl.SSLContext | None = None,
        clients: Clients | None = None,
        is_ops: bool = False,
    ) -> None:
        """`server` handles the requests; without `context` connections are plain, without TLS.

        on_drop  takes the reason for which a connection or request is dropped
        clients  those that are allowed; None allows everybody
        is_ops   the ops port: the connection that has waited longest for its client is closed for a
                 new one, and where all are busy some more are open for probes
        """
        self.server: Final = server
        self._limits: Final = limits
        self._is_ops: Final = is_ops
        self._most: Final = limits.ops_connections if is_ops else limits.connections
        self._spare: Final = limits.ops_spare if is_ops else 0
        self.header_seconds: Final = limits.ops_header_seconds if is_ops else limits.header_seconds
        self.idle_seconds: Final = limits.ops_idle_seconds if is_ops else KEEPALIVE_SECONDS
        self.lag: Final = lag
        self.on_drop: Final = on_drop
        self.context: Final = context
        self.clients: Final = clients
        self.epoch = 0
        self.number = 0
        """The number of the port; of several addresses that of the first."""
        self.connections: Final[set[Connection]] = set()
        self._listening: Final[list[asyncio.Task[None]]] = []
        self._loop: Final = asyncio.get_running_loop()

    async def open(self, host: str, port: int) -> None:
        """Listen on all addresses of `host`. Raises OSError when one is taken."""
        found = await self._loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, _, _, _, address in dict.fromkeys(found):
            sock = socket.create_server(address, family=family, backlog=self._limits.backlog)
            sock.settimeout(0)
            self._listening.append(asyncio.create_task(self._accept(sock)))
            self.number = self.number or sock.getsockname()[1]

    async def _accept(self, listening: socket.socket) -> None:
        """Accept one connection in each pass of the event loop."""
        with listening:
            while True:
                try:
                    accepted, _ = await self._loop.sock_accept(listening)
                except ConnectionError:  # the client has gone
                    continue
                except OSError as error:  # no descriptor is left
                    fields = {"error": type(error).__name__, "action": "raise ulimit -n"}
                    LOGGER.error("no connection can be accepted", extra={"fields": fields})
                    await asyncio.sleep(_PAUSE_SECONDS)
                else:
                    self._take(accepted)
                    await asyncio.sleep(0)

    def _take(self, accepted: socket.socket) -> None:
        """Begin the TLS handshake of a connection."""
        connection = self._admit()
        if connection is None:
            accepted.close()
            return

        def end(handshake: asyncio.Task[None]) -> None:
            connection.handshake = None
            if handshake.cancelled():
                connection.connection_lost(None)
                accepted.close()

        connection.handshake = asyncio.create_task(self._begin(connection, accepted))
        connection.handshake.add_done_callback(end)

    async def _begin(self, connection: Connection, accepted: socket.socket) -> None:
        seconds = None if self.context is None else self._limits.handshake_seconds
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection, accepted, ssl=self.context, ssl_handshake_timeout=seconds
            )
        except OSError as error:  # the client has gone, or speaks no TLS, or is too slow for it
            connection.connection_lost(error)
            if self.clients is not None:
                self.clients.refuse_handshake(error)

    def close(self) -> None:
        """Accept no more. Connections that are open stay, those in their handshake do not."""
        for task in self._listening:
            task.cancel()
        for each in [each for each in self.connections if each.handshake is not None]:
            each.abort()

    @property
    def is_serving(self) -> bool:
        """Whether new connections are accepted."""
        return bool(self._listening) and not any(
            each.done() or each.cancelling() for each in self._listening
        )

    @property
    def busy(self) -> bool:
        """Whether some request is being handled."""
        return any(each.is_answering for each in self.connections)

    def _admit(self) -> Connection | None:
        """Make a connection, for which another one may be dropped; None: it is one too many.

        A handshake always gives way: it takes milliseconds, unless its client lets it hang.
        """
        if len(self.connections) >= self._most:
            giving_way = [
                each
                for each in self.connections
                if each.handshake is not None or (self._is_ops and not each.is_answering)
            ]
            if giving_way:
                self.on_drop(TOO_MANY)
                min(giving_way, key=lambda each: each.since).abort()
            elif len(self.connections) >= self._most + self._spare:
                self.on_drop(TOO_MANY)
                return None
        connection = Connection(self)
        connection.is_spare = len(self.connections) >= self._most
        self.connections.add(connection)
        return connection

    def retire(self) -> None:
        """Have every present connection closed after its next answer."""
        self.epoch += 1

    def close_idle(self, before: float) -> None:
        """Close connections whose last request came before a time.

        Those that are waiting for an answer, or have begun a request, stay.
        """
        for each in list(self.connections):
            is_idle = 0.0 < each.arrived < before and not each.has_request
            if is_idle and each.transport is not None:
                each.transport.close()  # once what was written to it is sent

    def drop_overdue(self) -> None:
        """Drop connections that are past their deadline; to be called again and again."""
        # Not now: a process that stood still has not read yet what was sent to it in time.
        read_until = self.lag.before_last
        for each in [each for each in self.connections if each.deadline < read_until]:
            if each.has_begun:
                self.on_drop("slow-headers")
            elif each.arrived:
                self.on_drop("slow-reader")
            # else no byte ever came: Go's clients, the API server's too, open connections ahead
            each.abort()


class ListenError(OSError):
    """An address or a port cannot be listened on; the message names its flag."""


@contextmanager
def naming_flags(address: tuple[str, str], port: tuple[str, int]) -> Iterator[None]:
    """Say which flag gives an address or port that cannot be had.

    Each is the flag with its value. Raises ListenError.
    """
    try:
        yield
    except OSError as error:
        at: tuple[str, object] = port
        step = f"; give another {port[0]}"
        reason = os.strerror(error.errno) if error.errno else str(error)
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            at, step = address, ""
            reason = reason if error.errno == errno.EADDRNOTAVAIL else "no such name or address"
        elif error.errno == errno.EADDRINUSE:
            step += f", or end the program that has it: ss -ltnp 'sport = :{port[1]}'"
        raise ListenError(f"{at[0]} {at[1]}: {reason}{step}") from error
