"""What is known of one object between two versions of it, and what the next version changes.

A version is decoded as far as rules of status read it. Most versions repeat what is known, so their
digest and generation tell that without decoding.

- Spec has a new intent when metadata.generation changes. If generations follow each other before
  the object is settled, the latest counts: its author waits for that one.
- A new intent leaves the object unsettled and its readiness unknown until its controller acts;
  where the controller never writes that it has, for GRACE_SECONDS.
- `observed_at` and a milestone are set once for each generation. A duration is measured only when
  the change of spec itself was seen, and not when the same version shows it finished already: then
  nobody knows how long it took.
- A kind without observedGeneration counts as observed when its status is written. That is enough
  to believe its status, but not to measure a duration.
- A flip is a change of Ready within one generation after it was ready once. Earlier changes are
  part of the rollout, and a new generation changes Ready because its author wants it.
- A rollout that proceeds changes what blocks it: `status.availableReplicas 2, want 5`, then `3,
  want 5`. So an object is stuck where the same field blocks with the same value for longer than its
  controller needs, however often its status is written meanwhile.

A packed state takes some 150 bytes. As a Python object it would take several times as much, and
100,000 of them are kept in memory.
"""

import re
import zlib
from typing import Any, Final, NamedTuple

import msgspec

from genguard.objects.fields import Fields, count_values, get
from genguard.objects.metadata import decode_metadata, read_owner_uid, version_number
from genguard.status.checked_object import DEFAULT_DEADLINE
from genguard.status.evaluate import GRACE_SECONDS, evaluate
from genguard.status.health_rules import RuleAnswers
from genguard.status.names import NAMES
from genguard.status.pod_images import remember_images
from genguard.status.pod_replacement import STOPS_WITHIN
from genguard.status.view import Health, Past

_UNREAD: Final = frozenset(NAMES["unread fields"])
_UNNAMED: Final = "(named at /terminating)"
"""Instead of finalizers: what is tracked is shown to more people than that page."""
MOST_CONDITIONS: Final = 1_000
"""No kind has nearly as many; each takes several microseconds, and answers wait meanwhile."""
MOST_VALUES: Final = 50_000
"""Of a status, or of one field of spec. As many are decoded in some milliseconds."""
MAX_INT64: Final = 2**63 - 1


_fields: Final = msgspec.json.Decoder(Fields | None)


class ObjectSnapshot:
    """One version of one object. Its methods raise msgspec.MsgspecError for malformed JSON."""

    __slots__ = (
        "_api_version", "_kind", "_spec", "_status", "answers", "digest", "generation", "metadata",
        "version",
    )  # fmt: skip

    def __init__(self, document: Fields, kind: str, answers: RuleAnswers | None = None) -> None:
        """`answers` are what a rule in CEL says of the object; None without such a rule.

        Raises KeyError without apiVersion or metadata, and msgspec.MsgspecError for bad ones.
        """
        self.answers: Final = answers
        self._api_version: Final = msgspec.json.decode(document["apiVersion"], type=str)
        self._kind: Final = kind
        self._spec: Final = document.get("spec")
        self._status: Final = document.get("status")
        self.metadata: Final = decode_metadata(document)
        generation = self.metadata.stored_generation
        self.generation: Final = generation if 0 < generation <= MAX_INT64 else 0
        self.version: Final = version_number(self.metadata.resource_version)
        # A generation identifies spec. The start value 1 keeps the digest from being 0 in practice.
        digest = zlib.crc32(self._status or b"", 1)
        if not self.generation:
            digest = zlib.crc32(self._spec or b"", digest)
        if self.metadata.deletion_timestamp:
            digest = zlib.crc32(self.metadata.deletion_timestamp.encode(), digest)
        self.digest: Final = digest

    def decode(self) -> dict[str, Any]:
        """Return the object as evaluate() needs it, without the fields that no rule reads."""
        known = self.metadata
        owner = known.controller.kind if self._kind == "Pod" else ""
        status: Any = None if self._status is None else _decode_status(self._status)
        return {
            "apiVersion": self._api_version,
            "kind": self._kind,
            "metadata": {
                "generation": None if known.generation is msgspec.UNSET else known.generation,
                "creationTimestamp": known.creation_timestamp,
                "deletionTimestamp": known.deletion_timestamp,
                "deletionGracePeriodSeconds": known.deletion_grace_period_seconds,
                "finalizers": [_UNNAMED] if known.finalizers else [],
                "ownerReferences": [{"kind": owner, "controller": True}] if owner else [],
            },
            "spec": None if self._spec is None else self._decode_spec(self._spec, status),
            "status": status,
        }

    def _decode_spec(self, raw: msgspec.Raw, status: Any) -> Any:
        try:
            fields = _fields.decode(raw)
        except msgspec.ValidationError:
            return msgspec.json.decode(raw)  # not an object: evaluate() reports it
        if fields is None:
            return None
        unread = _UNREAD - ({"template"} if get(status, "terminatingReplicas") else set())
        found = {
            key: msgspec.json.decode(value)
            for key, value in fields.items()
            if key not in unread and not _has_too_many_values(value)
        }
        if self.metadata.deletion_timestamp is not None and "nodeName" in fields:
            found["nodeName"] = "its node" if msgspec.json.decode(fields["nodeName"]) else ""
        return found


def _has_too_many_values(raw: msgspec.Raw) -> bool:
    return len(raw) > MOST_VALUES and count_values(bytes(raw)) > MOST_VALUES


def _decode_status(raw: msgspec.Raw) -> Any:
    """Decode a status; raises msgspec.ValidationError where there is too much in it."""
    if _has_too_many_values(raw):
        raise msgspec.ValidationError(f"more than {MOST_VALUES} values")
    status = msgspec.json.decode(raw)
    conditions = status.get("conditions") if isinstance(status, dict) else None
    if isinstance(conditions, list) and len(conditions) > MOST_CONDITIONS:
        raise msgspec.ValidationError(f"more than {MOST_CONDITIONS} conditions")
    return status


WINDOW_SECONDS: Final = 600.0
"""Changes of Ready that are older than this are forgotten."""
MOST_FLIPS: Final = 20
MOST_MILESTONES: Final = 16
OBSERVES_SECONDS: Final = 60.0
"""A controller that always writes observedGeneration does so within seconds of a change of spec.
With a finding about it, GRACE_SECONDS are enough: see webhook/dashboard/broken.py."""
FAILED_SECONDS: Final = 30.0
"""An image that could not be pulled once, or a container that is started again, often passes."""
PROGRESS_SECONDS: Final = DEFAULT_DEADLINE
"""A slow start of a container, a volume or a node changes nothing for minutes. The default of a
Deployment's spec.progressDeadlineSeconds (apps/v1 types.go)."""
LONGEST_TEXT: Final = 200
_UNACTED: Final = "metadata.generation"
"""What blocks while the controller of a kind without observedGeneration may not have acted yet."""
_RUNS: Final = re.compile(
    r"status\.conditions\[(Succeeded|Complete|Completed)\]|status\.phase Running, want Succeeded"
)
"""Of Jobs, and what else runs to its end: nobody knows how long that takes."""


class Milestone(NamedTuple):
    """A generation and the time, in Unix seconds, at which it was reconciled."""

    at: float
    generation: int


# A Struct and not a NamedTuple: to change one is several times as fast.
class TrackedState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What is known of one object. Times are Unix seconds."""

    kind: int
    """The position of its kind: see CountsByKind."""
    namespace: str
    name: str
    owner: str
    """The uid of its owner; "" if it has none."""
    changed_at: float
    """When ready, settled or health last changed, in Unix seconds."""
    settled: bool
    health: Health
    version: int
    """The resourceVersion of the latest version that told something new."""
    digest: int
    """A checksum of status: tells without decoding whether another version is the same."""
    generation: int
    """metadata.generation; 0 for kinds that have none."""
    observed: int | None
    intent_at: float
    intent_seen: bool
    """Whether the change of spec itself was seen, so that `intent_at` is its time."""
    observed_at: float | None
    ready: bool | None
    has_been_ready: bool
    """At this generation. A change of Ready before that is part of the rollout, not a flip."""
    flips: tuple[int, ...]
    """The times at which Ready changed, oldest first, none older than WINDOW_SECONDS."""
    milestones: tuple[Milestone, ...]
    """When generations were reconciled, the latest last."""
    blocked_by: str
    """The first reason that keeps it from being settled, or once it is settled from being Green, as
    text."""
    blocked_since: float
    """When this field was first seen to block with this value."""
    application: str
    """What its labels name (see counts.py); "" for none."""
    images: bytes
    """Of a Pod: what is remembered of its containers (pod_images.py)."""

    @property
    def reconciled(self) -> int | None:
        """The last generation at which it was settled; None where none is known."""
        return self.milestones[-1].generation if self.milestones else None

    @property
    def settled_at(self) -> float | None:
        """When this generation was first seen settled; it may be unsettled again."""
        return self.milestones[-1].at if self.reconciled == self.generation else None

    @property
    def is_unobserved(self) -> bool:
        """Whether it waits for its controller to see the current spec."""
        return self.blocked_by.startswith(("status.observedGeneration", _UNACTED))

    def stuck_at(self, *, always_observes: bool) -> float | None:
        """Return the time, in Unix seconds, from which it counts as stuck while it is unsettled.

        None where no time tells. `always_observes`: its controller always writes
        observedGeneration.
        """
        if self.health is Health.RED:
            return self.changed_at + FAILED_SECONDS
        if _RUNS.match(self.blocked_by):
            return None
        is_quick = self.is_unobserved and always_observes
        grace = STOPS_WITHIN.search(self.blocked_by)
        seconds = OBSERVES_SECONDS if is_quick else PROGRESS_SECONDS
        return self.blocked_since + seconds + (float(grace[1]) if grace else 0.0)

    def is_flip(self, after: "TrackedState") -> bool:
        """Whether the next state has another Ready for the same generation."""
        if not self.has_been_ready or self.generation != after.generation:
            return False
        return None is not self.ready is not after.ready is not None

    def flips_since(self, at: float) -> tuple[int, ...]:
        """Return the flips within WINDOW_SECONDS before `at`."""
        return tuple(flip for flip in self.flips if flip > at - WINDOW_SECONDS)


pack: Final = msgspec.msgpack.Encoder().encode
"""Return a state as bytes."""
unpack: Final = msgspec.msgpack.Decoder(TrackedState).decode
"""Return the state that was packed; raises msgspec.MsgspecError when it is cut off."""


def next_state(
    kind: int,
    snapshot: ObjectSnapshot,
    before: TrackedState | None,
    at: float,
    *,
    always_observes: bool,
    created: bool,
    application: str,
) -> tuple[TrackedState, TrackedState | None]:
    """Return what is known of an object after another version of it.

    The second is what is known once GRACE_SECONDS have passed like this; None: the same.

    always_observes  its controller always writes observedGeneration
    created          if nothing was known before, it has just been created
    Raises msgspec.MsgspecError or RecursionError when the object cannot be decoded.
    """
    document, generation, metadata = snapshot.decode(), snapshot.generation, snapshot.metadata
    same = before if before is not None and before.generation == generation else None
    is_new = same is None and (created or before is not None)
    images = remember_images(before.images if before else b"", document)
    intent_at = same.intent_at if same else at
    acted = same.observed_at if same else None
    if same and acted is None and same.observed is None and not always_observes:
        acted = at  # where observedGeneration is written, it alone decides: see evaluate()

    def state_of(intent: float, flips: tuple[int, ...]) -> TrackedState:
        reconciled = before.reconciled if before else None
        past = Past(intent, acted, reconciled, len(flips), images)
        view = evaluate(
            document,
            past if before or created else None,
            answers=snapshot.answers,
            at=at,
            with_table=False,
        )
        observed = view.observed_generation
        if observed is not None:
            observed = max(-MAX_INT64, min(observed, MAX_INT64))
        is_observed = observed is not None and observed >= generation
        milestones = before.milestones if before else ()
        if view.settled and generation and not (milestones and milestones[-1][1] == generation):
            milestones = (*milestones, Milestone(at, generation))[-MOST_MILESTONES:]
        reasons = (str(reason) for reason in view.reasons if reason.against_settled or view.settled)
        is_fine = view.settled and view.health is Health.GREEN
        text = "" if is_fine else next(reasons, "")[:LONGEST_TEXT]
        is_same = before and (before.ready, before.settled, before.health) == (
            view.ready, view.settled, view.health,
        )  # fmt: skip
        return TrackedState(
            kind=kind,
            namespace=metadata.namespace or "",
            name=metadata.name or "",
            owner=read_owner_uid(metadata.owner_references),
            changed_at=before.changed_at if before and is_same else at,
            settled=view.settled,
            health=view.health,
            version=snapshot.version,
            digest=snapshot.digest,
            generation=generation,
            observed=observed,
            intent_at=intent_at,
            intent_seen=same.intent_seen if same else is_new and not is_observed and generation > 0,
            observed_at=(same and same.observed_at) or (at if is_observed else None),
            ready=view.ready,
            has_been_ready=bool(same and same.has_been_ready) or view.ready is True,
            flips=flips,
            milestones=milestones,
            blocked_by=text,
            blocked_since=before.blocked_since if before and before.blocked_by == text else at,
            application=application,
            images=images,
        )

    flips = before.flips_since(at) if before else ()
    state = state_of(intent_at, flips)
    if before is not None and before.is_flip(state):
        state = state_of(intent_at, (*flips, max(int(at), 0))[-MOST_FLIPS:])
    is_unacted = is_new and state.ready is None and state.blocked_by.startswith(_UNACTED)
    return state, state_of(at - GRACE_SECONDS, flips) if is_unacted else None
