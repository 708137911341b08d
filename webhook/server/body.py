"""Reading bodies within their limits, and examining large ones in a thread.

A review is large when it has many bytes or many values: a list of 2,500 containers in 300 KiB takes
a hundred times as long as one long text. One large review at a time is examined in a thread, while
the event loop answers the others. CPython runs one thread at a time: this makes nothing faster, it
lets small reviews in between.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, ParamSpec, TypeVar

from aiohttp import HttpVersion11, StreamReader, web

from genguard.admission.decode import HEAD_BYTES, MAX_BODY_BYTES
from genguard.objects.fields import count_values
from genguard.review import Dependencies
from webhook.server.options import Limits
from webhook.server.overload import Rejected

P = ParamSpec("P")
T = TypeVar("T")

_JSON: Final = "application/json"
_SHARE: Final = 0.8
"""How much of the API server's own timeout may go into reading."""
_FEW_BYTES: Final = 16 * 1024
"""A body of so many bytes is not counted: whatever it has, it is examined within 3 ms."""


class RejectedRequestError(Exception):
    """A request that is rejected before its body is decoded: its HTTP status, and why in a word."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status: Final = status
        self.code: Final = code


class OverloadedError(RejectedRequestError):
    """There is too much to do already; the client is asked to try again.

    head  the first bytes of the body, as far as it was read
    """

    def __init__(self, rejected: Rejected, head: bytes = b"") -> None:
        super().__init__(429, "overloaded", "too much to do; retry")
        self.rejected: Final = rejected
        self.head = head


def _too_large() -> RejectedRequestError:
    return RejectedRequestError(413, "too_large", f"the body may have {MAX_BODY_BYTES} bytes")


class Bodies:
    """Reads bodies, which together may have so many bytes that have come.

    When there is no room for more, the body that has been read longest is rejected: an honest
    client sends a body within milliseconds, so slow ones make room for those who are not.
    """

    def __init__(self, limits: Limits) -> None:
        self._seconds: Final = limits.body_seconds
        self._left = limits.body_bytes_in_flight
        self._reading: Final[dict[asyncio.Timeout, int]] = {}
        """The bytes of each, by its deadline; oldest first."""

    async def read(self, request: web.BaseRequest, asked_seconds: int | None) -> bytes:
        """Read a whole body in time; `asked_seconds` is how long the client waits at most.

        Raises RefusedRequestError.
        """
        headers = request.headers
        media_type = headers.get("Content-Type", "")
        if media_type != _JSON and media_type.partition(";")[0].strip().lower() != _JSON:
            raise RejectedRequestError(415, "wrong_media_type", f"Content-Type must be {_JSON}")
        if headers.get("Content-Encoding", "identity") != "identity":
            message = "Content-Encoding is not supported; send the body as it is"
            raise RejectedRequestError(415, "wrong_media_type", message)
        declared, content = request.content_length, request.content
        if declared is not None and declared > MAX_BODY_BYTES:
            raise _too_large()
        if declared is not None and content.total_bytes == declared:
            return content.read_nowait()  # it came with the headers: nothing to wait for
        if content.total_bytes == 0:
            await _ask_for_it(request)
        seconds = self._seconds if asked_seconds is None else _SHARE * asked_seconds
        return await self._read(content, min(seconds, self._seconds))

    async def _read(self, content: StreamReader, seconds: float) -> bytes:
        body = bytearray()
        deadline = asyncio.timeout(seconds)
        self._reading[deadline] = 0
        try:
            async with deadline:
                while chunk := await content.readany():
                    body += chunk
                    self._grow(deadline, len(chunk))
                    if len(body) > MAX_BODY_BYTES:
                        raise _too_large()
            return bytes(body)
        except TimeoutError:
            if deadline not in self._reading:
                raise OverloadedError(Rejected.READING, bytes(body[:HEAD_BYTES])) from None
            raise RejectedRequestError(408, "too_slow", "the body did not arrive in time") from None
        except OverloadedError as error:
            error.head = bytes(body[:HEAD_BYTES])
            raise
        finally:
            self._left += self._reading.pop(deadline, 0)

    def _grow(self, deadline: asyncio.Timeout, size: int) -> None:
        """Count `size` more bytes that have come. Raises OverloadedError."""
        if deadline in self._reading:
            self._reading[deadline] += size
            self._left -= size
        while self._left < 0:
            oldest = next(iter(self._reading))
            self._left += self._reading.pop(oldest)
            if oldest is not deadline and not oldest.expired():
                oldest.reschedule(asyncio.get_running_loop().time())
        if deadline not in self._reading:
            raise OverloadedError(Rejected.READING)


async def _ask_for_it(request: web.BaseRequest) -> None:
    """Tell a client that waits for it to send the body (RFC 9110 section 10.1.1)."""
    expected = request.headers.get("Expect", "").lower()
    if expected == "100-continue" and request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer has not begun


class LargeReviews:
    """Lets one large review at a time be examined; those that wait are bounded in bytes."""

    def __init__(self, limits: Limits) -> None:
        self._limits: Final = limits
        self._bytes = limits.large_bytes
        self._one: Final = asyncio.Semaphore(1)

    def takes(self, body: bytes) -> bool:
        """Whether a body takes so long that the event loop must not examine it."""
        if len(body) <= _FEW_BYTES:
            return False
        most = self._limits
        return len(body) > most.large_from or count_values(body) > most.large_values

    @asynccontextmanager
    async def slot(self, size: int, deps: Dependencies) -> AsyncIterator[Dependencies]:
        """Wait for a slot for a body of `size` bytes; yield what a thread uses for it.

        Raises OverloadedError.
        """
        if size > self._bytes:
            raise OverloadedError(Rejected.LARGE)
        self._bytes -= size
        try:
            async with self._one:
                yield for_thread(deps)
        finally:
            self._bytes += size


def for_thread(deps: Dependencies) -> Dependencies:
    """The same dependencies for use in a thread; called on the event loop that `deps` belong to.

    A thread has its review to itself, and what never changes. What is remembered between reviews is
    used on the event loop alone, so that it need not know of threads.
    """
    loop = asyncio.get_running_loop()
    return replace(
        deps,
        intents=_OnLoop(deps.intents, loop),
        rounds=_OnLoop(deps.rounds, loop),
        about=_on_loop(loop, deps.about),
    )


def _on_loop(loop: asyncio.AbstractEventLoop, function: Callable[P, T]) -> Callable[P, T]:
    """The function, run on an event loop by a call from another thread."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        async def run() -> T:
            return function(*args, **kwargs)

        return asyncio.run_coroutine_threadsafe(run(), loop).result()

    return call


class _OnLoop:
    """What has the methods of another object, and runs them on its event loop."""

    def __init__(self, found: object, loop: asyncio.AbstractEventLoop) -> None:
        self._found: Final = found
        self._loop: Final = loop

    def __getattr__(self, name: str) -> Any:
        return _on_loop(self._loop, getattr(self._found, name))
