"""Lives: an object that one actor creates and another deletes, by turns.

Reads   creations and deletions of one name, or of the generated names of one owner
Result  blames who deletes, and who creates; the creator alone, where the garbage collector
        deletes: then the owner that the object names is not there. Two owners each of whom
        deletes and creates it are both blamed
Relies  on the same creator, deleter, owners and labels in each turn, on lives that are alike,
        and on pauses that are alike. Whoever deletes what is done, or his own, makes no turn

A deletion is seen at /outcome alone. A Pod that ends gracefully has several: only the first one
shows no deletionTimestamp (apiserver pkg/registry/core/pod/rest and the kubelet's final DELETE).

A turn is a creation and the deletion of the same uid. It follows from an earlier turn if the object
was created after that one was deleted: Pods that are drained in a wave were all there before, so
each of them is a first turn. What has a new parent or a new template is another object.
"""

from collections.abc import Iterator
from typing import ClassVar, Final

import msgspec

from genguard.admission.review import JoinKey, Operation, Phase
from genguard.detection.correlate import Joined, without_uid
from genguard.detection.fact import Fact
from genguard.detection.questions.question import (
    Answers,
    Blame,
    Declared,
    Event,
    Question,
    Signal,
)
from genguard.detection.write import NODE_USER, Requester
from genguard.objects.bounded import Bounded

RECREATION: Final = Declared(
    "recreation",
    "one actor creates an object, another deletes it, or each of two does both",
    "[deletes and creates|create and delete] {} again and again",
    is_harm=True,
)
_TURNS: Final = 4
"""A person who deletes a Pod so that it starts again does so two or three times."""
_TIMES_OF_TURNS: Final = 4.0
_SECONDS_OF_TURNS: Final = 10.0


SECONDS_OF_TURN: Final = 600.0
"""What lives longer, or comes back later, is no loop."""
MOST_LIVES: Final = 20_000
MOST_BYTES: Final = 8 * 1024 * 1024
MOST_ENDED: Final = 5_000
MOST_OWN: Final = 2_000
MOST_BYTES_OWN: Final = 1024 * 1024
MOST_BYTES_ENDED: Final = 2 * 1024 * 1024
_MOST_AT_ONCE: Final = 40
"""Deletions of one place that no creation has followed yet."""
_SYSTEM: Final = "system:serviceaccount:kube-system:"
COLLECTOR: Final = f"{_SYSTEM}generic-garbage-collector"
"""Deletes what has no owner any more. Where it does so by turns, the creator names a bad owner."""
_FINISHERS: Final = frozenset(
    {
        *(
            f"{_SYSTEM}{one}"
            for one in (
                "ttl-after-finished-controller",
                "pod-garbage-collector",
                "namespace-controller",
                "node-controller",
                "node-lifecycle-controller",
                "cloud-node-lifecycle-controller",
                "taint-eviction-controller",
            )
        ),
        "system:kube-controller-manager",
        "system:kube-scheduler",
    }
)
"""They delete because of something else: a time that is over, a namespace or a node that goes."""
"""The kubelet ends what others have deleted, and registers its node when the machine is back."""
_NODES: Final = ("", "nodes")


class Turns(msgspec.Struct, frozen=True, gc=False):
    """Turns that follow one from another; times in seconds.

    creator, deleter  who takes turns
    likeness          of the object that was deleted; of a pair of owners `likeness_of_other` is
                      that of the objects which the deleter creates
    turns             how many
    deleted           when the last object was deleted
    shortest_life, longest_life   from a creation to the deletion
    shortest_gap, longest_gap     from a deletion to the next creation; 0 of the first turn
    """

    creator: Requester
    deleter: Requester
    likeness: int
    turns: int
    deleted: float
    shortest_life: float
    longest_life: float
    shortest_gap: float = 0.0
    longest_gap: float = 0.0
    likeness_of_other: int | None = None

    @property
    def is_collected(self) -> bool:
        """Whether the garbage collector is the one who deletes."""
        return self.deleter.user == COLLECTOR


class _Life(msgspec.Struct, frozen=True, gc=False):
    """An object that is there; `since` it was created, `earlier` are the turns before it."""

    place: JoinKey
    since: float
    creator: Requester
    likeness: int
    earlier: Turns | None


class _Ended(msgspec.Struct, frozen=True, gc=False):
    """Deletions of one place that no creation has followed.

    most, at  the most turns that were told of this place, and when
    """

    turns: tuple[Turns, ...] = ()
    most: int = 0
    at: float = 0.0


_NONE_ENDED: Final = _Ended()


class Lives(Question):
    """See the module.

    It remembers objects that are there, by uid, and deletions that wait for the next creation.
    """

    findings: ClassVar = (RECREATION,)

    def __init__(self) -> None:
        self._lives: Final[Bounded[str, _Life]] = Bounded(MOST_LIVES, MOST_BYTES)
        self._ended: Final[Bounded[JoinKey, _Ended]] = Bounded(MOST_ENDED, MOST_BYTES_ENDED)
        self._own: Final[Bounded[JoinKey, str]] = Bounded(MOST_OWN, MOST_BYTES_OWN)
        """Places whose object was deleted by the user who had created it."""
        self._made_again: Final[Bounded[str, tuple[str, float]]] = Bounded(MOST_OWN, MOST_BYTES_OWN)
        """By namespace: who last created an object that was his own before, and when."""
        self._wrote_node: Final[Bounded[str, float]] = Bounded(MOST_OWN, MOST_BYTES_OWN)
        """Users by name, and when they last wrote the spec of a node."""

    def __len__(self) -> int:
        return len(self._lives)

    def is_there(self, uid: str) -> bool:
        """Return whether an object was created and not deleted since, as far as is remembered."""
        return self._lives.get(uid) is not None

    def ask(self, event: Event) -> Answers:
        """Ask whether an object was deleted once more."""
        if not isinstance(event, Joined) or event.fact.phase is not Phase.OUTCOME:
            return
        if event.fact.operation is Operation.CREATE:
            self._create(event.fact)
        else:
            turns = self._delete(event.fact)
            yield from RECREATION.of(_recreated(turns) if turns is not None else ())

    def _create(self, fact: Fact) -> None:
        key = fact.key
        if not key.uid or self.is_there(key.uid):
            return  # an API server calls again after a broken connection
        earlier = self._follows(fact) if len(self._ended) else None
        place = msgspec.structs.replace(key, uid="", user="")
        if len(self._own) and self._own.get(place) == key.user:
            self._own.pop(place)
            self._made_again.put(key.namespace, (key.user, fact.time), key.size)
        life = _Life(place, fact.time, fact.requester, fact.likeness, earlier)
        self._lives.put(key.uid, life, 2 * key.size)

    def _delete(self, fact: Fact) -> Turns | None:
        """Take in a deletion; return the turns, if they are more than ever before in this place."""
        uid = fact.key.uid
        life = self._lives.get(uid)
        if life is None:
            return None
        self._lives.pop(uid)
        found = _turns(life, fact)
        if found is None:
            if fact.key.user == life.creator.user and not life.place.resource_version:
                self._own.put(life.place, fact.key.user, 2 * life.place.size)
            return None
        if (self._wrote_node.get(fact.key.user) or 0.0) > life.since:
            return None
        ended = self._ended.get(life.place) or _NONE_ENDED
        if fact.time - ended.at > SECONDS_OF_TURN:
            ended = _NONE_ENDED
        waiting = (*ended.turns, found)[-_MOST_AT_ONCE:]
        if found.turns <= ended.most:
            self._put(life.place, _Ended(waiting, ended.most, ended.at))
            return None
        self._put(life.place, _Ended(waiting, found.turns, fact.time))
        return found

    def _follows(self, fact: Fact) -> Turns | None:
        """Return the turns that a creation follows: those of the oldest deletion that waits."""
        place = msgspec.structs.replace(without_uid(fact.key), user="")
        ended = self._ended.get(place)
        if ended is None or not ended.turns:
            return None
        first, *rest = ended.turns
        self._put(place, _Ended(tuple(rest), ended.most, ended.at))
        gap = fact.time - first.deleted
        if first.deleter.user == fact.key.user:
            first = _from_the_other_side(first, fact)
        is_same = first.creator.user == fact.key.user and first.likeness == fact.likeness
        if not is_same or gap > SECONDS_OF_TURN or self._is_of_suite(fact, first.deleted):
            return None
        return msgspec.structs.replace(
            first,
            shortest_gap=gap if first.turns == 1 else min(first.shortest_gap, gap),
            longest_gap=max(first.longest_gap, gap),
        )

    def _is_of_suite(self, fact: Fact, since: float) -> bool:
        """Whether another user has made his own object again just before, in this namespace."""
        for namespace in (fact.key.namespace, ""):
            user, at = self._made_again.get(namespace) or ("", 0.0)
            if user and user != fact.key.user and since <= at <= fact.time:
                return True
        return False

    def write_node(self, fact: Fact) -> None:
        """Note who writes the spec of a node, as those do who drain it."""
        self._wrote_node.put(fact.key.user, fact.time, fact.key.size)

    def _put(self, place: JoinKey, ended: _Ended) -> None:
        self._ended.put(place, ended, place.size * (1 + len(ended.turns)))


def _from_the_other_side(turns: Turns, fact: Fact) -> Turns:
    """Return the turns where who has deleted creates, and is expected to be deleted next."""
    other = turns.likeness_of_other
    return msgspec.structs.replace(
        turns,
        creator=turns.deleter,
        deleter=turns.creator,
        likeness=fact.likeness if other is None else other,
        likeness_of_other=turns.likeness,
    )


def _turns(life: _Life, fact: Fact) -> Turns | None:
    """Return the turns that end with a deletion; None where it is no turn of another actor."""
    user, lasted = fact.key.user, fact.time - life.since
    if fact.is_over or user == life.creator.user or lasted > SECONDS_OF_TURN:
        return None
    if user in _FINISHERS or user.startswith(NODE_USER):
        return None
    if (life.place.group, life.place.resource) == _NODES and life.creator.user.startswith(
        NODE_USER
    ):
        return None
    earlier = life.earlier
    if earlier is None or earlier.deleter.user != user:
        creator, likeness = life.creator, life.likeness
        return Turns(creator, fact.requester, likeness, 1, fact.time, lasted, lasted)
    return msgspec.structs.replace(
        earlier,
        turns=earlier.turns + 1,
        deleted=fact.time,
        shortest_life=min(earlier.shortest_life, lasted),
        longest_life=max(earlier.longest_life, lasted),
    )


def _recreated(turns: Turns) -> Iterator[Signal]:
    if turns.turns < _TURNS:
        return
    # The garbage collector comes when it has time. The same owner each time says enough.
    if not turns.is_collected and not _are_alike(turns.shortest_life, turns.longest_life):
        return
    if not _are_alike(turns.shortest_gap, turns.longest_gap):
        return
    creator, deleter = turns.creator, turns.deleter
    if turns.is_collected:
        message = (
            f"{creator.user} creates it again and again, and the garbage collector deletes it: "
            "the owner that it names is not there"
        )
    elif turns.likeness_of_other is not None:
        first, second = sorted((creator.user, deleter.user))
        message = f"{first} and {second} each delete it and create it as their own"
    else:
        message = f"{deleter.user} deletes what {creator.user} creates again"
    yield Signal(
        Blame.REQUESTER,
        (),
        message,
        (creator,) if turns.is_collected else (deleter, creator),
        evidence={"turns": turns.turns, "longestLifeSeconds": round(turns.longest_life, 1)},
    )


def _are_alike(shortest: float, longest: float) -> bool:
    """Return whether times in seconds are those of one cause; short ones always are."""
    return longest <= _TIMES_OF_TURNS * shortest + _SECONDS_OF_TURNS
