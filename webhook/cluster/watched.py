"""One collection of the API server, listed and then watched: every state it goes through."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, TypeVar

import aiohttp
import msgspec
from kubernetes.aio.client.exceptions import ApiException

T = TypeVar("T")
ListCall = Callable[..., Awaitable[aiohttp.ClientResponse]]
"""A `list_..._without_preload_content` of the Kubernetes client."""

# Below the client's own limit of 300 s for a whole call: the server ends the watch, not an error.
_WATCH_SECONDS: Final = 240
_SHORTEST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0


async def follow(
    states: Callable[[], AsyncIterator[T]],
    on_state: Callable[[T], None],
    on_trouble: Callable[[str], None],
) -> None:
    """Report every state, for ever; trouble is reported and waited out."""
    wait = _SHORTEST_WAIT
    while True:
        try:
            async for state in states():
                on_state(state)
                wait = _SHORTEST_WAIT
        except (
            ApiException,
            aiohttp.ClientError,
            TimeoutError,
            OSError,
            msgspec.MsgspecError,
        ) as error:
            status = getattr(error, "status", None)
            on_trouble(f"{type(error).__name__} {status}" if status else type(error).__name__)
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)


async def watched(
    list_call: ListCall, read: Callable[[dict[str, Any]], T]
) -> AsyncIterator[Mapping[str, T]]:
    """The collection by name, now and after each event, until the server ends the watch."""
    listed = msgspec.json.decode(await read_body(await list_call()))
    known = {item["metadata"]["name"]: read(item) for item in listed["items"]}
    yield known
    stream = await list_call(
        watch=True,
        resource_version=listed["metadata"]["resourceVersion"],
        timeout_seconds=_WATCH_SECONDS,
    )
    with contextlib.closing(stream):
        async for line in _lines(stream.content):
            event = msgspec.json.decode(line)
            if event["type"] == "ERROR":
                return  # the resourceVersion is too old: list again
            name = event["object"]["metadata"]["name"]
            if event["type"] == "DELETED":
                known.pop(name, None)
            else:
                known[name] = read(event["object"])
            yield known


async def read_body(response: aiohttp.ClientResponse) -> bytes:
    """The body of a good answer; raises ApiException for any other."""
    body = await response.read()
    if response.status != HTTPStatus.OK:
        raise ApiException(status=response.status, reason=response.reason)
    return body


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    # Not readline(): a definition is often longer than the reader's limit for a line.
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
