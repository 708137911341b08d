"""One finding of a culprit that harms many objects in the same way; the others are parts of it.

A webhook that clears a value once on each of 3,000 pods makes 3,000 findings, of which none
repeats. Findings with one sure actor, one detector and one field are one finding here. It is as
severe as what the actor does to all of them together.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from heapq import nlargest
from typing import Any, Final

import msgspec

from genguard.detection.finding import Actor, Confidence, Finding, FoundObjects, Severity
from genguard.detection.finding_state import MOST_EVIDENCE, MOST_PATHS
from genguard.objects.fields import from_pointer

LEAST: Final = 10
"""Objects of one culprit."""
_MANY: Final = 100
"""So many are harmed: an outage is near, even if each was harmed once."""
_EXAMPLES: Final = 5
_STATES: Final = ("open", "quiet", "resolved")
_HARMFUL: Final = frozenset(
    {
        "generation-storm",
        "observed-generation-cleared",
        "observed-generation-stalled",
        "recreation",
        "refused-retry",
        "status-clobbered",
        "status-write-storm",
        "terminating-replicas-dropped",
    }
)
"""Detectors of what keeps somebody waiting, or makes rollouts and load."""
_Key = tuple[str, str, str, str, str]


def fold(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return these findings and those of culprits, oldest first."""
    groups: dict[_Key, list[Finding]] = {}
    for one in findings:
        key = _key_of(one)
        if key is not None:
            groups.setdefault(key, []).append(one)
    episodes = ((key, _episode(some)) for key, some in groups.items() if len(some) >= LEAST)
    large = {key: some for key, some in episodes if len(some) >= LEAST}
    if not large:
        return findings
    whole_of, found = dict[str, Finding](), dict[str, Finding]()
    for key, some in large.items():
        whole_of.update(dict.fromkeys([one.id for one in some], _whole(key, some)))
    for one in findings:
        whole = whole_of.get(one.id)
        if whole is None:
            found[one.id] = one
            continue
        found.setdefault(whole.id, whole)  # it comes before the first of its parts
        found[one.id] = msgspec.structs.replace(one, part_of=whole.id, severity=Severity.INFO)
    return tuple(found.values())


def _episode(some: Sequence[Finding]) -> Sequence[Finding]:
    """Return those that go on, and those that were resolved since the first of these began."""
    began = min((one.first_seen for one in some if one.state != "resolved"), default="")
    return [one for one in some if one.state != "resolved" or one.last_seen >= began]


def _key_of(one: Finding) -> _Key | None:
    """Return what findings of one culprit have in common; None where nobody is sure."""
    sure = [actor for actor in one.actors if actor.confidence is not Confidence.POSSIBLE]
    if len(sure) != 1 or one.caused_by or not one.paths:
        return None
    (actor,) = sure
    return one.detector, one.subresource, actor.type, actor.name, _field(one.paths[0])


@lru_cache(1_024)
def _field(pointer: str) -> str:
    """Return a field of any item: the index of an item differs from object to object."""
    return "/".join("*" if part.isdecimal() else part for part in from_pointer(pointer))


def _id_of(key: _Key) -> str:
    named = "\0".join(("culprit", *key))
    return hashlib.blake2b(named.encode(), digest_size=8).hexdigest()


def _whole(key: _Key, parts: Sequence[Finding]) -> Finding:
    detector, subresource, kind, name, _ = key
    newest = max(parts, key=lambda one: one.last_seen)
    first = min(parts, key=lambda one: one.first_seen)
    notes = [one for one in first.evidence if "note" in one]
    ages = (f", {one['note']}," for one in notes if one["actor"] == name and kind != "user")
    alive = [one for one in parts if one.state != "resolved"]
    kinds = Counter(one.object.resource for one in parts)
    objects = FoundObjects(
        len(parts),
        dict(kinds.most_common()),
        tuple(one.object for one in parts[:_EXAMPLES]),
    )
    return Finding(
        id=_id_of(key),
        detector=detector,
        severity=_severity(detector, parts, alive),
        state=min((one.state for one in parts), key=_STATES.index),
        objects=objects,
        subresource=subresource,
        paths=tuple(dict.fromkeys(path for one in parts for path in one.paths))[:MOST_PATHS],
        actors=_actors(newest, name),
        count=sum(one.count for one in parts),
        first_seen=first.first_seen,
        last_seen=newest.last_seen,
        message=f"{name}{next(ages, '')} does this to {objects.label}: {newest.message}",
        evidence=(*_signs(parts), *notes),
        repaired=bool(alive) and all(one.repaired for one in alive),
        resolves_after=max((one.resolves_after for one in alive), default=0.0),
        incomplete_since=min(
            (one.incomplete_since for one in alive if one.incomplete_since), default=""
        ),
    )


def _severity(detector: str, parts: Iterable[Finding], alive: Sequence[Finding]) -> Severity:
    """Return how severe it is together: harm to many is critical, though each was harmed once."""
    worst = max((one.severity for one in parts), key=lambda one: one.rank)
    if detector not in _HARMFUL:
        return min(worst, Severity.WARNING, key=lambda one: one.rank)
    is_broken = any(one.repair or one.state == "quiet" for one in alive)
    if worst is Severity.CRITICAL or is_broken or len(alive) >= _MANY:
        return Severity.CRITICAL
    return Severity.WARNING


def _actors(newest: Finding, name: str) -> tuple[Actor, ...]:
    return tuple(one for one in newest.actors if one.name == name)


def _signs(parts: Sequence[Finding]) -> Sequence[dict[str, Any]]:
    """Return the latest signs of all."""
    latest = nlargest(MOST_EVIDENCE, parts, key=lambda one: one.last_seen)
    signs = [one for part in latest for one in part.evidence if "note" not in one]
    signs.sort(key=lambda one: datetime.fromisoformat(one["time"]))
    return signs[-MOST_EVIDENCE:]
