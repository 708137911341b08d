"""Parents over children and sets over members: Ready and Settled AND, Health is the worst.

A parent answers for the children that it still counts. What its controller has written off does
not drag it down: pods that ended under a controller which replaces them, children that are being
deleted, everything below an object that itself ran to its end, the Jobs of a CronJob.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from webhook.status.reason import Blocks, Reason, remark
from webhook.status.view import Health, StatusView

STEP: Final = " › "
"""Between the objects of a path: `ReplicaSet/web-abc › Pod/web-abc-x › status.phase`."""
MOST_LEAVES: Final = 5
"""Blocking leaves that are told one by one."""
_REPLACE_PODS: Final = frozenset(
    {
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("batch", "Job"),
        ("", "ReplicationController"),
    }
)
"""They count neither Failed nor Succeeded pods (kubernetes pkg/controller/controller_utils.go:
IsPodActive); a Job counts them against its backoffLimit and says itself when it gave up."""
_LAUNCH: Final = frozenset({("batch", "CronJob")})
"""They start children and go on whatever becomes of them."""
_Ready = bool | None
_WORST: Final = {Health.GREEN: 0, Health.YELLOW: 1, Health.RED: 2}


@dataclass(frozen=True, slots=True)
class Summary:
    """One answer for a set of objects; a set of none is ready, settled and Green."""

    total: int
    ready: bool | None
    settled: bool
    health: Health
    progress: float | None
    """The mean over members that count; None where none does."""
    healths: tuple[int, int, int]
    """How many are Green, Yellow and Red."""
    reasons: tuple[Reason, ...]
    """The blocking leaves, at most MOST_LEAVES and one remark on how many more."""


def aggregate(view: StatusView, children: Sequence[StatusView]) -> StatusView:
    """The parent with what its children add; the same again when aggregated twice."""
    if view.finished or not children:
        return view
    counted = [child for child in children if not _written_off(view, child)]
    if (view.group, view.kind) in _LAUNCH:
        return _launched(view, counted)
    leaving = [child for child in children if child.deleting and not child.finished]
    summary = summarize(counted)
    reasons = dict.fromkeys(view.reasons)
    reasons.update(dict.fromkeys(summary.reasons))
    for child in leaving[:MOST_LEAVES]:
        reason = Reason("metadata.deletionTimestamp", "set", "gone", "", Blocks.SETTLED)
        reasons[_below(child, reason)] = None
    health = view.health if _WORST[view.health] >= _WORST[summary.health] else summary.health
    if leaving and health is Health.GREEN:
        health = Health.YELLOW
    return msgspec.structs.replace(
        view,
        ready=_both(view.ready, summary.ready),
        settled=view.settled and summary.settled and not leaving,
        health=health,
        reasons=tuple(reasons),
    )


def summarize(views: Iterable[StatusView]) -> Summary:
    """One answer for a set: its members are roots, or children that their parent counts."""
    members = list(views)
    ready: bool | None = True
    settled, worst = True, Health.GREEN
    tally = dict.fromkeys(Health, 0)
    leaves: list[Reason] = []
    blocked = 0
    for member in members:
        ready = _both(ready, member.ready)
        settled = settled and member.settled
        tally[member.health] += 1
        if _WORST[member.health] > _WORST[worst]:
            worst = member.health
        if member.ready is not True or not member.settled:
            blocked += 1
            if blocked <= MOST_LEAVES:
                leaves += [_below(member, reason) for reason in _deepest(member.reasons)]
    if blocked > MOST_LEAVES:
        leaves.append(remark("objects", have=blocked - MOST_LEAVES, note="more that block"))
    shares = [member.progress for member in members if member.progress is not None]
    return Summary(
        len(members),
        ready,
        settled,
        worst,
        round(sum(shares) / len(shares), 2) if shares else None,
        (tally[Health.GREEN], tally[Health.YELLOW], tally[Health.RED]),
        tuple(leaves),
    )


def _written_off(parent: StatusView, child: StatusView) -> bool:
    if child.deleting:
        return True
    is_pod = child.kind == "Pod" and not child.group
    return is_pod and child.finished and (parent.group, parent.kind) in _REPLACE_PODS


def _launched(view: StatusView, children: Sequence[StatusView]) -> StatusView:
    """A CronJob whose Jobs fail works, and does not do what it is for: Yellow."""
    failing = [child for child in children if child.health is Health.RED]
    if not failing or view.health is Health.RED:
        return view
    reasons = dict.fromkeys(view.reasons)
    for child in failing[:MOST_LEAVES]:
        for reason in _deepest(child.reasons):
            reasons[_below(child, reason)._replace(blocks=Blocks.NOTHING)] = None
    return msgspec.structs.replace(view, health=Health.YELLOW, reasons=tuple(reasons))


def _deepest(reasons: Sequence[Reason]) -> list[Reason]:
    """What blocks furthest down: a count of pods says less than the pod that it lacks."""
    blocking = [reason for reason in reasons if reason.blocks]
    below = [reason for reason in blocking if STEP in reason.path]
    return below or blocking


def _below(child: StatusView, reason: Reason) -> Reason:
    return reason._replace(path=f"{child.kind}/{child.name}{STEP}{reason.path}")


def _both(one: _Ready, other: _Ready) -> _Ready:
    """AND of three values: False before unknown before True."""
    if one is False or other is False:
        return False
    return None if one is None or other is None else True
