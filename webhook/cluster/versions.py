"""Watches objects whose successive versions are judged: see genguard/versions.py."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus

from genguard.versions import SENT_TO_NO_WEBHOOK, Versions
from webhook.cluster.rest import RefusedError, Rest
from webhook.cluster.watch import (
    UNSERVED_SECONDS,
    Change,
    ChangeKind,
    Collection,
    collection_path,
    follow,
)
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER


async def follow_versions(
    resource: str,
    collection: Collection,
    versions: Versions,
    supervisor: Supervisor,
    on_trouble: Callable[[str], None],
) -> None:
    """Have each version of each object of a collection judged, for ever.

    resource    as kubectl names it: services, deployments.apps
    on_trouble  is called with the reason while the collection cannot be watched
    """
    plural = resource.partition(".")[0]

    def on_change(change: Change) -> None:
        if change.what is ChangeKind.GONE:
            versions.gone(change.uid)
        elif change.what is ChangeKind.SEEN and not change.is_cut:
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
    collections = {
        one: Collection(rest, partial(_once_served, rest, one))
        for one in (*SENT_TO_NO_WEBHOOK, *resources)
    }
    following = {
        f"versions of {one}": partial(
            follow_versions, one, collection, versions, supervisor, partial(_warn, one)
        )
        for one, collection in collections.items()
    }

    def on_failure() -> None:
        for one in collections.values():
            one.forget_place()

    async with supervisor.running(following, on_failure=on_failure):
        yield


async def _once_served(rest: Rest, resource: str) -> str:
    while True:
        try:
            return await collection_path(rest, resource)
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        await asyncio.sleep(UNSERVED_SECONDS)


def _warn(resource: str, reason: str) -> None:
    facts = {"resource": resource, "reason": reason}
    LOGGER.warning("versions not watched", extra={"facts": facts})
