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
from typing import Any, Final, NamedTuple

import msgspec

from genguard.detection.finding import Confidence, Finding, FoundObjects, Severity
from genguard.detection.finding_state import MOST_EVIDENCE, MOST_PATHS
from genguard.detection.questions import FINDINGS
from genguard.objects.fields import from_pointer

LEAST: Final = 10
"""Objects of one culprit."""
_MANY: Final = 100
"""So many are harmed: an outage is near, even if each was harmed once."""
_EXAMPLES: Final = 5
_STATES: Final = ("open", "quiet", "resolved")


class _Harm(NamedTuple):
    """What findings of one culprit have in common."""

    detector: str
    subresource: str
    type: str
    name: str
    field: str


def fold(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return these findings and those of culprits, oldest first."""
    groups: dict[_Harm, list[Finding]] = {}
    for one in findings:
        harm = _harm_of(one)
        if harm is not None:
            groups.setdefault(harm, []).append(one)
    wholes: dict[str, Finding] = {}
    for harm, some in groups.items():
        parts = _episode(some) if len(some) >= LEAST else ()
        if len(parts) >= LEAST:
            wholes |= dict.fromkeys([one.id for one in parts], _whole(harm, parts))
    if not wholes:
        return findings
    found: dict[str, Finding] = {}
    for one in findings:
        whole = wholes.get(one.id)
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


def _harm_of(one: Finding) -> _Harm | None:
    """Return what it has in common with others; None where nobody is sure."""
    sure = [actor for actor in one.actors if actor.confidence is not Confidence.POSSIBLE]
    if len(sure) != 1 or one.caused_by or not one.paths:
        return None
    (actor,) = sure
    return _Harm(one.detector, one.subresource, actor.type, actor.name, _field(one.paths[0]))


@lru_cache(1_024)
def _field(pointer: str) -> str:
    """Return a field of any item: the index of an item differs from object to object."""
    return "/".join("*" if part.isdecimal() else part for part in from_pointer(pointer))


def _whole(harm: _Harm, parts: Sequence[Finding]) -> Finding:
    newest = max(parts, key=lambda one: one.last_seen)
    first = min(parts, key=lambda one: one.first_seen)
    notes = [one for one in first.evidence if "note" in one]
    ages = [one["note"] for one in notes if one["actor"] == harm.name and harm.type != "user"]
    who = f"{harm.name}, {ages[0]}," if ages else harm.name
    alive = [one for one in parts if one.state != "resolved"]
    kinds = Counter(one.object.resource for one in parts)
    examples = tuple(one.object for one in parts[:_EXAMPLES])
    objects = FoundObjects(len(parts), dict(kinds.most_common()), examples)
    missed = (one.incomplete_since for one in alive if one.incomplete_since)
    identity = "\0".join(("culprit", *harm)).encode()
    return Finding(
        id=hashlib.blake2b(identity, digest_size=8).hexdigest(),
        detector=harm.detector,
        severity=_severity(harm.detector, parts, alive),
        state=min((one.state for one in parts), key=_STATES.index),
        objects=objects,
        subresource=harm.subresource,
        paths=tuple(dict.fromkeys(path for one in parts for path in one.paths))[:MOST_PATHS],
        actors=tuple(one for one in newest.actors if one.name == harm.name),
        count=sum(one.count for one in parts),
        first_seen=first.first_seen,
        last_seen=newest.last_seen,
        message=f"{who} does this to {objects.label}: {newest.message}",
        evidence=(*_signs(parts), *notes),
        repaired=bool(alive) and all(one.repaired for one in alive),
        resolves_after=max((one.resolves_after for one in alive), default=0.0),
        incomplete_since=min(missed, default=""),
    )


def _severity(detector: str, parts: Iterable[Finding], alive: Sequence[Finding]) -> Severity:
    """Return how severe it is together: harm to many is critical, though each was harmed once."""
    worst = max((one.severity for one in parts), key=lambda one: one.rank)
    if detector not in FINDINGS or not FINDINGS[detector].is_harm:
        return min(worst, Severity.WARNING, key=lambda one: one.rank)
    is_broken = any(one.repair or one.state == "quiet" for one in alive)
    is_critical = worst is Severity.CRITICAL or is_broken or len(alive) >= _MANY
    return Severity.CRITICAL if is_critical else Severity.WARNING


def _signs(parts: Sequence[Finding]) -> Sequence[dict[str, Any]]:
    """Return the latest signs of all."""
    latest = nlargest(MOST_EVIDENCE, parts, key=lambda one: one.last_seen)
    signs = [one for part in latest for one in part.evidence if "note" not in one]
    return sorted(signs, key=lambda one: datetime.fromisoformat(one["time"]))[-MOST_EVIDENCE:]
