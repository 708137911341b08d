"""One collection of the API server, listed page by page and then watched: every change of it.

Memory holds one page of a list at a time, and of each object its uid. A watch that ends goes on
where it ended; the list is read again only when the API server has forgotten that place (410).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import Enum
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeVar

import aiohttp
import msgspec

from webhook.cluster.rest import UNREACHED, RefusedError, Rest
from webhook.objects.fields import Fields, fields_of

T = TypeVar("T")

# Below the client's own limit of 300 s for a whole call: the server ends the watch, not an error.
_WATCH_SECONDS: Final = 240
_PAGE: Final = 250  # of pods, some 4 MiB
_LOST: Final = frozenset({HTTPStatus.GONE, HTTPStatus.NOT_FOUND})
"""The place of the list is too old to go on from, or the resource has moved: list again."""
_SHORTEST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0


class What(Enum):
    """What a change is about."""

    SEEN = "seen"  # an object is there, new or changed or just listed
    GONE = "gone"  # it is there no longer
    CAUGHT_UP = "caught up"  # no object: all that is there has been seen, and changes will be


_NOTHING: Final[Fields] = {}


class Change(NamedTuple):
    """One step from what was known of a collection to what is there."""

    what: What
    uid: str = ""
    object: Fields = _NOTHING
    """The whole object when it was seen, undecoded; kind and apiVersion are always there. What is
    kept of it must be copied: it holds a page of the list in memory."""


class Collection:
    """Remembers how far it was followed: `changes` may be called again and again."""

    def __init__(self, rest: Rest, locate: Callable[[], Awaitable[str]], **chosen: str) -> None:
        """`locate` gives the path, such as /apis/apps/v1/deployments; asked before each list.

        `chosen`: labelSelector and fieldSelector, where not all of it is asked for.
        """
        self._rest: Final = rest
        self._locate: Final = locate
        self._chosen: Final = chosen
        self._path = ""
        self._known: Final[set[str]] = set()
        self._version = ""

    async def changes(self) -> AsyncIterator[Change]:
        """Every change until the server ends the watch.

        Raises RefusedError, one of UNREACHED or msgspec.MsgspecError.
        """
        try:
            if self._version:
                async for change in self._watch(told=False):
                    yield change
                return
            async for change in self._list():
                yield change
            yield Change(What.CAUGHT_UP)
            async for change in self._watch(told=True):
                yield change
        except RefusedError as error:
            if error.status not in _LOST:
                raise
            self._version = ""
            if error.status == HTTPStatus.NOT_FOUND:
                raise

    async def _list(self) -> AsyncIterator[Change]:
        self._path = await self._locate()
        listed: set[str] = set()
        page = _Page("", "", _ListMeta(""), ())
        while True:
            asked = {**self._chosen, "limit": str(_PAGE), "continue": page.metadata.next}
            page = msgspec.json.decode(await self._rest.read(self._path, **asked), type=_Page)
            # The API server leaves the kind out of the items of built-in lists.
            typed = fields_of(
                {"apiVersion": page.api_version, "kind": page.kind.removesuffix("List")}
            )
            for item in page.items or ():
                uid = _metadata.decode(item["metadata"]).uid
                listed.add(uid)
                self._known.add(uid)
                yield Change(What.SEEN, uid, typed | item)
            if not page.metadata.next:
                break
        for uid in self._known - listed:
            self._known.discard(uid)
            yield Change(What.GONE, uid)
        self._version = page.metadata.resource_version

    async def _watch(self, *, told: bool) -> AsyncIterator[Change]:
        """`told`: that all has been caught up with."""
        asked = {
            **self._chosen,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        async with await self._rest.stream(self._path, **asked) as response:
            if not told:
                yield Change(What.CAUGHT_UP)
            async for line in _lines(response.content):
                event = msgspec.json.decode(line, type=_Event)
                if event.type == "ERROR":
                    status = msgspec.json.decode(
                        msgspec.json.encode(event.object), type=_MetaStatus
                    )
                    raise RefusedError(status.code, status.message)
                metadata = _metadata.decode(event.object["metadata"])
                if event.type == "DELETED":
                    self._known.discard(metadata.uid)
                    yield Change(What.GONE, metadata.uid)
                elif event.type != "BOOKMARK":
                    self._known.add(metadata.uid)
                    yield Change(What.SEEN, metadata.uid, event.object)
                self._version = metadata.resource_version


async def follow(
    states: Callable[[], AsyncIterator[T]],
    on_state: Callable[[T], None],
    on_trouble: Callable[[str], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Report every state, for ever; trouble is reported and waited out."""
    wait = _SHORTEST_WAIT
    while True:
        try:
            async for state in states():
                on_state(state)
                wait = _SHORTEST_WAIT
                await sleep(0)  # a long list does not keep reviews waiting
            # Where every watch is ended at once, as by a proxy, this must not be a storm.
            await sleep(_SHORTEST_WAIT)
        except (RefusedError, *UNREACHED, msgspec.MsgspecError) as error:
            on_trouble(str(error) or type(error).__name__)
            await sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)


async def watched(
    rest: Rest, path: str, read: Callable[[dict[str, Any]], T]
) -> AsyncIterator[tuple[T, ...]]:
    """A small collection by name, now and after each event, until the server ends the watch."""
    known: dict[str, tuple[str, T]] = {}
    has_all = False

    async def locate() -> str:
        return path

    async for what, uid, found in Collection(rest, locate).changes():
        if what is What.SEEN:
            whole = {key: msgspec.json.decode(raw) for key, raw in found.items()}
            known[uid] = (whole["metadata"]["name"], read(whole))
        elif what is What.GONE:
            known.pop(uid, None)
        has_all = has_all or what is What.CAUGHT_UP
        if has_all:
            yield tuple(value for _, value in sorted(known.values(), key=lambda one: one[0]))


class _ListMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "next": "continue"}):
    resource_version: str
    next: str = ""


class _Page(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    metadata: _ListMeta
    items: tuple[Fields, ...] | None


class _Event(msgspec.Struct):
    type: str
    object: Fields


class _MetaStatus(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str
    uid: str = ""


_metadata: Final = msgspec.json.Decoder(_Metadata)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    # Not readline(): a definition is often longer than the reader's limit for a line.
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
