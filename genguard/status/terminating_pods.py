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
from typing import Final, NamedTuple

import msgspec

from genguard.objects.fields import Fields
from genguard.objects.metadata import parse_time
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


class Controller(NamedTuple):
    """The owner with `controller: true`; both fields are "" when there is none."""

    kind: str = ""
    uid: str = ""


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


class _Reference(msgspec.Struct, frozen=True):
    kind: str
    uid: str
    controller: bool | None = None


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    name: str
    namespace: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    owner_references: tuple[_Reference, ...] | None = None
    creation_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] | None = None

    @property
    def controller(self) -> Controller:
        for one in self.owner_references or ():
            if one.controller:
                return Controller(one.kind, one.uid)
        return Controller()


class _SetSpec(msgspec.Struct, frozen=True):
    selector: msgspec.Raw


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    """Of a Pod or a Deployment."""

    node_name: str | None = None
    pod_replacement_policy: str | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    """Of a Pod, a ReplicaSet or a Deployment."""

    phase: str | None = None
    terminating_replicas: int | None = None


_metadata: Final = msgspec.json.Decoder(_Metadata)
_set_spec: Final = msgspec.json.Decoder(_SetSpec)
_spec: Final = msgspec.json.Decoder(_Spec)
_status: Final = msgspec.json.Decoder(_Status)


class _Pod(NamedTuple):
    controller: Controller
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
        self._pods_of: Final[dict[str, set[str]]] = {}
        self._sets_of: Final[dict[str, set[str]]] = {}
        self._sets: Final[dict[str, _Owner]] = {}
        self._deployments: Final[dict[str, _Owner]] = {}
        self._owners: Final = {REPLICA_SET: self._sets, DEPLOYMENT: self._deployments}
        self._silent: Final[Counter[str]] = Counter()
        self._reporting: Final[set[str]] = set()

    def record_pod(self, fields: Fields) -> None:
        """Record the state of a pod; raises KeyError or msgspec.MsgspecError when malformed."""
        metadata = _metadata.decode(fields["metadata"])
        phase = _read_status(fields).phase
        self._forget_pod(metadata.uid)
        if metadata.deletion_timestamp is None or phase in _ENDED:
            return
        shown = _shown(metadata, fields)
        pod = _Pod(metadata.controller, metadata.labels or {}, shown, _times(shown))
        self._pods[metadata.uid] = pod
        self._pods_of.setdefault(pod.controller.uid, set()).add(metadata.uid)

    def record_replica_set(self, fields: Fields) -> None:
        """Record the state of a ReplicaSet; raises as record_pod() does."""
        self._record_owner(REPLICA_SET, fields, bytes(_set_spec.decode(fields["spec"]).selector))

    def record_deployment(self, fields: Fields) -> None:
        """Record the state of a Deployment; raises as record_pod() does."""
        policy = _read_spec(fields).pod_replacement_policy or ""
        self._record_owner(DEPLOYMENT, fields, b"", policy if policy in POLICIES else "")

    def forget(self, uid: str) -> None:
        """Forget a deleted object of any kind, also one that was never recorded."""
        self._forget_pod(uid)
        for kind, owners in self._owners.items():
            self._unindex(kind, uid)
            owners.pop(uid, None)

    def counts(self, kind: str) -> Iterator[Count]:
        """Yield every ReplicaSet or every Deployment, in the order in which they were recorded."""
        for uid, owner in self._owners[kind].items():
            yield self._count(uid, owner)

    def notable(self, kind: str) -> Iterator[Count]:
        """Yield as counts() does, but only owners with a terminating pod, counted or reported."""
        owners = self._owners[kind]
        parents = {self._sets[uid].controller for uid in self._pods_of if uid in self._sets}
        for uid in owners.keys() & {*self._reporting, *self._pods_of, *parents}:
            yield self._count(uid, owners[uid])

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
        disagreeing = sum(one.reported not in (None, one.counted) for one in self.notable(kind))
        silent = self._silent[kind]
        return Agreement(len(owners) - silent - disagreeing, disagreeing, silent)

    def _forget_pod(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is not None:
            _discard(self._pods_of, pod.controller.uid, uid)

    def _record_owner(self, kind: str, fields: Fields, selector: bytes, policy: str = "") -> None:
        metadata = _metadata.decode(fields["metadata"])
        reported = _read_status(fields).terminating_replicas
        uid, controller = metadata.uid, metadata.controller
        self._unindex(kind, uid)
        self._owners[kind][uid] = _Owner(
            metadata.namespace, metadata.name, controller.uid, reported, selector, policy
        )
        if kind == REPLICA_SET and controller.uid:
            self._sets_of.setdefault(controller.uid, set()).add(uid)
        self._silent[kind] += reported is None
        if reported:
            self._reporting.add(uid)

    def _unindex(self, kind: str, uid: str) -> None:
        """Remove an owner's last recorded state from the indexes."""
        owner = self._owners[kind].get(uid)
        if owner is None:
            return
        self._silent[kind] -= owner.reported is None
        self._reporting.discard(uid)
        _discard(self._sets_of, owner.controller, uid)

    def _count(self, uid: str, owner: _Owner) -> Count:
        pods = list(self._claimed(uid))
        since = (pod.times.deleted_at for pod in pods if pod.times is not None)
        oldest = min(since, default=None)
        return Count(owner.namespace, owner.name, owner.reported, len(pods), oldest, owner.policy)

    def _claimed(self, uid: str) -> Iterator[_Pod]:
        """Yield the terminating pods that count for a Deployment, or for an owner of pods."""
        if uid in self._deployments:
            for one in self._sets_of.get(uid, ()):
                yield from self._claimed_directly(one)
        else:
            yield from self._claimed_directly(uid)

    def _claimed_directly(self, uid: str) -> Iterator[_Pod]:
        pods, owner = self._pods_of.get(uid), self._sets.get(uid)
        if not pods:
            return
        selector = None if owner is None else msgspec.json.decode(owner.selector)
        for one in pods:
            pod = self._pods[one]
            if (
                selector is None
                or matches_labels(selector, pod.labels, complete=True) is Truth.TRUE
            ):
                yield pod


def _read_spec(fields: Fields) -> _Spec:
    return _spec.decode(fields["spec"]) if "spec" in fields else _Spec()


def _read_status(fields: Fields) -> _Status:
    return _status.decode(fields["status"]) if "status" in fields else _Status()


def _shown(metadata: _Metadata, fields: Fields) -> TerminatingPod:
    return TerminatingPod(
        metadata.namespace,
        metadata.name,
        metadata.uid,
        metadata.controller.kind,
        metadata.creation_timestamp or "",
        metadata.deletion_timestamp or "",
        metadata.deletion_grace_period_seconds or 0,
        _read_spec(fields).node_name or "",
        (metadata.finalizers or ())[:_MOST_FINALIZERS],
    )


def _times(pod: TerminatingPod) -> Oldest | None:
    due = parse_time(pod.due)
    asked = None if due is None else asked_at(due, pod.grace)
    return None if due is None or asked is None else Oldest(asked.timestamp(), due.timestamp())


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


def _discard(sets: dict[str, set[str]], key: str, member: str) -> None:
    found = sets.get(key)
    if found is None:
        return
    found.discard(member)
    if not found:
        del sets[key]
