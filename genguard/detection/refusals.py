"""Writes that were asked for again and again and never came out: refused, as far as reviews tell.

- A write ends without an outcome where a validation, or a policy, refuses it. Its outcome may also
  be lost, or go to another replica. So an update counts only if the same requester asks for a
  change of the same stored fields again: had it been stored, these would differ. A creation counts
  if the same is asked for in the same place.
- An update that names a version which is no longer stored is answered 409, and its reviews show
  both versions. A client that reads the object again names a newer one. So it counts if the same
  requester names the same old version again.
- An update that a validating webhook refuses has an outcome: the API server calls all of these at
  once (apiserver pkg/admission/plugin/webhook/validating/dispatcher.go). The detector finds it in
  the history of the object.
- A creation that a validating webhook or a quota refuses has an outcome too. It might also fail
  because the object is there. So it counts for Pods of controllers alone, which ask for one more
  Pod at a time: where no review ever shows the Pod again, it was never stored.
- Where outcomes are lost nothing is refused: several users are without an outcome at once, or the
  object is there.

Bounded in entries and in time.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from genguard.admission.review import JoinKey, Operation, Phase
from genguard.detection.correlate import Unanswered, assemble, is_mostly_whole
from genguard.detection.diff import NO_DIFF
from genguard.detection.fact import Fact
from genguard.detection.history import History
from genguard.detection.lives import Lives
from genguard.detection.matching import ResourceKind
from genguard.detection.suspects import MOST_PLACES
from genguard.detection.values import NO_DIGEST, Digest
from genguard.detection.write import NODE_USER, PODS, Write, is_manager, name_of
from genguard.objects.bounded import Bounded

SECONDS_BETWEEN: Final = 600.0
"""Attempts further apart are not the same loop."""
MOST_ATTEMPTED: Final = 1_000
MOST_LONG: Final = 2_000
_LONG: Final = 128
"""Characters of a place; one with more counts as several."""
_MOST_CREATED: Final = 12
_SECONDS_OF_BURST: Final = 0.05
"""Writes of a stale version so close together count once: a controller tries many times in the
moment that its cache is behind."""
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


class Refusal(NamedTuple):
    """A write that was asked for again.

    write        the last attempt
    attempts     how many there were that asked for the same, this one with them; for so many
                 `seconds`
    tries        how many there were, whatever they asked for; for `tried_seconds`
    is_stale     it names a version that is no longer stored
    is_admitted  it was refused after /outcome had shown it
    others_pass  other writes that webhooks changed in this way were admitted
    """

    write: Write
    attempts: int
    seconds: float
    tries: int = 0
    tried_seconds: float = 0.0
    is_stale: bool = False
    is_admitted: bool = False
    others_pass: bool = False


class Attempts(msgspec.Struct, gc=False):
    """The attempts of one requester in one place, since the last one that came out.

    stored        digest of what was stored, or what all attempts at a creation, or at a version,
                  have in common: another one ends the attempts
    first, count  of those that ask for the same
    begun, tries  of all
    by_intent     intents of stale versions are seen: the other calls are of the same attempts
    shown         when the object of a creation was seen to be there after all
    """

    stored: Digest
    asked: Digest
    first: float
    last: float
    begun: float
    count: int = 0
    tries: int = 0
    by_intent: bool = False
    shown: float = 0.0


_Place = tuple[str, ...]
"""An object or a place of creations, subresource, user; "409" behind those of stale versions."""
_Where = tuple[str, str, str, str]
"""Group, resource, namespace, and the name of an object or the uid of its owner."""


class Refusals:
    """Attempts by place."""

    def __init__(self, lives: Lives, history: History) -> None:
        """`lives` and `history` tell whether an object is there."""
        self._lives: Final = lives
        self._history: Final = history
        self._attempts: Final[Bounded[_Place, Attempts]] = Bounded(MOST_ATTEMPTED, MOST_LONG)
        self._created: Final[Bounded[_Place, tuple[tuple[str, float], ...]]] = Bounded(
            MOST_ATTEMPTED, MOST_LONG
        )
        """The latest Pods that controllers were admitted to create: uid and time."""
        self._passed: Final[set[tuple[ResourceKind, str]]] = set()
        """Leaves that webhooks changed in updates that were admitted; "" stands for creations."""
        self._doubted: Final[Bounded[_Where, _Place]] = Bounded(MOST_ATTEMPTED, MOST_LONG)
        """Creations that seem to be refused, by the name of the object or the uid of its owner."""
        self._without: Final[set[str]] = set()
        """Users who began a write since the last outcome of anybody."""
        self._shows_status = False
        self._admitted = self._orphans = 0

    def __len__(self) -> int:
        return len(self._attempts)

    @property
    def _is_whole(self) -> bool:
        return is_mostly_whole(self._orphans, self._admitted)

    def was_refused(self, key: JoinKey) -> bool:
        """Whether this creation was refused here before, so that leaves are compared."""
        return self._attempts.get(_place_of_creation(key)) is not None

    def call(self, fact: Fact) -> None:
        """Take in a call of any phase, as soon as it comes in."""
        if fact.is_stale or is_manager(fact.key.user):
            return
        if fact.phase is Phase.OUTCOME:
            self.has_outcome()
        elif len(self._without) < _USERS:
            self._without.add(fact.key.user)
        if len(self._doubted) and fact.operation is not Operation.CREATE:
            self._show(fact.key, fact.owner, fact.time)

    def has_outcome(self) -> None:
        """Note that an outcome is shown, so that none was lost until now."""
        if self._without:
            self._without.clear()

    def _show(self, key: JoinKey, owner: str, now: float) -> None:
        """Forget a creation that seemed to be refused if its object is there after all."""
        for one in (key.name, owner):
            place = self._doubted.get((key.group, key.resource, key.namespace, one))
            # What was known before those attempts is another object.
            found = None if place is None else self._attempts.get(place)
            if found is not None and not self._is_known(key):
                found.count, found.shown = 0, now

    def _is_known(self, key: JoinKey) -> bool:
        return self._history.find(key) is not None or self._lives.is_there(key.uid)

    def unanswered(self, one: Unanswered) -> Refusal | None:
        """Take in a write without an outcome; return it with those before it."""
        write, asked = one
        is_creation = write.operation is Operation.CREATE
        if not is_creation and (asked[0] == asked[1] or not write.content.admitted.differs):
            return None  # nothing is asked for, or nothing would be stored
        # Whatever is asked for: had it been stored, the stored fields would differ by now.
        found = self._count(_place(write), asked, write.time)
        if is_creation:
            self._doubted.put(_where(write), _place(write), _weight(_place(write)))
        if len(self._without) >= _USERS or (is_creation and not self._is_whole):
            return None  # outcomes are lost
        return Refusal(
            write,
            found.count,
            write.time - found.first,
            found.tries,
            write.time - found.begun,
            others_pass=self._has_passed(write),
        )

    def stale(self, fact: Fact) -> Refusal | None:
        """Take in one phase of an update of a stale version; return it with those before it."""
        write = assemble(None, (), fact, fact.time, (Phase.OUTCOME,))
        place, is_intent = (*_place(write), "409"), fact.phase is Phase.INTENT
        before = self._attempts.get(place)
        if before is not None and (
            0 <= fact.time - before.last < _SECONDS_OF_BURST or (before.by_intent and not is_intent)
        ):
            return None
        found = self._count(place, (fact.attempt, NO_DIGEST), fact.time)
        found.by_intent |= is_intent
        seconds = fact.time - found.begun
        return Refusal(write, 0, 0.0, found.tries, seconds, is_stale=True)

    def _count(self, place: _Place, asked: tuple[Digest, Digest], now: float) -> Attempts:
        """Count one attempt; they begin anew after a pause, or where something else is stored."""
        stored, content = asked
        found = self._attempts.get(place)
        if found is None or found.stored != stored or now - found.last > SECONDS_BETWEEN:
            found = Attempts(stored, content, now, now, now)
        if found.asked != content or now <= found.shown:
            found.asked, found.first, found.count = content, now, 0
        found.last = now
        found.count += now > found.shown
        found.tries += 1
        self._attempts.put(place, found, _weight(place))
        return found

    def answered(self, write: Write) -> Refusal | None:
        """Take in a write with an outcome: what was not answered before it is forgotten.

        Return it if no review shows any of the Pods that were admitted before.
        """
        kind, where = write.kind, write.object
        is_pod = (where.group, where.resource) == PODS
        if write.subresource == "status" and not self._shows_status:
            self._shows_status = is_pod or write.requester.user.startswith(NODE_USER)
        place = _place(write)
        if len(self._attempts):
            self._attempts.pop(place)
        if write.operation is Operation.CREATE:
            self._doubted.pop(_where(write))
            self._admitted += 1
            self._orphans += write.content.requested is None
            if write.state_before != write.state_after:
                self._pass(kind, "")
            return self._vanished(place, write) if is_pod and write.owner else None
        for change in write.content.webhook or ():
            self._pass(kind, change.pointer)
        return None

    def _vanished(self, place: _Place, write: Write) -> Refusal | None:
        now, uid = write.time, write.object.uid
        created = self._created.get(place) or ()
        created = tuple(one for one in created if now - one[1] <= SECONDS_BETWEEN)
        if any(one == uid for one, _ in created):
            return None  # an API server calls again after a broken connection
        seen = [at for at, (one, _) in enumerate(created) if self._is_seen(write, one)]
        created = created[max(seen, default=-1) + 1 :]
        gone = sum(now - at >= _SECONDS_UNTIL_SEEN for _, at in created)
        first = created[0][1] if created else now
        is_slowing = _is_slowing([*(at for _, at in created), now])
        if len(uid) <= _LONGEST_UID:
            created = (*created, (uid, now))[-_MOST_CREATED:]
        self._created.put(place, created, _weight(place))
        if not gone or not is_slowing or not self._shows_status or not self._is_whole:
            return None
        place_of_all = msgspec.structs.replace(write.object, uid="")
        write = msgspec.structs.replace(write, object=place_of_all)
        return Refusal(write, gone, now - first, is_admitted=True)

    def _is_seen(self, write: Write, uid: str) -> bool:
        """Whether an object was written since it was created, deleted or forgotten."""
        where = msgspec.structs.replace(write.object, uid=uid)
        return self._history.find(where) is not None or not self._lives.is_there(uid)

    def _pass(self, kind: ResourceKind, leaf: str) -> None:
        if len(self._passed) < MOST_PLACES:
            self._passed.add((kind, leaf))

    def _has_passed(self, write: Write) -> bool:
        """Whether webhooks changed all of these leaves in updates that were admitted."""
        if write.operation is Operation.CREATE:
            return (write.kind, "") in self._passed
        made = write.content.webhook or NO_DIFF
        each = [(write.kind, one.pointer) in self._passed for one in made]
        return bool(each) and all(each)


def _is_slowing(times: Sequence[float]) -> bool:
    """Return whether the last three pauses between times in seconds grow."""
    pauses = [after - before for before, after in pairwise(times[-4:])]
    return len(pauses) == 3 and all(  # noqa: PLR2004 - of four times
        after >= _SLOWING * before for before, after in pairwise(pauses)
    )


def _place(write: Write) -> _Place:
    where = write.object
    if write.operation is Operation.CREATE:
        names = where.group, where.resource, where.namespace, where.name, write.owner
        return "\0".join(names), "", write.requester.user
    return name_of(where), write.subresource, write.requester.user


def _place_of_creation(key: JoinKey) -> _Place:
    where = key.group, key.resource, key.namespace, key.name, key.resource_version
    return "\0".join(where), "", key.user


def _where(write: Write) -> _Where:
    where = write.object
    return where.group, where.resource, where.namespace, write.owner or where.name


def _weight(place: _Place) -> int:
    return len("".join(place)) // _LONG
