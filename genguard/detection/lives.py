"""Creations and deletions: their facts, and which objects were created and deleted by turns.

A creation has no stored object, and often no name yet: its phases cannot be joined by a JoinKey of
an update. They are joined by their place: who creates, and the name or, where the server makes
the name, its prefix and the controller that owns the object.

A deletion is seen at /outcome alone. A Pod that ends gracefully has several: only the first one
shows no deletionTimestamp (apiserver pkg/registry/core/pod/rest and the kubelet's final DELETE).

A turn is a creation and the deletion of the same uid. It follows from an earlier turn if the object
was created after that one was deleted: Pods that are drained in a wave were all there before, so
each of them is a first turn. A turn counts only where another actor deletes than creates, and where
creator, deleter, owners and labels are those of the turn before: what has a new parent or a new
template is another object. Two who each delete what the other has created, and create it again as
their own, change places with each turn.
"""

from typing import Final

import msgspec

from genguard.admission.review import JoinKey
from genguard.detection.correlate import without_uid
from genguard.detection.fact import Fact
from genguard.detection.write import NODE_USER, Requester
from genguard.objects.bounded import Bounded

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


class Lives:
    """Objects that are there, by uid, and deletions that wait for the next creation, by place."""

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

    def create(self, fact: Fact) -> None:
        """Take in the outcome of a creation."""
        key = fact.key
        if not key.uid:
            return
        earlier = self._follows(fact) if len(self._ended) else None
        place = msgspec.structs.replace(key, uid="", user="")
        if len(self._own) and self._own.get(place) == key.user:
            self._own.pop(place)
            self._made_again.put(key.namespace, (key.user, fact.time), key.size)
        life = _Life(place, fact.time, fact.requester, fact.likeness, earlier)
        self._lives.put(key.uid, life, 2 * key.size)

    def delete(self, fact: Fact) -> Turns | None:
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
