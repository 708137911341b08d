"""Counts terminating pods as the ReplicaSet and Deployment controllers do (KEP-3973).

A pod is terminating when its deletionTimestamp is set and its phase is not Failed or Succeeded
(kubernetes pkg/controller/controller_utils.go:IsPodTerminating). A ReplicaSet counts the pods that
it controls by uid and that its selector matches (replica_set.go:syncReplicaSet, FilterClaimedPods):
no orphans, and no pods whose labels were changed. A Deployment counts the sum over the ReplicaSets
that it controls (deployment_util.go:GetTerminatingReplicaCountForReplicaSets), for every strategy.
The pods of a deleted ReplicaSet no longer count, even while they terminate.

The counts are right once the controllers have processed every change, and only if all pods and
ReplicaSets have been recorded.

metadata.deletionTimestamp is the time of the DELETE plus metadata.deletionGracePeriodSeconds
(apiserver pkg/registry/rest/delete.go:BeforeDelete), so the age of a deletion is known from both:
see asked_at().
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeVar

import msgspec

from genguard.objects.fields import Fields
from genguard.objects.metadata import Owner, decode_metadata, parse_time
from genguard.objects.selectors import Truth, matches_labels

REPLICA_SET: Final = "ReplicaSet"
DEPLOYMENT: Final = "Deployment"
_ENDED: Final = frozenset({"Failed", "Succeeded"})
_MOST_FINALIZERS: Final = 8
MOST_NAMED: Final = 3
"""Finalizers that are named where an object waits for them."""
WAITS_FOR_OLD_PODS: Final = "TerminationComplete"
STARTS_AT_ONCE: Final = "TerminationStarted"
POLICIES: Final = frozenset({WAITS_FOR_OLD_PODS, STARTS_AT_ONCE})
"""The values of spec.podReplacementPolicy of a Deployment (KEP-5882)."""


class Count(NamedTuple):
    """The terminating pods of one ReplicaSet or Deployment: reported by its status, and counted."""

    namespace: str
    name: str
    reported: int | None
    """status.terminatingReplicas, or None. Absent is not 0: an older API server or controller, or
    one whose feature gate is off, does not report it."""
    counted: int
    oldest: float | None = None
    """When the deletion of the oldest counted pod was asked for, in Unix seconds; None without."""
    policy: str = ""
    """spec.podReplacementPolicy of a Deployment (KEP-5882), "" where it is not set."""


class Oldest(NamedTuple):
    """The earliest times of some terminating pods, in Unix seconds."""

    deleted_at: float
    """When the deletion was asked for."""
    due_at: float
    """When the grace period ends."""


class TerminatingPod(NamedTuple):
    """One terminating pod by name; times are RFC 3339, as the API has them, "" if unknown.

    controller  the kind of its controller, "" for none
    due         metadata.deletionTimestamp: when its grace period ends
    grace       seconds of that period
    finalizers  the first _MOST_FINALIZERS
    """

    namespace: str
    name: str
    uid: str
    controller: str
    created: str
    due: str
    grace: int
    node: str
    finalizers: tuple[str, ...]


class Agreement(NamedTuple):
    """How many ReplicaSets or Deployments report the number of terminating pods that is counted."""

    agreeing: int
    disagreeing: int
    silent: int
    """Those whose status does not report a number."""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    """Of a Pod or a Deployment."""

    node_name: str | None = None
    pod_replacement_policy: str | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    """Of a Pod, a ReplicaSet or a Deployment."""

    phase: str | None = None
    terminating_replicas: int | None = None


_T = TypeVar("_T")
_fields: Final = msgspec.json.Decoder(Fields)
_labels: Final = msgspec.json.Decoder(dict[str, str] | None)
_spec: Final = msgspec.json.Decoder(_Spec)
_status: Final = msgspec.json.Decoder(_Status)


class _Pod(NamedTuple):
    controller: Owner
    labels: Mapping[str, str]
    shown: TerminatingPod
    times: Oldest | None
    """None where deletionTimestamp is no time."""


class _Owner(NamedTuple):
    namespace: str
    name: str
    controller: str
    reported: int | None
    selector: bytes
    """JSON. Decoding it for the few owners with terminating pods costs less than keeping it."""
    policy: str


class Terminating:
    """The terminating pods of a cluster, and their owners. Objects may be recorded in any order.

    The last recorded state of each object counts. Pods are kept only while they terminate; a
    ReplicaSet or Deployment takes less than 1 KiB.
    """

    def __init__(self) -> None:
        self._pods: Final[dict[str, _Pod]] = {}
        self._owners: Final[dict[str, dict[str, _Owner]]] = {REPLICA_SET: {}, DEPLOYMENT: {}}

    def record_pod(self, fields: Fields) -> None:
        """Record the state of a pod; raises KeyError or msgspec.MsgspecError when malformed."""
        metadata, spec = decode_metadata(fields), _read(_spec, _Spec(), fields, "spec")
        phase = _read(_status, _Status(), fields, "status").phase
        if metadata.deletion_timestamp is None or phase in _ENDED:
            self._pods.pop(metadata.uid or "", None)
            return
        controller, labels = metadata.controller, metadata.labels
        shown = TerminatingPod(
            metadata.namespace or "",
            metadata.name or "",
            metadata.uid or "",
            controller.kind,
            metadata.creation_timestamp or "",
            metadata.deletion_timestamp,
            metadata.deletion_grace_period_seconds or 0,
            spec.node_name or "",
            (metadata.finalizers or ())[:_MOST_FINALIZERS],
        )
        due = parse_time(shown.due)
        asked = None if due is None else asked_at(due, shown.grace)
        times = Oldest(asked.timestamp(), due.timestamp()) if due and asked else None
        known = {} if isinstance(labels, msgspec.UnsetType) else _labels.decode(labels) or {}
        self._pods[shown.uid] = _Pod(controller, known, shown, times)

    def record_owner(self, kind: str, fields: Fields) -> None:
        """Record the state of a ReplicaSet or Deployment; raises as record_pod() does."""
        metadata, policy, selector = decode_metadata(fields), "", b""
        if kind == REPLICA_SET:
            selector = bytes(_fields.decode(fields["spec"])["selector"])
        else:
            policy = _read(_spec, _Spec(), fields, "spec").pod_replacement_policy or ""
        self._owners[kind][metadata.uid or ""] = _Owner(
            metadata.namespace or "",
            metadata.name or "",
            metadata.controller.uid,
            _read(_status, _Status(), fields, "status").terminating_replicas,
            selector,
            policy if policy in POLICIES else "",
        )

    def forget(self, uid: str) -> None:
        """Forget a deleted object of any kind, also one that was never recorded."""
        self._pods.pop(uid, None)
        for known in self._owners.values():
            known.pop(uid, None)

    def counts(self, kind: str, *, notable: bool = False) -> Iterator[Count]:
        """Yield every ReplicaSet or every Deployment, in the order in which they were recorded.

        notable  only those with a terminating pod, counted or reported
        """
        claimed = self._claimed()
        for uid, owner in self._owners[kind].items():
            pods = claimed.get(uid, ())
            if pods or owner.reported or not notable:
                since = (pod.times.deleted_at for pod in pods if pod.times is not None)
                oldest = min(since, default=None)
                said = owner.namespace, owner.name, owner.reported
                yield Count(*said, len(pods), oldest, owner.policy)

    def pods(self) -> Counter[str]:
        """Return the number of terminating pods by the kind of their controller ("" for none)."""
        return Counter(pod.controller.kind for pod in self._pods.values())

    def oldest(self) -> dict[str, Oldest]:
        """Return the earliest times of terminating pods by the kind of their controller."""
        found: dict[str, Oldest] = {}
        for pod in self._pods.values():
            if pod.times is not None:
                kind = pod.controller.kind
                found[kind] = Oldest(*map(min, found.get(kind, pod.times), pod.times))
        return found

    def terminating(self) -> Iterator[TerminatingPod]:
        """Yield every terminating pod by name."""
        for pod in self._pods.values():
            yield pod.shown

    def agreement(self, kind: str) -> Agreement:
        """Compare the reported and counted numbers of all ReplicaSets or all Deployments."""
        owners = self._owners[kind]
        notable = self.counts(kind, notable=True)
        disagreeing = sum(owner.reported not in (None, owner.counted) for owner in notable)
        silent = sum(owner.reported is None for owner in owners.values())
        return Agreement(len(owners) - silent - disagreeing, disagreeing, silent)

    def _claimed(self) -> dict[str, list[_Pod]]:
        """Return the pods that count for an owner, and for the Deployment above it, by uid."""
        found: dict[str, list[_Pod]] = {}
        for pod in self._pods.values():
            found.setdefault(pod.controller.uid, []).append(pod)
        for uid in found.keys() & self._owners[DEPLOYMENT].keys():
            del found[uid]  # only ReplicaSets own the pods of a Deployment
        for uid in found.keys() & self._owners[REPLICA_SET].keys():
            owner = self._owners[REPLICA_SET][uid]
            selector = msgspec.json.decode(owner.selector)
            found[uid] = [
                pod
                for pod in found[uid]
                if matches_labels(selector, pod.labels, complete=True) is Truth.TRUE
            ]
            found.setdefault(owner.controller, []).extend(found[uid])
        return found


def _read(decoder: msgspec.json.Decoder[_T], absent: _T, fields: Fields, key: str) -> _T:
    return decoder.decode(fields[key]) if key in fields else absent


def asked_at(due: datetime, grace: int) -> datetime | None:
    """Return when a deletion was asked for; None where that is no time.

    The API server adds the grace period as a time.Duration: nanoseconds in an int64, which
    overflows from 293 years on. With 9223372036854775807 s a pod is due a second before its DELETE.
    """
    nanoseconds = (grace * 10**9 + 2**63) % 2**64 - 2**63
    try:
        return due.astimezone(UTC) - timedelta(microseconds=nanoseconds // 1_000)
    except OverflowError:
        return None


def waits_for(node: str, finalizers: Sequence[str], *, is_over: bool) -> str:
    """Say what a terminating pod waits for; `is_over` is whether its grace period has ended.

    A kubelet writes the phase Failed or Succeeded when the containers have stopped (kubernetes
    pkg/kubelet/status/status_manager.go:canBeDeleted), and such a pod does not count any more: so
    as long as it counts, its node holds it. Without a node nobody runs it, and finalizers alone
    can hold it.
    """
    held = f"finalizers {', '.join(finalizers[:MOST_NAMED])}" if finalizers else ""
    if not node:
        return held or "the API server to remove it"
    what = "to confirm that its containers stopped" if is_over else "to stop its containers"
    return f"{node} {what}" + (f", then for {held}" if held else "")
