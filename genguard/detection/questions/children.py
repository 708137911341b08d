"""Children: objects of one owner that one actor makes again and again, and none goes.

Result  blames who makes them; first the webhooks that changed each of them, for then the owner may
        not know its own again (open-policy-agent/gatekeeper#2963)
Relies  on alike children: generated names, names that differ in a number, kinds of which an owner
        needs one at a time, or equal contents. A deleted child, and a change of the owner, begin
        anew. An owner may have any number of some kinds: see `many_children` in names.yaml

Bounded in entries and in time.
"""

from typing import ClassVar, Final

import msgspec

from genguard.admission.review import Operation, Phase
from genguard.detection.history import History, ObjectHistory
from genguard.detection.mutators import Mutators
from genguard.detection.observation import Observation
from genguard.detection.question import DECLARED, Answers, ChangedBy, Question, signal
from genguard.detection.values import Digest, digest_of
from genguard.detection.write import NAMES, NODE_USER, ObjectKey, Requester, Write
from genguard.objects.bounded import Bounded
from genguard.objects.served import resource_name

ENDLESS: Final = DECLARED["endless-children"]
_MOST: Final = 50
"""No owner is known to have so many alike, but of the kinds in `many_children`."""
_MOST_CHANGED: Final = 8
_SECONDS_CHANGED: Final = 120.0
"""A webhook that changes Jobs changes those of a timetable too, one a minute."""
_SECONDS_NAMED: Final = 120.0
"""An actor that makes one for each of fifty shards makes them at once."""
_SECONDS: Final = 3_600.0
_MOST_SERIES: Final = 2_000
_POD_STATUS: Final = ("", "pods", "status")
_PHASE: Final = ("status", "phase")
_FAILED: Final = digest_of(b'"Failed"')
_ONE_CHILD: Final = frozenset({("apps", "replicasets"), ("apps", "controllerrevisions")})
"""A new one is made of a new template alone, named after its hash and a count of collisions
(pkg/controller/deployment/sync.go:getNewReplicaSet)."""


class _Series(msgspec.Struct, gc=False):
    """Children of one owner.

    asked    what was asked for, of the first one; where: which that is
    changed  how many in a row webhooks changed at their creation
    """

    asked: Digest
    where: ObjectKey
    since: float
    count: int = 0
    changed: int = 0


class _Rejected(msgspec.Struct, gc=False):
    """Pods of one owner in a row that never ran; `where`: the first one that is known."""

    creator: Requester
    where: ObjectKey
    count: int = 0


class Children(Question):
    """See the module. It remembers series by owner, kind and who makes them."""

    findings: ClassVar = (ENDLESS,)

    def __init__(self, history: History, mutators: Mutators) -> None:
        """`history` tells when an owner was changed, `mutators` what is shown of a kind."""
        self._history: Final = history
        self._mutators: Final = mutators
        self._series: Final[Bounded[int, _Series]] = Bounded(_MOST_SERIES)
        self._rejected: Final[Bounded[str, _Rejected]] = Bounded(_MOST_SERIES)
        """Pods in a row that never ran, by owner."""
        self.seen = (self._ended,)
        self.joined = (self._made,)

    def _ended(self, write: Write, _: ObjectHistory) -> Answers:
        """Tell that one more pod ended before it ran: the kubelet has rejected it.

        Its owner makes the next one, which is rejected too (kubernetes/kubernetes#108152, #131116).
        """
        kubelet = write.requester
        is_told = kubelet.user.startswith(NODE_USER) and write.kind == _POD_STATUS
        known = self._rejected.get(write.owner) if is_told else None
        if known is None:
            return
        phases = [change.after for change in write.content.sent if change.key == _PHASE]
        if not phases:
            return
        known.count = known.count + 1 if phases == [_FAILED] else 0
        if known.count >= _MOST_CHANGED:
            said = f"{known.creator.user} makes pods for one owner, and {kubelet.user} rejects each"
            said += " before it runs"
            of = msgspec.structs.replace(write, object=known.where)
            more = {"requesters": (known.creator, kubelet), "pace": _SECONDS_CHANGED, "of": of}
            more["evidence"] = {"rejected": known.count}
            yield signal(ENDLESS, write, ChangedBy.REQUESTER, (), said, **more)

    def _made(self, write: Write, seen: Observation) -> Answers:
        """Tell that one more was made."""
        if seen.phase is not Phase.OUTCOME or not seen.owner:
            return
        kind = resource_name(write.object.group, write.object.resource)
        if kind == "pods" and seen.operation is Operation.CREATE:
            known = self._rejected.get(seen.owner) or _Rejected(write.requester, write.object)
            self._rejected.put(seen.owner, known)
        if kind in NAMES["many_children"]:
            return
        key = hash((seen.owner, kind))
        if seen.operation is not Operation.CREATE:
            self._series.pop(key)
            return
        found, above = self._series.get(key), self._history.find(seen.owner)
        changes = [write.time for write in above.writes if write.touches_more] if above else []
        oldest = max([*changes, write.time - _SECONDS])
        is_generated = bool(seen.key.resource_version)
        is_alike = is_generated or write.kind[:2] in _ONE_CHILD or _are_alike(found, write)
        if found is None or not is_alike or found.since < oldest:
            found = _Series(write.state_before, write.object, write.time)
        found.count += 1
        found.changed = found.changed + 1 if write.state_before != write.state_after else 0
        self._series.put(key, found)
        seconds = write.time - found.since
        is_changed = found.changed == found.count >= _MOST_CHANGED and seconds <= _SECONDS_CHANGED
        is_endless = found.count >= _MOST and (is_generated or seconds >= _SECONDS_NAMED)
        if not (is_changed or is_endless) or not self._mutators.shows_deletions(write.kind):
            return
        said = f"{write.requester.user} has made {found.count} {kind} for one owner, and none went"
        changed_by = ChangedBy.REQUESTER
        if found.changed == found.count and write.called.first:
            changed_by, said = ChangedBy.OTHERS, f"{said}: another webhook changed each of them"
        more = {
            "requesters": (write.requester,),
            "evidence": {"children": found.count, "seconds": round(seconds, 1)},
            "pace": seconds / found.count,
            "of": msgspec.structs.replace(write, object=found.where),
        }
        yield signal(ENDLESS, write, changed_by, (), said, **more)


def _are_alike(found: _Series | None, write: Write) -> bool:
    """Whether the same is asked for as of the first one, or its name with another number."""
    if found is None or found.asked == write.state_before:
        return True
    names = (name.rstrip("0123456789") for name in (found.where.name, write.object.name))
    return len({*names}) == 1
