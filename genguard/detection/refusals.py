"""Writes that were asked for again and again and never came out: refused, as far as reviews tell.

- An update ends without an outcome where a validation, or a policy, refuses it. Its outcome may
  also be lost, or go to another replica. So it counts only if the same requester asks for a change
  of the same stored fields again: had it been stored, these would differ.
- An update that names a version which is no longer stored is answered 409, and its reviews show
  both versions. A client that reads the object again names a newer one. So it counts if the same
  requester names the same old version again.
- An update that a validating webhook refuses has an outcome: the API server calls all of these at
  once (apiserver pkg/admission/plugin/webhook/validating/dispatcher.go). The detector finds it in
  the history of the object.
- A creation without an outcome counts like an update, if the same is asked for in the same place.
- A creation that a validating webhook or a quota refuses has an outcome too. It might also fail
  because the object is there. So it counts for Pods of controllers alone, which ask for one more
  Pod at a time: where no review ever shows the Pod again, it was never stored.
- Where outcomes are lost, or are not registered for a resource, nothing is refused: several users
  are without an outcome at once, updates of the resource have none, or the object is there.

Bounded in entries, in leaves and in time.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from genguard.admission.review import JoinKey, Phase
from genguard.detection.changes import weight_of
from genguard.detection.correlate import MOST_RESOURCES, Correlator, Unanswered, is_mostly_whole
from genguard.detection.diff import NO_DIFF, Diff, between, diff_of
from genguard.detection.fact import Fact
from genguard.detection.history import History
from genguard.detection.lives import LifeFact, Lives, blank_write
from genguard.detection.matching import ResourceKind
from genguard.detection.suspects import MOST_PLACES
from genguard.detection.values import NO_DIGEST, Digest
from genguard.detection.write import NOBODY, NODE_USER, Write, is_manager, name_of
from genguard.objects.bounded import Bounded

SECONDS_BETWEEN: Final = 600.0
"""Attempts further apart are not the same loop."""
MOST_ATTEMPTED: Final = 1_000
MOST_LEAVES: Final = 2_000
_LETTERS_OF_LEAF: Final = 128
_LONGEST_UID: Final = 64
"""Characters; those of an API server have 36."""
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
_PODS: Final = ("", "pods")
_USERS: Final = 3
"""So many users who wait for an outcome at once, and nobody has one: outcomes are lost."""


class Refusal(NamedTuple):
    """A write that was asked for again.

    write        the last attempt
    attempts     how many there were that asked for the same, this one with them; for so many
                 `seconds`
    tries        how many there were, whatever they asked for; for `tried_seconds`
    is_stale     it names a version that is no longer stored
    asked        what the requester wants to change of what is stored; nothing of a creation
    made         what other webhooks changed of it
    is_admitted  it was refused after /outcome had shown it
    others_pass  other writes that webhooks changed in this way were admitted
    """

    write: Write
    attempts: int
    seconds: float
    asked: Diff
    made: Diff
    is_creation: bool = False
    is_admitted: bool = False
    others_pass: bool = False
    tries: int = 0
    tried_seconds: float = 0.0
    is_stale: bool = False


class Attempts(msgspec.Struct, gc=False):
    """The attempts of one requester in one place, since the last one that came out.

    stored          digest of what was stored, or of the version that is named, or of what is to be
                    created: another one ends the attempts
    first, count    of those that ask for the same
    begun, tries    of all
    intent, mutate  the last attempt of a creation, as far as it has come
    created         Pods that were admitted: uid and time
    """

    stored: Digest
    asked: Digest
    first: float
    last: float
    begun: float
    count: int = 0
    tries: int = 0
    intent: LifeFact | None = None
    mutate: LifeFact | None = None
    created: tuple[tuple[str, float], ...] = ()

    def count_one(self) -> None:
        """Count one attempt."""
        self.count += 1
        self.tries += 1


_Place = tuple[str, ...]
"""An object or a place of creations, subresource, user; "409" behind those of stale versions."""
_Where = tuple[str, str, str, str]
"""Group, resource, namespace, and the name of an object or the uid of its owner."""


class Refusals:
    """Attempts by place."""

    def __init__(self, lives: Lives, history: History, correlator: Correlator) -> None:
        """`lives` and `history` tell whether an object is there, `correlator` who has outcomes."""
        self._correlator: Final = correlator
        self._lives: Final = lives
        self._history: Final = history
        self._updates: Final[Bounded[_Place, Attempts]] = Bounded(MOST_ATTEMPTED, MOST_LEAVES)
        self._creations: Final[Bounded[_Place, Attempts]] = Bounded(MOST_ATTEMPTED, MOST_LEAVES)
        self._with_outcomes: Final[set[tuple[str, str]]] = set()
        """Resources of which outcomes of creations are shown; those of updates say less."""
        self._passed: Final[set[tuple[ResourceKind, str]]] = set()
        """Leaves that webhooks changed in updates that were admitted; "" stands for creations."""
        self._doubted: Final[Bounded[_Where, _Place]] = Bounded(MOST_ATTEMPTED, MOST_LEAVES)
        """Creations that seem to be refused, by the name of the object or the uid of its owner."""
        self._without: Final[set[str]] = set()
        """Users who began a write since the last outcome of anybody."""
        self._shows_status = False
        self._admitted = self._orphans = 0

    def __len__(self) -> int:
        return len(self._updates) + len(self._creations)

    def was_refused(self, key: JoinKey) -> bool:
        """Whether this requester was refused here before, so that leaves are compared."""
        found = self._creations.get(_place_of_creation(key))
        return found is not None and found.count > 0

    def expect_outcomes(self, group: str, resource: str) -> None:
        """Note that outcomes of a resource are shown, and that none was lost until now."""
        self._without.clear()
        if len(self._with_outcomes) < MOST_RESOURCES:
            self._with_outcomes.add((group, resource))

    def call(self, fact: Fact | LifeFact) -> None:
        """Take in a call of any phase, as soon as it comes in."""
        if (isinstance(fact, LifeFact) and fact.is_stale) or is_manager(fact.key.user):
            return
        if fact.phase is Phase.OUTCOME:
            if self._without:
                self._without.clear()
        elif len(self._without) < _USERS:
            self._without.add(fact.key.user)
        if len(self._doubted):
            self._show(fact)

    def _show(self, fact: Fact | LifeFact) -> None:
        """Forget a creation that seemed to be refused if its object is there after all."""
        key = fact.key
        if isinstance(fact, LifeFact):
            if not fact.is_deletion:
                return
            owner = key.resource_version
        else:
            owner = fact.owner
        for one in (key.name, owner):
            place = self._doubted.get((key.group, key.resource, key.namespace, one))
            # What was known before those attempts is another object.
            if place is not None and not self._is_known(key):
                found = self._creations.get(place)
                if found is not None:
                    found.count, found.intent, found.mutate = 0, None, None

    def _is_known(self, key: JoinKey) -> bool:
        return self._history.find(key) is not None or self._lives.is_there(key.uid)

    def unanswered(self, one: Unanswered) -> Refusal | None:
        """Take in an update without an outcome; return it with those before it."""
        write, asked = one
        if asked[0] == asked[1] or not write.content.admitted.differs:
            return None  # nothing is asked for, or nothing would be stored
        place = name_of(write.object), write.subresource, write.requester.user
        # Whatever is asked for: had it been stored, the stored fields would differ by now.
        found = continued(self._updates.get(place), asked, write.time)
        found.count_one()
        self._updates.put(place, found, _weight(place))
        if self._are_lost:
            return None
        made = write.content.webhook or NO_DIFF
        return Refusal(
            write,
            attempts=found.count,
            seconds=write.time - found.first,
            asked=write.content.sent,
            made=made,
            others_pass=self._has_passed(write.kind, made),
            tries=found.tries,
            tried_seconds=write.time - found.begun,
        )

    def conflict(self, fact: LifeFact) -> Refusal | None:
        """Take in one phase of an update of a stale version; return it with those before it."""
        place = (*_place(fact.key), "409")
        before = self._updates.get(place)
        if before is not None and 0 <= fact.time - before.last < _SECONDS_OF_BURST:
            return None
        found = continued(before, (fact.asked, NO_DIGEST), fact.time)
        if fact.phase is Phase.INTENT:
            found.intent = fact
        elif found.intent is not None:
            return None  # its intent is counted
        found.count_one()
        self._updates.put(place, found, _weight(place))
        where = msgspec.structs.replace(fact.place, uid=fact.key.uid)
        write = blank_write(where, fact.requester, fact.time, missing=(Phase.OUTCOME,))
        return Refusal(
            msgspec.structs.replace(write, subresource=fact.key.subresource),
            attempts=0,
            seconds=0.0,
            asked=NO_DIFF,
            made=NO_DIFF,
            tries=found.tries,
            tried_seconds=fact.time - found.begun,
            is_stale=True,
        )

    def answered(self, write: Write) -> None:
        """Take in an update with an outcome: what was not answered before it is forgotten."""
        if write.subresource == "status" and not self._shows_status:
            where = write.object
            is_pod = (where.group, where.resource) == _PODS
            self._shows_status = is_pod or write.requester.user.startswith(NODE_USER)
        if len(self._updates):
            self._updates.pop((name_of(write.object), write.subresource, write.requester.user))
        if write.content.webhook:
            kind = write.kind
            self._pass((kind, change.pointer) for change in write.content.webhook)

    def create(self, fact: LifeFact) -> Refusal | None:
        """Take in one phase of a creation; return the last one of this place if it was refused."""
        place = _place_of_creation(fact.key)
        found = self._creations.get(place)
        if fact.phase is Phase.INTENT:
            return self._begin(place, fact, found)
        if fact.phase is Phase.OUTCOME:
            return self._admit(place, fact, found)
        if found is not None:
            found.mutate = fact
            if fact.compared is not None:
                self._creations.put(place, found, _weight(place, found))
        return None

    def _begin(self, place: _Place, fact: LifeFact, before: Attempts | None) -> Refusal | None:
        """Begin an attempt; the one before it was refused if it has come to /mutate alone."""
        # What a controller makes after one template is the same, whatever differs.
        asked = NO_DIGEST if fact.key.resource_version else fact.asked
        found = continued(before, (asked, NO_DIGEST), fact.time)
        refusal = None
        if found is not before or found.intent is None:
            found.first = fact.time
        elif found.mutate is not None:
            found.count += 1
            self._doubted.put(_where(fact.key), place, _weight(place))
            refusal = self._refused(found, found.intent, found.mutate)
        found.intent, found.mutate = fact, None
        self._creations.put(place, found, _weight(place, found))
        return refusal

    def finish(self) -> Iterator[Refusal]:
        """End a recording: creations that have come to /mutate, and still wait, were refused."""
        for found in self._creations.values():
            intent, mutate = found.intent, found.mutate
            if intent is not None and mutate is not None:
                found.count, found.intent, found.mutate = found.count + 1, None, None
                refusal = self._refused(found, intent, mutate)
                if refusal is not None:
                    yield refusal

    def _refused(self, found: Attempts, intent: LifeFact, mutate: LifeFact) -> Refusal | None:
        if self._are_lost or not self._sees_outcomes(intent.key):
            return None
        made = NO_DIFF
        if mutate.content != intent.content:
            left, right = intent.compared, mutate.compared
            known = None if left is None or right is None else between(left, right)
            made = known or diff_of((), differs=True)
        write = blank_write(
            intent.place,
            intent.requester,
            intent.time,
            called=mutate.called or NOBODY,
            policies=intent.policies,
            missing=(Phase.OUTCOME,),
        )
        return Refusal(
            write,
            attempts=found.count,
            seconds=intent.time - found.first,
            asked=NO_DIFF,
            made=made,
            is_creation=True,
            others_pass=(write.kind, "") in self._passed,
        )

    def _admit(self, place: _Place, fact: LifeFact, found: Attempts | None) -> Refusal | None:
        """Take in an outcome: what was asked for is stored, or refused at the very end."""
        if len(self._with_outcomes) < MOST_RESOURCES:
            self._with_outcomes.add((fact.key.group, fact.key.resource))
        self._admitted += 1
        self._doubted.pop(_where(fact.key))
        if found is None:
            self._orphans += 1
            return None
        if found.intent is not None and found.intent.content != fact.content:
            self._pass([(ResourceKind(fact.key.group, fact.key.resource, ""), "")])
        found.count, found.intent, found.mutate = 0, None, None
        key = fact.key
        is_pod = (key.group, key.resource) == _PODS and key.resource_version
        return self._vanished(place, fact, found) if is_pod else None

    def _vanished(self, place: _Place, fact: LifeFact, found: Attempts) -> Refusal | None:
        """Return a refusal if no review shows any of the Pods that were admitted before."""
        now, created = fact.time, found.created
        created = tuple(one for one in created if now - one[1] <= SECONDS_BETWEEN)
        if any(uid == fact.key.uid for uid, _ in created):
            return None  # an API server calls again after a broken connection
        for at, (uid, _) in enumerate(created):
            if self._is_seen(uid, fact.key):
                created = created[at + 1 :]
        gone = sum(now - at >= _SECONDS_UNTIL_SEEN for _, at in created)
        first = created[0][1] if created else now
        is_slowing = _is_slowing([*(at for _, at in created), now])
        if len(fact.key.uid) <= _LONGEST_UID:
            found.created = (*created, (fact.key.uid, now))[-_MOST_CREATED:]
        self._creations.put(place, found, _weight(place, found))
        if not gone or not is_slowing or not self._shows_status or not self._is_whole:
            return None
        return Refusal(
            blank_write(fact.place, fact.requester, now),
            attempts=gone,
            seconds=now - first,
            asked=NO_DIFF,
            made=NO_DIFF,
            is_creation=True,
            is_admitted=True,
        )

    def _is_seen(self, uid: str, key: JoinKey) -> bool:
        """Whether an object was written since it was created, deleted or forgotten."""
        where = msgspec.structs.replace(key, uid=uid)
        return self._history.find(where) is not None or not self._lives.is_there(uid)

    def _sees_outcomes(self, key: JoinKey) -> bool:
        """Whether outcomes of such creations are seen here, and nearly all of them."""
        kinds = self._with_outcomes
        if not self._is_whole:
            return False
        if (key.group, key.resource) in kinds:
            return True
        if self._correlator.lacks_outcomes(key):
            return False
        # One registration is for all kinds of Kubernetes itself; custom ones are added one by one.
        return _is_built_in(key.group) and any(_is_built_in(group) for group, _ in kinds)

    @property
    def _are_lost(self) -> bool:
        """Whether outcomes are lost: several users wait for one, and nobody has had one."""
        return len(self._without) >= _USERS

    @property
    def _is_whole(self) -> bool:
        return is_mostly_whole(self._orphans, self._admitted)

    def _pass(self, leaves: Iterable[tuple[ResourceKind, str]]) -> None:
        for one in leaves:
            if len(self._passed) < MOST_PLACES:
                self._passed.add(one)

    def _has_passed(self, kind: ResourceKind, made: Diff) -> bool:
        """Whether webhooks changed all of these leaves in updates that were admitted."""
        if not made.changes:
            return False
        return all((kind, one.pointer) in self._passed for one in made)


def continued(before: Attempts | None, asked: tuple[Digest, Digest], now: float) -> Attempts:
    """Return the attempts that go on; `asked` are digests of what is stored and of the request.

    They begin anew where something else is stored, or after a long pause.
    """
    stored, content = asked
    if before is None or before.stored != stored or now - before.last > SECONDS_BETWEEN:
        return Attempts(stored, content, now, now, now)
    if before.asked != content:
        before.asked, before.first, before.count = content, now, 0
    before.last = now
    return before


def _is_slowing(times: Sequence[float]) -> bool:
    """Return whether the last three pauses between times in seconds grow."""
    pauses = [after - before for before, after in pairwise(times[-4:])]
    return len(pauses) == 3 and all(  # noqa: PLR2004 - of four times
        after >= _SLOWING * before for before, after in pairwise(pauses)
    )


def _place(key: JoinKey) -> _Place:
    return name_of(key), key.subresource, key.user


def _place_of_creation(key: JoinKey) -> _Place:
    where = key.group, key.resource, key.namespace, key.name, key.resource_version
    return "\0".join(where), "", key.user


def _where(key: JoinKey) -> _Where:
    return key.group, key.resource, key.namespace, key.resource_version or key.name


def _weight(place: _Place, found: Attempts | None = None) -> int:
    """Return how many leaves attempts count as in the bounds; long names count as some."""
    facts = () if found is None else (found.intent, found.mutate)
    compared = [one.compared for one in facts if one is not None and one.compared is not None]
    leaves = sum([weight_of(one.diff.changes) for one in compared])
    return leaves + len("".join(place)) // _LETTERS_OF_LEAF


def _is_built_in(group: str) -> bool:
    return "." not in group or group.endswith(".k8s.io")
