"""Finds out what the API server serves: resources, their paths, and kinds that owners have."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any, Final

from genguard.objects.served import Served, UnknownTargetError, read_resources
from genguard.status.kinds.cluster import SILENT_KINDS
from webhook.cluster.rest import UNREACHED, RefusedError, Rest, UnreadableError, if_there

_AT_ONCE: Final = 8


async def discover(rest: Rest) -> list[Served]:
    """Return every served resource: the core first, then groups in the server's order.

    The preferred version of each group comes first.

    Raises RefusedError or one of UNREACHED.
    """
    listed = await rest.get("/apis")
    try:
        roots = [version for group in listed["groups"] for version in _versions(group)]
    except (KeyError, TypeError) as error:
        raise UnreadableError("/apis", "it has no groups with versions") from error
    lists = await asyncio.gather(*(_resources(rest, root) for root in ("/api/v1", *roots)))
    return [resource for resources in lists for resource in resources]


def _versions(group: Mapping[str, Any]) -> list[str]:
    """Return the root of each version of an APIGroup, the preferred one first."""
    found = [group["preferredVersion"], *group["versions"]]
    return list(dict.fromkeys(f"/apis/{version['groupVersion']}" for version in found))


async def _resources(rest: Rest, root: str) -> list[Served]:
    try:
        listed = await rest.get(root)
        return list(read_resources(root.removeprefix("/apis/").removeprefix("/api/"), listed))
    except RefusedError as error:
        if error.is_passing or error.status == HTTPStatus.NOT_FOUND:
            return []  # an aggregated API whose server is down must not hide the other kinds
        raise
    except (KeyError, TypeError, AttributeError) as error:
        raise UnreadableError(root, "a resource has no name or kind") from error


async def absent(rest: Rest, kind: Served, namespace: str, name: str) -> UnknownTargetError:
    """Return the error that there is no such object, and which is meant; "" is every namespace.

    Raises one of UNREACHED.
    """
    names: list[str] = []
    with suppress(RefusedError):
        listed = await rest.list_all(kind.path(namespace), only_metadata=True)
        names = [item["metadata"]["name"] for item in listed]
    near = get_close_matches(name, names, n=1)
    where = f" in namespace {namespace}" if namespace else ""
    meant = f"; did you mean {near[0]}?" if near else ""
    return UnknownTargetError(f"there is no {kind}/{name}{where}{meant}")


async def collection_path(rest: Rest, resource: str) -> str:
    """Return the path of `deployments.apps`, in the preferred version if it has the resource.

    Raises RefusedError, with status 404 where no version has it, or one of UNREACHED.
    """
    name, _, group = resource.partition(".")
    roots = _versions(await rest.get(f"/apis/{group}")) if group else ["/api/v1"]
    for root in roots:
        for entry in (await rest.get(root)).get("resources") or ():
            if entry["name"] == name:
                if "watch" not in entry["verbs"]:
                    raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, f"{resource}: has no watch")
                return f"{root}/{name}"
    raise RefusedError(
        HTTPStatus.NOT_FOUND,
        f"the server has no resource {resource}; kubectl api-resources lists what it has",
    )


async def path_if_served(rest: Rest, resource: str) -> str | None:
    """Return the same path, None where the API server does not have the resource."""
    return await if_there(collection_path(rest, resource))


async def owned_kinds(
    rest: Rest, kinds: Iterable[Served], namespace: str, owners: Iterable[str]
) -> tuple[set[Served], list[Served]]:
    """Return the kinds of all objects that these owners, given by uid, own directly or indirectly.

    The API cannot list what an object owns, so the metadata of every kind with a status is read.
    Also returns the kinds that could not be listed. The namespace "" stands for all.
    """
    preferred = {(kind.group, kind.resource): kind for kind in reversed(tuple(kinds))}
    candidates = [
        kind
        for kind in preferred.values()
        if kind.watchable and kind.namespaced and (kind.group, kind.kind) not in SILENT_KINDS
    ]
    slot = asyncio.Semaphore(_AT_ONCE)
    unread: list[Served] = []

    async def read(kind: Served) -> list[Mapping[str, Any]]:
        async with slot:
            try:
                path = kind.path(namespace if kind.namespaced else "")
                listed = await rest.list_all(path, only_metadata=True)
            except (RefusedError, *UNREACHED):
                unread.append(kind)
                return []
        return [item["metadata"] for item in listed]

    lists = await asyncio.gather(*(read(candidate) for candidate in candidates))
    below: dict[str, list[tuple[str, Served]]] = {}
    for kind, items in zip(candidates, lists, strict=True):
        for item in items:
            for owner in item.get("ownerReferences") or ():
                below.setdefault(owner["uid"], []).append((item["uid"], kind))
    found: set[Served] = set()
    pending, seen = list(owners), set()
    while pending:
        owner = pending.pop()
        if owner not in seen:
            seen.add(owner)
            found.update(kind for _, kind in below.get(owner, ()))
            pending += [uid for uid, _ in below.get(owner, ())]
    return found, unread
