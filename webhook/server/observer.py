"""The listener of a trace: answers every review with "allowed" and hands on what it saw."""

import asyncio
import secrets
import ssl
from collections.abc import Callable
from typing import Final, Self

from aiohttp import web

from webhook.admission.decode import MAX_BODY_BYTES, decode_review
from webhook.admission.encode import encode_allowed
from webhook.admission.errors import UndecodableReviewError
from webhook.admission.review import AdmissionRequest
from webhook.admission.skim import skim

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
        """What every observer's URL has after host and port: nobody else can guess it."""
        return f"/{self._secret}"

    async def __aenter__(self) -> Self:
        """Listen; raises OSError when the address is taken."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._address, self._port, ssl_context=self._context)
        try:
            await site.start()
        except OSError:
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
            except RecursionError:  # too deep to compare, but allowed like any other
                envelope = skim(body)
                return _allowed(envelope.api_version, envelope.uid)
        except UndecodableReviewError as error:
            raise web.HTTPBadRequest(text=error.code) from error
        position = int(request.match_info["position"])
        asyncio.get_running_loop().call_soon(self._on_view, position, review)
        return _allowed(review.api_version, review.wire.uid)


def _allowed(api_version: str, uid: str) -> web.Response:
    return web.Response(body=encode_allowed(api_version, uid), content_type="application/json")
