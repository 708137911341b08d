"""Reading a request's body within its limits of size and time."""

import asyncio
import re
from typing import ClassVar, Final

import aiohttp
from aiohttp import web

from webhook.admission.decode import MAX_BODY_BYTES
from webhook.server.limits import BodyBudget
from webhook.server.overload import Shed

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
    """There is too much to do already; the client is told to come again."""

    status = 429
    code = "overloaded"

    def __init__(self, shed: Shed) -> None:
        super().__init__("too much to do; retry")
        self.shed: Final = shed


async def read_body(request: web.BaseRequest, budget: BodyBudget, seconds: float) -> bytes:
    """The whole body; raises BadRequestError."""
    media_type = request.headers.get("Content-Type", "")
    if media_type.partition(";")[0].strip().lower() != "application/json":
        raise WrongMediaTypeError("Content-Type must be application/json")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise WrongMediaTypeError("Content-Encoding is not supported; send the body as it is")
    declared = request.content_length
    if declared is not None and declared > MAX_BODY_BYTES:
        raise TooLargeError(f"the body may have {MAX_BODY_BYTES} bytes")
    content = request.content
    if declared is not None and content.total_bytes == declared:
        return content.read_nowait()  # it came with the headers: nothing to wait for
    reserved = MAX_BODY_BYTES if declared is None else declared
    if not budget.take(reserved):
        raise OverloadedError(Shed.READING)
    asked = timeout_of(request.raw_path)
    try:
        async with asyncio.timeout(seconds if asked is None else min(seconds, _SHARE * asked)):
            return await _read_all(content)
    except TimeoutError:
        raise TooSlowError("the body did not arrive in time") from None
    finally:
        budget.give_back(reserved)


async def _read_all(content: aiohttp.StreamReader) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := await content.readany():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
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
