"""Follows what the server watches in its cluster: kinds, versions of objects, single objects."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Protocol

import msgspec

from genguard.objects.fields import Fields
from genguard.versions import SENT_TO_NO_WEBHOOK, Versions
from webhook.cluster.discovery import UNSERVED_SECONDS, collection_path
from webhook.cluster.rest import RefusedError, Rest
from webhook.cluster.watch import Change, ChangeKind, Collection, follow
from webhook.tasks.supervisor import Supervisor
from webhook.tasks.threads import in_thread
from webhook.telemetry.logs import LOGGER

Texts = Mapping[str, str]


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
        _warn("objects not watched", reason, resource=resource)

    def on_failure() -> None:
        watcher.current(resource, is_current=False)
        collection.forget_place()

    collection = Collection(rest, partial(collection_path, rest, resource))
    return supervisor.running(
        {f"watch {resource}": lambda: follow(collection.changes, on_change, on_trouble)},
        on_failure=on_failure,
    )


async def follow_versions(
    resource: str,
    collection: Collection,
    versions: Versions,
    supervisor: Supervisor,
    on_trouble: Callable[[str], None],
    *,
    on_current: Callable[[], None] = lambda: None,
) -> None:
    """Have each version of each object of a collection judged, for ever: see genguard/versions.py.

    resource    as kubectl names it: services, deployments.apps
    on_trouble  is called with the reason while the collection cannot be watched
    on_current  is called when every object was seen, and every change arrives
    """
    plural = resource.partition(".")[0]

    def on_change(change: Change) -> None:
        if change.what is ChangeKind.CAUGHT_UP:
            on_current()
        elif change.what is ChangeKind.GONE:
            versions.gone(change.uid)
        elif not change.is_cut:
            with supervisor.guard(f"versions of {resource}"):
                versions.see(plural, change.object, time.time())

    await follow(collection.changes, on_change, on_trouble)


@asynccontextmanager
async def watching_versions(
    rest: Rest, resources: Iterable[str], versions: Versions, supervisor: Supervisor
) -> AsyncIterator[None]:
    """Judge the versions of what is sent to no webhook, and of these, while entered.

    What the API server does not have is asked for again every ten minutes.
    """
    async with AsyncExitStack() as stack:
        for one in (*SENT_TO_NO_WEBHOOK, *resources):
            found = Collection(rest, partial(_once_served, rest, one))
            warn = partial(_warn, "versions not watched", resource=one)
            run = partial(follow_versions, one, found, versions, supervisor, warn)
            watching = supervisor.running(
                {f"versions of {one}": run}, on_failure=found.forget_place
            )
            await stack.enter_async_context(watching)
        yield


async def _once_served(rest: Rest, resource: str) -> str:
    while True:
        try:
            return await collection_path(rest, resource)
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        await asyncio.sleep(UNSERVED_SECONDS)


@asynccontextmanager
async def follow_object(
    rest: Rest,
    resource: str,
    place: tuple[str, str],
    seen: Callable[[Fields | None], None],
    supervisor: Supervisor,
) -> AsyncIterator[None]:
    """Call `seen` with one object now and at each change while entered; None: it is not there.

    resource  as in a path of the core group: secrets
    place     namespace and name
    """
    namespace, name = place
    is_there: bool | None = None

    async def locate() -> str:
        return f"/api/v1/namespaces/{namespace}/{resource}"

    def on_change(change: Change) -> None:
        nonlocal is_there
        if change.what is ChangeKind.SEEN:
            is_there = True
            seen(change.object)
        elif is_there is not False and (change.what is ChangeKind.GONE or is_there is None):
            is_there = False
            seen(None)

    # By this selector the right to one object is enough: apiserver pkg/endpoints/request/
    # requestinfo.go takes the name from it.
    found = Collection(rest, locate, fieldSelector=f"metadata.name={name}")
    warn = partial(_warn, "object not watched", resource=resource, name=f"{namespace}/{name}")
    watch = {f"watch of {resource}/{name}": lambda: follow(found.changes, on_change, warn)}
    async with supervisor.running(watch, on_failure=found.forget_place):
        yield


@asynccontextmanager
async def follow_texts(
    rest: Rest, place: tuple[str, str], take: Callable[[Texts | None], None], supervisor: Supervisor
) -> AsyncIterator[None]:
    """Call `take` in a thread with each content of a ConfigMap while entered; None: not there.

    place  namespace and name. Contents that follow each other quickly are taken once, the last of
           them; `take` may block for seconds.
    """
    wake = asyncio.Event()
    latest: Texts | None = None

    def seen(found: Fields | None) -> None:
        nonlocal latest
        data = b"null" if found is None else found.get("data", b"null")
        texts = msgspec.json.decode(data, type=dict[str, str] | None)
        latest = None if found is None else texts or {}
        wake.set()

    async def run() -> None:
        while True:
            await wake.wait()
            wake.clear()
            await in_thread(take, latest)

    async with (
        follow_object(rest, "configmaps", place, seen, supervisor),
        supervisor.running({"rules": run}, on_failure=wake.set),
    ):
        yield


def _warn(message: str, reason: str, **about: str) -> None:
    LOGGER.warning(message, extra={"facts": {**about, "reason": reason}})
