"""Owners and what they own, with the health of each: as far as objects are tracked."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from webhook.dashboard.objects import TrackedObject, show
from webhook.status.remembered import glance
from webhook.status.tracking import Tracked, Tracking

MOST_CHILDREN: Final = 50
MOST_NODES: Final = 300
MOST_DEEP: Final = 8
_BITE: Final = 500


class Branch(msgspec.Struct, frozen=True, rename="camel"):
    """An object with what it owns; of many children there are the first and a count."""

    object: TrackedObject
    children: tuple["Branch", ...]
    more_children: int


async def tree(tracking: Tracking, uid: str, at: float) -> Branch | None:
    """The whole tree that an object stands in, from its uppermost owner; None for none tracked."""
    found = tracking.find(uid)
    if found is None:
        return None
    root = _root(tracking, found)
    return _Growing(tracking, await _owned(tracking), at).branch(root, MOST_DEEP)


class _Growing:
    """Grows one tree, until there is no room for more."""

    def __init__(self, tracking: Tracking, below: Mapping[str, Sequence[str]], at: float) -> None:
        self._tracking: Final = tracking
        self._below: Final = below
        self._at: Final = at
        self._room = MOST_NODES

    def branch(self, found: Tracked, deep: int) -> Branch:
        """An object, and what is below it for so many levels: owners may go in a circle."""
        self._room -= 1
        uids = self._below.get(found.uid, ()) if deep else ()
        known = [one for uid in uids if (one := self._tracking.find(uid)) is not None]
        known.sort(key=lambda one: (one.kind.kind, one.state.settled, one.state.name))
        children = tuple(
            self.branch(one, deep - 1) for one in known[:MOST_CHILDREN] if self._room > 0
        )
        return Branch(show(found, self._at), children, len(known) - len(children))


def _root(tracking: Tracking, found: Tracked) -> Tracked:
    for _ in range(MOST_DEEP):
        owner = tracking.find(found.state.owner) if found.state.owner else None
        if owner is None:
            break
        found = owner
    return found


async def _owned(tracking: Tracking) -> dict[str, list[str]]:
    """The uids that stand below each uid; looks at every tracked object, a bite at a time."""
    below: dict[str, list[str]] = {}
    packed = tracking.packed()
    while bite := list(islice(packed, _BITE)):
        for uid, data in bite:
            owner = glance(data if isinstance(data, bytes) else data[0]).owner
            if owner:
                below.setdefault(owner.decode(), []).append(uid)
        await asyncio.sleep(0)
    return below
