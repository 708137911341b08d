"""A fact: one review as a small record of numbers, digests and names, which replicas share.

It says what one phase of a write shows, compared with what is stored. It holds no value of an
object, nor of a label or an annotation, so a shared store may keep it. Which webhooks and policies
can have acted depends on content: the replica that has the review finds it out.
"""

from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec

from genguard.admission.review import (
    JoinKey,
    Operation,
    Phase,
)
from genguard.detection.diff import NO_DIFF, Diff
from genguard.detection.values import NO_DIGEST, Digest
from genguard.detection.write import BYTES_OF_RECORD, Acted, Called, ObjectKey, Requester
from genguard.generation.custom import StatusSubresource
from genguard.objects.observed import NOTHING_OBSERVED, Observed

VERSION: Final = 11
"""Of the encoding: another number is another shape or another meaning."""

_MOST_REQUESTERS: Final = 1_000
Seconds = Annotated[float, msgspec.Meta(ge=0, lt=253_402_300_800)]
"""Since the epoch, up to the year 9999."""


class UnreadableFactError(ValueError):
    """Bytes that are no fact of this version; nothing of them is repeated."""


class States(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Digests of all that is stored, before and after; metadata is not meant."""

    before: Digest
    after: Digest


NO_STATES: Final = States(NO_DIGEST, NO_DIGEST)


class Fact(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one phase of one update or creation shows, or the outcome of a deletion.

    key              which write this is a phase of: see AdmissionRequest.write_key
    served_as        the version of the API in which the object is shown
    manager          the field manager of the write
    compared         the fields that the server takes from this write; of a creation without leaves
                     where nothing was refused here before
    process          which process of the user sent it: see Requester
    status           what is known of the status of a custom resource
    writes_status    status is among the fields that the server takes, and there is one
    compared_status  of a custom resource that nobody has described: its outcome tells whether
                     status is taken
    touches_status   whether status differs, and is taken or may be; touches_more: whether any
    touches_more     other field that is taken differs
    states           None where an outcome is awaited, which tells them
    generation, generation_before   as the review shows them, 0 where there is none
    predicted        see Prediction.generation
    observed, observed_before   nothing of a write that takes no status
    called           None where `states` are
    unmet            of those called, the webhooks whose matchConditions are not met by what is
                     shown here; none where that was not asked, None where the fact shows the same
                     as an earlier one, or comes too late
    policies         those that may have acted; None where an earlier phase has told
    compared_metadata  labels, annotations, finalizers and owners; None where all are as stored
    owner            the uid of the controller that owns the object, "" where none does
    gates            digests of the readiness gates of a bound pod whose status is written, for
                     their names are contents; None of others
    implied          phases before this one that are not registered, and would show the same
    attempt          equal for attempts at the same: of a creation, or of an update that names a
                     version which is no longer stored
    is_stale         it is such an update, of which nothing else is known
    is_over          of a deletion: it was being deleted before, or its work was done
    likeness         of a creation or deletion a digest of its owners, and of the labels of a Pod:
                     equal where one parent makes objects after one template
    """

    version: Literal[11]
    phase: Phase
    time: Seconds
    key: JoinKey
    served_as: str
    manager: str
    compared: Diff = NO_DIFF
    operation: Operation = Operation.UPDATE
    process: str = ""
    status: StatusSubresource = StatusSubresource.UNKNOWN
    writes_status: bool = False
    compared_status: Diff | None = None
    touches_status: bool = False
    touches_more: bool = False
    states: States | None = None
    generation_before: int = 0
    generation: int = 0
    predicted: int | None = None
    observed_before: Observed = NOTHING_OBSERVED
    observed: Observed = NOTHING_OBSERVED
    called: Called | None = None
    unmet: tuple[str, ...] | None = None
    policies: tuple[Acted, ...] | None = None
    compared_metadata: Diff | None = None
    owner: str = ""
    gates: tuple[Digest, ...] | None = None
    implied: tuple[Phase, ...] = ()
    attempt: Digest = NO_DIGEST
    is_stale: bool = False
    is_over: bool = False
    likeness: int = 0

    @property
    def parts(self) -> tuple[Diff | None, ...]:
        """Return the fields, the status and the metadata that it shows."""
        return self.compared, self.compared_status, self.compared_metadata

    @property
    def leaves(self) -> int:
        """Return how many leaves it counts as in the bounds."""
        leaves = sum([one.weight for one in self.parts if one is not None])
        return leaves + (self.observed.size + self.observed_before.size) // BYTES_OF_RECORD

    def shows_same_as(self, other: "Fact") -> bool:
        """Whether two phases of one write show the same fields and the same metadata."""
        if not self.compared.same_as(other.compared):
            return False
        mine, theirs = self.compared_metadata, other.compared_metadata
        if mine is None or theirs is None:
            return mine is theirs
        return mine.same_as(theirs)

    @property
    def object(self) -> ObjectKey:
        """Return the object that is updated; of a creation or deletion the place, without a uid."""
        key = self.key
        uid = key.uid if self.operation is Operation.UPDATE else ""
        return ObjectKey(key.group, self.served_as, key.resource, key.namespace, key.name, uid)

    @property
    def requester(self) -> Requester:
        """Return who writes it."""
        return _requester(self.key.user, self.manager, self.process)


_requester: Final = lru_cache(_MOST_REQUESTERS)(Requester)
"""Each once, for it is remembered with each of its writes."""
_encoder: Final = msgspec.msgpack.Encoder()


_decoder: Final = msgspec.msgpack.Decoder(Fact)


def encode_fact(fact: Fact) -> bytes:
    """Encode a fact for other replicas: some hundred bytes where little changed."""
    return _encoder.encode(fact)


def decode_fact(raw: bytes) -> Fact:
    """Decode a fact. Raises UnreadableFactError, also for another version."""
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decoder.decode(raw)
    # The decoder's message may repeat a value.
    raise UnreadableFactError("not a fact of this version")
