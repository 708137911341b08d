"""Owners and what they own, with the health of each: as far as objects are tracked."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from webhook.dashboard.objects import TrackedObject, show
from webhook.dashboard.turns import Turns
from webhook.status.tracked_state import read_owner
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


async def tree(tracking: Tracking, turns: Turns, uid: str, at: float) -> Branch | None:
    """The whole tree that an object stands in, from its uppermost owner; None for none tracked."""
    found = tracking.find(uid)
    if found is None:
        return None
    root = _root(tracking, found)
    owners = await _owners(tracking)
    below = await turns.aside(lambda: _below(root.uid, owners))
    return _Growing(tracking, below, at).branch(root, MOST_DEEP)


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


async def _owners(tracking: Tracking) -> dict[str, bytes]:
    """Below what each owned object stands; looks at every tracked object, a bite at a time.

    One dictionary of texts: one list for each owner would keep the garbage collector busy.
    """
    owners: dict[str, bytes] = {}
    packed = tracking.packed()
    while bite := list(islice(packed, _BITE)):
        for uid, data in bite:
            owner = read_owner(data if isinstance(data, bytes) else data[0])
            if owner:
                owners[uid] = owner
        await asyncio.sleep(0)
    return owners


def _below(root: str, owners: Mapping[str, bytes]) -> dict[str, list[str]]:
    """The uids that stand below each uid of one tree."""
    below: dict[str, list[str]] = {}
    level = {root.encode()}
    for _ in range(MOST_DEEP):
        found = [(uid, owner) for uid, owner in owners.items() if owner in level]
        for uid, owner in found:
            below.setdefault(owner.decode(), []).append(uid)
        level = {uid.encode() for uid, _ in found}
        if not level:
            break
    return below
