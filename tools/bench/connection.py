"""One keep-alive TLS connection to a server under load: no event loop, no layer in between.

What a generator spends is taken from what it can ask for, so this sends ready bytes through an
SSL socket that never blocks, and looks at no more of an answer than it must.
"""

import select
import socket
import ssl
from typing import Final, NamedTuple

from tools.bench.template import Filled

_RECEIVED_AT_ONCE: Final = 65_536
_BUFFER: Final = 1 << 20
_HANDSHAKE_SECONDS: Final = 10.0
_STUCK_SECONDS: Final = 10.0
_END_OF_HEAD: Final = b"\r\n\r\n"
_LENGTH: Final = b"\r\ncontent-length:"
_CLOSE: Final = b"\r\nconnection: close\r\n"


class Response(NamedTuple):
    """An answer: the status as it stands in the first line, the body, whether it is the last."""

    status: bytes
    body: bytes
    closes: bool = False


class BrokenConnectionError(Exception):
    """The server closed the connection, or answered something this client does not read."""


class Connection:
    """Sends one request at a time; `receive` gives its answer once all of it is there."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        """Connect to a port of 127.0.0.1; raises OSError."""
        plain = socket.create_connection(("127.0.0.1", port), timeout=_HANDSHAKE_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A whole review fits: no request waits half sent for the server to read.
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        self._socket: Final = context.wrap_socket(plain, server_hostname="localhost")
        self._socket.setblocking(False)
        self._received = b""
        self.request: Filled | None = None
        self.due = 0.0

    def fileno(self) -> int:
        """What to wait on."""
        return self._socket.fileno()

    def send(self, request: Filled, due: float) -> None:
        """Send a request that was due at a time: latency counts from there."""
        self.request, self.due = request, due
        for part in (request.head, request.body):
            left = memoryview(part)
            while left:
                left = left[self._send(left) :]

    def _send(self, content: memoryview) -> int:
        """Send one TLS record, of 16 KiB at most; waits only for a server that does not read."""
        while True:
            try:
                return self._socket.send(content)
            except ssl.SSLWantWriteError:
                select.select((), (self._socket,), (), _STUCK_SECONDS)
            except OSError as error:
                raise BrokenConnectionError(f"sending: {error}") from error

    def receive(self) -> Response | None:
        """The answer; None while some of it is missing."""
        try:
            data = self._socket.recv(_RECEIVED_AT_ONCE)
        except ssl.SSLWantReadError:
            return None
        except OSError as error:
            raise BrokenConnectionError(f"receiving: {error}") from error
        if not data:
            raise BrokenConnectionError("closed by the server")
        self._received += data
        found = whole_response(self._received)
        if found is None:
            return None
        self._received = b""
        return found

    def close(self) -> None:
        """Close without ceremony."""
        self._socket.close()


def whole_response(received: bytes) -> Response | None:
    """The one answer that was received; None while some of it is missing."""
    end = received.find(_END_OF_HEAD)
    if end < 0:
        return None
    head = received[: end + 2].lower()
    at = head.find(_LENGTH)
    if at < 0:
        raise BrokenConnectionError("an answer without Content-Length")
    start = at + len(_LENGTH)
    length = int(head[start : head.index(b"\r\n", start)])
    body = received[end + len(_END_OF_HEAD) :]
    if len(body) < length:
        return None
    if len(body) > length:
        raise BrokenConnectionError("more bytes than one answer")
    return Response(head[9:12], body, _CLOSE in head)
