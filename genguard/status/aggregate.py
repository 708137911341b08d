"""Combines the status of an owner with that of its children, and of several objects into one.

Ready and settled must hold for all of them; the worst health counts. An owner's answer includes
only children that still matter to its controller. Left out are ended pods that the controller
replaces, children that are being deleted, everything below an object that ran to its end, and the
Jobs of a CronJob.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from genguard.status.kinds import find_rule
from genguard.status.standard_fields import combine
from genguard.status.view import Blocks, Health, Reason, StatusView, remark

STEP: Final = " › "
"""Between the objects of a path: `ReplicaSet/web-abc › Pod/web-abc-x › status.phase`."""
MOST_LEAVES: Final = 5
"""Objects whose blocking reasons are listed; the others are only counted."""
_LAUNCHERS: Final = frozenset({("batch", "CronJob")})
"""They start children and do not depend on how these end."""
_WORST: Final = {Health.GREEN: 0, Health.YELLOW: 1, Health.RED: 2}


@dataclass(frozen=True, slots=True)
class Summary:
    """One answer for several objects. No objects at all are ready, settled and Green."""

    total: int
    ready: bool | None
    settled: bool
    health: Health
    healths: tuple[int, ...]
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
        said = (
            reason.note for reason in child.reasons if reason.path == "metadata.deletionTimestamp"
        )
        note = next(said, "") if child.kind == "Pod" and not child.group else ""
        reason = Reason("metadata.deletionTimestamp", "set", "gone", note, Blocks.SETTLED)
        reasons[_prefix_path(child, reason)] = None
    health = max(view.health, summary.health, key=_WORST.__getitem__)
    if leaving and health is Health.GREEN:
        health = Health.YELLOW
    return msgspec.structs.replace(
        view,
        ready=_all_of({view.ready, summary.ready}),
        settled=view.settled and summary.settled and not leaving,
        health=health,
        reasons=tuple(reasons),
        traffic_ready=combine([view.traffic_ready, *(child.traffic_ready for child in counted)]),
        application_qualified=combine(
            [view.application_qualified, *(child.application_qualified for child in counted)]
        ),
    )


def summarize(views: Iterable[StatusView]) -> Summary:
    """Return one answer for several objects: roots, or the children that an owner counts."""
    members = list(views)
    blocked = [member for member in members if member.ready is not True or not member.settled]
    shown, more = blocked[:MOST_LEAVES], len(blocked) - MOST_LEAVES
    leaves = [_prefix_path(view, reason) for view in shown for reason in _deepest(view.reasons)]
    if more > 0:
        leaves.append(remark("objects", have=more, note="more objects that block"))
    counts = Counter(member.health for member in members)
    return Summary(
        len(members),
        _all_of({member.ready for member in members}),
        all(member.settled for member in members),
        max(counts, key=_WORST.__getitem__, default=Health.GREEN),
        tuple(counts[health] for health in Health),
        tuple(leaves),
    )


def _is_ignored(parent: StatusView, child: StatusView) -> bool:
    if child.deleting:
        return True
    is_pod = child.kind == "Pod" and not child.group
    return is_pod and child.finished and find_rule(parent.group, parent.kind).replaces_pods


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


def _all_of(answers: set[bool | None]) -> bool | None:
    """Combine by AND, where None is unknown: False wins over None, None over True."""
    return False if False in answers else None if None in answers else True
