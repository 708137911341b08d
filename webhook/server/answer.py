"""The answer to a review, put on the wire in one piece.

aiohttp builds, checks and joins the headers of every response anew, which costs more than judging
a pod. Of nearly all answers here only the length and the second differ; and a server that has too
much to do must not spend its time on saying so.
"""

import time
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import ClassVar, Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from webhook.server.limits import RETRY_AFTER_SECONDS

_REST: Final = b"Content-Type: application/json\r\nDate: %b\r\nContent-Length: %d\r\n\r\n%b"
_HEADS: Final[Mapping[int, bytes]] = {
    HTTPStatus.OK: b"HTTP/1.1 200 OK\r\n" + _REST,
    HTTPStatus.TOO_MANY_REQUESTS: b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: %d\r\n"
    % RETRY_AFTER_SECONDS
    + _REST,
}


class ReadyAnswer(web.Response):
    """200, or 429 with Retry-After, and a JSON body, on an HTTP/1.1 connection that stays open.

    It answers what aiohttp asks of a response (web_protocol.py:RequestHandler.finish_response) and
    has none of its state: what is to be closed, or has another status, is a web.Response.
    """

    statuses: ClassVar = frozenset(_HEADS)

    # The parent's would build what is not needed.
    def __init__(self, body: bytes, status: int = HTTPStatus.OK) -> None:
        self._ready: Final = body
        self._head: Final = _HEADS[status]
        self._to: AbstractStreamWriter | None = None

    @property
    def keep_alive(self) -> bool:
        """Always."""
        return True

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        """Nothing is written before the body is."""
        self._to = request.writer
        return request.writer

    async def write_eof(self, data: bytes = b"") -> None:
        """Write head and body at once."""
        del data  # a response in one piece has no more of it
        if self._to is not None:
            body = self._ready
            await self._to.write(self._head % (_date(), len(body), body))


class _Date:
    """The Date header, made once a second."""

    second = 0
    text = b""


def _date() -> bytes:
    now = int(time.time())
    if now != _Date.second:
        _Date.second, _Date.text = now, formatdate(now, usegmt=True).encode()
    return _Date.text
