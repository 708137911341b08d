"""The page of one object: its status, its writes over time, its findings, its owners."""

import asyncio
from collections.abc import Iterator, Mapping
from itertools import count, islice
from typing import Final

import msgspec

from genguard.blame.stuck import MOST_LEVELS, damaged_objects, owners
from genguard.detection.finding import Finding
from genguard.detection.write import ObjectKey
from genguard.status.tracked_state import Milestone
from genguard.status.tracking import Tracked, Tracking
from webhook.dashboard.objects import OpenFindings, TrackedObject, find_stuck, show
from webhook.dashboard.page import (
    BadQueryError,
    MissingError,
    PageContext,
    PageData,
    PageQueue,
    check_parameters,
)
from webhook.dashboard.timeline import Step, plot, steps

_NAMES = ("group", "resource", "namespace", "name", "uid")
MOST_CHILDREN: Final = 50
MOST_NODES: Final = 300
_BATCH_SIZE: Final = 500


class Branch(msgspec.Struct, frozen=True, rename="camel"):
    """An object with the objects that it owns; or the first of many, and a count of the others."""

    object: TrackedObject
    children: tuple["Branch", ...]
    more_children: int


class ObjectPage(msgspec.Struct, frozen=True):
    """The data of the page; `tracked` and `tree` are null if no watch shows the object.

    watched  whether objects of its kind are watched
    """

    group: str
    resource: str
    namespace: str
    name: str
    uid: str
    watched: bool
    tracked: TrackedObject | None
    writes: tuple[Step, ...]
    reconciled: tuple[Milestone, ...]
    findings: tuple[Finding, ...]
    tree: Branch | None


async def load(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return the page of an object by uid, or by its names if it has none; raises MissingError."""
    check_parameters(query, _NAMES)
    group, resource, namespace, name, uid = (query.get(parameter, "") for parameter in _NAMES)
    if not resource or not (name or uid):
        raise BadQueryError("the parameters resource, and name or uid, are required")
    detecting = context.sources.detecting
    tracking = detecting.tracking
    key = ObjectKey(group, "", resource, namespace, name, uid)
    remembered = detecting.detection.history.find(key)
    found = tracking.find(uid)
    findings = detecting.findings()
    about = tuple(finding for finding in findings if _is_about(finding, key))
    if remembered is None and found is None and not about:
        raise MissingError(
            "This object is not known. Objects without writes for an hour may be forgotten, and "
            "the status of a kind is known while it is watched (--watch)."
        )
    watch = f"{resource}.{group}" if group else resource
    model = ObjectPage(
        group=group,
        resource=resource,
        namespace=namespace,
        name=name,
        uid=uid,
        watched=watch in context.sources.watching.states(),
        tracked=None if found is None else show(found, now, OpenFindings(about, now)),
        writes=() if remembered is None else steps(remembered, detecting.clock.ahead),
        reconciled=() if found is None else found.state.milestones,
        findings=about,
        tree=await tree(tracking, context.queue, uid, now),
    )
    uids = {uid, *uids_of(model.tree)}
    damaged = damaged_objects(findings)
    values = {
        "stuck": find_stuck(tracking, uids, damaged, now),
        "plot": plot(model.writes, model.reconciled, now) if model.writes else None,
        "watch": watch,
    }
    return PageData(model, values)


def _is_about(found: Finding, key: ObjectKey) -> bool:
    where = found.object
    if where.uid or key.uid:
        return where.uid == key.uid
    names = where.group, where.resource, where.namespace, where.name
    return names == (key.group, key.resource, key.namespace, key.name)


def uids_of(branch: Branch | None) -> Iterator[str]:
    """Yield the uids of all objects of a tree."""
    if branch is not None:
        yield branch.object.uid
        for child in branch.children:
            yield from uids_of(child)


async def tree(tracking: Tracking, queue: PageQueue, uid: str, at: float) -> Branch | None:
    """Return the owner tree of an object from its root; None if the object is not tracked."""
    found = tracking.find(uid)
    if found is None:
        return None
    *_, root = found, *owners(tracking, found)
    # One dictionary of texts: a list for each owner would keep the garbage collector busy.
    owner_of: dict[str, str] = {}
    states = tracking.states()
    while batch := list(islice(states, _BATCH_SIZE)):
        owner_of.update((uid, state.owner) for uid, state in batch if state.owner)
        await asyncio.sleep(0)
    below = await queue.in_thread(lambda: _below(root.uid, owner_of))
    room = count(MOST_NODES, -1)

    def branch(found: Tracked, deep: int) -> Branch:
        """Return an object with at most `deep` levels below it: owners may form a cycle."""
        uids = below.get(found.uid, ()) if deep else ()
        known = [child for uid in uids if (child := tracking.find(uid)) is not None]
        known.sort(key=lambda child: (child.kind.kind, child.state.settled, child.state.name))
        children = [branch(child, deep - 1) for child in known[:MOST_CHILDREN] if next(room) > 1]
        return Branch(show(found, at), tuple(children), len(known) - len(children))

    return branch(root, MOST_LEVELS)


def _below(root: str, owner_of: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the uids directly below each uid of one tree."""
    below: dict[str, list[str]] = {}
    level = {root}
    for _ in range(MOST_LEVELS):
        found = [(uid, owner) for uid, owner in owner_of.items() if owner in level]
        for uid, owner in found:
            below.setdefault(owner, []).append(uid)
        level = {uid for uid, _ in found}
    return below
