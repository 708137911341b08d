"""The listener of `genguard trace`: allows every review and passes it on; and how it is reached."""

import asyncio
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web

from genguard.admission.decode import MAX_BODY_BYTES, UndecodableReviewError, decode_review
from genguard.admission.encode import encode_allowed
from genguard.admission.review import AdmissionRequest
from webhook.server.connection import naming_flags

OnView = Callable[[int, AdmissionRequest], None]


@asynccontextmanager
async def observing(
    address: str, port: int, context: ssl.SSLContext, on_view: OnView
) -> AsyncIterator[tuple[int, str]]:
    """Serve POST PATH/POSITION over TLS; yields the port and the path, which nobody can guess.

    `on_view` is called after the answer is made, in the order of the calls. Raises ListenError
    when the address is taken.
    """

    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        try:
            review = decode_review(body)
        except (UndecodableReviewError, RecursionError) as error:  # the failure policy is Ignore
            raise web.HTTPBadRequest from error
        asyncio.get_running_loop().call_soon(on_view, int(request.match_info["position"]), review)
        allowed = encode_allowed(review.api_version, review.wire.uid)
        return web.Response(body=allowed, content_type="application/json")

    path = f"/{secrets.token_hex(16)}"
    application = web.Application(client_max_size=MAX_BODY_BYTES)
    application.router.add_post(f"{path}/{{position:[0-9]+}}", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        with naming_flags(("--listen", address), ("--listen", port)):
            await web.TCPSite(runner, address, port, ssl_context=context).start()
        yield runner.addresses[0][1], path
    finally:
        await runner.cleanup()  # what is being answered is finished


@dataclass(frozen=True, slots=True)
class Reach:
    """Where to listen, and what the API server dials; port 0 is any free one."""

    address: str
    port: int
    host: str
    dialled: int

    @classmethod
    def of(cls, url: str | None, listen_on: str | None, server: str) -> "Reach":
        """From --url and --listen, and the API server's own URL.

        Raises ValueError for what is no URL or address.
        """
        own = _own_address(server)
        given = urlsplit(url or "")
        listen = urlsplit(f"//{listen_on or ''}")
        dialled = (given.port or 443) if url else 0
        address = listen.hostname or ("0.0.0.0" if url else own)  # noqa: S104 - asked for
        return cls(address, listen.port or dialled, given.hostname or own, dialled)

    def url(self, port: int) -> str:
        """What the API server dials, when `port` is what we listen on."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.dialled or port}"


def _own_address(server: str) -> str:
    """Find this machine's address on the way to the API server: in a pod, the pod's."""
    found = urlsplit(server)
    try:
        info = socket.getaddrinfo(found.hostname, found.port or 443, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, to = info[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(to)  # sends nothing: it only asks for the route
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"
