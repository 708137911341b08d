"""The answer to a review, put on the wire in one piece.

aiohttp builds, checks and joins the headers of every response anew, which costs more than judging
a pod. Of nearly all answers here only the length and the second differ.
"""

import time
from email.utils import formatdate
from typing import Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: %b\r\nContent-Length: %d\r\n\r\n%b"
)


class ReadyAnswer(web.Response):
    """200 with a JSON body, on an HTTP/1.1 connection that stays open.

    It answers what aiohttp asks of a response (web_protocol.py:RequestHandler.finish_response) and
    has none of its state: what is to be closed, or is no 200, is a web.Response.
    """

    def __init__(self, body: bytes) -> None:  # the parent's would build what is not needed
        self._ready: Final = body
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
            await self._to.write(_HEAD % (_date(), len(body), body))


class _Date:
    """The Date header, made once a second."""

    second = 0
    text = b""


def _date() -> bytes:
    now = int(time.time())
    if now != _Date.second:
        _Date.second, _Date.text = now, formatdate(now, usegmt=True).encode()
    return _Date.text
