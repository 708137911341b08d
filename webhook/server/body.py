"""Reading a request's body within its limits of size and time."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

import aiohttp
from aiohttp import HttpVersion11, web

from genguard.admission.decode import MAX_BODY_BYTES
from webhook.server.overload import Rejected

_JSON: Final = "application/json"
# How much of the API server's own timeout may go into reading.
_SHARE: Final = 0.8


class BadRequestError(Exception):
    """A request that is refused before its body is decoded.

    BadRequestError
    ├── WrongMediaTypeError   415
    ├── TooLargeError         413
    ├── TooSlowError          408
    └── OverloadedError       429, with Retry-After
    """

    status: ClassVar[int]
    code: ClassVar[str]


class WrongMediaTypeError(BadRequestError):
    """Not plain application/json; the API server never compresses a review."""

    status = 415
    code = "wrong_media_type"


class TooLargeError(BadRequestError):
    """More than two of the API server's largest objects."""

    status = 413
    code = "too_large"


class TooSlowError(BadRequestError):
    """The body did not arrive in time."""

    status = 408
    code = "too_slow"


class OverloadedError(BadRequestError):
    """There is too much to do already; the client is asked to try again."""

    status = 429
    code = "overloaded"

    def __init__(self, rejected: Rejected) -> None:
        super().__init__("too much to do; retry")
        self.rejected: Final = rejected


class _Reading:
    """A body that is being read: its bytes so far, and the deadline that ends it."""

    __slots__ = ("deadline", "is_rejected", "size")

    def __init__(self, deadline: asyncio.Timeout) -> None:
        self.deadline: Final = deadline
        self.size = 0
        self.is_rejected = False


class Bodies:
    """The bodies that are being read, which together may have so many bytes.

    A body counts with the bytes that have come, not with those that were announced. When there is
    no room for more, the body that has been read longest is rejected: an honest client sends a body
    within milliseconds, so those who send slowly make room for those who do not.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._readings: Final[dict[_Reading, None]] = {}  # oldest first

    @contextmanager
    def read(self, deadline: asyncio.Timeout) -> Iterator[_Reading]:
        """Count a body while it is read; `deadline` is brought forward to reject it."""
        reading = _Reading(deadline)
        self._readings[reading] = None
        try:
            yield reading
        finally:
            self._end(reading)

    def grow(self, reading: _Reading, size: int) -> None:
        """Count `size` more bytes that have come. Raises OverloadedError."""
        if reading.is_rejected:
            raise OverloadedError(Rejected.READING)
        self._left -= size
        reading.size += size
        while self._left < 0:
            oldest = next(iter(self._readings))
            self._end(oldest)
            oldest.is_rejected = True
            if oldest is reading:
                raise OverloadedError(Rejected.READING)
            oldest.deadline.reschedule(asyncio.get_running_loop().time())

    def _end(self, reading: _Reading) -> None:
        if reading in self._readings:
            del self._readings[reading]
            self._left += reading.size


async def read_body(
    request: web.BaseRequest, bodies: Bodies, seconds: float, asked_seconds: int | None
) -> bytes:
    """Read the whole body within `seconds`, or less where the client gives up earlier.

    `asked_seconds` is the client's own timeout. Raises BadRequestError.
    """
    headers = request.headers
    media_type = headers.get("Content-Type", "")
    if media_type != _JSON and media_type.partition(";")[0].strip().lower() != _JSON:
        raise WrongMediaTypeError("Content-Type must be application/json")
    if headers.get("Content-Encoding", "identity") != "identity":
        raise WrongMediaTypeError("Content-Encoding is not supported; send the body as it is")
    declared = request.content_length
    if declared is not None and declared > MAX_BODY_BYTES:
        raise TooLargeError(f"the body may have {MAX_BODY_BYTES} bytes")
    content = request.content
    if declared is not None and content.total_bytes == declared:
        return content.read_nowait()  # it came with the headers: nothing to wait for
    if asked_seconds is not None:
        seconds = min(seconds, _SHARE * asked_seconds)
    deadline = asyncio.timeout(seconds)
    with bodies.read(deadline) as reading:
        try:
            async with deadline:
                if content.total_bytes == 0:
                    await _ask_for_it(request)
                return await _read_all(content, bodies, reading)
        except TimeoutError:
            if reading.is_rejected:
                raise OverloadedError(Rejected.READING) from None
            raise TooSlowError("the body did not arrive in time") from None


async def _ask_for_it(request: web.BaseRequest) -> None:
    """Tell a client that waits for it to send the body (RFC 9110 section 10.1.1)."""
    expected = request.headers.get("Expect", "").lower()
    if expected == "100-continue" and request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer has not begun


async def _read_all(content: aiohttp.StreamReader, bodies: Bodies, reading: _Reading) -> bytes:
    chunks: list[bytes] = []
    while chunk := await content.readany():
        bodies.grow(reading, len(chunk))
        if reading.size > MAX_BODY_BYTES:
            raise TooLargeError(f"the body may have {MAX_BODY_BYTES} bytes")
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def timeout_of(raw_path: str) -> int | None:
    """Seconds of `?timeout=2s`, as the API server sends it (apiserver pkg/util/webhook)."""
    for part in raw_path.partition("?")[2].split("&"):
        name, _, value = part.partition("=")
        number = value.removesuffix("s")
        if name == "timeout" and re.fullmatch(r"[0-9]{1,4}", number) and value.endswith("s"):
            return int(number)
    return None
