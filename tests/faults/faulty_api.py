"""Stands between one genguard and the API server, and does to its calls what a test says.

Users go to the API server itself, and so do its calls of genguard.
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar, Self

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from tests.beside import OnLoop
from tests.controlplane.plane import ControlPlane

Answer = Callable[[web.Request], Awaitable[web.StreamResponse | None]]
"""What becomes of a request; None: the API server answers it."""
_CHUNK = 65536
_KEPT = ("Accept", "Authorization", "Content-Type", "User-Agent")
_ANSWERED = ("Content-Type", "Date", "Warning")


async def healthy(request: web.Request) -> web.StreamResponse | None:
    """The API server answers."""
    del request
    return None


def status(code: int, reason: str) -> web.Response:
    """As the API server refuses."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason}
    headers = {"Retry-After": "1"} if code == 429 else {}
    told = body | {"code": code, "message": f"{reason}, as the test says"}
    return web.json_response(told, status=code, headers=headers)


class FaultyApi(OnLoop):
    """A context manager; runs on a thread and an event loop of its own.

    answer  what is done with requests from now on
    hits    how many requests and watches were not left to the API server alone
    """

    patience: ClassVar[float] = 20.0

    def __init__(self, plane: ControlPlane, kubeconfig: Path, host: str = "127.0.0.1") -> None:
        """`kubeconfig` is written: the administrator, by way of here under the name `host`."""
        super().__init__()
        self._plane, self._host = plane, host
        self.kubeconfig = kubeconfig
        self.answer: Answer = healthy
        self.hits = 0
        self._watches: set[web.StreamResponse] = set()
        self._handlers: set[asyncio.Task[Any]] = set()

    def __enter__(self) -> Self:
        super().__enter__()
        config = json.loads(self._plane.kubeconfig.read_text())
        config["clusters"][0]["cluster"] = {"server": f"http://{self._host}:{self._port}"}
        self.kubeconfig.write_text(json.dumps(config))
        return self

    def cut(self) -> None:
        """End what is being answered, in the middle of it, watches too."""
        self._do(self._cut())

    def tell_watches(self, event: dict[str, Any]) -> None:
        """Send an event to whoever watches anything, as the API server would."""
        self._do(self._tell(json.dumps(event).encode() + b"\n"))

    async def _begin(self) -> None:
        trust = aiohttp.TCPConnector(ssl=False)
        self._session = aiohttp.ClientSession(
            connector=trust, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
        )
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port: int = self._runner.addresses[0][1]

    async def _end(self) -> None:
        await self._cut()
        await self._runner.cleanup()
        await self._session.close()
        await asyncio.sleep(0.1)  # TLS says farewell after close() has returned

    async def _cut(self) -> None:
        handlers = list(self._handlers)
        for each in handlers:
            each.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)

    async def _tell(self, line: bytes) -> None:
        for each in list(self._watches):
            with contextlib.suppress(ConnectionError):
                await each.write(line)
                self.hits += 1

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        self.hits += self.answer is not healthy
        try:
            return await self.answer(request) or await self._pass(request)
        finally:
            self._handlers.discard(task)

    async def _pass(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in _KEPT if name in request.headers}
        url = f"{self._plane.server}{request.raw_path}"
        async with self._session.request(
            request.method,
            aiohttp.client.URL(url, encoded=True),
            headers=headers,
            data=await request.read(),
        ) as found:
            kept = [one for one in found.headers.items() if one[0] in _ANSWERED]
            response = web.StreamResponse(status=found.status, headers=CIMultiDict(kept))
            await response.prepare(request)
            if request.query.get("watch") == "true":
                self._watches.add(response)
            try:
                async for chunk in found.content.iter_any():
                    await response.write(chunk)
            finally:
                self._watches.discard(response)
            await response.write_eof()
            return response
