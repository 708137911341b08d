"""Combines the status of an owner with that of its children, and of several objects into one.

Ready and settled must hold for all of them; the worst health counts. An owner's answer includes
only children that still matter to its controller. Left out are ended pods that the controller
replaces, children that are being deleted, everything below an object that ran to its end, and the
Jobs of a CronJob.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from genguard.status.standard_fields import combine
from genguard.status.view import Blocks, Health, Reason, StatusView, remark

STEP: Final = " › "
"""Between the objects of a path: `ReplicaSet/web-abc › Pod/web-abc-x › status.phase`."""
_DELETION: Final = "metadata.deletionTimestamp"
MOST_LEAVES: Final = 5
"""Objects whose blocking reasons are listed; of the others only the number is given."""
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
"""Their controllers replace Failed and Succeeded pods (kubernetes pkg/controller/
controller_utils.go:IsPodActive). A Job counts failed pods against its backoffLimit and sets a
condition when it gives up."""
_LAUNCHERS: Final = frozenset({("batch", "CronJob")})
"""They start children and do not depend on how these end."""
_Ready = bool | None
_WORST: Final = {Health.GREEN: 0, Health.YELLOW: 1, Health.RED: 2}


@dataclass(frozen=True, slots=True)
class Summary:
    """One answer for several objects. No objects at all are ready, settled and Green."""

    total: int
    ready: bool | None
    settled: bool
    health: Health
    progress: float | None
    """The mean progress of the objects that have one; None when none has."""
    healths: tuple[int, int, int]
    """How many objects are Green, Yellow and Red."""
    reasons: tuple[Reason, ...]
    """What blocks, for at most MOST_LEAVES objects; then a remark with the number of others."""


def aggregate(view: StatusView, children: Sequence[StatusView]) -> StatusView:
    """Return the view of an owner combined with its children; doing it twice changes nothing."""
    if view.finished or not children:
        return view
    counted = [child for child in children if not _is_ignored(view, child)]
    if (view.group, view.kind) in _LAUNCHERS:
        return _add_failed_jobs(view, counted)
    leaving = [child for child in children if child.deleting and not child.finished]
    summary = summarize(counted)
    reasons = dict.fromkeys(view.reasons)
    reasons.update(dict.fromkeys(summary.reasons))
    for child in leaving[:MOST_LEAVES]:
        said = (one.note for one in child.reasons if one.path == _DELETION)
        note = next(said, "") if child.kind == "Pod" and not child.group else ""
        reason = Reason(_DELETION, "set", "gone", note, Blocks.SETTLED)
        reasons[_prefix_path(child, reason)] = None
    health = view.health if _WORST[view.health] >= _WORST[summary.health] else summary.health
    if leaving and health is Health.GREEN:
        health = Health.YELLOW
    return msgspec.structs.replace(
        view,
        ready=_both(view.ready, summary.ready),
        settled=view.settled and summary.settled and not leaving,
        health=health,
        reasons=tuple(reasons),
        traffic_ready=combine([view.traffic_ready, *(one.traffic_ready for one in counted)]),
        application_qualified=combine(
            [view.application_qualified, *(one.application_qualified for one in counted)]
        ),
    )


def summarize(views: Iterable[StatusView]) -> Summary:
    """Return one answer for several objects: roots, or the children that an owner counts."""
    members = list(views)
    ready: bool | None = True
    settled, worst = True, Health.GREEN
    counts_by_kind = dict.fromkeys(Health, 0)
    leaves: list[Reason] = []
    blocked = 0
    for member in members:
        ready = _both(ready, member.ready)
        settled = settled and member.settled
        counts_by_kind[member.health] += 1
        if _WORST[member.health] > _WORST[worst]:
            worst = member.health
        if member.ready is not True or not member.settled:
            blocked += 1
            if blocked <= MOST_LEAVES:
                leaves += [_prefix_path(member, reason) for reason in _deepest(member.reasons)]
    if blocked > MOST_LEAVES:
        leaves.append(remark("objects", have=blocked - MOST_LEAVES, note="more objects that block"))
    shares = [member.progress for member in members if member.progress is not None]
    return Summary(
        len(members),
        ready,
        settled,
        worst,
        round(sum(shares) / len(shares), 2) if shares else None,
        (counts_by_kind[Health.GREEN], counts_by_kind[Health.YELLOW], counts_by_kind[Health.RED]),
        tuple(leaves),
    )


def _is_ignored(parent: StatusView, child: StatusView) -> bool:
    if child.deleting:
        return True
    is_pod = child.kind == "Pod" and not child.group
    return is_pod and child.finished and (parent.group, parent.kind) in _REPLACE_PODS


def _add_failed_jobs(view: StatusView, children: Sequence[StatusView]) -> StatusView:
    """Return a CronJob as Yellow when one of its Jobs is Red: it runs, but its work fails."""
    failing = [child for child in children if child.health is Health.RED]
    if not failing or view.health is Health.RED:
        return view
    reasons = dict.fromkeys(view.reasons)
    for child in failing[:MOST_LEAVES]:
        for reason in _deepest(child.reasons):
            reasons[_prefix_path(child, reason)._replace(blocks=Blocks.NOTHING)] = None
    return msgspec.structs.replace(view, health=Health.YELLOW, reasons=tuple(reasons))


def _deepest(reasons: Sequence[Reason]) -> list[Reason]:
    """Return the reasons of children that block, or else its own: a pod says more than a count."""
    blocking = [reason for reason in reasons if reason.blocks]
    below = [reason for reason in blocking if STEP in reason.path]
    return below or blocking


def _prefix_path(child: StatusView, reason: Reason) -> Reason:
    return reason._replace(path=f"{child.kind}/{child.name}{STEP}{reason.path}")


def _both(one: _Ready, other: _Ready) -> _Ready:
    """Combine by AND, where None is unknown: False wins over None, None over True."""
    if one is False or other is False:
        return False
    return None if one is None or other is None else True
