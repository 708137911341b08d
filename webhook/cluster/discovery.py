"""Finds out which resources the API server serves, and which kinds belong to given owners."""

import asyncio
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

from genguard.objects.served import Served, read_resources
from genguard.status.kinds.silent import SILENT_KINDS
from webhook.cluster.rest import UNREACHED, RefusedError, Rest

_AT_ONCE: Final = 8


async def discover(rest: Rest) -> list[Served]:
    """Return every served resource: the core first, then groups in the server's order.

    Of each group the preferred version comes first.

    Raises RefusedError or one of UNREACHED.
    """
    groups = (await rest.get("/apis"))["groups"]
    versions = ["v1"]
    for group in groups:
        preferred = group["preferredVersion"]["groupVersion"]
        others = [one["groupVersion"] for one in group["versions"]]
        versions += [preferred, *(one for one in others if one != preferred)]
    lists = await asyncio.gather(*(_resources(rest, version) for version in versions))
    return [one for resources in lists for one in resources]


async def _resources(rest: Rest, version: str) -> list[Served]:
    path = f"/apis/{version}" if "/" in version else f"/api/{version}"
    try:
        return list(read_resources(version, await rest.get(path)))
    except RefusedError as error:
        if error.is_passing or error.status == HTTPStatus.NOT_FOUND:
            return []  # an aggregated API whose server is down must not hide the other kinds
        raise


async def owned_kinds(
    rest: Rest, kinds: Iterable[Served], namespace: str, owners: Iterable[str]
) -> tuple[set[Served], list[Served]]:
    """Return the kinds of all objects that these owners, given by uid, own directly or indirectly.

    The API cannot list what an object owns, so the metadata of every kind with a status is read.
    Also returns the kinds that could not be listed. The namespace "" stands for all.
    """
    preferred = {(one.group, one.resource): one for one in reversed(tuple(kinds))}
    candidates = [one for one in preferred.values() if one.watchable and _has_status(one)]
    turn = asyncio.Semaphore(_AT_ONCE)
    unread: list[Served] = []

    async def read(one: Served) -> list[Mapping[str, Any]]:
        async with turn:
            try:
                listed = await rest.metadata(one.path(namespace if one.namespaced else ""))
            except (RefusedError, *UNREACHED):
                unread.append(one)
                return []
        return [item["metadata"] for item in listed.get("items") or ()]

    lists = await asyncio.gather(*(read(one) for one in candidates))
    below: dict[str, list[tuple[str, Served]]] = {}
    for one, items in zip(candidates, lists, strict=True):
        for item in items:
            for owner in item.get("ownerReferences") or ():
                below.setdefault(owner["uid"], []).append((item["uid"], one))
    found: set[Served] = set()
    pending, seen = list(owners), set()
    while pending:
        owner = pending.pop()
        if owner not in seen:
            seen.add(owner)
            found.update(one for _, one in below.get(owner, ()))
            pending += [uid for uid, _ in below.get(owner, ())]
    return found, unread


def _has_status(one: Served) -> bool:
    return one.namespaced and one.kind not in SILENT_KINDS.get(one.group, ())
