"""Counts terminating pods as the ReplicaSet and Deployment controllers do (KEP-3973).

A pod is terminating when its deletionTimestamp is set and its phase is not Failed or Succeeded
(kubernetes pkg/controller/controller_utils.go:IsPodTerminating). A ReplicaSet counts the pods that
it controls by uid and that its selector matches (replica_set.go:syncReplicaSet, FilterClaimedPods):
no orphans, and no pods whose labels were changed. A Deployment counts the sum over the ReplicaSets
that it controls (deployment_util.go:GetTerminatingReplicaCountForReplicaSets), for every strategy.
The pods of a deleted ReplicaSet no longer count, even while they terminate.

The counts are right once the controllers have processed every change, and only if all pods and
ReplicaSets have been recorded.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from webhook.objects.fields import Fields
from webhook.objects.selectors import Truth, matches_labels

REPLICA_SET: Final = "ReplicaSet"
DEPLOYMENT: Final = "Deployment"
_ENDED: Final = frozenset({"Failed", "Succeeded"})
_MOST_FINALIZERS: Final = 8


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

    @property
    def controller(self) -> Controller:
        for one in self.owner_references or ():
            if one.controller:
                return Controller(one.kind, one.uid)
        return Controller()


class _PodMetadata(_Metadata, frozen=True, rename="camel"):
    creation_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] | None = None


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str | None = None


class _PodStatus(msgspec.Struct, frozen=True):
    phase: str | None = None


class _Spec(msgspec.Struct, frozen=True):
    selector: msgspec.Raw


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    terminating_replicas: int | None = None


_metadata: Final = msgspec.json.Decoder(_Metadata)
_pod_metadata: Final = msgspec.json.Decoder(_PodMetadata)
_pod_spec: Final = msgspec.json.Decoder(_PodSpec)
_pod_status: Final = msgspec.json.Decoder(_PodStatus)
_spec: Final = msgspec.json.Decoder(_Spec)
_status: Final = msgspec.json.Decoder(_Status)


class _Pod(NamedTuple):
    controller: Controller
    labels: Mapping[str, str]
    shown: TerminatingPod


class _Owner(NamedTuple):
    namespace: str
    name: str
    controller: str
    reported: int | None
    selector: bytes
    """JSON. Decoding it for the few owners with terminating pods costs less than keeping it."""


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
        metadata = _pod_metadata.decode(fields["metadata"])
        phase = _pod_status.decode(fields["status"]).phase if "status" in fields else None
        self._forget_pod(metadata.uid)
        if metadata.deletion_timestamp is None or phase in _ENDED:
            return
        pod = _Pod(metadata.controller, metadata.labels or {}, _shown(metadata, fields))
        self._pods[metadata.uid] = pod
        self._pods_of.setdefault(pod.controller.uid, set()).add(metadata.uid)

    def record_replica_set(self, fields: Fields) -> None:
        """Record the state of a ReplicaSet; raises as record_pod() does."""
        self._record_owner(REPLICA_SET, fields, bytes(_spec.decode(fields["spec"]).selector))

    def record_deployment(self, fields: Fields) -> None:
        """Record the state of a Deployment; raises as record_pod() does."""
        self._record_owner(DEPLOYMENT, fields, b"")

    def forget(self, uid: str) -> None:
        """Forget a deleted object of any kind, also one that was never recorded."""
        self._forget_pod(uid)
        for kind, owners in self._owners.items():
            self._unindex(kind, uid)
            owners.pop(uid, None)

    def counts(self, kind: str) -> Iterator[Count]:
        """Yield every ReplicaSet or every Deployment, in the order in which they were recorded."""
        for uid, owner in self._owners[kind].items():
            yield Count(owner.namespace, owner.name, owner.reported, self.counted(uid))

    def counted(self, uid: str) -> int:
        """Return the number of terminating pods of a Deployment, or of a direct owner of pods."""
        if uid in self._deployments:
            return sum(map(self._count_claimed, self._sets_of.get(uid, ())))
        return self._count_claimed(uid)

    def notable(self, kind: str) -> Iterator[Count]:
        """Yield as counts() does, but only owners with a terminating pod, counted or reported."""
        owners = self._owners[kind]
        parents = {self._sets[uid].controller for uid in self._pods_of if uid in self._sets}
        for uid in owners.keys() & {*self._reporting, *self._pods_of, *parents}:
            owner = owners[uid]
            yield Count(owner.namespace, owner.name, owner.reported, self.counted(uid))

    def pods(self) -> Counter[str]:
        """Return the number of terminating pods by the kind of their controller ("" for none)."""
        return Counter(pod.controller.kind for pod in self._pods.values())

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

    def _record_owner(self, kind: str, fields: Fields, selector: bytes) -> None:
        metadata = _metadata.decode(fields["metadata"])
        status = _status.decode(fields["status"]) if "status" in fields else _Status()
        uid, reported, controller = metadata.uid, status.terminating_replicas, metadata.controller
        self._unindex(kind, uid)
        self._owners[kind][uid] = _Owner(
            metadata.namespace, metadata.name, controller.uid, reported, selector
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

    def _count_claimed(self, uid: str) -> int:
        pods, owner = self._pods_of.get(uid), self._sets.get(uid)
        if not pods or owner is None:
            return len(pods or ())
        selector = msgspec.json.decode(owner.selector)
        return sum(
            matches_labels(selector, self._pods[pod].labels, complete=True) is Truth.TRUE
            for pod in pods
        )


def _shown(metadata: _PodMetadata, fields: Fields) -> TerminatingPod:
    spec = _pod_spec.decode(fields["spec"]) if "spec" in fields else _PodSpec()
    return TerminatingPod(
        metadata.namespace,
        metadata.name,
        metadata.uid,
        metadata.controller.kind,
        metadata.creation_timestamp or "",
        metadata.deletion_timestamp or "",
        metadata.deletion_grace_period_seconds or 0,
        spec.node_name or "",
        (metadata.finalizers or ())[:_MOST_FINALIZERS],
    )


def _discard(sets: dict[str, set[str]], key: str, member: str) -> None:
    found = sets.get(key)
    if found is None:
        return
    found.discard(member)
    if not found:
        del sets[key]
