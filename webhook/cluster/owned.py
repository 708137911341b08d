"""What objects own whose kind tells nothing of that: looked up by ownerReferences.

The API has no way to ask for the owned, so the metadata of every kind that has a status is read.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from webhook.cluster.rest import UNREACHED, RefusedError, Rest
from webhook.objects.served import Served
from webhook.status.kinds.silent import SILENT_KINDS

_AT_ONCE: Final = 8


async def owned_kinds(
    rest: Rest, kinds: Iterable[Served], namespace: str, owners: Iterable[str]
) -> set[Served]:
    """The kinds of everything below these owners, given by uid; "" is every namespace.

    What may not be listed is not looked at.
    """
    preferred = {(one.group, one.resource): one for one in reversed(tuple(kinds))}
    looked_at = [one for one in preferred.values() if one.watchable and _says_something(one)]
    turn = asyncio.Semaphore(_AT_ONCE)

    async def read(one: Served) -> list[Mapping[str, Any]]:
        async with turn:
            try:
                listed = await rest.metadata(one.path(namespace if one.namespaced else ""))
            except (RefusedError, *UNREACHED):
                return []
        return [item["metadata"] for item in listed.get("items") or ()]

    lists = await asyncio.gather(*(read(one) for one in looked_at))
    below: dict[str, list[tuple[str, Served]]] = {}
    for one, items in zip(looked_at, lists, strict=True):
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
    return found


def _says_something(one: Served) -> bool:
    return one.namespaced and one.kind not in SILENT_KINDS.get(one.group, ())
