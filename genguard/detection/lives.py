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

import zlib
from contextlib import suppress
from typing import Final, Literal

import msgspec

from genguard.admission.review import AdmissionRequest, JoinKey, Operation, Phase, ReviewedObject
from genguard.detection.diff import NOT_SEEN, Compared, compare, digests
from genguard.detection.fact import Fact, Seconds, UnreadableFactError, manager_of
from genguard.detection.suspects import Suspects
from genguard.detection.values import NO_DIGEST, Digest, as_digest, digest_of
from genguard.detection.write import NOBODY, NODE_USER, Acted, Called, ObjectKey, Requester, Write
from genguard.objects.bounded import Bounded
from genguard.objects.metadata import controller_uid, read_owners
from genguard.objects.observed import NOTHING_OBSERVED

VERSION: Final = 3
_PODS: Final = ("", "pods")


class LifeFact(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one phase of a creation shows, or the outcome of a deletion.

    key         of a creation: `name` is the object's name, or the prefix of a generated name, and
                `resource_version` is the uid of the controller that owns it, where a name is
                generated. `uid` is known at the outcome, and of a deletion
    is_deletion deletion; else creation
    is_over     of a deletion: it was being deleted before, or its work was done
    likeness    digest of its owners, and of the labels of a Pod: equal where one parent makes
                objects after one template
    content     digest of spec and of the other fields that are asked for
    asked       the same without what the API server itself makes new in each request
    compared    the leaves of all that is asked for; None where nothing was refused here before
    called      webhooks that may have acted; None where nothing was refused here before
    policies    the same of policies
    is_stale    an update of a version that is no longer stored, which `asked` is a digest of
    implied     see Fact
    """

    version: Literal[3]
    phase: Phase
    time: Seconds
    key: JoinKey
    served_as: str
    manager: str
    is_deletion: bool
    is_over: bool = False
    likeness: int = 0
    content: Digest = NO_DIGEST
    asked: Digest = NO_DIGEST
    compared: Compared | None = None
    called: Called | None = None
    policies: tuple[Acted, ...] = ()
    is_stale: bool = False
    implied: tuple[Phase, ...] = ()

    @property
    def requester(self) -> Requester:
        """Return who creates or deletes."""
        return Requester(self.key.user, self.manager)

    @property
    def place(self) -> ObjectKey:
        """Return the object, without the uid: it is another one each time."""
        key = self.key
        return ObjectKey(key.group, self.served_as, key.resource, key.namespace, key.name, "")


AnyFact = Fact | LifeFact


def is_life(request: AdmissionRequest, phase: Phase) -> bool:
    """Return whether a review is a creation, or the outcome of a deletion, and no dry run."""
    if request.wire.dry_run or request.subresource:
        return False
    if request.operation is Operation.CREATE:
        return request.object is not None
    is_outcome = phase is Phase.OUTCOME and request.operation is Operation.DELETE
    return is_outcome and request.old_object is not None


def key_of(request: AdmissionRequest) -> JoinKey | None:
    """Return the key of a creation or deletion; None for names that no API server lets through."""
    wire, shown = request.wire, request.object or request.old_object
    assert shown is not None  # noqa: S101 - see is_life
    metadata = shown.metadata
    prefix = metadata.generate_name or ""
    key = JoinKey(
        wire.resource.group,
        wire.resource.resource,
        "",
        wire.namespace,
        prefix or wire.name or metadata.name or "",
        metadata.uid or "",
        wire.user_info.username,
        _controller(shown) if prefix else "",
        dry_run=False,
    )
    return key if key.is_remembered else None


def stale_fact(
    phase: Phase, key: JoinKey, now: float, version: str, *, served_as: str, manager: str
) -> LifeFact:
    """Return the fact of an update that names `version`, which is no longer stored."""
    asked = digest_of(version.encode(errors="replace"))
    return LifeFact(
        VERSION, phase, now, key, served_as, manager,
        is_deletion=False, asked=asked, is_stale=True,
    )  # fmt: skip


def without_uid(key: JoinKey) -> JoinKey:
    """Return the key of the place: equal for all phases of a creation, and for the next one."""
    return msgspec.structs.replace(key, uid="") if key.uid else key


def reduce_life(
    phase: Phase,
    request: AdmissionRequest,
    key: JoinKey,
    now: float,
    *,
    suspects: Suspects,
    was_refused: bool,
) -> LifeFact:
    """Make the fact of a review of which `is_life` is true; `now` is seconds since the epoch.

    Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
    """
    served_as = request.wire.resource.version
    new, old = request.object, request.old_object
    if new is None:
        assert old is not None  # noqa: S101 - see is_life
        is_over = old.metadata.deletion_timestamp is not None or is_finished(old.status)
        return LifeFact(
            VERSION, phase, now, key, served_as, "", is_deletion=True, is_over=is_over,
            likeness=_likeness(old, key),
        )  # fmt: skip
    fields = {name: raw for name, raw in new.content.items() if name != "status"}
    _, content = digests({}, fields)
    compared = compare({}, fields) if was_refused else None
    is_last = phase is not Phase.INTENT
    return LifeFact(
        VERSION,
        phase,
        now,
        key,
        served_as,
        manager_of(request),
        is_deletion=False,
        likeness=_likeness(new, key),
        content=content,
        # A Pod gets a volume with a random name (plugin/pkg/admission/serviceaccount).
        asked=as_digest(len(new.spec or b"")) if _place(key) == _PODS else content,
        compared=compared,
        called=suspects.called_in(request) if was_refused and is_last else None,
        policies=suspects.policies_in(request) if was_refused and not is_last else (),
        implied=suspects.implied_before(phase, request),
    )


def decode_any(raw: bytes) -> AnyFact:
    """Decode a fact of either sort. Raises UnreadableFactError, also for another version."""
    for decoder in _decoders:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return decoder.decode(raw)
    # A decoder's message may repeat a value.
    raise UnreadableFactError("not a fact of this version")


def blank_write(
    where: ObjectKey,
    requester: Requester,
    time: float,
    *,
    called: Called = NOBODY,
    policies: tuple[Acted, ...] = (),
    missing: tuple[str, ...] = (),
) -> Write:
    """Return a Write that says who and when: what the ledger enters of a creation or a deletion."""
    return Write(
        time=time,
        object=where,
        subresource="",
        requester=requester,
        base="",
        writes_status=False,
        status_counts=False,
        content=NOT_SEEN,
        content_hash=None,
        state_before=NO_DIGEST,
        state_after=NO_DIGEST,
        has_outcome=not missing,
        generation_before=0,
        generation_after=0,
        generation_predicted=None,
        observed_before=NOTHING_OBSERVED,
        observed_asked=NOTHING_OBSERVED,
        observed_sent=NOTHING_OBSERVED,
        observed_after=NOTHING_OBSERVED,
        touches_status=False,
        touches_more=False,
        policies=policies,
        called=called,
        missing=missing,
    )


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: tuple[_Condition, ...] | None = None


_decoders: Final = msgspec.msgpack.Decoder(LifeFact), msgspec.msgpack.Decoder(Fact)
_status_decoder: Final = msgspec.json.Decoder(_Status | None)
_DONE: Final = frozenset({"Succeeded", "Failed", "Complete", "Completed"})
"""Phases, and conditions that are True, of what runs to an end: Pods, Jobs, workflows."""


def _controller(shown: ReviewedObject) -> str:
    raw = shown.metadata.owner_references
    return "" if isinstance(raw, msgspec.UnsetType) else controller_uid(read_owners(raw))


def _likeness(shown: ReviewedObject, key: JoinKey) -> int:
    metadata = shown.metadata
    parts = (metadata.owner_references, metadata.labels if _place(key) == _PODS else msgspec.UNSET)
    found = 0
    for one in parts:
        if not isinstance(one, msgspec.UnsetType):
            found = zlib.crc32(one, found)
    return found


def is_finished(raw: msgspec.Raw | None) -> bool:
    """Return whether a status says that the work of the object is done."""
    try:
        status = None if raw is None else _status_decoder.decode(raw)
    except msgspec.ValidationError:
        return False  # a kind whose phase or conditions mean something else
    if status is None:
        return False
    conditions = status.conditions or ()
    return status.phase in _DONE or any(
        one.type in _DONE and one.status == "True" for one in conditions
    )


def _place(key: JoinKey) -> tuple[str, str]:
    return key.group, key.resource


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

    object            where: the name, or the prefix of the generated names; no uid
    creator, deleter  who takes turns
    likeness          of the object that was deleted; of a pair of owners `likeness_of_other` is
                      that of the objects which the deleter creates
    turns             how many
    deleted           when the last object was deleted
    shortest_life, longest_life   from a creation to the deletion
    shortest_gap, longest_gap     from a deletion to the next creation; 0 of the first turn
    """

    object: ObjectKey
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
    object: ObjectKey
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

    def create(self, fact: LifeFact) -> None:
        """Take in the outcome of a creation."""
        key = fact.key
        if not key.uid:
            return
        earlier = self._follows(fact) if len(self._ended) else None
        place = msgspec.structs.replace(key, uid="", user="")
        if len(self._own) and self._own.get(place) == key.user:
            self._own.pop(place)
            self._made_again.put(key.namespace, (key.user, fact.time), key.size)
        life = _Life(place, fact.place, fact.time, fact.requester, fact.likeness, earlier)
        self._lives.put(key.uid, life, 2 * key.size)

    def delete(self, fact: LifeFact) -> Turns | None:
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

    def _follows(self, fact: LifeFact) -> Turns | None:
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

    def _is_of_suite(self, fact: LifeFact, since: float) -> bool:
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


def _from_the_other_side(turns: Turns, fact: LifeFact) -> Turns:
    """Return the turns where who has deleted creates, and is expected to be deleted next."""
    other = turns.likeness_of_other
    return msgspec.structs.replace(
        turns,
        creator=turns.deleter,
        deleter=turns.creator,
        likeness=fact.likeness if other is None else other,
        likeness_of_other=turns.likeness,
    )


def _turns(life: _Life, fact: LifeFact) -> Turns | None:
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
        return Turns(
            life.object, life.creator, fact.requester, life.likeness, 1, fact.time, lasted, lasted
        )
    return msgspec.structs.replace(
        earlier,
        turns=earlier.turns + 1,
        deleted=fact.time,
        shortest_life=min(earlier.shortest_life, lasted),
        longest_life=max(earlier.longest_life, lasted),
    )
