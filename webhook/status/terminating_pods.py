"""Terminating pods counted as the ReplicaSet and Deployment controllers count them (KEP-3973).

A pod is terminating when its deletionTimestamp is set and its phase is not Failed or Succeeded
(kubernetes pkg/controller/controller_utils.go:IsPodTerminating). A ReplicaSet has those that its
uid controls and its selector matches (replica_set.go:syncReplicaSet, FilterClaimedPods): never
orphans, and not pods whose labels were changed, which nobody releases once they are terminating.
A Deployment has the sum over the ReplicaSets it controls (deployment_util.go:
GetTerminatingReplicaCountForReplicaSets), whatever its strategy: a ReplicaSet that is gone no
longer counts, though its pods may be on their way.

The counts are those of a moment when the controllers have caught up. They hold only where all pods
and ReplicaSets were seen; who has not seen them must not ask.
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


class Controller(NamedTuple):
    """Who controls an object: the ownerReference with controller true; all "" for nobody."""

    kind: str = ""
    uid: str = ""


class Count(NamedTuple):
    """One ReplicaSet or Deployment, as its status has it and as its pods say."""

    namespace: str
    name: str
    reported: int | None
    """status.terminatingReplicas; None where it is not there. Absent is not 0: a server or
    controller that is older than the field, or has its gate off, does not say."""
    counted: int


class Agreement(NamedTuple):
    """How many ReplicaSets or Deployments report as many terminating pods as are counted."""

    agreeing: int
    disagreeing: int
    silent: int
    """Those whose status does not say."""


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


class _PodStatus(msgspec.Struct, frozen=True):
    phase: str | None = None


class _Spec(msgspec.Struct, frozen=True):
    selector: msgspec.Raw


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    terminating_replicas: int | None = None


_metadata: Final = msgspec.json.Decoder(_Metadata)
_pod_status: Final = msgspec.json.Decoder(_PodStatus)
_spec: Final = msgspec.json.Decoder(_Spec)
_status: Final = msgspec.json.Decoder(_Status)


class _Pod(NamedTuple):
    controller: Controller
    labels: Mapping[str, str]


class _Owner(NamedTuple):
    namespace: str
    name: str
    controller: str
    reported: int | None
    selector: bytes
    """JSON: read again for the few that have terminating pods, which costs less than to keep it."""


class Terminating:
    """What was seen of pods, ReplicaSets and Deployments; told in any order of objects.

    Of each object the last sight counts. It keeps pods while they terminate, and of a ReplicaSet or
    Deployment less than 1 KiB.
    """

    def __init__(self) -> None:
        self._pods: Final[dict[str, _Pod]] = {}
        self._pods_of: Final[dict[str, set[str]]] = {}
        self._sets_of: Final[dict[str, set[str]]] = {}
        self._sets: Final[dict[str, _Owner]] = {}
        self._deployments: Final[dict[str, _Owner]] = {}
        self._owners: Final = {REPLICA_SET: self._sets, DEPLOYMENT: self._deployments}
        self._silent: Final[Counter[str]] = Counter()
        self._claiming: Final[set[str]] = set()

    def record_pod(self, seen: Fields) -> None:
        """Take in a pod. Raises, as the next two, KeyError or msgspec.MsgspecError."""
        metadata = _metadata.decode(seen["metadata"])
        phase = _pod_status.decode(seen["status"]).phase if "status" in seen else None
        self._forget_pod(metadata.uid)
        if metadata.deletion_timestamp is None or phase in _ENDED:
            return
        pod = _Pod(metadata.controller, metadata.labels or {})
        self._pods[metadata.uid] = pod
        self._pods_of.setdefault(pod.controller.uid, set()).add(metadata.uid)

    def record_replica_set(self, seen: Fields) -> None:
        """Take in a ReplicaSet."""
        self._see(REPLICA_SET, seen, bytes(_spec.decode(seen["spec"]).selector))

    def record_deployment(self, seen: Fields) -> None:
        """Take in a Deployment."""
        self._see(DEPLOYMENT, seen, b"")

    def forget(self, uid: str) -> None:
        """The object with this uid is gone; of any kind, seen or not."""
        self._forget_pod(uid)
        for kind, owners in self._owners.items():
            self._leave(kind, uid)
            owners.pop(uid, None)

    def counts(self, kind: str) -> Iterator[Count]:
        """Every ReplicaSet or every Deployment, in the order in which they were first seen."""
        for uid, owner in self._owners[kind].items():
            yield Count(owner.namespace, owner.name, owner.reported, self.counted(uid))

    def counted(self, uid: str) -> int:
        """The terminating pods of a Deployment, or of anything that controls pods itself."""
        if uid in self._deployments:
            return sum(map(self._claimed, self._sets_of.get(uid, ())))
        return self._claimed(uid)

    def notable(self, kind: str) -> Iterator[Count]:
        """As `counts`, without those that have no terminating pods and report 0 or nothing."""
        owners = self._owners[kind]
        parents = {self._sets[uid].controller for uid in self._pods_of if uid in self._sets}
        for uid in owners.keys() & {*self._claiming, *self._pods_of, *parents}:
            owner = owners[uid]
            yield Count(owner.namespace, owner.name, owner.reported, self.counted(uid))

    def pods(self) -> Counter[str]:
        """How many pods terminate, by the kind of their controller; "" for nobody's."""
        return Counter(pod.controller.kind for pod in self._pods.values())

    def agreement(self, kind: str) -> Agreement:
        """Of every ReplicaSet or every Deployment, without looking at each."""
        owners = self._owners[kind]
        disagreeing = sum(one.reported not in (None, one.counted) for one in self.notable(kind))
        silent = self._silent[kind]
        return Agreement(len(owners) - silent - disagreeing, disagreeing, silent)

    def _forget_pod(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is not None:
            _discard(self._pods_of, pod.controller.uid, uid)

    def _see(self, kind: str, seen: Fields, selector: bytes) -> None:
        metadata = _metadata.decode(seen["metadata"])
        status = _status.decode(seen["status"]) if "status" in seen else _Status()
        uid, reported, controller = metadata.uid, status.terminating_replicas, metadata.controller
        self._leave(kind, uid)
        self._owners[kind][uid] = _Owner(
            metadata.namespace, metadata.name, controller.uid, reported, selector
        )
        if kind == REPLICA_SET and controller.uid:
            self._sets_of.setdefault(controller.uid, set()).add(uid)
        self._silent[kind] += reported is None
        if reported:
            self._claiming.add(uid)

    def _leave(self, kind: str, uid: str) -> None:
        """Undo what the last sight of an owner added besides itself."""
        owner = self._owners[kind].get(uid)
        if owner is None:
            return
        self._silent[kind] -= owner.reported is None
        self._claiming.discard(uid)
        _discard(self._sets_of, owner.controller, uid)

    def _claimed(self, uid: str) -> int:
        pods, owner = self._pods_of.get(uid), self._sets.get(uid)
        if not pods or owner is None:
            return len(pods or ())
        selector = msgspec.json.decode(owner.selector)
        return sum(
            matches_labels(selector, self._pods[pod].labels, complete=True) is Truth.TRUE
            for pod in pods
        )


def _discard(sets: dict[str, set[str]], key: str, member: str) -> None:
    found = sets.get(key)
    if found is None:
        return
    found.discard(member)
    if not found:
        del sets[key]
