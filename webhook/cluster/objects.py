"""Follows the objects of the resources that `serve --watch` names, each by a watch of its own."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Protocol

from webhook.cluster.rest import RefusedError, Rest
from webhook.cluster.watched import Change, Collection, What, follow
from webhook.objects.fields import Fields
from webhook.running import running
from webhook.telemetry.logs import LOGGER


class Watcher(Protocol):
    """Who is told what is seen; called from the event loop's thread."""

    def seen(self, resource: str, found: Fields) -> None:
        """Take in an object, whole, as it is now."""

    def gone(self, uid: str) -> None:
        """Take in that an object is there no longer."""

    def current(self, resource: str, *, is_current: bool) -> None:
        """Take in whether all of a resource has been seen and every change arrives."""


@asynccontextmanager
async def follow_objects(
    rest: Rest, resources: Iterable[str], watcher: Watcher
) -> AsyncIterator[None]:
    """Tell the watcher of every object of these resources, in all namespaces.

    `resources` are named as kubectl names them: pods, deployments.apps. What the API server does
    not have, or does not show, is asked for again and again.
    """
    async with running(_follow(rest, resource, watcher) for resource in resources):
        yield


async def _follow(rest: Rest, resource: str, watcher: Watcher) -> None:
    async def locate() -> str:
        return await collection_path(rest, resource)

    def on_change(change: Change) -> None:
        match change.what:
            case What.SEEN:
                watcher.seen(resource, change.object)
            case What.GONE:
                watcher.gone(change.uid)
            case What.CAUGHT_UP:
                watcher.current(resource, is_current=True)

    def on_trouble(reason: str) -> None:
        watcher.current(resource, is_current=False)
        LOGGER.warning(
            "objects not watched", extra={"facts": {"resource": resource, "reason": reason}}
        )

    await follow(Collection(rest, locate).changes, on_change, on_trouble)


async def collection_path(rest: Rest, resource: str) -> str:
    """Where the API server has `deployments.apps`: in the version that it prefers, if it is there.

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
