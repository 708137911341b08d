"""Computes the next TrackedState of an object from its last one and a new snapshot.

- Spec has a new intent when metadata.generation changes. If generations follow each other before
  the object is settled, the latest counts: its author waits for that one.
- `observed_at` and `settled_at` are set once for each generation. A duration is measured only when
  the change of spec itself was seen, and not when the same snapshot shows it finished already:
  then nobody knows how long it took.
- A kind without observedGeneration counts as observed when its status is written. That is enough
  to believe its status, but not to measure a duration.
- A flip is a change of Ready within one generation after it was ready once. Earlier changes are
  part of the rollout, and a new generation changes Ready because its author wants it.
- Kinds without metadata.generation have no intent that differs from status, so no durations.
"""

import zlib
from typing import Any, Final, TypedDict

import msgspec

from genguard.admission.review import ReviewedObject
from genguard.objects.fields import Fields, count_values, get
from genguard.objects.metadata import version_number
from genguard.objects.owners import read_owner_uid
from genguard.status.blocking import find_blocking_text
from genguard.status.evaluate import GRACE_SECONDS, evaluate
from genguard.status.health_rules import RuleAnswers
from genguard.status.pod_images import remember_images
from genguard.status.tracked_state import MOST_FLIPS, TrackedState
from genguard.status.view import Health, Past, StatusView

_LEFT_OUT: Final = frozenset({
    "template", "jobTemplate", "volumeClaimTemplates",
    "containers", "initContainers", "ephemeralContainers", "volumes", "imagePullSecrets",
    "affinity", "nodeName", "nodeSelector", "tolerations", "topologySpreadConstraints",
    "dnsConfig", "dnsPolicy", "hostNetwork", "hostname", "subdomain", "enableServiceLinks",
    "preemptionPolicy", "priority", "priorityClassName", "schedulerName", "schedulingGates",
    "securityContext", "serviceAccount", "serviceAccountName", "terminationGracePeriodSeconds",
})  # fmt: skip
"""Fields of spec that no rule of status reads; they are most of a pod or pod template. What ends
is an exception: its node, or the grace period of its pods, says for how long that is normal."""


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    termination_grace_period_seconds: Any = None


class _PodTemplate(msgspec.Struct, frozen=True):
    spec: _PodSpec | None = None


_UNNAMED: Final = "(named at /terminating)"
"""Instead of finalizers: what is tracked is shown to more people than that page."""
_template: Final = msgspec.json.Decoder(_PodTemplate)
_CONTAINERS: Final = ("containers", "initContainers")


class _Container(TypedDict, total=False):
    """What is read of the containers of a Pod."""

    name: str
    image: str
    restartPolicy: str


_containers_decoder: Final = msgspec.json.Decoder(list[_Container] | None)
_raw_fields: Final = msgspec.json.Decoder(Fields | None)


class ObjectSnapshot:
    """One state of one object, not decoded: most snapshots repeat what is known.

    Its methods decode; they raise msgspec.MsgspecError when the JSON is malformed.
    """

    __slots__ = (
        "_spec",
        "_status",
        "answers",
        "api_version",
        "digest",
        "generation",
        "kind",
        "metadata",
        "version",
    )

    def __init__(
        self,
        reviewed: ReviewedObject,
        api_version: str,
        kind: str,
        answers: RuleAnswers | None = None,
    ) -> None:
        """`answers` are what a rule in CEL says of the object; None without such a rule."""
        self.answers: Final = answers
        self._spec: Final = reviewed.spec
        self._status: Final = reviewed.status
        self.api_version: Final = api_version
        self.kind: Final = kind
        self.metadata: Final = reviewed.metadata
        generation = self.metadata.stored_generation
        self.generation: Final = generation if 0 < generation <= _MAX_INT64 else 0
        self.version: Final = version_number(self.metadata.resource_version)
        # A generation identifies spec. The start value 1 keeps the digest from being 0 in practice.
        digest = zlib.crc32(self._status or b"", 1)
        if not self.generation:
            digest = zlib.crc32(self._spec or b"", digest)
        if self.metadata.deletion_timestamp:
            digest = zlib.crc32(self.metadata.deletion_timestamp.encode(), digest)
        self.digest: Final = digest

    def read_owner_uid(self) -> str:
        """Return the uid of its controller, or else of its first owner; "" without owners."""
        return read_owner_uid(self.metadata.owner_references)

    def decode(self) -> dict[str, Any]:
        """Return the object as evaluate() needs it, without the fields that no rule reads."""
        known = self.metadata
        metadata: dict[str, Any] = {}
        document: dict[str, Any] = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": metadata,
        }
        if known.generation is not msgspec.UNSET:
            metadata["generation"] = known.generation
        if known.creation_timestamp is not None:
            metadata["creationTimestamp"] = known.creation_timestamp
        if known.deletion_timestamp is not None:
            metadata["deletionTimestamp"] = known.deletion_timestamp
            metadata["deletionGracePeriodSeconds"] = known.deletion_grace_period_seconds
            metadata["finalizers"] = [_UNNAMED] if known.finalizers else []
        status = None if self._status is None else _status(self._status)
        if self._spec is not None:
            deleted = known.deletion_timestamp is not None
            pods_end = bool(get(status, "terminatingReplicas"))
            is_pod = self.kind == "Pod"
            document["spec"] = _spec(
                self._spec, is_pod=is_pod, with_node=deleted, with_grace=pods_end
            )
        if self._status is not None:
            document["status"] = status
        return document


MOST_CONDITIONS: Final = 1_000
"""No kind has nearly as many; each takes several microseconds, and answers wait meanwhile."""
MOST_VALUES: Final = 50_000
"""Of a status, or of one field of spec. As many are decoded in some milliseconds."""


def _has_too_many_values(raw: msgspec.Raw) -> bool:
    return len(raw) > MOST_VALUES and count_values(bytes(raw)) > MOST_VALUES


def _status(raw: msgspec.Raw) -> Any:
    """Decode a status; raises msgspec.ValidationError where there is too much in it."""
    if _has_too_many_values(raw):
        raise msgspec.ValidationError(f"more than {MOST_VALUES} values")
    status = msgspec.json.decode(raw)
    conditions = status.get("conditions") if isinstance(status, dict) else None
    if isinstance(conditions, list) and len(conditions) > MOST_CONDITIONS:
        raise msgspec.ValidationError(f"more than {MOST_CONDITIONS} conditions")
    return status


def _spec(raw: msgspec.Raw, *, is_pod: bool, with_node: bool, with_grace: bool) -> Any:
    """Return spec without what no rule reads of such an object."""
    try:
        fields = _raw_fields.decode(raw)
    except msgspec.ValidationError:
        return msgspec.json.decode(raw)  # not an object: evaluate() reports it
    if fields is None:
        return None
    found = {
        key: msgspec.json.decode(value)
        for key, value in fields.items()
        if key not in _LEFT_OUT and not _has_too_many_values(value)
    }
    if is_pod:
        found |= {key: _containers(fields[key]) for key in _CONTAINERS if key in fields}
    if with_node and "nodeName" in fields:
        found["nodeName"] = "its node" if msgspec.json.decode(fields["nodeName"]) else ""
    if with_grace and "template" in fields:
        found["template"] = _grace_of(fields["template"])
    return found


def _grace_of(template: msgspec.Raw) -> dict[str, Any]:
    """Return a pod template with its grace period alone; the rest is skipped, not decoded."""
    try:
        spec = _template.decode(template).spec
    except msgspec.ValidationError:  # evaluate() takes what is unreadable as not set
        return {}
    grace = None if spec is None else spec.termination_grace_period_seconds
    return {"spec": {"terminationGracePeriodSeconds": grace}}


def _containers(raw: msgspec.Raw) -> list[_Container] | None:
    try:
        found: list[_Container] | None = _containers_decoder.decode(raw)
    except msgspec.ValidationError:
        return None  # the API server stores no such containers
    return found


_MAX_INT64: Final = 2**63 - 1


class StateTransition(msgspec.Struct, frozen=True, gc=False):
    """The next state, and the durations in seconds that this snapshot has ended."""

    after: TrackedState
    intent_changed: bool
    """Spec is new: until GRACE_SECONDS have passed, as_unobserved(after) is believed."""
    observation: float | None = None
    reconcile: float | None = None
    flipped: bool = False
    blocked_by: str = ""
    """What keeps it from being settled: see genguard/status/blocking.py."""
    images: bytes = b""
    """Of a Pod: what is remembered of its containers now (pod_images.py)."""


def compute_transition(
    kind: int,
    snapshot: ObjectSnapshot,
    before: TrackedState | None,
    at: float,
    version: int,
    *,
    always_observes: bool,
    created: bool = False,
    images: bytes = b"",
) -> StateTransition:
    """Return what a snapshot changes in the state of an object; call it only for a new snapshot.

    version          the resourceVersion of the latest state known to be stored
    always_observes  its controller always writes observedGeneration
    created          it is the first state of a new object
    images           what is remembered of its containers
    Raises msgspec.MsgspecError or RecursionError when the object cannot be decoded.
    """
    if before is None or before.generation != snapshot.generation:
        # A generation that goes back was believed but never stored. Of the earlier one no more is
        # known than of an object that is seen for the first time.
        is_new = created or (before is not None and before.generation < snapshot.generation)
        return _new_intent(kind, snapshot, before, at, version, images=images, is_new=is_new)
    flips = before.flips_since(at)
    document, generation = snapshot.decode(), snapshot.generation
    # Where observedGeneration is written, it alone decides: see evaluate().
    silent = before.observed is None and not always_observes
    acted = before.observed_at or (at if silent else None)
    images = remember_images(images, document)
    past = Past(before.intent_at, acted, before.reconciled, len(flips), images)
    view = evaluate(document, past, answers=snapshot.answers, at=at, with_table=False)
    flipped = (
        before.has_been_ready
        and before.ready is not view.ready
        and before.ready is not None
        and view.ready is not None
    )
    if flipped:
        flips = (*flips, max(int(at), 0))[-MOST_FLIPS:]
        past = Past(before.intent_at, acted, before.reconciled, len(flips), images)
        view = evaluate(document, past, answers=snapshot.answers, at=at, with_table=False)
    observed = _observed(view)
    observed_at, settled_at = before.observed_at, before.settled_at
    measures = before.intent_seen and generation > 0
    observation = reconcile = None
    if observed_at is None and observed is not None and observed >= generation:
        observed_at = at
        observation = at - before.intent_at if measures else None
    if settled_at is None and view.settled:
        settled_at = at
        reconcile = at - before.intent_at if measures else None
    same = (
        view.ready is before.ready
        and view.settled is before.settled
        and view.health is before.health
    )
    after = msgspec.structs.replace(
        before,
        kind=kind,
        version=version,
        digest=snapshot.digest,
        observed=observed,
        reconciled=generation if view.settled and generation else before.reconciled,
        observed_at=observed_at,
        settled_at=settled_at,
        changed_at=before.changed_at if same else at,
        ready=view.ready,
        settled=view.settled,
        health=view.health,
        has_been_ready=before.has_been_ready or view.ready is True,
        flips=flips,
        owner=snapshot.read_owner_uid(),
    )
    return StateTransition(
        after,
        intent_changed=False,
        observation=observation,
        reconcile=reconcile,
        flipped=flipped,
        blocked_by="" if view.settled else find_blocking_text(view.reasons),
        images=images,
    )


def _new_intent(
    kind: int,
    snapshot: ObjectSnapshot,
    before: TrackedState | None,
    at: float,
    version: int,
    *,
    images: bytes,
    is_new: bool,
) -> StateTransition:
    """Return the transition for the first snapshot of a generation, or of an object."""
    reconciled = before.reconciled if before else None
    flips = before.flips_since(at) if before else ()
    document = snapshot.decode()
    images = remember_images(images, document)
    past = Past(at - GRACE_SECONDS, None, reconciled, len(flips), images) if is_new else None
    view = evaluate(document, past, answers=snapshot.answers, at=at, with_table=False)
    generation, observed = snapshot.generation, _observed(view)
    is_observed = observed is not None and observed >= generation
    intent_changed = is_new and not is_observed and generation > 0
    after = TrackedState(
        kind=kind,
        namespace=snapshot.metadata.namespace or "",
        name=snapshot.metadata.name or "",
        version=version,
        digest=snapshot.digest,
        generation=generation,
        observed=observed,
        reconciled=generation if view.settled and generation else reconciled,
        intent_at=at,
        intent_seen=intent_changed,
        observed_at=at if is_observed else None,
        settled_at=at if view.settled else None,
        changed_at=at,
        ready=view.ready,
        settled=view.settled,
        health=view.health,
        has_been_ready=view.ready is True,
        flips=flips,
        owner=snapshot.read_owner_uid(),
    )
    blocked_by = "" if view.settled else find_blocking_text(view.reasons)
    return StateTransition(after, intent_changed, blocked_by=blocked_by, images=images)


def as_unobserved(after: TrackedState, before: TrackedState | None, at: float) -> TrackedState:
    """Return the state while no controller has acted on the new spec: readiness not known."""
    was_so = before is not None and before.ready is None and not before.settled
    return msgspec.structs.replace(
        after,
        ready=None,
        settled=False,
        health=Health.YELLOW if after.health is Health.GREEN else after.health,
        settled_at=None,
        reconciled=before.reconciled if before else None,
        has_been_ready=False,
        changed_at=before.changed_at if before and was_so else at,
    )


def _observed(view: StatusView) -> int | None:
    """Return the observed generation within int64, in which it is packed."""
    observed = view.observed_generation
    return None if observed is None else max(-_MAX_INT64, min(observed, _MAX_INT64))
