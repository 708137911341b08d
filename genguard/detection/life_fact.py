"""A creation, deletion or conflict as a small record, shared by replicas as facts of updates are.

A creation has no stored object, and often no name yet: its phases cannot be joined by a JoinKey of
an update. They are joined by their place: who creates, and the name or, where the server makes
the name, its prefix and the controller that owns the object.

A deletion is seen at /outcome alone. A Pod that ends gracefully has several: only the first one
shows no deletionTimestamp (apiserver pkg/registry/core/pod/rest and the kubelet's final DELETE).
"""

import zlib
from typing import Final, Literal

import msgspec

from genguard.admission.review import AdmissionRequest, JoinKey, Operation, Phase, ReviewedObject
from genguard.detection.diff import NOT_SEEN, Compared, Comparer, digests
from genguard.detection.digest import NO_DIGEST, Digest, as_digest, digest_of
from genguard.detection.fact import BYTES_OF_FACT, Fact, Seconds, decode_fact, manager_of
from genguard.detection.suspects import Suspects
from genguard.detection.write import NOBODY, Acted, Called, ObjectKey, Requester, Write
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
    compared    the leaves of all that is asked for; None where the place is no suspect
    called      webhooks that may have acted; None where the place is no suspect
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
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        leaves = 0 if self.compared is None else self.compared.diff.size
        return BYTES_OF_FACT + self.key.size + leaves

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
    comparer: Comparer,
    is_suspect: bool,
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
    compared = comparer.compare(key.name, {}, fields, now) if is_suspect else None
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
        called=suspects.called_in(request) if is_suspect and is_last else None,
        policies=suspects.policies_in(request) if is_suspect and not is_last else (),
        implied=suspects.implied_before(phase, request),
    )


def decode_any(raw: bytes) -> AnyFact:
    """Decode a fact of either sort. Raises UnreadableFactError, also for another version."""
    try:
        return _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return decode_fact(raw)


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


_decoder: Final = msgspec.msgpack.Decoder(LifeFact)
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
