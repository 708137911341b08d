"""Lists a collection of the API server page by page, then watches it: every change of it.

Memory holds one page of a list at a time, and the uid of each object. A watch that ends goes on
where it ended; the list is read again only when the API server has forgotten that version (410).

Not the library's informers, because they decode and keep whole objects, and run in threads; nor
kubernetes.aio's Watch: it decodes every object whole, on the event loop, and fails at a line longer
than the reader's limit, which a CustomResourceDefinition often is.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from enum import Enum
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeVar

import aiohttp
import msgspec

from genguard.formats.nesting import decode_cut
from genguard.objects.fields import Fields
from webhook.cluster.rest import (
    UNREACHED,
    RefusedError,
    Rest,
    TooLongError,
    UnreadableError,
    decode,
    metadata_of,
)
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER

T = TypeVar("T")

# Below the client's own limit of 300 s for a whole call: the server ends the watch, not an error.
_WATCH_SECONDS: Final = 240
_LONGEST_LINE: Final = 16 << 20
"""Bytes of an event: several times the largest object that etcd takes."""
_LOST: Final = frozenset({HTTPStatus.GONE, HTTPStatus.NOT_FOUND})
"""The list is too old to watch from, or the resource has moved: list again."""
_SHORTEST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
_UNSERVED_SECONDS: Final = 600.0
"""The pause before a server without a kind is asked for it again: it may be upgraded meanwhile."""
_WELL_SECONDS: Final = 30.0
"""A watch that went on for so long has worked: the next pause is short again."""
_NOTHING: Final[Fields] = {}
Locate = Callable[[], Awaitable[str | None]]


class ChangeKind(Enum):
    """What happened to a collection."""

    SEEN = "seen"  # an object exists: it is new, changed or just listed
    GONE = "gone"  # the object was deleted
    CAUGHT_UP = "caught up"  # no object: all existing ones were seen, and changes will be


class Change(NamedTuple):
    """One change of a collection."""

    what: ChangeKind
    uid: str = ""
    object: Fields = _NOTHING
    """The whole object when it was seen, undecoded, always with kind and apiVersion. Copy what is
    kept of it: otherwise it keeps a page of the list in memory."""
    is_cut: bool = False
    """What is nested too deep to decode is null in the object."""


class Collection:
    """A collection and how far it was read: `changes` may be called again and again."""

    def __init__(self, rest: Rest, path: str | Locate, kind: str = "", **chosen: str) -> None:
        """`path`, such as /apis/apps/v1/deployments, or what returns it at each call of `changes`.

        Where that returns None, the collection is empty until it is served.

        kind    of the objects, where it is known: others are an error
        chosen  labelSelector and fieldSelector, for a part of the collection
        """
        self._kind: Final = kind
        self._rest: Final = rest
        self._locate: Final = path
        self._chosen: Final = chosen
        self._path = ""
        self._known: Final[set[str]] = set()
        self._version = ""

    def forget_version(self) -> None:
        """List again at the next call of `changes`: what came last was not taken in."""
        self._version = ""

    async def changes(self) -> AsyncIterator[Change]:
        """Yield every change until the server ends the watch.

        Raises RefusedError or one of UNREACHED; after status 410 the next call lists again.
        """
        try:
            path = self._locate if isinstance(self._locate, str) else await self._locate()
            if path is None:
                self._version = ""
                while self._known:
                    yield Change(ChangeKind.GONE, self._known.pop())
                yield Change(ChangeKind.CAUGHT_UP)
                await asyncio.sleep(_UNSERVED_SECONDS)
                return
            self._path = path
            if self._version:
                async for change in self._watch(is_caught_up=False):
                    yield change
                return
            async for change in self._list():
                yield change
            yield Change(ChangeKind.CAUGHT_UP)
            async for change in self._watch(is_caught_up=True):
                yield change
        except RefusedError as error:
            if error.status in _LOST:
                self._version = ""
            raise

    async def _list(self) -> AsyncIterator[Change]:
        listed: set[str] = set()
        version = ""
        async for page, cut in self._rest.pages(self._path, self._chosen, kind=self._kind):
            for index, item in enumerate(page.objects):
                uid = metadata_of(self._path, item).uid
                listed.add(uid)
                self._known.add(uid)
                yield Change(ChangeKind.SEEN, uid, item, index in cut)
            version = page.metadata.version
        for uid in self._known - listed:
            self._known.discard(uid)
            yield Change(ChangeKind.GONE, uid)
        if not version:
            raise UnreadableError(self._path, "the list has no resourceVersion")
        self._version = version

    async def _watch(self, *, is_caught_up: bool) -> AsyncIterator[Change]:
        """Watch from the last version; `is_caught_up`: CAUGHT_UP was yielded already."""
        asked = {
            **self._chosen,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        async with self._rest.stream(self._path, **asked) as response:
            if not is_caught_up:
                yield Change(ChangeKind.CAUGHT_UP)
            async for line in _lines(response, self._path):
                event, cut = await decode(self._path, line, _Event)
                if event.type == "ERROR":
                    status, _ = await decode(self._path, event.object, _MetaStatus)
                    raise RefusedError(status.code, status.message)
                if event.type == "BOOKMARK":
                    bookmark, _ = await decode(self._path, event.object, _Bookmark)
                    self._version = bookmark.metadata.resource_version
                    continue
                found, _ = await decode(self._path, event.object, Fields)
                metadata = metadata_of(self._path, found, self._kind)
                if event.type == "DELETED":
                    self._known.discard(metadata.uid)
                    yield Change(ChangeKind.GONE, metadata.uid)
                else:
                    self._known.add(metadata.uid)
                    yield Change(ChangeKind.SEEN, metadata.uid, found, bool(cut))
                self._version = metadata.resource_version


async def keep_watching(
    states: Callable[[], AsyncIterator[T]],
    on_state: Callable[[T], Awaitable[None] | None],
    on_trouble: Callable[[str], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Call `on_state` with every state, for ever; report errors, and try again after a pause.

    What `on_state` returns is awaited before the next state is read.

    The pause grows until it has gone well for a while: a list that can be read says nothing about
    the watch after it.
    """
    wait = _SHORTEST_WAIT
    while True:
        began = clock()
        try:
            async for state in states():
                if (taken := on_state(state)) is not None:
                    await taken
                await sleep(0)  # reviews must not wait for a long list
            # A proxy may end every watch at once: do not reconnect in a storm.
            await sleep(_SHORTEST_WAIT)
        except (RefusedError, *UNREACHED) as error:
            wait = _SHORTEST_WAIT if clock() - began >= _WELL_SECONDS else wait
            on_trouble(str(error) or type(error).__name__)
            await sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)


def informing(
    what: str,
    collection: Collection,
    on_change: Callable[[Change], Awaitable[None] | None],
    supervisor: Supervisor,
    *,
    on_trouble: Callable[[], object] = bool,
    message: str = "objects not watched",
) -> AbstractAsyncContextManager[None]:
    """Call `on_change` with each change while the context is entered.

    what        names the task; the last word is the resource
    on_trouble  called when changes do not arrive any more; `message` is logged then

    After a failure of `on_change` everything is listed again.
    """
    about = {"resource": what.rpartition(" ")[2]}

    told: set[str] = set()

    def warn(reason: str) -> None:
        if reason not in told:
            LOGGER.warning(message, extra={"fields": {**about, "reason": reason}})
        told.add(reason)
        on_trouble()

    def see(change: Change) -> Awaitable[None] | None:
        told.clear()
        return on_change(change)

    def failed() -> None:
        collection.forget_version()
        on_trouble()

    run = {what: lambda: keep_watching(collection.changes, see, warn)}
    return supervisor.running(run, on_failure=failed)


def keeping(
    read: Callable[[dict[str, Any]], T],
    on_state: Callable[[tuple[T, ...]], object],
    supervisor: Supervisor,
) -> Callable[[Change], None]:
    """Return the `on_change` of a small collection: `on_state` gets all of it, sorted by name.

    What is nested too deep to decode is null in an object. `supervisor` counts what `read` raises
    for; it is left out.
    """
    known: dict[str, tuple[str, T]] = {}
    has_all = False

    def on_change(change: Change) -> None:
        nonlocal has_all
        before = known.pop(change.uid, None)
        if change.what is ChangeKind.SEEN:
            with supervisor.guard("objects of a cluster"):
                document = {key: decode_cut(raw) for key, raw in change.object.items()}
                known[change.uid] = (document["metadata"]["name"], read(document))
        has_all = has_all or change.what is ChangeKind.CAUGHT_UP
        is_same = bool(change.uid) and known.get(change.uid) == before
        if has_all and not is_same:
            on_state(tuple(value for _, value in sorted(known.values(), key=lambda pair: pair[0])))

    return on_change


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Version(msgspec.Struct, rename="camel"):
    resource_version: str


class _Bookmark(msgspec.Struct):
    metadata: _Version


class _MetaStatus(msgspec.Struct):
    code: int = 0
    message: str = ""


async def _lines(response: aiohttp.ClientResponse, path: str) -> AsyncIterator[bytes]:
    # Not readline(): a definition is often longer than the reader's limit for a line.
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            raise TooLongError(path, _LONGEST_LINE)
        for line in lines:
            yield line
