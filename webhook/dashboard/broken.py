"""What is broken now: findings, and objects that are not settled though nothing changes any more.

An object that is not settled is in progress until it counts as stuck: see `stuck_at`.
Objects that own each other are one entry: the topmost that is not settled, with the field that
blocks it or what it owns. Whoever is blamed for a finding about it, about an owner of it or about
what it owns, is to blame. Objects are known as watches show them; this replica asks nobody.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple, Self

import msgspec

from genguard.detection.finding import Finding, Severity
from genguard.status.tracking import Tracked, Tracking
from genguard.status.view import Health
from webhook.dashboard.headlines import culprit
from webhook.dashboard.objects import damaged_objects, owners, stuck_since
from webhook.dashboard.page import PageContext, PageData, PageQueue, Sources, check_parameters
from webhook.dashboard.rendering import (
    ENDING,
    parse_time,
    shown_severity,
    span,
    stamp,
    stamp_exactly,
)

MOST_SHOWN: Final = 100
"""Objects of a list, those first that wait for longest."""
_BATCH_SIZE: Final = 50
"""Objects between two pauses for the event loop: about half a millisecond."""
_SECONDS_OF_SHED: Final = 60.0
"""A loop turns again in this time: what was not seen of it is seen then."""
_BROKEN: Final = frozenset({Severity.WARNING, Severity.CRITICAL})


class Verdict(StrEnum):
    """Whether something is broken.

    ending   nothing is, but findings wait to be resolved: no sign comes any more
    unknown  nothing is known to be, but this server cannot tell
    """

    BROKEN = "broken"
    ENDING = "ending"
    UNKNOWN = "unknown"
    GOOD = "good"


class NotSettled(msgspec.Struct, frozen=True, rename="camel"):
    """An object that is not settled; times are RFC 3339.

    since      since when the same field blocks; for longer, if the object was known before
    blocks     the field, what it has and what is wanted; "" where it is not known
    blocked_object  what has this field, where the object owns it: `Pod web-1`; "" for itself
    more       how many other objects that it owns are not settled
    stuck      nothing changes any more; otherwise it is in progress
    finding    the id of the finding that says who is to blame, "" without one
    culprit    who is to blame, "" without a finding
    relation   what this finding is about: "object", "owner", "owned"; "" without one
    """

    group: str
    resource: str
    kind: str
    namespace: str
    name: str
    uid: str
    health: Health
    since: str
    blocks: str
    blocked_object: str
    more: int
    stuck: bool
    finding: str = ""
    culprit: str = ""
    relation: str = ""


class Broken(msgspec.Struct, frozen=True, rename="camel"):
    """What is broken; lists hold MOST_SHOWN objects at most, numbers count all.

    since     since when something is broken without a break; null where nothing is
    objects   how many objects findings and stuck ones are about, each counted once
    findings  how many findings say that something is broken
    ending    how many only wait to be resolved, the last of them at ends_at; not those whose
              object is right again
    missing   why this server cannot tell, a sentence each
    """

    verdict: Verdict
    since: str | None
    objects: int
    findings: int
    stuck: int
    in_progress: int
    not_settled: tuple[NotSettled, ...]
    proceeding: tuple[NotSettled, ...]
    missing: tuple[str, ...]
    ending: int = 0
    ends_at: str | None = None


def is_broken(one: Finding, now: float) -> bool:
    """Whether an unresolved finding says that something is broken now."""
    if one.state == "resolved":
        return False
    return one.state == "quiet" or shown_severity(one, now) in _BROKEN


class _Member(NamedTuple):
    """One object that is not settled."""

    found: Tracked
    stuck_since: float | None
    """When what blocks it began, where it is stuck."""


class _Family:
    """Objects that are not settled below one root."""

    __slots__ = ("count", "root", "root_uid", "shown", "stuck_since", "waiting_since")

    def __init__(self, root_uid: str) -> None:
        self.root_uid: Final = root_uid
        self.root: _Member | None = None
        self.shown: _Member | None = None
        self.count = 0
        self.stuck_since: float | None = None
        self.waiting_since: float | None = None

    def add(self, one: _Member) -> None:
        """Count one of its objects. Shown is what blocks the others: the lowest that is stuck."""
        self.count += 1
        if one.found.uid == self.root_uid:
            self.root = one
        since = one.found.state.blocked_since
        if one.stuck_since is not None:
            self.stuck_since = min(one.stuck_since, self.stuck_since or one.stuck_since)
        self.waiting_since = min(since, self.waiting_since or since)
        if self.shown is None or _rank(one) < _rank(self.shown):
            self.shown = one


def _rank(one: _Member) -> tuple[bool, bool, bool, float]:
    """Sorts what explains most first: a spec that nobody observes, what failed, what is oldest."""
    is_stuck = one.stuck_since is not None
    is_red = one.found.state.health is Health.RED
    return (
        not is_stuck,
        not one.found.state.is_unobserved,
        not is_red,
        one.found.state.blocked_since,
    )


class _Active(NamedTuple):
    """What unresolved findings say.

    ranked   all of them, those first that are to blame for what they are about
    about    uids of the objects whose damage is there
    broken   names of the objects that are broken
    red      how many findings say that something is broken
    since    the times at which that began
    ends     when those that would say so, but only wait to be resolved, will be
    """

    ranked: tuple[Finding, ...]
    about: frozenset[str]
    broken: frozenset[str]
    red: int
    since: tuple[float, ...]
    ends: tuple[float, ...]

    @classmethod
    def read(cls, findings: Iterable[Finding], now: float) -> Self:
        """Read findings; up to 100 ms for the maximum: run it in a thread."""
        active = [one for one in findings if one.state != "resolved"]
        red = [one for one in active if is_broken(one, now)]
        reds = {one.id for one in red}
        ending = [
            one for one in active if shown_severity(one, now) == ENDING and not one.is_whole(now)
        ]
        return cls(
            tuple(sorted(active, key=_blame_rank)),
            damaged_objects(active),
            frozenset(
                one.object.identity
                for one in active
                if one.objects is None and (one.id in reds or one.part_of in reds)
            ),
            len(red),
            tuple(parse_time(one.first_seen) for one in red),
            tuple(parse_time(one.last_seen) + one.resolves_after for one in ending),
        )


async def find_broken(
    sources: Sources, findings: Sequence[Finding], queue: PageQueue, now: float
) -> Broken:
    """Return what is broken at a time. Reads all objects that are not settled, in batches."""
    tracking = sources.detecting.tracking
    active = await queue.in_thread(lambda: _Active.read(findings, now))
    families = await _families(tracking, active.about, now)
    stuck = [one for one in families.values() if one.stuck_since is not None]
    waits = [one for one in families.values() if one.stuck_since is None]
    shown = heapq.nsmallest(MOST_SHOWN, stuck, key=lambda one: one.stuck_since or 0.0)
    proceeding = heapq.nsmallest(MOST_SHOWN, waits, key=lambda one: one.waiting_since or 0.0)
    blames = await _Blames.read(tracking, active.ranked if families else ())
    began = [*active.since, *(one.stuck_since for one in stuck if one.stuck_since is not None)]
    missing = tuple(_missing(sources, now))
    verdict = Verdict.UNKNOWN if missing else Verdict.GOOD
    if active.ends:
        verdict = Verdict.ENDING
    return Broken(
        verdict=Verdict.BROKEN if began else verdict,
        since=stamp_exactly(min(began)) if began else None,
        objects=len({one.root_uid for one in stuck} | active.broken),
        findings=active.red,
        stuck=len(stuck),
        in_progress=len(waits),
        not_settled=tuple(_show(one, blames) for one in shown),
        proceeding=tuple(_show(one, blames) for one in proceeding),
        missing=missing,
        ending=len(active.ends),
        ends_at=stamp_exactly(max(active.ends)) if active.ends else None,
    )


async def load(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return the JSON."""
    check_parameters(query, ())
    findings = context.sources.detecting.findings()
    return PageData(await find_broken(context.sources, findings, context.queue, now), {})


def _missing(sources: Sources, now: float) -> Iterator[str]:
    """Say why this server cannot tell that nothing is broken."""
    if active := sources.stands_by_for:
        yield (
            f"{active} judges, and does not show its pages to this pod. Findings are as "
            f"saved at {stamp(sources.saved_at(now))}; other pages show what this pod sees itself."
        )
    elif not sources.metrics.last_review:
        yield (
            "No write has been seen since this server started: there was none, or the API server "
            "does not call genguard."
        )
    if not sources.connected:
        yield (
            "No cluster is connected (--kubeconfig): only the writes that arrive here are known, "
            "and nobody can look whether an object is right again."
        )
    if (ago := now - sources.detecting.last_shed) < _SECONDS_OF_SHED:
        yield (
            f"Not every review is judged, since there is too much to do: the last one was left out "
            f"{span(max(ago, 0.0) // 1)} ago. Loops may go on unseen."
        )
    for resource, is_current in sources.watching.states().items():
        if not is_current:
            yield f"The watch of {resource} is not current: changes may be missing."
    if sources.about().get("store") == "sqlite-damaged":
        yield (
            "The file of findings was damaged when this server started, and was moved aside, as "
            "the log says: what was known before is missing."
        )
    for task in sources.failing():
        yield f"A part of this server fails: {task}. What it does may be missing."


async def _families(tracking: Tracking, about: frozenset[str], now: float) -> dict[str, _Family]:
    """Return all objects that are not settled, by the uid of the topmost of them.

    about  uids of the objects of findings: a spec that is not observed there is no rollout
    """
    families: dict[str, _Family] = {}
    unsettled = tracking.unsettled()
    while batch := list(islice(unsettled, _BATCH_SIZE)):
        for found in batch:
            root = _root(tracking, found)
            family = families.get(root)
            if family is None:
                family = families[root] = _Family(root)
            family.add(_Member(found, stuck_since(tracking, found, about, now)))
        await asyncio.sleep(0)
    return families


def _root(tracking: Tracking, found: Tracked) -> str:
    """Return the uid of the topmost owner that is not settled, or of the object itself."""
    root = found.uid
    for owner in owners(tracking, found):
        if not owner.state.settled:
            root = owner.uid
    return root


class _Blames:
    """The findings about objects, by uid, and about what is below them."""

    def __init__(self, tracking: Tracking) -> None:
        self._tracking: Final = tracking
        self._by_id: Final[dict[str, Finding]] = {}
        self._about: Final[dict[str, Finding]] = {}
        self._below: Final[dict[str, Finding]] = {}

    @classmethod
    async def read(cls, tracking: Tracking, findings: Iterable[Finding]) -> Self:
        """Read findings in batches; the first about an object is the one to blame."""
        made = cls(tracking)
        ranked = iter(findings)
        while batch := list(islice(ranked, _BATCH_SIZE)):
            for one in batch:
                made._add(one)
            await asyncio.sleep(0)
        return made

    def _add(self, one: Finding) -> None:
        self._by_id[one.id] = one
        uid = one.object.uid
        if not uid:
            return
        self._about.setdefault(uid, one)
        found = self._tracking.find(uid)
        for owner in owners(self._tracking, found) if found is not None else ():
            self._below.setdefault(owner.uid, one)

    def find(self, family: _Family) -> tuple[Finding | None, str]:
        """Return the finding to blame for objects that are not settled, and what it is about."""
        members = [one for one in (family.shown, family.root) if one is not None]
        for one in members:
            if found := self._about.get(one.found.uid):
                relation = "object" if one.found.uid == family.root_uid else "owned"
                return self._cause(found), relation
        for one in members:
            for owner in owners(self._tracking, one.found):
                if found := self._about.get(owner.uid):
                    is_root = owner.uid == family.root_uid
                    return self._cause(found), "object" if is_root else "owner"
        if found := self._below.get(family.root_uid):
            return self._cause(found), "owned"
        return None, ""

    def _cause(self, one: Finding) -> Finding:
        return self._by_id.get(one.above, one)


def _blame_rank(one: Finding) -> tuple[bool, int, int]:
    """Sorts those first that blame somebody, and the worst of them."""
    return not one.actors, -one.severity.rank, -one.count


def _show(family: _Family, blames: _Blames) -> NotSettled:
    shown = family.shown
    assert shown is not None  # noqa: S101 - a family is made with its first member
    root = family.root or shown
    state, kind = root.found.state, root.found.kind
    finding, relation = blames.find(family)
    since = (
        family.stuck_since if family.stuck_since is not None else shown.found.state.blocked_since
    )
    is_root = shown.found.uid == root.found.uid
    return NotSettled(
        group=kind.group,
        resource=kind.resource,
        kind=kind.kind,
        namespace=state.namespace,
        name=state.name,
        uid=root.found.uid,
        health=max((root.found.state.health, shown.found.state.health), key=_BY_HEALTH),
        since=stamp_exactly(since),
        blocks=shown.found.state.blocked_by,
        blocked_object="" if is_root else f"{shown.found.kind.kind} {shown.found.state.name}",
        more=family.count - len({shown.found.uid, root.found.uid}),
        stuck=family.stuck_since is not None,
        finding="" if finding is None else finding.id,
        culprit="" if finding is None else culprit(finding).name,
        relation=relation,
    )


_BY_HEALTH: Final[Callable[[Health], int]] = tuple(Health).index
