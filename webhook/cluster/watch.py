"""Lists a collection of the API server page by page, then watches it: every change of it.

Memory holds one page of a list at a time, and of each object its uid. A watch that ends goes on
where it ended; the list is read again only when the API server has forgotten that place (410).

Not the library's informers, because they decode and keep whole objects, and run in threads; nor
kubernetes.aio's Watch: it decodes every object whole, on the event loop, and fails at a line longer
than the reader's limit, which a CustomResourceDefinition often is.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from enum import Enum
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import aiohttp
import msgspec

from genguard.formats.nesting import cut_deep, decode_cut
from genguard.objects.fields import Fields, fields_of
from webhook.cluster.rest import UNREACHED, RefusedError, Rest
from webhook.tasks.supervisor import Supervisor
from webhook.tasks.threads import in_thread
from webhook.telemetry.logs import LOGGER

T = TypeVar("T")

# Below the client's own limit of 300 s for a whole call: the server ends the watch, not an error.
_WATCH_SECONDS: Final = 240
_PAGE: Final = 250  # of pods, some 4 MiB
_LOST: Final = frozenset({HTTPStatus.GONE, HTTPStatus.NOT_FOUND})
"""The list is too old to watch from, or the resource has moved: list again."""
_SHORTEST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
UNSERVED_SECONDS: Final = 600.0
"""Until a server that does not have a kind is asked for it again; it may be upgraded meanwhile."""
_NOTHING: Final[Fields] = {}


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
    """A collection and how far it was followed: `changes` may be called again and again."""

    def __init__(self, rest: Rest, locate: Callable[[], Awaitable[str]], **chosen: str) -> None:
        """`locate` returns the path, such as /apis/apps/v1/deployments, before each list.

        `chosen`: labelSelector and fieldSelector, for a part of the collection.
        """
        self._rest: Final = rest
        self._locate: Final = locate
        self._chosen: Final = chosen
        self._path = ""
        self._known: Final[set[str]] = set()
        self._version = ""

    def forget_place(self) -> None:
        """List again at the next call of `changes`: what came last was not taken in."""
        self._version = ""

    async def changes(self) -> AsyncIterator[Change]:
        """Yield every change until the server ends the watch.

        Raises RefusedError, one of UNREACHED or msgspec.MsgspecError.
        """
        try:
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
            page, cut = await _decode(await self._rest.read(self._path, **asked), _Page)
            # The API server leaves the kind out of the items of built-in lists.
            typed = fields_of(
                {"apiVersion": page.api_version, "kind": page.kind.removesuffix("List")}
            )
            for index, item in enumerate(page.items or ()):
                uid = _metadata.decode(item["metadata"]).uid
                listed.add(uid)
                self._known.add(uid)
                yield Change(ChangeKind.SEEN, uid, typed | item, index in cut)
            if not page.metadata.next:
                break
        for uid in self._known - listed:
            self._known.discard(uid)
            yield Change(ChangeKind.GONE, uid)
        self._version = page.metadata.resource_version

    async def _watch(self, *, is_caught_up: bool) -> AsyncIterator[Change]:
        """Watch from the last version; `is_caught_up`: CAUGHT_UP was yielded already."""
        asked = {
            **self._chosen,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        async with await self._rest.stream(self._path, **asked) as response:
            if not is_caught_up:
                yield Change(ChangeKind.CAUGHT_UP)
            async for line in _lines(response.content):
                event, cut = await _decode(line, _Event)
                if event.type == "ERROR":
                    status = msgspec.json.decode(
                        msgspec.json.encode(event.object), type=_MetaStatus
                    )
                    raise RefusedError(status.code, status.message)
                metadata = _metadata.decode(event.object["metadata"])
                if event.type == "DELETED":
                    self._known.discard(metadata.uid)
                    yield Change(ChangeKind.GONE, metadata.uid)
                elif event.type != "BOOKMARK":
                    self._known.add(metadata.uid)
                    yield Change(ChangeKind.SEEN, metadata.uid, event.object, bool(cut))
                self._version = metadata.resource_version


async def follow(
    states: Callable[[], AsyncIterator[T]],
    on_state: Callable[[T], None],
    on_trouble: Callable[[str], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Call `on_state` with every state, for ever; report errors, and try again after a pause."""
    wait = _SHORTEST_WAIT
    while True:
        try:
            async for state in states():
                on_state(state)
                wait = _SHORTEST_WAIT
                await sleep(0)  # reviews must not wait for a long list
            # A proxy may end every watch at once: do not reconnect in a storm.
            await sleep(_SHORTEST_WAIT)
        except (RefusedError, *UNREACHED, msgspec.MsgspecError) as error:
            on_trouble(str(error) or type(error).__name__)
            await sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)


async def watch_collection(
    rest: Rest,
    path: str,
    read: Callable[[dict[str, Any]], T],
    supervisor: Supervisor,
    **chosen: str,
) -> AsyncIterator[tuple[T, ...]]:
    """Yield a small collection, sorted by name, now and after each event, until the watch ends.

    What is nested too deep to decode is null in an object. `supervisor` counts what `read` raises
    for; it is left out. `chosen` as for Collection.
    """
    known: dict[str, tuple[str, T]] = {}
    has_all = False

    async def locate() -> str:
        return path

    async for what, uid, found, _ in Collection(rest, locate, **chosen).changes():
        if what is ChangeKind.SEEN:
            known.pop(uid, None)
            with supervisor.guard("objects of a cluster"):
                whole = {key: decode_cut(raw) for key, raw in found.items()}
                known[uid] = (whole["metadata"]["name"], read(whole))
        elif what is ChangeKind.GONE:
            known.pop(uid, None)
        has_all = has_all or what is ChangeKind.CAUGHT_UP
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


async def _decode(text: bytes, kind: type[T]) -> tuple[T, frozenset[int]]:
    """Decode a page or an event; return the indexes of its objects that were cut, too.

    Raises msgspec.MsgspecError.
    """
    try:
        return msgspec.json.decode(text, type=kind), frozenset()
    except RecursionError:
        cut = await in_thread(cut_deep, text)
        return msgspec.json.decode(cut.text, type=kind), cut.items


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


class Watcher(Protocol):
    """Receives what the watches see, on the event loop's thread."""

    def seen(self, resource: str, found: Fields) -> None:
        """Take the current state of an object, whole."""

    def unreadable(self, resource: str, uid: str) -> None:
        """Take that an object is nested too deep to be decoded."""

    def gone(self, uid: str) -> None:
        """Take that an object was deleted."""

    def current(self, resource: str, *, is_current: bool) -> None:
        """Take whether all objects of a resource were seen and every change arrives."""


@asynccontextmanager
async def follow_objects(
    rest: Rest, resources: Iterable[str], watcher: Watcher, supervisor: Supervisor
) -> AsyncIterator[None]:
    """Watch every object of these resources in all namespaces while the context is entered.

    `resources` are named as in kubectl: pods, deployments.apps. A resource that the API server does
    not have, or does not show, is asked for again and again.
    """
    async with AsyncExitStack() as stack:
        for resource in resources:
            await stack.enter_async_context(_following(rest, resource, watcher, supervisor))
        yield


def _following(
    rest: Rest, resource: str, watcher: Watcher, supervisor: Supervisor
) -> AbstractAsyncContextManager[None]:
    async def locate() -> str:
        return await collection_path(rest, resource)

    def on_change(change: Change) -> None:
        match change.what:
            case ChangeKind.SEEN if change.is_cut:
                watcher.unreadable(resource, change.uid)
            case ChangeKind.SEEN:
                watcher.seen(resource, change.object)
            case ChangeKind.GONE:
                watcher.gone(change.uid)
            case ChangeKind.CAUGHT_UP:
                watcher.current(resource, is_current=True)

    def on_trouble(reason: str) -> None:
        watcher.current(resource, is_current=False)
        LOGGER.warning(
            "objects not watched", extra={"facts": {"resource": resource, "reason": reason}}
        )

    def on_failure() -> None:
        watcher.current(resource, is_current=False)
        collection.forget_place()

    collection = Collection(rest, locate)
    return supervisor.running(
        {f"watch {resource}": lambda: follow(collection.changes, on_change, on_trouble)},
        on_failure=on_failure,
    )


async def collection_path(rest: Rest, resource: str) -> str:
    """Return the path of `deployments.apps`, in the preferred version if it has the resource.

    Raises RefusedError, with status 404 where no version has it, or one of UNREACHED.
    """
    name, _, group = resource.partition(".")
    for root in await _roots(rest, group):
        for one in (await rest.get(root)).get("resources") or ():
            if one["name"] == name:
                if "watch" not in one["verbs"]:
                    raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, f"{resource}: has no watch")
                return f"{root}/{name}"
    raise RefusedError(
        HTTPStatus.NOT_FOUND,
        f"the server has no resource {resource}; kubectl api-resources lists what it has",
    )


async def _roots(rest: Rest, group: str) -> list[str]:
    if not group:
        return ["/api/v1"]
    found = await rest.get(f"/apis/{group}")
    versions = [found["preferredVersion"], *found["versions"]]
    return [f"/apis/{one['groupVersion']}" for one in versions]
