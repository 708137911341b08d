"""A TCP port in front of a server: it can hold answers back, or let nobody in."""

import asyncio
import contextlib
import ssl
from pathlib import Path

from tests.beside import OnLoop

_CHUNK = 65536
_SOON = 0.01
"""After all that is due by now."""


class Proxy(OnLoop):
    """A context manager; runs on a thread and an event loop of its own.

    delay     seconds that answers are held back
    released  how many pieces of answers were let through by now; see `let_through`
    """

    def __init__(self, socket: Path, context: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self._socket, self._context = socket, context
        self._writers: set[asyncio.StreamWriter] = set()
        self._closed = False
        self.delay = 0.0
        self.released = 0
        self.port = 0

    def close(self) -> None:
        """Drop who is connected, and let nobody in until `open`."""
        self._closed = True
        self._do(self._drop())

    def open(self) -> None:
        self._closed = False

    def drop(self) -> None:
        """Drop who is connected; they may come again."""
        self._do(self._drop())

    async def _begin(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self._context
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._server.close()
        await self._drop()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            _, others = await asyncio.wait(others, timeout=1.0)  # meant: some hold answers back
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _drop(self) -> None:
        for writer in self._writers:
            writer.close()

    async def _ahead(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self._socket)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if not self._closed:
                behind, ahead = await self._ahead()
                ways = {
                    asyncio.ensure_future(self._pass(reader, ahead)),
                    asyncio.ensure_future(self._hold_back(behind, writer)),
                }
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
                    ahead.close()
        except OSError:
            """Nobody is there."""
        finally:
            self._writers.discard(writer)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                writer.write(chunk)

    async def _hold_back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                self._loop.call_later(self.delay, self._release, writer, chunk)

    def let_through(self) -> int:
        """`released`, with what was on its way when it was asked."""
        self._do(asyncio.sleep(_SOON))
        return self.released

    def _release(self, writer: asyncio.StreamWriter, chunk: bytes) -> None:
        self.released += 1
        if not writer.is_closing():
            writer.write(chunk)
