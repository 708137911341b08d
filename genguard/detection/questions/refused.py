"""Refused: the same write is asked for again and again, and never comes out.

Result  blames the requester; other webhooks where they changed the write on its way, unless
        changes like these are admitted elsewhere
Relies  on a minimum of time, since writes at once may share a version that is out of date; and on
        what reviews tell of writes that are never stored:

- A write ends without an outcome where a validation, or a policy, refuses it. Its outcome may also
  be lost, or go to another replica. So an update counts only if the same requester asks for a
  change of the same stored fields again: had it been stored, these would differ. A creation counts
  if the same is asked for in the same place.
- An update that names a version which is no longer stored is answered 409, and its reviews show
  both versions. A client that reads the object again names a newer one. So it counts if the same
  requester names the same old version again.
- An update that a validating webhook refuses has an outcome: the API server calls all of these at
  once (apiserver pkg/admission/plugin/webhook/validating/dispatcher.go). The history of the object
  shows that nothing was stored.
- A creation that a validating webhook or a quota refuses has an outcome too. It might also fail
  because the object is there. So it counts for Pods of controllers alone, which ask for one more
  Pod at a time: where no review ever shows the Pod again, it was never stored.
- Where outcomes are lost nothing is refused: several users are without an outcome at once, or the
  object is there.

Bounded in entries and in time.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import ClassVar, Final

import msgspec

from genguard.admission.matching import ResourceKind
from genguard.admission.review import JoinKey, Operation, Phase
from genguard.detection.changes import Change
from genguard.detection.correlate import Joined
from genguard.detection.diff import NO_DIFF
from genguard.detection.fact import Fact
from genguard.detection.history import History, ObjectHistory
from genguard.detection.questions.lives import Lives
from genguard.detection.questions.question import (
    Answers,
    Blame,
    Declared,
    Event,
    Question,
    Seen,
    Signal,
    blame_of,
    own,
)
from genguard.detection.suspects import MOST_PLACES
from genguard.detection.values import NO_DIGEST, Digest
from genguard.detection.write import (
    NODE_USER,
    PODS,
    ObjectKey,
    Outcome,
    Write,
    is_manager,
    name_of,
)
from genguard.objects.bounded import Bounded

RETRY: Final = Declared(
    "refused-retry",
    "a write is requested again and again, and always refused",
    "[repeats|repeat] a refused write of {}",
    is_harm=True,
)
_ATTEMPTS: Final = 4
"""A person who gets it wrong tries three times."""
_TRIES: Final = 10
"""Of one change after another, or of a version that is out of date: a person does not try so many,
and a cache is behind for less long (client-go util/workqueue/default_rate_limiters.go: the tenth
try comes 2.5 s after the first)."""
_SECONDS_REFUSED: Final = 0.5
_STALE_TRIES: Final = 5
_STALE_SECONDS: Final = 3.0
"""Of one old version: no cache is behind for so long after it was answered 409 so often."""
SECONDS_BETWEEN: Final = 600.0
"""Attempts further apart are not the same loop."""
MOST_ATTEMPTED: Final = 1_000
_MOST_CREATED: Final = 12
_SECONDS_UNTIL_SEEN: Final = 1.0
"""The scheduler and the kubelet write the status of a new Pod sooner than that."""
_SLOWING: Final = 1.5
"""A controller that is refused doubles its pauses (client-go util/workqueue/
default_rate_limiters.go): three in a row are longer by this factor. One that makes many Pods does
not slow down, however late these are looked at on a loaded machine."""
_LONGEST_UID: Final = 64
"""Characters; those of an API server have 36."""
_USERS: Final = 3
"""So many users who wait for an outcome at once, and nobody has one: outcomes are lost."""


class Attempts(msgspec.Struct, gc=False):
    """The attempts of one requester in one place, since the last one that came out.

    stored        digest of what was stored, or what all attempts at a creation, or at a version,
                  have in common: another one ends the attempts
    first, count  of those that ask for the same
    begun, tries  of all
    shown         when the object of a creation was seen to be there after all
    """

    stored: Digest
    asked: Digest
    first: float
    last: float
    begun: float
    count: int = 0
    tries: int = 0
    shown: float = 0.0


_Where = tuple[str, str, str, str]
"""Group, resource, namespace, and the name of an object or the uid of its owner."""


class Refused(Question):
    """See the module. It remembers attempts by place."""

    findings: ClassVar = (RETRY,)

    def __init__(self, lives: Lives, history: History) -> None:
        """`lives` and `history` tell whether an object is there."""
        self._lives: Final = lives
        self._history: Final = history
        self._attempts: Final[Bounded[int, Attempts]] = Bounded(MOST_ATTEMPTED)
        self._created: Final[Bounded[int, tuple[tuple[str, float], ...]]] = Bounded(MOST_ATTEMPTED)
        """The latest Pods that controllers were admitted to create: uid and time."""
        self._passed: Final[set[tuple[ResourceKind, str]]] = set()
        """Leaves that webhooks changed in updates that were admitted; "" stands for creations."""
        self._doubted: Final[Bounded[_Where, int]] = Bounded(MOST_ATTEMPTED)
        """Creations that seem to be refused, by the name of the object or the uid of its owner."""
        self._without: Final[set[str]] = set()
        """Users who began a write since the last outcome of anybody."""
        self._shows_status = False

    def __len__(self) -> int:
        return len(self._attempts)

    def was_refused(self, key: JoinKey) -> bool:
        """Whether this creation was refused here before, so that leaves are compared."""
        return (
            self._attempts.get(_place_of_creations(key, key.resource_version, key.user)) is not None
        )

    def call(self, fact: Fact) -> None:
        """Take in a call of any phase, as soon as it comes in."""
        if fact.is_stale or is_manager(fact.key.user):
            return
        if fact.phase is Phase.OUTCOME:
            self.see_outcome()
        elif len(self._without) < _USERS:
            self._without.add(fact.key.user)
        if len(self._doubted) and fact.operation is not Operation.CREATE:
            self._show(fact.key, fact.owner, fact.time)

    def see_outcome(self) -> None:
        """Note that an outcome is shown, so that none was lost until now."""
        self._without.clear()

    def _show(self, key: JoinKey, owner: str, now: float) -> None:
        """Forget a creation that seemed to be refused if its object is there after all."""
        for one in (key.name, owner):
            place = self._doubted.get((key.group, key.resource, key.namespace, one))
            found = None if place is None else self._attempts.get(place)
            # What was known before those attempts is another object.
            if found is not None and not (self._history.find(key) or self._lives.is_there(key.uid)):
                found.count, found.shown = 0, now

    def ask(self, event: Event) -> Answers:
        """Ask whether an attempt that did not come out is one of many."""
        found: Signal | None = None
        write = event.write
        if isinstance(event, Joined):
            if write.outcome is Outcome.REFUSED:
                found = self._unanswered(*event)
            elif write.outcome is Outcome.STALE:
                found = self._stale(*event)
            elif write.operation is Operation.CREATE and write.has_outcome:
                found = self._created_one(*event)
        elif isinstance(event, Seen) and write.has_outcome:
            self._pass(write)
            found = _not_stored(*event)
        if found is not None:
            yield RETRY, found

    def _unanswered(self, write: Write, fact: Fact) -> Signal | None:
        """Take in a write without an outcome."""
        is_creation, asked = write.operation is Operation.CREATE, fact.compared()
        if is_creation:
            found = self._count(_place(write), fact.attempt, NO_DIGEST, write.time)
            self._doubted.put(_where(write), _place(write))
        elif asked.before == asked.after or not write.content.admitted:
            return None  # nothing is asked for, or nothing would be stored
        else:
            # Whatever is asked for: had it been stored, the stored fields would differ by now.
            found = self._count(_place(write), asked.before, asked.after, write.time)
        if len(self._without) >= _USERS:
            return None  # outcomes are lost
        count, seconds = found.count, write.time - found.first
        if count < _ATTEMPTS or seconds < _SECONDS_REFUSED:
            count, seconds = found.tries, write.time - found.begun
            if count < _TRIES or seconds < _SECONDS_REFUSED:
                return None
        blame = Blame.OTHERS if write.content.webhook else Blame.REQUESTER
        if blame is Blame.OTHERS and self._has_passed(write):
            blame = Blame.EITHER if is_creation else Blame.REQUESTER
        return _signal(write, blame, "it has no outcome", count, seconds)

    def _stale(self, write: Write, fact: Fact) -> Signal | None:
        """Take in a call of an update of a stale version."""
        if fact.phase is not Phase.MUTATE:
            return None  # each write counts once
        found = self._count(hash((_place(write), "409")), fact.attempt, NO_DIGEST, fact.time)
        tries, seconds = found.tries, fact.time - found.begun
        is_of_one = tries >= _STALE_TRIES and seconds >= _STALE_SECONDS
        if not is_of_one and (tries < _TRIES or seconds < _SECONDS_REFUSED):
            return None
        what = "it names a resourceVersion that is no longer stored"
        return _signal(write, Blame.REQUESTER, what, tries, seconds)

    def _count(self, place: int, stored: Digest, content: Digest, now: float) -> Attempts:
        """Count one attempt; they begin anew after a pause, or where something else is stored."""
        found = self._attempts.get(place)
        if found is None or found.stored != stored or now - found.last > SECONDS_BETWEEN:
            found = Attempts(stored, content, now, now, now)
        if found.asked != content or now <= found.shown:
            found.asked, found.first, found.count = content, now, 0
        found.last = now
        found.count += now > found.shown
        found.tries += 1
        self._attempts.put(place, found)
        return found

    def _pass(self, write: Write, *, is_creation: bool = False) -> None:
        """Take in a write with an outcome: what was not answered before it is forgotten."""
        if write.subresource == "status" and not self._shows_status:
            is_node = write.requester.user.startswith(NODE_USER)
            self._shows_status = is_node or _is_pod(write)
        if len(self._attempts):
            self._attempts.pop(_place(write))
        leaves = [one.pointer for one in write.content.webhook or ()]
        if is_creation:
            leaves = [""] if write.state_before != write.state_after else []
        for one in leaves:
            if len(self._passed) < MOST_PLACES:
                self._passed.add((write.kind, one))

    def _created_one(self, write: Write, fact: Fact) -> Signal | None:
        """Take in a creation with an outcome; of a Pod see whether those before it vanished."""
        self._pass(write, is_creation=True)
        self._doubted.pop(_where(write))
        if not write.owner or not _is_pod(write) or not self._shows_status:
            return None
        now, uid, place = write.time, fact.key.uid, _place(write)
        created = self._created.get(place) or ()
        created = tuple(one for one in created if now - one[1] <= SECONDS_BETWEEN)
        if any(one == uid for one, _ in created):
            return None  # an API server calls again after a broken connection
        seen = [at for at, (one, _) in enumerate(created) if self._is_seen(one)]
        created = created[max(seen, default=-1) + 1 :]
        gone = sum(now - at >= _SECONDS_UNTIL_SEEN for _, at in created)
        times = [*(at for _, at in created), now]
        if len(uid) <= _LONGEST_UID:
            created = (*created, (uid, now))[-_MOST_CREATED:]
        self._created.put(place, created)
        seconds = now - times[0]
        if gone < _ATTEMPTS or seconds < _SECONDS_REFUSED or not _is_slowing(times):
            return None
        return _signal(write, Blame.REQUESTER, _NEVER_STORED, gone, seconds)

    def _is_seen(self, uid: str) -> bool:
        """Whether an object was written since it was created, deleted or forgotten."""
        return self._history.find(uid) is not None or not self._lives.is_there(uid)

    def _has_passed(self, write: Write) -> bool:
        """Whether webhooks changed all of these leaves in writes that were admitted."""
        if write.operation is Operation.CREATE:
            return (write.kind, "") in self._passed
        made = write.content.webhook or NO_DIFF
        each = [(write.kind, one.pointer) in self._passed for one in made]
        return bool(each) and all(each)


_NEVER_STORED: Final = "it is admitted and never stored"


def _not_stored(write: Write, past: ObjectHistory) -> Signal | None:
    """Return a signal for an update that was admitted, and not stored after all."""
    earlier = past.earlier
    # The write before it changed something, and the object is as it was.
    if not earlier or not write.base or earlier[-1].base != write.base:
        return None
    tries = [
        one
        for one in own(write, earlier, SECONDS_BETWEEN)
        if (one.base, one.subresource, one.state_after)
        == (write.base, write.subresource, write.state_after)
    ]
    count, seconds = len(tries), write.time - tries[-1].time if tries else 0.0
    if not write.content.admitted.changes or count < _ATTEMPTS or seconds < _SECONDS_REFUSED:
        return None
    blame = Blame.OTHERS if write.content.webhook else blame_of(write.content)
    return _signal(write, blame, _NEVER_STORED, count, seconds)


def _signal(write: Write, blame: Blame, how: str, count: int, seconds: float) -> Signal:
    is_update = write.operation is Operation.UPDATE
    changes: Iterable[Change] = write.content.sent if is_update else ()
    if blame is Blame.OTHERS:
        changes = write.content.webhook or ()
        how += ", since another webhook changed it"
    paths = tuple(one.pointer for one in changes)
    if not paths and is_update:
        paths = write.pointers()
    verb = "writes" if is_update else "creates"
    return Signal(
        blame,
        paths,
        f"{write.requester.user} {verb} it again and again: {how}",
        () if blame is Blame.OTHERS else (write.requester,),
        evidence={"attempts": count, "seconds": round(seconds, 1)},
    )


def _is_slowing(times: Sequence[float]) -> bool:
    """Return whether the last three pauses between times in seconds grow."""
    pauses = [after - before for before, after in pairwise(times[-4:])]
    return len(pauses) == 3 and all(  # noqa: PLR2004 - of four times
        after >= _SLOWING * before for before, after in pairwise(pauses)
    )


def _is_pod(write: Write) -> bool:
    return (write.object.group, write.object.resource) == PODS


def _place_of_creations(where: ObjectKey | JoinKey, owner: str, user: str) -> int:
    return hash((where.group, where.resource, where.namespace, where.name, owner, user))


def _place(write: Write) -> int:
    """Return a number for an object or a place of creations, the subresource and the user."""
    where, user = write.object, write.requester.user
    if write.operation is Operation.CREATE:
        return _place_of_creations(where, write.owner, user)
    return hash((name_of(where), write.subresource, user))


def _where(write: Write) -> _Where:
    where = write.object
    return where.group, where.resource, where.namespace, write.owner or where.name
