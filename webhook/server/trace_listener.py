"""The listener of `genguard trace`: allows every review and passes it on; and how it is reached."""

import asyncio
import secrets
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Self
from urllib.parse import urlsplit

from aiohttp import web

from genguard.admission.decode import (
    MAX_BODY_BYTES,
    UndecodableReviewError,
    decode_envelope,
    decode_review,
)
from genguard.admission.encode import encode_allowed
from genguard.admission.review import AdmissionRequest
from webhook.server.connection import ListenError, naming_flags

OnView = Callable[[int, AdmissionRequest], None]


class ObserverListener:
    """A context manager: serves POST /SECRET/POSITION over TLS while it is entered."""

    def __init__(self, address: str, port: int, context: ssl.SSLContext, on_view: OnView) -> None:
        """`on_view` is called after the answer is made, in the order of the calls."""
        self._address: Final = address
        self._port: Final = port
        self._context: Final = context
        self._on_view: Final = on_view
        self._secret: Final = secrets.token_hex(16)
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.router.add_post(f"/{self._secret}/{{position:[0-9]+}}", self._answer)
        self._runner: Final = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        self.port = 0

    @property
    def path(self) -> str:
        """The path of the observers' URLs without the position: nobody else can guess it."""
        return f"/{self._secret}"

    async def __aenter__(self) -> Self:
        """Listen; raises ListenError when the address is taken."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._address, self._port, ssl_context=self._context)
        try:
            with naming_flags(("--listen", self._address), ("--listen", self._port)):
                await site.start()
        except ListenError:
            await self._runner.cleanup()
            raise
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Finish what is being answered, and close."""
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        try:
            try:
                review = decode_review(body)
            except RecursionError:  # nested too deep to compare; it is allowed all the same
                envelope = decode_envelope(body)
                return _allowed(envelope.api_version, envelope.request.uid)
        except UndecodableReviewError as error:
            raise web.HTTPBadRequest(text=error.code) from error
        position = int(request.match_info["position"])
        asyncio.get_running_loop().call_soon(self._on_view, position, review)
        return _allowed(review.api_version, review.wire.uid)


def _allowed(api_version: str, uid: str) -> web.Response:
    return web.Response(body=encode_allowed(api_version, uid), content_type="application/json")


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

    @property
    def names(self) -> tuple[str, ...]:
        """DNS names for the certificate."""
        return () if self.ips else (self.host,)

    @property
    def ips(self) -> tuple[str, ...]:
        """IP addresses for the certificate."""
        try:
            return (str(ip_address(self.host)),)
        except ValueError:
            return ()


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
