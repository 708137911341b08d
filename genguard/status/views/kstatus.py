"""The answer of kstatus for an object: sigs.k8s.io/cli-utils pkg/kstatus/status, Compute (v0.37.2).

Flux, kpt and other tools use kstatus. An error of kstatus becomes Unknown. The order matters:
deletion; generation; the conditions Reconciling and Stalled; the rule of the kind, found by group
and kind in any version; the condition Ready. An object with none of these is Current.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from genguard.objects.fields import ABSENT
from genguard.status.views import go_values as go


class Kstatus(StrEnum):
    """The answers of kstatus; NotFound is for objects that could not be read at all."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    UNKNOWN = "Unknown"
    NOT_FOUND = "NotFound"


class KstatusInput(NamedTuple):
    """What the rule of a kind reads."""

    document: go.Document
    conditions: list[go.Typed]
    """`status.conditions`; each of their fields may be absent."""
    at: float
    """Now, in Unix seconds."""

    @property
    def wanted(self) -> int:
        """`spec.replicas`, which is 1 by default."""
        return go.number(self.document, "spec", "replicas", default=1)

    def count(self, name: str) -> int:
        """Return a number of `status`."""
        return go.number(self.document, "status", name)

    def has(self, kind: str, status: str) -> bool:
        """Whether any condition of that type has that status."""
        return any(c.get("type") == kind and c.get("status") == status for c in self.conditions)


def _current_if(done: bool) -> Kstatus:  # noqa: FBT001 - it is the question
    """Return Current when done, else InProgress: the result of most rules."""
    return Kstatus.CURRENT if done else Kstatus.IN_PROGRESS


_NO_DEADLINE: Final = 2**31 - 1


def _deployment(it: KstatusInput) -> Kstatus:
    """Failed past its deadline; Current requires Available and, with a deadline, Progressing."""
    progressing = [c for c in it.conditions if c.get("type") == "Progressing"]
    if any(c.get("reason") == "ProgressDeadlineExceeded" for c in progressing):
        return Kstatus.FAILED
    deadline = go.number(it.document, "spec", "progressDeadlineSeconds", default=_NO_DEADLINE)
    finished = deadline == _NO_DEADLINE or any(
        c.get("status") == "True" and c.get("reason") == "NewReplicaSetAvailable"
        for c in progressing
    )
    return _current_if(
        it.count("replicas") == it.wanted <= it.count("readyReplicas")
        and it.wanted <= it.count("updatedReplicas") <= it.count("availableReplicas")
        and finished
        and it.has("Available", "True")
    )


def _replica_set(it: KstatusInput) -> Kstatus:
    """InProgress while a replica cannot be created, whatever the counters are."""
    if it.has("ReplicaFailure", "True"):
        return Kstatus.IN_PROGRESS
    counts = map(it.count, ("fullyLabeledReplicas", "availableReplicas", "readyReplicas"))
    return _current_if(it.count("replicas") <= it.wanted <= min(counts))


def _stateful_set(it: KstatusInput) -> Kstatus:
    """Always Current with OnDelete; with a partition the revisions are not compared."""
    if go.text(it.document, "spec", "updateStrategy", "type") == "OnDelete":
        return Kstatus.CURRENT
    if it.count("replicas") != it.wanted or it.count("readyReplicas") < it.wanted:
        return Kstatus.IN_PROGRESS
    strategy = ("spec", "updateStrategy", "rollingUpdate", "partition")
    partition = go.number(it.document, *strategy, default=-1)
    if partition != -1:
        return _current_if(it.count("updatedReplicas") >= go.wrap(it.wanted - partition, 64))
    revisions = {
        go.text(it.document, "status", key) for key in ("currentRevision", "updateRevision")
    }
    return _current_if(it.count("currentReplicas") >= it.wanted and len(revisions) == 1)


def _daemon_set(it: KstatusInput) -> Kstatus:
    """InProgress until its controller has written observedGeneration."""
    for field in (("metadata", "generation"), ("status", "observedGeneration")):
        if go.nested_integer(it.document, *field) is ABSENT:
            return Kstatus.IN_PROGRESS
    desired = go.number(it.document, "status", "desiredNumberScheduled", default=-1)
    counts = ("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady")
    return _current_if(desired != -1 and all(desired <= it.count(count) for count in counts))


SCHEDULE_WINDOW: Final = 15.0
"""Seconds after which an unschedulable Pod counts as Failed."""


def _pod(it: KstatusInput) -> Kstatus:
    """Current when ready or ended in any way; raises TypeMismatchError for an unknown phase."""
    phase = go.text(it.document, "status", "phase")
    if phase in ("Succeeded", "Failed"):
        return Kstatus.CURRENT
    if phase == "Running":
        if it.has("Ready", "True"):
            return Kstatus.CURRENT
        return Kstatus.FAILED if _crash_looping(it.document) else Kstatus.IN_PROGRESS
    if phase == "Pending":
        return _pending(it)
    if phase == "":
        return Kstatus.IN_PROGRESS
    raise go.TypeMismatchError("status.phase")


def _pending(it: KstatusInput) -> Kstatus:
    unscheduled = (
        c for c in it.conditions if c.get("type") == "PodScheduled" and c.get("status") == "False"
    )
    if next(unscheduled, {}).get("reason") != "Unschedulable":
        return Kstatus.IN_PROGRESS
    created = go.unix_seconds(go.text(it.document, "metadata", "creationTimestamp"))
    young = it.at - SCHEDULE_WINDOW < (go.ZERO_TIME if created is None else created)
    return Kstatus.IN_PROGRESS if young else Kstatus.FAILED


_CONTAINERS: Final[go.Types] = {
    "object": {"status": "status"},
    "status": {"containerStatuses": "[]container"},
    "container": {"state": "state"},
    "state": {"waiting": "waiting"},
    "waiting": {"reason": "string"},
}


def _crash_looping(document: go.Document) -> bool:
    """Whether a container waits in CrashLoopBackOff; raises TypeMismatchError."""
    status = go.convert(document, "object", _CONTAINERS).get("status", {})
    states = (container.get("state", {}) for container in status.get("containerStatuses", []))
    return any(state.get("waiting", {}).get("reason") == "CrashLoopBackOff" for state in states)


_CONDITIONS: Final[go.Types] = {
    "object": {"status": "status"},
    "status": {"conditions": "[]condition"},
    "condition": {"type": "string", "status": "string", "reason": "string", "message": "string"},
}


def kstatus(document: go.Document, at: float) -> Kstatus:
    """Return the answer of kstatus for a decoded object; `at` is now, in Unix seconds."""
    try:
        return compute(document, at)
    except go.TypeMismatchError:
        return Kstatus.UNKNOWN


def compute(document: go.Document, at: float) -> Kstatus:
    """Return the answer as kstatus() does; raises TypeMismatchError where Compute has an error."""
    if go.nested_string(document, "metadata", "deletionTimestamp") not in (ABSENT, ""):
        return Kstatus.TERMINATING
    generation = go.nested_integer(document, "metadata", "generation")
    if generation is not ABSENT:
        observed = go.nested_integer(document, "status", "observedGeneration")
        if observed not in (ABSENT, generation):
            return Kstatus.IN_PROGRESS
    conditions = go.convert(document, "object", _CONDITIONS).get("status", {}).get("conditions", [])
    for condition in conditions:
        answer = _STANDARD.get(condition.get("type", ""))
        if answer is not None and condition.get("status") == "True":
            return answer
    group, _, kind = go.kind_of(document)
    rule = RULES.get(f"{group}/{kind}" if group else kind, _ready_condition)
    return rule(KstatusInput(document, conditions, at))


_STANDARD: Final = {"Reconciling": Kstatus.IN_PROGRESS, "Stalled": Kstatus.FAILED}


def _ready_condition(it: KstatusInput) -> Kstatus:
    for condition in it.conditions:
        if condition.get("type") == "Ready" and condition.get("status") in _READY:
            return _current_if(condition.get("status") == "True")
    return Kstatus.CURRENT


_READY: Final = frozenset({"True", "False", "Unknown"})


def _always(_it: KstatusInput) -> Kstatus:
    return Kstatus.CURRENT


def _claim(it: KstatusInput) -> Kstatus:
    return _current_if(go.text(it.document, "status", "phase") == "Bound")


def _service(it: KstatusInput) -> Kstatus:
    balanced = go.text(it.document, "spec", "type", default="ClusterIP") == "LoadBalancer"
    return _current_if(not balanced or bool(go.text(it.document, "spec", "clusterIP")))


def _job(it: KstatusInput) -> Kstatus:
    ends = {"Complete": Kstatus.CURRENT, "Failed": Kstatus.FAILED}
    for condition in it.conditions:
        if condition.get("status") == "True" and condition.get("type") in ends:
            return ends[condition["type"]]
    return _current_if(bool(go.text(it.document, "status", "startTime")))


def _definition(it: KstatusInput) -> Kstatus:
    for condition in it.conditions:
        kind, refused = condition.get("type"), condition.get("status") == "False"
        if kind == "NamesAccepted" and refused:
            return Kstatus.FAILED
        if kind == "Established" and refused and condition.get("reason") != "Installing":
            return Kstatus.FAILED
        if kind == "Established" and condition.get("status") == "True":
            return Kstatus.CURRENT
    return Kstatus.IN_PROGRESS


RULES: Final[dict[str, Callable[[KstatusInput], Kstatus]]] = {
    "Service": _service,
    "Pod": _pod,
    "Secret": _always,
    "PersistentVolumeClaim": _claim,
    "apps/StatefulSet": _stateful_set,
    "apps/DaemonSet": _daemon_set,
    "apps/Deployment": _deployment,
    "apps/ReplicaSet": _replica_set,
    "policy/PodDisruptionBudget": _always,
    "batch/CronJob": _always,
    "ConfigMap": _always,
    "batch/Job": _job,
    "apiextensions.k8s.io/CustomResourceDefinition": _definition,
}
"""By group and kind; the core group has no prefix. For other kinds the condition Ready counts."""
