"""What is broken now: findings, and objects that are not settled though nothing changes any more.

An object that is not settled is in progress until it counts as stuck: see `stuck_at`.
Objects that own each other are one entry: the topmost that is not settled, with the field that
blocks it or what it owns. Whoever is blamed for a finding about it, about an owner of it or about
what it owns, is to blame. Objects are known as watches show them; this replica asks nobody.
"""

import asyncio
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from genguard.blame.stuck import Blames, Family, blame_rank, damaged_objects, root_of, stuck_since
from genguard.detection.finding import Finding, Severity
from genguard.objects.metadata import rfc3339
from genguard.status.tracking import Tracking
from genguard.status.view import Health
from webhook.dashboard.headlines import above_of, culprit
from webhook.dashboard.page import PageContext, PageData, PageQueue, Sources, check_parameters
from webhook.dashboard.rendering import ENDING, parse_time, shown_severity, span, stamp

MOST_SHOWN: Final = 100
"""Objects of a list; those that wait for longest come first."""
_BATCH_SIZE: Final = 50
"""Objects between two pauses for the event loop: about half a millisecond."""
_SECONDS_OF_SHED: Final = 60.0
"""A loop repeats within this time: a signal that was missed is seen then."""
_SLOW_SECONDS: Final = 30.0
"""An object that is not ready for so long may hang: most pods start within it."""
_DELETED: Final = "metadata.deletionTimestamp"
_BROKEN: Final = frozenset({Severity.WARNING, Severity.CRITICAL})


class OverallState(StrEnum):
    """Whether something is broken.

    waiting  nothing is, but something is not ready, and stays so for a while
    ending   nothing is, but findings wait to be resolved: no signal comes any more
    unknown  nothing is known to be, but this server cannot tell
    """

    BROKEN = "broken"
    WAITING = "waiting"
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
    findings  how many findings say that something is broken; those of one culprit on one object
              are one
    not_ready  how many of those in progress are not ready for a while: the first of `proceeding`
    ending    how many only wait to be resolved, the last of them at ends_at; not those whose
              object is right again
    missing   why this server cannot tell, a sentence each
    """

    state: OverallState
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
    not_ready: int = 0


def is_broken(finding: Finding, now: float) -> bool:
    """Whether an unresolved finding says that something is broken now."""
    if finding.state == "resolved":
        return False
    return finding.state == "quiet" or shown_severity(finding, now) in _BROKEN


class _Read(NamedTuple):
    """What unresolved findings say: see _read."""

    active: list[Finding]
    damaged: frozenset[str]
    broken: set[str]
    red: list[float]
    alone: int
    ends: list[float]


def _read(findings: Iterable[Finding], now: float) -> _Read:
    """Return what unresolved findings say; up to 100 ms for the maximum: run it in a thread.

    All of them, first those that are to blame for what they are about; uids of the objects whose
    damage is there; names of the objects that are broken; when each of those that say so began, and
    how many of them stand alone; and when those that only wait to be resolved will be.
    """
    active = [finding for finding in findings if finding.state != "resolved"]
    above = above_of(active)
    red = {
        finding.id: parse_time(finding.first_seen) for finding in active if is_broken(finding, now)
    }
    ends = [
        parse_time(finding.last_seen) + finding.resolves_after
        for finding in active
        if shown_severity(finding, now) == ENDING
        and finding.ends[1] > now
        and finding.id not in above
    ]
    broken = {
        finding.object.identity
        for finding in active
        if finding.objects is None and (finding.id in red or finding.part_of in red)
    }
    alone = len(red.keys() - above.keys())
    active.sort(key=blame_rank)
    return _Read(active, damaged_objects(active), broken, [*red.values()], alone, ends)


async def find_broken(
    sources: Sources, findings: Sequence[Finding], queue: PageQueue, now: float
) -> Broken:
    """Return what is broken at a time. Reads all objects that are not settled, in batches."""
    tracking = sources.detecting.tracking
    read = await queue.in_thread(lambda: _read(findings, now))
    families = await _families(tracking, read.damaged, now)
    stuck = [family for family in families.values() if family.stuck_since is not None]
    waits = [family for family in families.values() if family.stuck_since is None]
    shown = heapq.nsmallest(MOST_SHOWN, stuck, key=lambda family: family.stuck_since or 0.0)
    slow = {wait.root_uid for wait in waits if _is_slow(tracking, wait, now)}
    proceeding = heapq.nsmallest(
        MOST_SHOWN, waits, key=lambda family: (family.root_uid not in slow, family.waiting_since)
    )
    blames = Blames(tracking)
    ranked = iter(read.active if families else ())
    while batch := list(islice(ranked, _BATCH_SIZE)):
        for finding in batch:
            blames.add(finding)
        await asyncio.sleep(0)
    began = [*read.red, *(family.stuck_since for family in stuck if family.stuck_since is not None)]
    missing = tuple(_missing(sources, now))
    state = OverallState.UNKNOWN if missing else OverallState.GOOD
    if read.ends or slow:
        state = OverallState.WAITING if slow else OverallState.ENDING
    return Broken(
        state=OverallState.BROKEN if began else state,
        since=rfc3339(min(began)) if began else None,
        objects=len({family.root_uid for family in stuck} | read.broken),
        findings=read.alone,
        stuck=len(stuck),
        in_progress=len(waits),
        not_settled=tuple(_show(family, blames) for family in shown),
        proceeding=tuple(_show(family, blames) for family in proceeding),
        missing=missing,
        ending=len(read.ends),
        ends_at=rfc3339(max(read.ends)) if read.ends else None,
        not_ready=len(slow),
    )


def _is_slow(tracking: Tracking, family: Family, now: float) -> bool:
    """Whether the topmost of objects in progress is not ready for a while.

    An object that runs to its end, or is being deleted, does not hang.
    """
    top = family.root or family.shown
    if top is None or top.state.ready is not False or tracking.stuck_at(top) is None:
        return False
    is_deleted = top.state.blocked_by.startswith(_DELETED)
    return not is_deleted and now >= top.state.changed_at + _SLOW_SECONDS


async def load(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return the JSON."""
    check_parameters(query, ())
    findings = context.sources.detecting.findings()
    return PageData(await find_broken(context.sources, findings, context.queue, now), {})


def _missing(sources: Sources, now: float) -> Iterator[str]:
    """Say why this server cannot tell that nothing is broken."""
    if active := sources.stands_by_for:
        yield (
            f"{active} detects, and does not show its pages to this pod. Findings are as "
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
            f"Not every review is examined, since there is too much to do: the last one was left "
            f"out {span(max(ago, 0.0) // 1)} ago. Loops may go on unseen."
        )
    if dropped := sources.detecting.detection.ledger.dropped:
        yield (
            f"{dropped:,} findings that were not over had no room since this server started. Who "
            "holds most gave way first; that a finding is gone does not mean that it is resolved."
        )
    for resource, is_current in sources.watching.states().items():
        if not is_current:
            yield f"The watch of {resource} is not current: changes may be missing."
    if sources.about().get("store") == "sqlite-corrupt":
        yield (
            "The file of findings was damaged when this server started, and was moved aside, as "
            "the log says: what was known before is missing."
        )
    for task in sources.failing():
        yield f"A part of this server fails: {task}. What it does may be missing."


async def _families(tracking: Tracking, about: frozenset[str], now: float) -> dict[str, Family]:
    """Return all objects that are not settled, by the uid of the topmost of them.

    about  uids of the objects of findings: a spec that is not observed there is no rollout
    """
    families: dict[str, Family] = {}
    unsettled = tracking.unsettled()
    while batch := list(islice(unsettled, _BATCH_SIZE)):
        for found in batch:
            root = root_of(tracking, found)
            family = families.setdefault(root, Family(root))
            family.add(found, stuck_since(tracking, found, about, now))
        await asyncio.sleep(0)
    return families


def _show(family: Family, blames: Blames) -> NotSettled:
    shown = family.shown
    assert shown is not None  # noqa: S101 - a family is made with its first member
    root = family.root or shown
    state, kind = root.state, root.kind
    finding, relation = blames.find(family)
    since = shown.state.blocked_since if family.stuck_since is None else family.stuck_since
    is_root = shown.uid == root.uid
    return NotSettled(
        group=kind.group,
        resource=kind.resource,
        kind=kind.kind,
        namespace=state.namespace,
        name=state.name,
        uid=root.uid,
        health=max((root.state.health, shown.state.health), key=tuple(Health).index),
        since=rfc3339(since),
        blocks=shown.state.blocked_by,
        blocked_object="" if is_root else f"{shown.kind.kind} {shown.state.name}",
        more=family.count - len({shown.uid, root.uid}),
        stuck=family.stuck_since is not None,
        finding="" if finding is None else finding.id,
        culprit="" if finding is None else culprit(finding).name,
        relation=relation,
    )
