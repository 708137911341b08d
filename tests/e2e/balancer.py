"""A TCP balancer: each connection goes to the next server, as with a Service of Kubernetes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from tests.store.proxy import Proxy


class Balancer(Proxy):
    """A context manager; several may take turns together by one iterator."""

    def __init__(self, turns: Iterator[int]) -> None:
        """`turns`: the port on loopback of each connection, without end."""
        super().__init__(Path())
        self._turns = turns
        self._made: list[tuple[int, asyncio.StreamWriter]] = []

    async def _ahead(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        port = next(self._turns)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        self._made.append((port, writer))
        return reader, writer

    def leads_to(self, port: int) -> bool:
        """Whether a connection to this server is open."""
        return any(to == port and not writer.is_closing() for to, writer in self._made)
