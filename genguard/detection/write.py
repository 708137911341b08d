"""The record of one write, as detectors read it."""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec

from genguard.admission.matching import ResourceKind
from genguard.admission.review import JoinKey, Operation, Phase
from genguard.detection.changes import Change
from genguard.detection.diff import NOTHING_DIFFERS, PartDiffs
from genguard.detection.values import Digest
from genguard.generation.table import kind_of
from genguard.objects.atomic import owned_pointer
from genguard.objects.observed import Observed
from genguard.shipped import shipped

NODE_USER: Final = "system:node:"
"""What the name of a kubelet's user begins with (plugin/pkg/auth/authorizer/node)."""

PODS: Final = ("", "pods")

NAMES: Final = shipped("genguard.detection", "names.yaml", dict[str, dict[str, str]])
"""Names that rules know, by table, with the reason for each; names.yaml explains the tables."""


def is_policy(webhook: str) -> bool:
    """Whether the name of a webhook says that it takes away what is not allowed."""
    return any(word in webhook.lower() for word in NAMES["policies"])


BY_HAND: Final = "kubectl"
"""What the field managers of kubectl begin with (kubectl-edit, kubectl-client-side-apply)."""


class ObjectKey(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """Which object; the uid tells objects of one name apart."""

    group: str
    version: str
    resource: str
    namespace: str
    name: str
    uid: str

    def owned(self, pointer: str) -> str:
        """Return what has one owner: a field of it, or the list that is owned as a whole."""
        return owned_pointer(self.group, self.version, kind_of(self.group, self.resource), pointer)


def name_of(where: ObjectKey | JoinKey) -> str:
    """Return the uid of an object, or namespace and name without one."""
    return where.uid or f"{where.namespace}/{where.name}"


MANAGER: Final = "manager "
"""What the user is called where only the field manager is known, before its name."""


def is_manager(user: str) -> bool:
    """Whether a field manager stands for a user, so that a watch has shown the write."""
    return user.startswith(MANAGER)


class Requester(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """Who sent a write.

    process  which process of the user: its pod, else its credential; of an audit log else the user
             agent; "" where nothing says it
    """

    user: str
    manager: str
    process: str = ""

    @property
    def writer(self) -> tuple[str, str, str]:
        """What tells two writers apart. A person is one, whichever verb of kubectl it is."""
        by_hand = self.manager.startswith(BY_HAND)
        return self.user, BY_HAND if by_hand else self.manager, "" if by_hand else self.process


class Acted(NamedTuple):
    """A policy that acted on a write; `is_sure`: nothing about it is unknown."""

    name: str
    is_sure: bool


class Called(NamedTuple):
    """Webhooks (`configuration/webhook`) that rules and selectors call, in the order of calls."""

    first: tuple[str, ...]
    again: tuple[str, ...]  # those that ask to be reinvoked

    def about(
        self, _pointers: Sequence[str], /, *, again: bool
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Return those who may have changed fields of the write, and evidence of that.

        _pointers  JSON Pointers of the fields, of which nothing is known here
        again      when they were reinvoked
        """
        return (self.again if again else self.first), {}


NOBODY: Final = Called((), ())


class Outcome(Enum):
    """What came of a write."""

    ADMITTED = "its outcome was seen, and it may have been stored"
    STORED = "what was stored afterwards shows it"
    REFUSED = "it had no outcome, and others of its resource have"
    STALE = "it names a version that is no longer stored, and so it is refused"
    UNSEEN = "its outcome was not seen"


BYTES_OF_RECORD: Final = 2_048
"""So many bytes of observedGeneration values count as a write more, or as a leaf more."""


class Write(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The record of an update or a creation, its phases joined: who, when, digests, generations.

    content             what differs, metadata aside
    metadata            what differs in labels, annotations, finalizers and owners
    state_before, state_after  digests of all that is stored; metadata is left out. The first
                        one of a creation is that of what was asked for
    metadata_before, metadata_after  the same of metadata; None where nothing in it differs, for
                        then they were not made; the first one of a creation as above
    content_hash        equal where the same values are requested, times aside; None where unknown
    touches_status, touches_more  whether status, and whether anything else, differs
    policies            those that may have acted before the intent: part of the request is theirs
    called              the other webhooks that may have acted
    missing             phases that were not seen here: another replica may have seen them
    owner               the uid of the controller that owns the object; its history keeps it
    gates               digests of the readiness gates of a bound pod whose status is written by
                        another than its kubelet; None of other writes, and in a history
    """

    time: float
    operation: Operation
    object: ObjectKey
    subresource: str
    requester: Requester
    base: str
    writes_status: bool
    status_counts: bool
    content: PartDiffs
    content_hash: Digest | None
    state_before: Digest
    state_after: Digest
    outcome: Outcome
    generation_before: int
    generation_after: int
    generation_predicted: int | None
    observed_before: Observed
    observed_asked: Observed
    observed_sent: Observed
    observed_after: Observed
    touches_status: bool
    touches_more: bool
    policies: tuple[Acted, ...] = ()
    called: Called = NOBODY
    missing: tuple[str, ...] = ()
    metadata: PartDiffs = NOTHING_DIFFERS
    metadata_before: Digest | None = None
    metadata_after: Digest | None = None
    owner: str = ""
    gates: tuple[Digest, ...] | None = None

    @property
    def kind(self) -> ResourceKind:
        """Return the kind of resource, by which evidence about webhooks is kept."""
        return ResourceKind(self.object.group, self.object.resource, self.subresource)

    @property
    def has_outcome(self) -> bool:
        """Whether it came to the end of admission."""
        return self.outcome is Outcome.ADMITTED or self.outcome is Outcome.STORED

    @property
    def changed_anything(self) -> bool:
        """Whether the write changes anything."""
        return bool(self.content.admitted or self.metadata.admitted)

    @property
    def counted(self) -> bool:
        """Whether generation moved."""
        return self.generation_after > self.generation_before

    @property
    def is_fully_seen(self) -> bool:
        """Whether it is known what was asked for, and what other webhooks made of it."""
        is_asked_known = self.content.requested is not None and self.metadata.requested is not None
        return is_asked_known and Phase.MUTATE not in self.missing

    @property
    def is_mutated(self) -> bool:
        """Whether other webhooks changed it or its metadata."""
        return self.content.is_mutated or self.metadata.is_mutated

    @property
    def writes_more(self) -> bool:
        """Whether more than status can have been written."""
        return self.subresource != "status"

    def pointers(self) -> tuple[str, ...]:
        """JSON Pointers of what it changed: the leaves; the fields where only notation differs.

        None of a creation: nothing was there to be changed.
        """
        if self.operation is Operation.CREATE:
            return ()
        if self.content.admitted.changes:
            return tuple(change.pointer for change in self.content.admitted)
        fields = (("/status", self.touches_status), ("/spec", self.touches_more))
        return tuple(pointer for pointer, touched in fields if touched)

    def of_webhooks(self, *, again: bool = True) -> tuple[Change, ...]:
        """Return every leaf that other webhooks are known to have changed, of metadata too.

        again  those as well that they changed when they were reinvoked
        """
        found = [
            change
            for part in (self.content, self.metadata)
            for change in (*(part.webhook or ()), *(part.reinvocation if again else ()))
        ]
        return tuple(dict.fromkeys(found))  # the annotations of a Deployment are in both parts

    def without_leaves(self) -> "Write":
        """Return what is kept of it where there is no room for leaves."""
        content, metadata = self.content.without_leaves(), self.metadata.without_leaves()
        return msgspec.structs.replace(self, content=content, metadata=metadata)

    @property
    def leaves(self) -> int:
        """Return how many leaves it counts as in the bounds of what is remembered."""
        return self.content.weight + self.metadata.weight

    @property
    def records(self) -> int:
        """Return how many writes it counts as there: one, and more with a large status."""
        seen = {
            id(observed): observed
            for observed in (
                self.observed_before, self.observed_asked, self.observed_sent, self.observed_after
            )
        }  # fmt: skip
        return 1 + sum([observed.size for observed in seen.values()]) // BYTES_OF_RECORD
