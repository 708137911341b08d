"""How those in aiohttp listen: as genguard does, so that only the handlers differ."""

import asyncio
import signal
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler

KEEPALIVE_SECONDS: Final = 180.0
"""As genguard's own."""


async def listen(protocols: Callable[[], Any], port: int, folder: Path) -> None:
    """Serve with TLS on loopback until SIGTERM."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    server = await loop.create_server(protocols, "127.0.0.1", port, ssl=context)
    async with server:
        await stopped.wait()


async def serve(mutate: Handler, port: int, folder: Path, **runner: Any) -> None:
    """Serve an application whose only route is POST /mutate until told to stop."""
    application = web.Application()
    application.add_routes([web.post("/mutate", mutate)])
    prepared = web.AppRunner(application, keepalive_timeout=KEEPALIVE_SECONDS, **runner)
    await prepared.setup()
    try:
        assert prepared.server is not None
        await listen(prepared.server, port, folder)
    finally:
        await prepared.cleanup()
