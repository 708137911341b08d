"""Findings beneath findings: what another causes, and what one culprit does to many. Pure.

Two who fight over a Deployment make its controller write the ReplicaSet to and fro. The controller
does as it is asked, so that finding names the other as its cause, and is no more than info.

A finding is caused by another where all of these are true:
- the object of the other owns the object of this one, also over several levels;
- its only actor is the controller of the owner: it writes what is owned soon after the owner
  was changed, it alone does so, and it does not fight over the owner;
- its signals begin and end with those of the other.
On one object a late observedGeneration is caused by a spec that is fought over, if the controller
does observe generations, and only too late.

A finding that needs no owner stays a finding of its own: a webhook or a second writer of what is
owned, values that come back while the owner is quiet.

A webhook that clears a value once on each of 3,000 pods makes 3,000 findings, of which none
repeats. Findings with one sure culprit, one detector and one field are one finding. It is as severe
as what the culprit does to all of them together.
"""

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

import msgspec

from genguard.detection.finding import STATES, Confidence, Finding, FoundObjects, Severity
from genguard.detection.finding_state import LOOP_COUNT, MOST_EVIDENCE, MOST_PATHS, FindingState
from genguard.detection.history import History, ObjectHistory
from genguard.detection.question import ChangedBy, Signal
from genguard.detection.questions import FINDINGS
from genguard.detection.write import Write, name_of
from genguard.objects.fields import from_pointer

_MOST_LEVELS: Final = 4
_SECONDS: Final = 60.0
"""Writes before this are not looked at."""
_MOST_WRITES: Final = 12
_SECONDS_AFTER: Final = 3.0
"""The controller of an owner makes a new state so soon after it."""
_SECONDS_LATER: Final = 10.0
"""Some loops are known only after more writes than what they cause."""
_OFTEN: Final = 0.8
_FEW: Final = 0.1
_STALLED: Final = "observed-generation-stalled"
_GENERATION: Final = "/metadata/generation"
_NOT_WANTED: Final = frozenset({"metadata", "status"})


def causing_owners(signal: Signal, write: Write, history: History) -> Iterator[str]:
    """Yield the uids of the owners whose changes caused this write, the nearest first."""
    users = {requester.user for requester in signal.requesters}
    if signal.changed_by is not ChangedBy.REQUESTER or not write.writes_more:
        return
    below = history.find(write.object)
    for _ in range(_MOST_LEVELS):
        above = history.find(below.owner) if below is not None and below.owner else None
        if below is None or above is None or len(users) != 1:
            return
        (user,) = users
        if not _is_caused(user, below, above, write.time):
            return
        yield below.owner
        users = {move.requester.user for move in _moves(above, write.time)} - {user}
        below = above


def _moves(past: ObjectHistory, now: float) -> list[Write]:
    """Return the latest writes that changed more than status, the oldest first."""
    lately = (write for write in past.writes if now - _SECONDS < write.time <= now)
    return [write for write in lately if write.touches_more or bool(write.metadata.admitted)]


def _is_caused(user: str, below: ObjectHistory, above: ObjectHistory, now: float) -> bool:
    """Whether a user is the controller that writes an object after its owner was changed.

    Each of its writes makes a state that was not made since the last change of the owner: a rollout
    takes many steps, and they come again with the next rollout. A loop of its own comes back to its
    states while the owner is quiet, or makes new ones.
    """
    writes = _moves(below, now)
    causes = [write for write in reversed(_moves(above, now)) if write.requester.user != user]
    reporters = {write.requester.user for write in above.writes if write.touches_status}
    first: dict[float, tuple[Write, Write]] = {}
    made: dict[Hashable, float] = {}
    steps: list[bool] = []
    for write in writes:
        if write.requester.user == user:
            cause = next((it for it in causes if it.time <= write.time), None)
            since = made.get(write.state_after, write.time - _SECONDS_AFTER)
            steps.append(cause is not None and since <= cause.time)
            if cause is not None:
                first.setdefault(cause.time, (cause, write))
        made[write.state_after] = write.time
    # The owner's changes before these may be forgotten already.
    latest = steps[-_MOST_WRITES:]
    if not steps or sum(latest) < _OFTEN * len(latest) or len(steps) < _OFTEN * len(writes):
        return False
    if reporters:
        return user in reporters
    # The first write after the oldest change may be forgotten already.
    return _is_result([*first.values()][1:])


def _is_result(pairs: Sequence[tuple[Write, Write]]) -> bool:
    """Whether equal changes, or states, of the owner led to equal results: else it is unknown."""
    values = [(_values(cause), _values(result)) for cause, result in pairs]
    for told in (
        [value for value in values if None not in value],
        [(cause.state_after, result.state_after) for cause, result in pairs],
    ):
        results: dict[Hashable, Hashable] = {}
        same = sum(results.setdefault(cause, result) == result for cause, result in told)
        if len(results) < len(told) and same >= _OFTEN * len(told):
            return True
    return False


def _values(write: Write) -> Hashable:
    """Return the leaves that a write changed and their values; None where they are forgotten.

    Leaves of metadata are among them, without bookkeeping.
    """
    made = write.content.admitted
    if made and not made.changes:
        return None
    wanted = (change for change in made if change.key[0] not in _NOT_WANTED)
    return tuple((change.key, change.after) for change in (*wanted, *write.metadata.admitted))


def root_causes(findings: Sequence[FindingState]) -> Mapping[str, str]:
    """Return the id of the root cause of each finding that another causes."""
    below = [finding for finding in findings if finding.owners or finding.detector == _STALLED]
    if not below:
        return {}
    by_name: dict[str, list[FindingState]] = {}
    for finding in findings:
        # It is a loop about what is wanted, to which controllers react.
        wanted = (x for x in finding.paths if not x.startswith("/status") and x != _GENERATION)
        if (
            not finding.minor
            and finding.count >= LOOP_COUNT
            and not finding.subresource
            and any(wanted)
        ):
            by_name.setdefault(name_of(finding.object), []).append(finding)
    found = ((finding.id, _cause(finding, by_name)) for finding in below)
    causes = {key: cause.id for key, cause in found if cause is not None}
    # A cause is the most remote of the owners: nothing else causes it.
    roots = {key: causes.get(cause, cause) for key, cause in causes.items()}
    return {key: root for key, root in roots.items() if key != root}


def beneath(findings: Iterable[Finding], above: Mapping[str, str]) -> dict[str, list[Finding]]:
    """Return findings beneath others, by the ids of those, which `above` has by their own ids."""
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.id in above:
            found.setdefault(above[finding.id], []).append(finding)
    return found


def beneath_causes(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in their order, each that another causes directly beneath it."""
    known = list(findings)
    ids = {finding.id for finding in known}
    below = beneath(known, {finding.id: finding.above for finding in known if finding.above})

    def tree(finding: Finding) -> Iterator[Finding]:
        yield finding
        for each in below.get(finding.id, ()):
            yield from tree(each)

    return [each for root in known if root.above not in ids for each in tree(root)]


def _cause(
    state: FindingState, by_name: Mapping[str, Sequence[FindingState]]
) -> FindingState | None:
    if len(state.users) != 1 or state.changed_by != {ChangedBy.REQUESTER}:
        return None
    (user,) = state.users
    if state.detector == _STALLED:
        observed = {it.get("observedGeneration") or None for it in state.evidence}
        names = [name_of(state.object)] if len(observed) > 1 else []
    else:
        # The most remote owner is the root of all between.
        names = [
            name
            for name, count in reversed(state.owners.items())
            if state.count - count <= _FEW * state.count
        ]
    for cause in (cause for name in names for cause in by_name.get(name, ())):
        is_later = cause.first > state.first + _SECONDS_LATER
        is_over = state.last > cause.last + cause.quiet_needed()
        if not (is_later or is_over or cause.id == state.id or user in cause.users):
            return cause
    return None


LEAST: Final = 10
"""Objects of one culprit."""
_MANY: Final = 100
"""So many are damaged: an outage is near, even if each was damaged once."""
_EXAMPLES: Final = 5

_Harm = tuple[str, str, str, str, str]
"""What findings of one culprit have in common: their detector and subresource, the type and name of
the actor, and the field."""


def fold(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return these findings and those of culprits, oldest first."""
    groups: dict[_Harm, list[Finding]] = {}
    for finding in findings:
        sure = [actor for actor in finding.actors if actor.confidence is not Confidence.POSSIBLE]
        if len(sure) == 1 and finding.paths and not finding.caused_by:
            who = sure[0].type, sure[0].name
            harm = finding.detector, finding.subresource, *who, _field(finding.paths[0])
            groups.setdefault(harm, []).append(finding)
    group_of: dict[str, Finding] = {}
    for harm, alike in groups.items():
        if len(alike) < LEAST:
            continue
        # Findings that go on are parts, and findings resolved since the first of these began.
        began = min((part.first_seen for part in alike if part.state != "resolved"), default="")
        parts = [part for part in alike if part.state != "resolved" or part.last_seen >= began]
        if len(parts) >= LEAST:
            group_of |= dict.fromkeys([part.id for part in parts], _group(harm, parts))
    if not group_of:
        return findings
    found: dict[str, Finding] = {}
    for finding in findings:
        group, part = group_of.get(finding.id), finding
        if group is not None:
            found.setdefault(group.id, group)  # it comes before the first of its parts
            part = msgspec.structs.replace(finding, part_of=group.id, severity=Severity.INFO)
        found[finding.id] = part
    return tuple(found.values())


@lru_cache(1_024)
def _field(pointer: str) -> str:
    """Return a field of any item: the index of an item differs from object to object."""
    return "/".join("*" if part.isdecimal() else part for part in from_pointer(pointer))


def _group(harm: _Harm, parts: Sequence[Finding]) -> Finding:
    detector, subresource, kind, name, _ = harm
    latest = sorted(parts, key=lambda part: part.last_seen)[-MOST_EVIDENCE:]
    notes = [event for event in parts[0].evidence if "note" in event]
    ages = [note["note"] for note in notes if note["actor"] == name and kind != "user"]
    who = f"{name}, {ages[0]}," if ages else name
    alive = [part for part in parts if part.state != "resolved"]
    events = ([event for event in part.evidence if "note" not in event][-1:] for part in latest)
    waits = [part.resolves_after for part in alive]
    kinds = Counter(part.object.resource for part in parts)
    examples = tuple(part.object for part in parts[:_EXAMPLES])
    objects = FoundObjects(len(parts), dict(kinds.most_common()), examples)
    missed = (part.incomplete_since for part in alive if part.incomplete_since)
    identity = "\0".join(("culprit", *harm)).encode()
    return Finding(
        id=hashlib.blake2b(identity, digest_size=8).hexdigest(),
        detector=detector,
        severity=_severity(detector, parts, alive),
        state=min((part.state for part in parts), key=STATES.index),
        objects=objects,
        subresource=subresource,
        paths=tuple(dict.fromkeys(path for part in parts for path in part.paths))[:MOST_PATHS],
        actors=tuple(actor for actor in latest[-1].actors if actor.name == name),
        count=sum(part.count for part in parts),
        first_seen=parts[0].first_seen,
        last_seen=latest[-1].last_seen,
        message=f"{who} does this to {objects.label}: {latest[-1].message}",
        evidence=(*chain.from_iterable(events), *notes),
        repaired=bool(alive) and all(part.repaired for part in alive),
        restored=bool(alive) and all(part.restored for part in alive),
        resolves_after=max(waits, default=0.0) if all(waits) else 0.0,
        incomplete_since=min(missed, default=""),
    )


def _severity(detector: str, parts: Iterable[Finding], alive: Sequence[Finding]) -> Severity:
    """Return how severe it is together: damage to many is critical, even once to each."""
    worst = max((part.severity for part in parts), key=lambda severity: severity.rank)
    if detector not in FINDINGS or not FINDINGS[detector].is_harm:
        return min(worst, Severity.WARNING, key=lambda severity: severity.rank)
    is_broken = any(finding.repair or finding.state == "quiet" for finding in alive)
    is_critical = worst is Severity.CRITICAL or is_broken or len(alive) >= _MANY
    return Severity.CRITICAL if is_critical else Severity.WARNING
