"""Follows what the server watches in its cluster: kinds, versions of objects, single objects."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Protocol

import msgspec

from genguard.objects.fields import Fields
from genguard.versions import SENT_TO_NO_WEBHOOK, Versions
from webhook.cluster.discovery import collection_path, once_served
from webhook.cluster.rest import Rest
from webhook.cluster.watch import Change, ChangeKind, Collection, informing
from webhook.tasks.supervisor import Supervisor
from webhook.tasks.threads import in_thread

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

    def on_change(resource: str, change: Change) -> None:
        match change.what:
            case ChangeKind.SEEN if change.is_cut:
                watcher.unreadable(resource, change.uid)
            case ChangeKind.SEEN:
                watcher.seen(resource, change.object)
            case ChangeKind.GONE:
                watcher.gone(change.uid)
            case ChangeKind.CAUGHT_UP:
                watcher.current(resource, is_current=True)

    async with AsyncExitStack() as stack:
        for one in resources:
            found = Collection(rest, partial(collection_path, rest, one))
            lost = partial(watcher.current, one, is_current=False)
            seen = partial(on_change, one)
            watching = informing(f"watch {one}", found, seen, supervisor, lost)
            await stack.enter_async_context(watching)
        yield


def see_versions(resource: str, versions: Versions, supervisor: Supervisor, change: Change) -> None:
    """Have the version of an object judged that a watch has shown: see genguard/versions.py.

    resource  as kubectl names it: services, deployments.apps
    """
    if change.what is ChangeKind.GONE:
        versions.gone(change.uid)
    elif change.what is ChangeKind.SEEN and not change.is_cut:
        with supervisor.guard(f"versions of {resource}"):
            versions.see(resource.partition(".")[0], change.object, time.time())


@asynccontextmanager
async def watching_versions(
    rest: Rest, resources: Iterable[str], versions: Versions, supervisor: Supervisor
) -> AsyncIterator[None]:
    """Judge the versions of what is sent to no webhook, and of these, while entered.

    What the API server does not have is asked for again every ten minutes.
    """
    async with AsyncExitStack() as stack:
        for one in (*SENT_TO_NO_WEBHOOK, *resources):
            found = Collection(rest, partial(once_served, rest, one))
            seen = partial(see_versions, one, versions, supervisor)
            watching = informing(f"versions of {one}", found, seen, supervisor)
            await stack.enter_async_context(watching)
        yield


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
    path = f"/api/v1/namespaces/{namespace}/{resource}"
    found = Collection(rest, path, fieldSelector=f"metadata.name={name}")
    async with informing(f"watch of {resource}/{name}", found, on_change, supervisor):
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
