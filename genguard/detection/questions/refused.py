"""Refused: the same write is asked for again and again, and never comes out.

Result  blames the requester; other webhooks where they changed the write on its way, unless
        changes like these are admitted elsewhere
Relies  on a minimum of time, since writes at once may share a version that is out of date; and on
        what reviews tell of writes that are never stored:

- A write ends without an outcome where a validation, or a policy, refuses it. Its outcome may also
  be lost, or go to another replica. So an update counts only if the same requester asks for a
  change of the same stored fields again: had it been stored, these would differ. A creation counts
  if the same is asked for at the same location.
- Creations with a new name each are attempts at the same where the same user makes them for one
  owner, or Pods with the same labels, and none comes out.
- A client that only makes sure of an object asks again for a name that is taken, at an even pace.
  So it counts where the pauses become longer, as those of a client whose attempts fail.
- An update that names a version which is no longer stored is answered 409, and its reviews show
  both versions. A client that reads the object again names a newer one. So it counts if the same
  requester names the same old version again.
- An update that a validating webhook refuses has an outcome: the API server calls all of these at
  once (apiserver pkg/admission/plugin/webhook/validating/dispatcher.go). The history of the object
  shows that nothing was stored.
- A creation that a validating webhook or a quota refuses has an outcome too. It might also fail
  because the object is there. So it counts for Pods of controllers alone, which ask for one more
  Pod at a time: where no review shows any of them, none was stored.
- Where outcomes are lost nothing is refused: several users are without an outcome at once, or the
  object is there.

Bounded in entries and in time.
"""

from dataclasses import replace
from itertools import islice, pairwise, product
from operator import attrgetter
from typing import ClassVar, Final

import msgspec

from genguard.admission.matching import ResourceKind
from genguard.admission.review import JoinKey, Operation, Phase, WireRequest
from genguard.detection.diff import together
from genguard.detection.history import History, ObjectHistory
from genguard.detection.mutators import MOST_PLACES
from genguard.detection.observation import Observation
from genguard.detection.question import DECLARED, Answers, ChangedBy, Question, own, signal
from genguard.detection.values import NO_DIGEST, Digest
from genguard.detection.write import NODE_USER, PODS, ObjectKey, Outcome, Write, is_manager, name_of
from genguard.objects.bounded import Bounded

RETRY: Final = DECLARED["refused-retry"]
_ATTEMPTS: Final = 4
"""A person who gets it wrong tries three times."""
_TRIES: Final = 10
"""At one change after another, or at a version that is out of date: no person tries so many times,
and a cache is behind for less long (client-go util/workqueue/default_rate_limiters.go: the tenth
try comes 2.5 s after the first)."""
_SECONDS_REFUSED: Final = 0.5
_SECONDS_LONG: Final = 120.0
"""For creations with a new name each: an actor that makes many objects at once takes less time. For
creations of a name that is taken: an object that is deleted is gone by then."""
_STALE_TRIES: Final = 5
_STALE_SECONDS: Final = 3.0
"""For one old version: no cache is behind for so long after it was answered 409 so often."""
_SECONDS_BETWEEN: Final = 1_200.0
"""Attempts further apart are not the same loop; a backoff of client-go ends at 1,000 s."""
_SLOW: Final = 150.0
"""Findings wait for four times as long anyway (finding_state.py: WINDOW_SECONDS)."""
MOST_ATTEMPTED: Final = 2_000
_SECONDS_UNTIL_SEEN: Final = 1.0
"""The scheduler and the kubelet write the status of a new Pod sooner than that."""
_SLOWING: Final = 1.5
"""A controller that is refused doubles its pauses (client-go util/workqueue/
default_rate_limiters.go): three in a row are longer by this factor. One that makes many Pods does
not slow down, however late these are looked at on a loaded machine."""
_USERS: Final = 3
"""If so many users wait for an outcome at once, and nobody has one, outcomes are lost."""
_NEVER_STORED: Final = "it is admitted and never stored"


Refusal = tuple[str, tuple[str, ...]]
"""Why, as an audit log says, "" where it does not; and pointers of what others own."""


class _Attempts(msgspec.Struct, gc=False):
    """Attempts at one location, one after the other, none of which has come out.

    object       of the first one
    stored       digest of what was stored, or what all attempts at a creation, or at a version,
                 have in common: another one ends the attempts
    begun, tries of all; times: of the latest four
    first, same  of the last ones, which ask for the same
    """

    object: ObjectKey
    stored: Digest
    asked: Digest
    begun: float
    first: float
    tries: int = 0
    same: int = 0
    times: tuple[float, ...] = ()

    @property
    def is_slowing(self) -> bool:
        """Return whether the pauses are those of a client whose attempts fail."""
        pauses = [after - before for before, after in pairwise(self.times)]
        is_slowing = all(after >= _SLOWING * before for before, after in pairwise(pauses))
        return is_slowing and self.tries > _ATTEMPTS and pauses[-1] >= _SECONDS_UNTIL_SEEN


class Refused(Question):
    """See the module. It remembers attempts by location."""

    findings: ClassVar = (RETRY,)

    def __init__(self, history: History) -> None:
        """`history` tells whether an object was there before."""
        self._history: Final = history
        self._attempts: Final[Bounded[int, _Attempts]] = Bounded(MOST_ATTEMPTED)
        self._passed: Final[set[tuple[ResourceKind, str]]] = set()
        """Leaves that webhooks changed in writes that were admitted: see `_made`."""
        self._reasons: Final[Bounded[tuple[str, ...], Refusal]] = Bounded(MOST_ATTEMPTED)
        self._without: Final[set[str]] = set()
        """Users who began a write since the last outcome of anybody."""
        self._shows_status = False
        """Whether kubelets are seen to write status: a Pod that is stored is seen soon then."""
        self.seen = (self._answered,)
        self.joined = (self._attempted,)

    def was_refused(self, key: JoinKey) -> bool:
        """Whether this creation was refused here before, so that leaves are compared."""
        location = _location_of_creations(key, key.resource_version or key.name, Outcome.REFUSED)
        return self._attempts.get(location) is not None

    def call(self, seen: Observation) -> None:
        """Take in a call of any phase, as soon as it comes in."""
        if seen.is_stale or is_manager(seen.key.user):
            return
        if seen.phase is Phase.OUTCOME:
            self.see_outcome()
        elif len(self._without) < _USERS:
            self._without.add(seen.key.user)
        may_show = len(self._attempts) and seen.operation is not Operation.CREATE
        if may_show and self._history.find(seen.key) is None:
            self._show(seen)

    def see_outcome(self) -> None:
        """Note that an outcome is shown, so that none was lost until now."""
        self._without.clear()

    def tell(self, wire: WireRequest, refusal: Refusal) -> None:
        """Note why a request is refused."""
        location = wire.resource.resource, wire.namespace, wire.name, wire.user_info.username
        self._reasons.put(location, refusal)

    def _show(self, seen: Observation) -> None:
        """Forget creations that seem not to be stored: an object is there that was not before."""
        owner = seen.owner if seen.operation is Operation.UPDATE else seen.key.resource_version
        for each in product((seen.key.name, owner), (Outcome.REFUSED, Outcome.ADMITTED)):
            self._attempts.pop(_location_of_creations(seen.key, *each))

    def _attempted(self, write: Write, seen: Observation) -> Answers:
        """Tell an attempt that did not come out, and is one of many."""
        if write.outcome is Outcome.REFUSED:
            yield from self._unanswered(write, seen)
        elif write.outcome is Outcome.STALE:
            yield from self._stale(write, seen)
        elif write.operation is Operation.CREATE and write.has_outcome:
            self._pass(write)
            self._attempts.pop(_location(write, Outcome.REFUSED, seen.likeness))
            yield from self._never_shown(write)

    def _answered(self, write: Write, past: ObjectHistory) -> Answers:
        """Take in an update with an outcome; tell one of many that is never stored."""
        if not write.has_outcome:
            return
        self._pass(write)
        earlier, changes = past.earlier, write.content.admitted.changes
        # The write before it changed something, and the object is as it was.
        if changes and earlier and write.base and earlier[-1].base == write.base:
            mine = own(write, earlier, _SECONDS_BETWEEN)
            tries = [tried.time for tried in mine if _attempt(tried) == _attempt(write)]
            changed_by = ChangedBy.OTHERS if write.content.webhook else ChangedBy.of(write.content)
            same = len(tries), min(tries, default=write.time), _ATTEMPTS, _SECONDS_REFUSED
            yield from _told(write, changed_by, _NEVER_STORED, same)

    def _pass(self, write: Write) -> None:
        """Take in a write with an outcome: what was not answered before it is forgotten."""
        is_node = write.requester.user.startswith(NODE_USER)
        self._shows_status |= write.subresource == "status" and (is_node or _is_pod(write))
        if len(self._attempts):
            self._attempts.pop(_location(write, Outcome.REFUSED))
        self._passed.update(islice(_made(write), MOST_PLACES - len(self._passed)))

    def _unanswered(self, write: Write, seen: Observation) -> Answers:
        """Take in a write without an outcome."""
        asked, is_creation = seen.compared(), write.operation is Operation.CREATE
        where = write.object
        location = where.resource, where.namespace, where.name, write.requester.user
        why, owned = self._reasons.get(location) or ("", ())
        if seen.compared_metadata is not None:
            asked = together(asked, seen.compared_metadata)
        how, needed = why or "it has no outcome", (_ATTEMPTS, _SECONDS_REFUSED)
        if is_creation:
            found = self._count(write, seen.attempt)
            if why and not found.is_slowing:
                return  # a client that makes sure of an object asks at an even pace, and goes on
            needed = (_TRIES, _SECONDS_LONG) if why else needed
            if seen.likeness and found.tries == 1:
                found = self._count(write, NO_DIGEST, likeness=seen.likeness)
                how, needed = "each has a new name, and no outcome", (_TRIES, _SECONDS_LONG)
        elif not owned and not (asked and write.changed_anything):
            return  # nothing is asked for, or nothing would be stored
        else:
            # Whatever is asked for: had it been stored, the stored fields would differ by now.
            found = self._count(write, asked.before, asked.after)
        if len(self._without) >= _USERS:
            return  # outcomes are lost
        made = _made(write)  # no leaves of a creation with a new name are compared
        is_by_webhook = made if is_creation else write.content.webhook or write.metadata.webhook
        changed_by = ChangedBy.OTHERS if is_by_webhook else ChangedBy.REQUESTER
        if changed_by is ChangedBy.OTHERS and made and self._passed.issuperset(made):
            changed_by = ChangedBy.EITHER if is_creation else ChangedBy.REQUESTER
        same = found.same, found.first, *needed
        tries = found.tries, found.begun, _TRIES, needed[1]
        for name, told in _told(write, changed_by, how, same, tries):
            pause = found.times[-1] - found.times[-2]
            pace = pause if pause >= _SLOW and found.tries > _ATTEMPTS + 1 else 0.0
            first = msgspec.structs.replace(write, object=found.object)
            yield name, replace(told, paths=owned or told.paths, pace=pace, of=first)

    def _stale(self, write: Write, seen: Observation) -> Answers:
        """Take in a call of an update of a stale version; each write counts once."""
        if seen.phase is Phase.MUTATE:
            found = self._count(write, seen.attempt)
            what = "it names a resourceVersion that is no longer stored"
            slow = found.tries, found.begun, _STALE_TRIES, _STALE_SECONDS
            fast = found.tries, found.begun, _TRIES, _SECONDS_REFUSED
            yield from _told(write, ChangedBy.REQUESTER, what, slow, fast)

    def _never_shown(self, write: Write) -> Answers:
        """Take in a creation with an outcome; it may be that no Pod of its owner is ever shown."""
        if not write.base or not _is_pod(write) or not self._shows_status:
            return
        found = self._count(write, NO_DIGEST)
        if found.is_slowing:
            earlier = found.tries - 1, found.begun, _ATTEMPTS, _SECONDS_REFUSED
            yield from _told(write, ChangedBy.REQUESTER, _NEVER_STORED, earlier)

    def _count(
        self, write: Write, stored: Digest, asked: Digest = NO_DIGEST, *, likeness: int = 0
    ) -> _Attempts:
        """Count one attempt; they begin anew after a pause, or where something else is stored."""
        location, now = _location(write, write.outcome, likeness), write.time
        found = self._attempts.get(location)
        if found is None or found.stored != stored or now - found.times[-1] > _SECONDS_BETWEEN:
            found = _Attempts(write.object, stored, asked, now, now)
        if found.asked != asked:
            found.asked, found.first, found.same = asked, now, 0
        found.same, found.tries = found.same + 1, found.tries + 1
        found.times = (*found.times[-3:], now)
        self._attempts.put(location, found)
        return found


_attempt: Final = attrgetter("base", "subresource", "state_after")


def _told(
    write: Write, changed_by: ChangedBy, how: str, *attempts: tuple[int, float, int, float]
) -> Answers:
    """Yield a signal where there are enough attempts of one sort.

    attempts  how many, since when, and how many, in how many seconds, are enough
    """
    for count, since, least, shortest in attempts:
        seconds = write.time - since
        if count >= least and seconds >= shortest:
            is_update = write.operation is Operation.UPDATE
            changes = [*write.content.sent, *write.metadata.sent] if is_update else []
            if changed_by is ChangedBy.OTHERS:
                changes = [*write.of_webhooks(again=False)]
                how += ", since another webhook changed it"
            verb = "writes" if is_update else "creates"
            said = f"{write.requester.user} {verb} it again and again: {how}"
            evidence = {"attempts": count, "seconds": round(seconds, 1)}
            yield signal(RETRY, write, changed_by, changes, said, evidence=evidence)
            return


def _made(write: Write) -> list[tuple[ResourceKind, str]]:
    """Return the leaves that webhooks changed; "" of a creation, for not each one is compared."""
    if write.operation is Operation.CREATE:
        of_metadata = write.metadata_before, write.metadata_after
        is_made = write.state_before != write.state_after or len({*of_metadata}) > 1
        return [(write.kind, "")] if is_made else []
    return [(write.kind, change.pointer) for change in write.of_webhooks(again=False)]


def _is_pod(write: Write) -> bool:
    return (write.object.group, write.object.resource) == PODS


def _location(write: Write, outcome: Outcome, likeness: int = 0) -> int:
    """Return a number for where attempts are made, by whom, and how they end.

    likeness  of creations that are alike, whatever their names
    """
    where = write.object
    if write.operation is Operation.CREATE:
        like = f"{write.requester.user} {likeness}" if likeness else write.base or where.name
        return _location_of_creations(where, like, outcome)
    return hash((name_of(where), write.subresource, write.requester.user, outcome))


def _location_of_creations(where: ObjectKey | JoinKey, name: str, outcome: Outcome) -> int:
    """Return a number for all creations of a name, or of an owner by its uid."""
    return hash((where.group, where.resource, where.namespace, name, outcome))
