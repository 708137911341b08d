"""A fact: one review as a small record of numbers, digests and names, which replicas share.

It says what one phase of a write shows, compared with what is stored. It holds no value of an
object, nor of a label or an annotation, so a shared store may keep it. Which webhooks and policies
can have acted depends on content: the replica that has the review finds it out.
"""

from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec

from genguard.admission.review import NO_RAW, AdmissionRequest, JoinKey, Phase
from genguard.detection.diff import Compared
from genguard.detection.digest import Digest
from genguard.detection.write import Acted, Called, ObjectKey, Requester
from genguard.generation.custom import StatusSubresource
from genguard.objects.observed import Observed

VERSION: Final = 7
"""Of the encoding: another number is another shape or another meaning."""

_MOST_REQUESTERS: Final = 1_000
_LONGEST_EXTRA: Final = 4_096
USER_AGENT: Final = "genguard.io/user-agent"
BYTES_OF_FACT: Final = 800
_BYTES_OF_POINTER: Final = 60
SECONDS_APART: Final = 60.0
"""A time so far before another says that the clock was put back: replicas are not so far apart."""
Seconds = Annotated[float, msgspec.Meta(ge=0, lt=253_402_300_800)]
"""Since the epoch, up to the year 9999."""


class UnreadableFactError(ValueError):
    """Bytes that are no fact of this version; nothing of them is repeated."""


class States(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Digests of all that is stored, before and after; metadata is not meant."""

    before: Digest
    after: Digest


class Fact(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one phase of one update shows.

    key              which write this is a phase of
    served_as        the version of the API in which the object is shown
    manager          the field manager of the write
    process          which process of the user sent it: see Requester
    status           what is known of the status of a custom resource
    writes_status    status is among the fields that the server takes, and there is one
    compared         the fields that the server takes from this write
    compared_status  of a custom resource that nobody has described: its outcome tells whether
                     status is taken
    touches_status   whether status differs, and is taken or may be; touches_more: whether any
    touches_more     other field that is taken differs
    states           None where an outcome is awaited, which tells them
    generation, generation_before   as the review shows them, 0 where there is none
    predicted        see Prediction.generation
    observed, observed_before   nothing of a write that takes no status
    observes         whether the status has an observedGeneration at all, be it 0
    called           None where `states` are
    unmet            of those called, the webhooks whose matchConditions are not met by what is
                     shown here; none where that was not asked, None where the fact shows the same
                     as an earlier one, or comes too late
    policies         those that may have acted; None where an earlier phase has told
    compared_metadata  labels, annotations, finalizers and owners; None where all are as stored
    owner            the uid of the controller that owns the stored object, "" where none does
    foreign, unobserved   of the status of a pod: see PodStatusChange
    implied          phases before this one that are not registered, and would show the same
    """

    version: Literal[7]
    phase: Phase
    time: Seconds
    key: JoinKey
    served_as: str
    manager: str
    status: StatusSubresource
    writes_status: bool
    compared: Compared
    compared_status: Compared | None
    touches_status: bool
    touches_more: bool
    states: States | None
    generation_before: int
    generation: int
    predicted: int | None
    observed_before: Observed
    observed: Observed
    observes: bool
    called: Called | None
    unmet: tuple[str, ...] | None
    policies: tuple[Acted, ...] | None
    compared_metadata: Compared | None
    owner: str = ""
    foreign: tuple[str, ...] = ()
    unobserved: tuple[str, ...] = ()
    process: str = ""
    implied: tuple[Phase, ...] = ()

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        differs = self.compared.diff.size
        if self.compared_status is not None:
            differs += self.compared_status.diff.size
        if self.compared_metadata is not None:
            differs += self.compared_metadata.diff.size
        seen = self.observed.size
        if self.observed_before is not self.observed:
            seen += self.observed_before.size
        pointers = sum(_BYTES_OF_POINTER + len(one) for one in (*self.foreign, *self.unobserved))
        return BYTES_OF_FACT + self.key.size + differs + seen + pointers

    def shows_same_as(self, other: "Fact") -> bool:
        """Whether two phases of one write show the same fields and the same metadata."""
        return self.compared.same_as(other.compared) and self.has_metadata_of(other)

    def has_metadata_of(self, other: "Fact") -> bool:
        """Whether two phases of one write show the same metadata."""
        mine, theirs = self.compared_metadata, other.compared_metadata
        if mine is None or theirs is None:
            return mine is theirs
        return mine.same_as(theirs)

    @property
    def object(self) -> ObjectKey:
        """Return the object that is written."""
        key = self.key
        return ObjectKey(key.group, self.served_as, key.resource, key.namespace, key.name, key.uid)

    @property
    def requester(self) -> Requester:
        """Return who writes it."""
        return _requester(self.key.user, self.manager, self.process)


class _Options(msgspec.Struct, rename="camel"):
    field_manager: str = ""


_options: Final = msgspec.json.Decoder(_Options | None)
_LONGEST_MANAGER: Final = 128
"""As the API server has it (apimachinery pkg/apis/meta/v1/validation: FieldManagerMaxLength)."""


def manager_of(request: AdmissionRequest) -> str:
    """Return the field manager of a request, "" where none is told.

    Raises msgspec.MsgspecError for options that are none.
    """
    raw = request.wire.options
    options = None if raw is NO_RAW else _options.decode(raw)
    return options.field_manager[:_LONGEST_MANAGER] if options else ""


_EXTRA: Final = "authentication.kubernetes.io/"
_PROCESS: Final = (f"{_EXTRA}pod-name", f"{_EXTRA}credential-id", USER_AGENT)
"""Keys of `userInfo.extra` that say which process it is, the best first (apiserver
pkg/authentication/serviceaccount/util.go:PodNameKey, pkg/authentication/user/user.go:
CredentialIDKey). The user agent is a key of genguard, for reviews made of an audit log."""
_extra_decoder: Final = msgspec.json.Decoder(dict[str, tuple[str, ...]] | None)
_LONGEST_PROCESS: Final = 253


@lru_cache(_MOST_REQUESTERS)
def _process_in(extra: bytes) -> str:
    try:
        found = _extra_decoder.decode(extra) or {}
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""  # of another shape than the API server writes
    values = (found[key][0] for key in _PROCESS if found.get(key))
    return next(values, "")[:_LONGEST_PROCESS]


def process_of(request: AdmissionRequest) -> str:
    """Return which process of its user sent a request, "" where that is not said."""
    raw = request.wire.user_info.extra
    return "" if raw is NO_RAW or len(raw) > _LONGEST_EXTRA else _process_in(bytes(raw))


_requester: Final = lru_cache(_MOST_REQUESTERS)(Requester)
"""Each once, for it is remembered with each of its writes."""
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Fact)


def encode_fact(fact: msgspec.Struct) -> bytes:
    """Encode a fact of any sort for other replicas: some hundred bytes where little changed."""
    return _encoder.encode(fact)


def decode_fact(raw: bytes) -> Fact:
    """Decode a fact. Raises UnreadableFactError for anything else, also for another version."""
    try:
        return _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # The decoder's message may repeat a value.
        raise UnreadableFactError(f"not a fact of version {VERSION}") from None
