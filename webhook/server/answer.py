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
    HTTPStatus.OK: b"HTTP/1.1 200 OK\r\n",
    HTTPStatus.BAD_REQUEST: b"HTTP/1.1 400 Bad Request\r\n",
    HTTPStatus.TOO_MANY_REQUESTS: b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: %d\r\n"
    % RETRY_AFTER_SECONDS,
    HTTPStatus.INTERNAL_SERVER_ERROR: b"HTTP/1.1 500 Internal Server Error\r\n",
}


def whole_answer(status: int, body: bytes) -> bytes:
    """A JSON body with its head, for an HTTP/1.1 connection that stays open.

    The status is one of ReadyAnswer.statuses; 429 asks to come again.
    """
    return _HEADS[status] + _REST % (_date(), len(body), body)


class ReadyAnswer(web.Response):
    """whole_answer() where aiohttp expects a response.

    It answers what aiohttp asks of a response (web_protocol.py:RequestHandler.finish_response) and
    has none of its state: what is to be closed, or has another status, is a web.Response.
    """

    statuses: ClassVar = frozenset(_HEADS)

    # The parent's would build what is not needed.
    def __init__(self, status: int, body: bytes) -> None:
        self._whole: Final = whole_answer(status, body)
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
            await self._to.write(self._whole)


class _Date:
    """The Date header, made once a second."""

    second = 0
    text = b""


def _date() -> bytes:
    now = int(time.time())
    if now != _Date.second:
        _Date.second, _Date.text = now, formatdate(now, usegmt=True).encode()
    return _Date.text
