"""Recreations: an object that one actor creates and another deletes, again and again.

Reads   creations and deletions of one name, or of the generated names of one owner
Result  blames who deletes, and who creates; the creator alone, where the garbage collector
        deletes: then the owner that the object names is not there. Two owners each of whom
        deletes and creates it are both blamed
Relies  on the same creator, deleter, owners and labels each time, on lives that are alike,
        and on pauses that are alike. Whoever deletes what is done, or his own, does not count

A deletion is seen at /outcome alone. A Pod that ends gracefully has several: only the first one
shows no deletionTimestamp (apiserver pkg/registry/core/pod/rest and the kubelet's final DELETE).

A recreation is a creation and the deletion of the same uid. It continues an earlier one if it was
created after that one was deleted: Pods that are drained in a wave were all there before, so
each of them is a first one. An object with a new parent or template is another one.
"""

from collections.abc import Sequence
from math import inf
from typing import ClassVar, Final

import msgspec

from genguard.admission.review import JoinKey, Operation, Phase
from genguard.detection.history import History, ObjectHistory
from genguard.detection.observation import Observation
from genguard.detection.question import DECLARED, Answers, ChangedBy, Question, Signal, signal
from genguard.detection.values import Digest
from genguard.detection.write import NAMES, NODE_USER, ObjectKey, Requester, Write
from genguard.objects.bounded import Bounded

RECREATION: Final = DECLARED["recreation"]
_LEAST: Final = 4
"""A person who deletes a Pod so that it starts again does so two or three times."""
_LEAST_OF_COURSE: Final = 8
"""For objects that are deleted because they are done, and made again under their names anyway."""
_FACTOR_OF_LIVES: Final = 4.0
_SECONDS_OF_LIVES: Final = 10.0
_SECONDS_BETWEEN: Final = 600.0
"""An object that lives longer, or comes back later, is no loop."""
_MOST_MADE: Final = 20_000
MOST_BYTES: Final = 8 * 1024 * 1024
_MOST_VACANT: Final = 7_000
MOST_VACANT_BYTES: Final = 3 * 1024 * 1024
MOST_USERS: Final = 2_000
_MOST_AT_ONCE: Final = 40
"""Deletions of one name after which nothing was created yet."""
COLLECTOR: Final = "system:serviceaccount:kube-system:generic-garbage-collector"
"""Deletes what has no owner any more. Where it does so each time, the creator names a bad owner."""
_NODES: Final = ("", "nodes")
_ACCOUNT: Final = "system:serviceaccount:"
_OF_KUBERNETES: Final = f"{_ACCOUNT}kube-system:"


class _Actor(msgspec.Struct, frozen=True, gc=False):
    """Who creates or deletes; `likeness` of what he creates, None where he only deletes."""

    requester: Requester
    likeness: int | None = None

    @property
    def user(self) -> str:
        return self.requester.user


class _Made(msgspec.Struct, gc=False):
    """An object that is there, or that was deleted, and the recreations before it.

    since             when it was created; ended: when it was deleted
    creator, deleter  of a pair of owners each creates where the other did, and they change parts
    times             how many ended with that deleter; least: of how many it is told
    spans, gaps       seconds from a creation to the deletion, and from there to the next creation:
                      the fewest and the most
    """

    key: JoinKey
    since: float
    creator: _Actor
    deleter: _Actor = _Actor(Requester("", ""))
    times: int = 0
    least: int = _LEAST
    ended: float = 0.0
    spans: tuple[float, float] = (inf, 0.0)
    gaps: tuple[float, float] = (inf, 0.0)


class _Vacancy(msgspec.Struct, gc=False):
    """Where an object was deleted, and none was created since, or not yet for each.

    waiting   deleted objects after which nothing was created
    most, at  the most recreations that were told, and when
    owner     the user who has deleted what he had created himself
    """

    waiting: tuple[_Made, ...] = ()
    most: int = 0
    at: float = 0.0
    owner: str = ""


class _OfOne(msgspec.Struct, gc=False):
    """An object that its creator deletes and makes again.

    attempt     equal for equal contents
    times       how often it was made again
    since       when it was made; ended: when it was deleted, 0 while it is there
    is_changed  webhooks have changed it each time
    """

    user: str
    attempt: Digest
    times: int = 0
    since: float = 0.0
    ended: float = 0.0
    is_changed: bool = True


class Recreations(Question):
    """See the module.

    It remembers objects that are there, by uid, and names under which one was deleted.
    """

    findings: ClassVar = (RECREATION,)

    def __init__(self, history: History) -> None:
        """`history` tells when an owner was changed."""
        self._history: Final = history
        self._made: Final[Bounded[str, _Made]] = Bounded(_MOST_MADE, MOST_BYTES)
        self._vacant: Final[Bounded[JoinKey, _Vacancy]] = Bounded(_MOST_VACANT, MOST_VACANT_BYTES)
        self._made_again: Final[Bounded[int, tuple[int, float]]] = Bounded(MOST_USERS)
        """By namespace: who last created an object that was his own before, and when; as hashes."""
        self._wrote_node: Final[Bounded[int, float]] = Bounded(MOST_USERS)
        """Users, and when they last wrote the spec of a node, as those do who drain it."""
        self._of_one: Final[Bounded[JoinKey, _OfOne]] = Bounded(MOST_USERS)
        """By name: what a controller makes and deletes itself."""
        self.seen = (self._written,)
        self.joined = (self._deleted,)

    def _written(self, write: Write, _: ObjectHistory) -> Answers:
        """Take in a write of a node."""
        if write.touches_more and _is_node(write.object):
            self._wrote_node.put(hash(write.requester.user), write.time)
        return iter(())

    def _deleted(self, write: Write, seen: Observation) -> Answers:
        """Tell that an object was deleted, or made, once more."""
        if seen.phase is not Phase.OUTCOME:
            return
        made = self._made.get(seen.key.uid)
        if seen.operation is not Operation.CREATE and made is not None:
            self._made.pop(seen.key.uid)
            yield from self._delete(made, seen)
        elif seen.operation is Operation.CREATE and seen.key.uid and made is None:
            # An API server calls again after a broken connection: then it is known already.
            yield from self._made_by_one(write, seen)
            where = msgspec.structs.replace(seen.key, uid="", user="")
            actor = _Actor(seen.requester, seen.likeness)
            made = self._predecessor(where, seen) or _Made(where, seen.time, actor)
            self._made.put(seen.key.uid, made, 2 * seen.key.size)

    def _made_by_one(self, write: Write, seen: Observation) -> Answers:
        """Tell that a controller has made again what it deleted itself, with nobody's change.

        People and suites do so as they like. Those of Kubernetes itself follow owners.
        """
        user, where = (seen.key.user, msgspec.structs.replace(seen.key, uid="", user=""))
        if not user.startswith(_ACCOUNT) or user.startswith(_OF_KUBERNETES):
            return
        found, above = self._of_one.get(where), self._history.find(seen.owner)
        moves = [write.time for write in above.writes if write.touches_more] if above else []
        if (
            found is None
            or (found.user, found.attempt) != (user, seen.attempt)
            or seen.time - max(found.ended, found.since) > _SECONDS_BETWEEN
            or (found.ended and max(moves, default=-inf) >= found.since)
        ):
            found = _OfOne(user, seen.attempt)
        found.times += found.ended > 0.0
        found.since, found.ended = seen.time, 0.0
        found.is_changed = found.is_changed and write.state_before != write.state_after
        self._of_one.put(where, found)
        if found.times < _LEAST_OF_COURSE:
            return
        changed_by = ChangedBy.REQUESTER
        said = f"{user} deletes what it has made, and makes the same again"
        if found.is_changed and write.called.first:
            changed_by, said = ChangedBy.OTHERS, f"{said}: another webhook changed it each time"
        evidence = {"recreations": found.times}
        more = {"requesters": (seen.requester,), "evidence": evidence, "pace": _SECONDS_OF_LIVES}
        yield signal(RECREATION, write, changed_by, (), said, **more)

    def _predecessor(self, where: JoinKey, seen: Observation) -> _Made | None:
        """Return what a creation continues: the oldest deletion that waits, with its count."""
        vacancy, user = self._vacant.get(where) or _Vacancy(), seen.key.user
        if vacancy.owner == user:
            vacancy.owner = ""
            self._made_again.put(hash(where.namespace), (hash(user), seen.time))
        if not vacancy.waiting:
            return None
        made, *rest = vacancy.waiting
        self._put(where, vacancy, rest)
        if made.deleter.user == user:
            made.creator, made.deleter = made.deleter, made.creator
        who, gap = made.creator, seen.time - made.ended
        is_same = who.user == user and who.likeness in {None, seen.likeness}
        if not is_same or gap > _SECONDS_BETWEEN or self._is_of_suite(seen, made.ended):
            return None
        made.creator, made.since = _Actor(who.requester, seen.likeness), seen.time
        made.gaps = _with(gap, made.gaps)
        return made

    def _is_of_suite(self, seen: Observation, since: float) -> bool:
        """Whether another user has made his own object again just before, in this namespace."""
        mine, namespaces = hash(seen.key.user), (seen.key.namespace, "")
        made = (self._made_again.get(hash(namespace)) for namespace in namespaces)
        return any(last and last[0] != mine and since <= last[1] <= seen.time for last in made)

    def _delete(self, made: _Made, seen: Observation) -> Answers:
        """Take in a deletion; tell the recreations, if they are more than ever before here."""
        vacancy, user = self._vacant.get(made.key) or _Vacancy(), seen.key.user
        if user == made.creator.user:
            own = self._of_one.get(made.key)
            if own is not None and not seen.is_over:
                own.ended = seen.time
            if not made.key.resource_version:
                vacancy.owner = user
                self._put(made.key, vacancy, vacancy.waiting)
            return
        lasted, is_of_course = seen.time - made.since, _is_of_course(made, seen)
        is_named = not made.key.resource_version
        if lasted > _SECONDS_BETWEEN or (is_of_course and not (seen.is_over and is_named)):
            return
        if (self._wrote_node.get(hash(user)) or 0.0) > made.since:
            return
        if made.deleter.user != user:
            made = _Made(made.key, made.since, made.creator, _Actor(seen.requester))
        made.least = _LEAST_OF_COURSE if is_of_course else made.least
        made.times, made.ended, made.spans = (made.times + 1, seen.time, _with(lasted, made.spans))
        if seen.time - vacancy.at > _SECONDS_BETWEEN:
            vacancy = _Vacancy(owner=vacancy.owner)
        self._put(made.key, vacancy, (*vacancy.waiting, made)[-_MOST_AT_ONCE:])
        if made.times > vacancy.most:
            vacancy.most, vacancy.at = made.times, seen.time
            yield from _recreated(made)

    def _put(self, where: JoinKey, vacancy: _Vacancy, waiting: Sequence[_Made]) -> None:
        vacancy.waiting = tuple(waiting)
        self._vacant.put(where, vacancy, where.size * (2 + len(waiting)))


def _is_of_course(made: _Made, seen: Observation) -> bool:
    """Whether a deletion has another cause, or what is deleted was done.

    The kubelet ends what others have deleted, and registers its node when the machine is back.
    """
    user = seen.key.user
    is_own_node = _is_node(made.key) and made.creator.user.startswith(NODE_USER)
    return seen.is_over or user in NAMES["finishers"] or user.startswith(NODE_USER) or is_own_node


def _is_node(where: ObjectKey | JoinKey) -> bool:
    return (where.group, where.resource) == _NODES


def _recreated(made: _Made) -> Answers:
    creator, deleter = made.creator.requester, made.deleter.requester
    is_collected = deleter.user == COLLECTOR
    # The garbage collector comes when it has time. The same owner each time says enough.
    is_steady = _are_alike(made.gaps) and (is_collected or _are_alike(made.spans))
    if made.times < made.least or not is_steady:
        return
    message = f"{deleter.user} deletes what {creator.user} creates again"
    if is_collected:
        message = (
            f"{creator.user} creates it again and again, and the garbage collector deletes it: "
            "the owner that it names is not there"
        )
    elif made.deleter.likeness is not None:
        first, second = sorted((creator.user, deleter.user))
        message = f"{first} and {second} each delete it and create it as their own"
    actors = (creator,) if is_collected else (deleter, creator)
    longest, pause = made.spans[1], made.gaps[1]
    evidence: dict[str, object] = {
        "recreations": made.times,
        "longestLifeSeconds": round(longest, 1),
    }
    # It has been seen to repeat often enough, so that it is a warning at once.
    pace = longest + pause if made.least > _LEAST else 0.0
    yield RECREATION, Signal(ChangedBy.REQUESTER, (), message, actors, evidence=evidence, pace=pace)


def _with(seconds: float, span: tuple[float, float]) -> tuple[float, float]:
    """Return the fewest and the most seconds, these among them."""
    return min(span[0], seconds), max(span[1], seconds)


def _are_alike(span: tuple[float, float]) -> bool:
    """Return whether times in seconds are those of one cause; short ones always are."""
    return span[1] <= _FACTOR_OF_LIVES * span[0] + _SECONDS_OF_LIVES
