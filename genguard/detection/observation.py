"""An observation: one review as a small record of numbers, digests and names, which replicas share.

It says what one phase of a write shows, compared with what is stored. It holds no value of an
object, nor of a label or an annotation, so a shared store may keep it. Which webhooks and policies
can have acted depends on content: the replica that has the review finds it out.
"""

from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec

from genguard.admission.review import JoinKey, Operation, Phase
from genguard.detection.diff import NO_DIFF, Diff, together
from genguard.detection.values import NO_DIGEST, Digest, digest_of
from genguard.detection.write import BYTES_OF_RECORD, Acted, Called, ObjectKey, Requester
from genguard.generation.custom import StatusSubresource
from genguard.objects.observed import NOTHING_OBSERVED, Observed

VERSION: Final = 11
"""Of the encoding: another number is another shape or another meaning."""

_MOST_REQUESTERS: Final = 1_000
Seconds = Annotated[float, msgspec.Meta(ge=0, lt=253_402_300_800)]
"""Since the epoch, up to the year 9999."""


class UnreadableObservationError(ValueError):
    """Bytes that are no observation of this version; nothing of them is repeated."""


class Observation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one phase of one update or creation shows, or the outcome of a deletion.

    key              which write this is a phase of: see AdmissionRequest.write_key
    served_as        the version of the API in which the object is shown
    manager          the field manager of the write
    compared_fields  those that the server takes from this write, but for status; of most creations
                     without leaves
    process          which process of the user sent it: see Requester
    status           what is known of the status of a custom resource
    compared_status  None where the server surely takes none. Of a custom resource that nobody has
                     described the outcome tells whether it does
    state            digests of all that is stored, before and after, metadata aside; None where an
                     outcome is awaited, which tells them
    generation, generation_before   as the review shows them, 0 where there is none
    predicted        see Prediction.generation
    observed, observed_before   nothing of a write that takes no status
    called           None of an intent
    unmet            of those called, the webhooks whose matchConditions are not met by what is
                     shown here; none where that was not asked, None where this shows the same
                     as an earlier one, or comes too late
    policies         those that may have acted; None where an earlier phase has told
    compared_metadata  labels, annotations, finalizers and owners; None where all are as stored
    owner            the uid of the controller that owns the object, "" where none does
    gates            digests of the readiness gates of a bound pod whose status is written, for
                     their names are contents; None of others
    equal_unregistered  phases before this one that are not registered, and would show the same
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
    compared_fields: Diff = NO_DIFF
    operation: Operation = Operation.UPDATE
    process: str = ""
    status: StatusSubresource = StatusSubresource.UNKNOWN
    compared_status: Diff | None = None
    state: Diff | None = None
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
    equal_unregistered: tuple[Phase, ...] = ()
    attempt: Digest = NO_DIGEST
    is_stale: bool = False
    is_over: bool = False
    likeness: int = 0

    def stale(self, version: str) -> "Observation":
        """Return it as that of an update of a version that is no longer stored: a refused one."""
        attempt = digest_of(version.encode(errors="replace"))
        return msgspec.structs.replace(self, attempt=attempt, is_stale=True)

    @property
    def parts(self) -> tuple[Diff | None, ...]:
        """Return the fields, the status and the metadata that it shows."""
        return self.compared_fields, self.compared_status, self.compared_metadata

    @property
    def writes_status(self) -> bool:
        """Whether the server surely takes status from this write, and there is one."""
        is_asked = self.key.subresource == "status" or self.status is StatusSubresource.ABSENT
        return is_asked and self.compared_status is not None

    def compared(self, *, takes_status: bool = False) -> Diff:
        """Return what differs in all fields that the server takes, or may take with a status."""
        status = self.compared_status if takes_status or self.writes_status else None
        return self.compared_fields if status is None else together(self.compared_fields, status)

    @property
    def leaves(self) -> int:
        """Return how many leaves it counts as in the bounds."""
        leaves = sum([part.weight for part in self.parts if part is not None])
        return leaves + (self.observed.size + self.observed_before.size) // BYTES_OF_RECORD

    def shows_same_as(self, other: "Observation") -> bool:
        """Whether two phases of one write make the same of fields, status and metadata."""
        return _made(self) == _made(other)

    @property
    def join_key(self) -> JoinKey:
        """Return what all phases of a write have in common: a creation has a uid at its end."""
        return self.key.location if self.operation is Operation.CREATE else self.key

    @property
    def object(self) -> ObjectKey:
        """Return the object that is updated; the location of a creation or deletion, no uid."""
        key = self.key
        uid = key.uid if self.operation is Operation.UPDATE else ""
        return ObjectKey(key.group, self.served_as, key.resource, key.namespace, key.name, uid)

    @property
    def requester(self) -> Requester:
        """Return who writes it."""
        return _requester(self.key.user, self.manager, self.process)


def _made(observation: Observation) -> tuple[Digest | None, ...]:
    return tuple([None if part is None else part.after for part in observation.parts])


_requester: Final = lru_cache(_MOST_REQUESTERS)(Requester)
"""Each once, for it is remembered with each of its writes."""
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Observation)


def encode_observation(observation: Observation) -> bytes:
    """Encode an observation for other replicas: some hundred bytes where little changed."""
    return _encoder.encode(observation)


def decode_observation(raw: bytes) -> Observation:
    """Decode an observation. Raises UnreadableObservationError, also for another version."""
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decoder.decode(raw)
    # The decoder's message may repeat a value.
    raise UnreadableObservationError("not an observation of this version")
