"""Asks the active pod for a page: a standby has no opinion of its own.

Reads are passed on alone, with the caller's own authorization, over one hop, with a deadline and a
bound. With --ops-tls the active pod must show the certificate that this one serves: both have it
from one Secret. Where it does not answer, or refuses (without --ops-auth a pod shows its pages
within itself alone), the caller shows what was saved.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import aiohttp
from aiohttp import web

_MARK: Final = "Genguard-Forwarded"
"""A request that has made its hop."""
_SECONDS: Final = 5.0
_MOST_BYTES: Final = 32 << 20
_PASSED: Final = ("Authorization", "Accept")
_ANSWERS: Final = frozenset({HTTPStatus.OK, HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND})

Address = tuple[str, int]


class Forwarding:
    """The way to the ops port of the active pod."""

    def __init__(self, active: Callable[[], Address | None], *, tls: bool) -> None:
        """`active` returns host and port; None where nobody is known to be active."""
        self._active: Final = active
        self._tls: Final = tls

    async def ask(self, request: web.Request, fingerprint: str) -> web.Response | None:
        """Return the answer of the active pod to the same request; None where it gives none.

        fingerprint  SHA-256 of the certificate that it must show
        """
        address = self._active()
        if address is None or _MARK in request.headers:
            return None
        host, port = address
        headers = {name: request.headers[name] for name in _PASSED if name in request.headers}
        shown = f"[{host}]" if ":" in host else host
        url = f"{'https' if self._tls else 'http'}://{shown}:{port}{request.path_qs}"
        trust = aiohttp.Fingerprint(bytes.fromhex(fingerprint)) if self._tls else True
        try:
            async with (
                asyncio.timeout(_SECONDS),
                aiohttp.ClientSession(headers=headers | {_MARK: "1"}) as session,
                session.get(url, ssl=trust, allow_redirects=False) as answer,
            ):
                body = bytearray()
                async for chunk in answer.content.iter_any():
                    body += chunk
                    if len(body) > _MOST_BYTES:
                        return None
                if answer.status not in _ANSWERS:
                    return None
                kind = answer.headers.get("Content-Type", "")
                return web.Response(
                    status=answer.status, body=bytes(body), headers={"Content-Type": kind}
                )
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None
