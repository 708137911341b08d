"""Servers in aiohttp that read a review and answer the same bytes every time.

They listen as genguard does, so that only the handlers differ. `floor` is the least that aiohttp
can do; `application` is one as aiohttp's documentation has it, with a route and the access log on.

python -m tools.bench.constant PORT FOLDER floor|application|application-without-log
"""

import asyncio
import json
import logging
import signal
import ssl
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from genguard.admission.decode import MAX_BODY_BYTES
from tools.bench.servers import CONSTANT_ANSWER

_KEEPALIVE_SECONDS: Final = 180.0  # genguard's own
_ANSWER: Final = json.dumps(CONSTANT_ANSWER, separators=(",", ":")).encode()


async def answer(request: web.BaseRequest) -> web.Response:
    """Read to the end, as a server must before it can use the connection again."""
    await request.read()
    return web.Response(body=_ANSWER, content_type="application/json")


async def mutate(request: web.Request) -> web.Response:
    """POST /mutate of the application."""
    await request.read()
    return web.json_response(CONSTANT_ANSWER)


async def floor(port: int, folder: Path) -> None:
    """Serve until told to stop."""
    loop = asyncio.get_running_loop()
    # aiohttp reads no more than 1 MiB unless it is told so where the request is made.
    request = partial(web.BaseRequest, loop=loop, client_max_size=MAX_BODY_BYTES)
    server = web.Server(
        answer, request_factory=request, keepalive_timeout=_KEEPALIVE_SECONDS, access_log=None
    )
    await _listen(server, port, folder)


async def application(port: int, folder: Path, *, logs: bool) -> None:
    """Serve until told to stop."""
    logging.basicConfig(level=logging.INFO if logs else logging.WARNING)
    made = web.Application()
    made.add_routes([web.post("/mutate", mutate)])
    more = {} if logs else {"access_log": None}
    runner = web.AppRunner(made, keepalive_timeout=_KEEPALIVE_SECONDS, **more)
    await runner.setup()
    try:
        assert runner.server is not None
        await _listen(runner.server, port, folder)
    finally:
        await runner.cleanup()


async def _listen(protocols: Callable[[], Any], port: int, folder: Path) -> None:
    """Serve with TLS on loopback until SIGTERM."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    server = await loop.create_server(protocols, "127.0.0.1", port, ssl=context)
    async with server:
        await stopped.wait()


FORMS: Final = {
    "floor": floor,
    "application": partial(application, logs=True),
    "application-without-log": partial(application, logs=False),
}

if __name__ == "__main__":
    asyncio.run(FORMS[sys.argv[3]](int(sys.argv[1]), Path(sys.argv[2])))
