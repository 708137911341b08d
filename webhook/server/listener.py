"""Listens on one port, and accepts no more connections at once than the port may have.

asyncio's own server hands a connection to its protocol after the TLS handshake. A client that never
begins the handshake is unknown until then and holds a descriptor, as many as it likes. Here
connections are accepted one by one, so that those in their handshake count as well.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from webhook.server.connection import Connection, OpenConnections
from webhook.telemetry.logs import LOGGER

TOO_MANY: Final = "too-many-connections"
_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_FULL_SECONDS: Final = 1.0


class Listener:
    """Accepts the connections of one port."""

    def __init__(
        self,
        make: Callable[[], Connection],
        connections: OpenConnections,
        trust: ssl.SSLContext | None,
        handshake_seconds: float,
    ) -> None:
        """`trust`: of TLS; without it, plain connections. `make` makes their protocol."""
        self._make: Final = make
        self._connections: Final = connections
        self._trust: Final = trust
        self._handshake_seconds: Final = handshake_seconds if trust else None
        self._loop: Final = asyncio.get_running_loop()
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: Final[dict[asyncio.Task[None], float]] = {}
        """When each began on the loop's clock, oldest first."""
        self.port = 0

    async def open(self, host: str, port: int, backlog: int) -> None:
        """Listen on all addresses of `host`. Raises OSError when one is taken."""
        found = await self._loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, _, _, _, address in dict.fromkeys(found):
            listening = socket.create_server(address, family=family, backlog=backlog)
            listening.setblocking(False)  # noqa: FBT003 - takes no name
            self.port = self.port or listening.getsockname()[1]
            self._accepting.append(asyncio.create_task(self._accept(listening)))

    @property
    def is_serving(self) -> bool:
        """New connections are accepted, on each address."""
        return bool(self._accepting) and not any(one.done() for one in self._accepting)

    async def close(self) -> None:
        """Accept no more; connections that are open stay."""
        ending = [*self._accepting, *self._handshakes]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        with listening:
            while True:
                try:
                    accepted, _ = await self._loop.sock_accept(listening)
                except OSError as error:
                    if error.errno in _FULL:
                        facts = {"error": errno.errorcode[error.errno], "mend": "raise ulimit -n"}
                        LOGGER.error("no connection can be accepted", extra={"facts": facts})
                        await asyncio.sleep(_FULL_SECONDS)
                    continue
                if self._has_room():
                    handshake = asyncio.create_task(self._connect(accepted))
                    self._handshakes[handshake] = self._loop.time()
                    handshake.add_done_callback(self._forget)
                else:
                    self._connections.on_drop(TOO_MANY)
                    accepted.close()
                await asyncio.sleep(0)  # many that come at once keep nobody else waiting

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
            await self._loop.connect_accepted_socket(
                self._make,
                accepted,
                ssl=self._trust,
                ssl_handshake_timeout=self._handshake_seconds,
            )
