"""What kstatus says of an object: sigs.k8s.io/cli-utils pkg/kstatus/status, Compute (v0.37.2).

Flux, kpt and `kubectl wait`-like tools build on it. An error of kstatus is Unknown. Order matters:
deletion, generation, the conditions Reconciling and Stalled, then the rule of the kind (matched by
group and kind, whatever the version), then Ready, and what has nothing of all that is Current.
"""

from collections.abc import Callable
from typing import Final

from webhook.objects.fields import ABSENT
from webhook.status.views.kstatus.pod import pod
from webhook.status.views.kstatus.verdict import Kstatus, Seen, current_if
from webhook.status.views.kstatus.workloads import (
    daemon_set,
    deployment,
    replica_set,
    stateful_set,
)
from webhook.status.views.reading import (
    Document,
    TypeMismatchError,
    kind_of,
    nested_integer,
    nested_string,
    text,
)
from webhook.status.views.typed import Types, convert

_CONDITIONS: Final[Types] = {
    "object": {"status": "status"},
    "status": {"conditions": "[]condition"},
    "condition": {"type": "string", "status": "string", "reason": "string", "message": "string"},
}


def kstatus(document: Document, at: float) -> Kstatus:
    """The word of kstatus for a decoded object at a time in Unix seconds; never raises."""
    try:
        return compute(document, at)
    except TypeMismatchError:
        return Kstatus.UNKNOWN


def compute(document: Document, at: float) -> Kstatus:
    """As kstatus(), but raises TypeMismatchError where Compute returns an error."""
    if nested_string(document, "metadata", "deletionTimestamp") not in (ABSENT, ""):
        return Kstatus.TERMINATING
    generation = nested_integer(document, "metadata", "generation")
    if generation is not ABSENT:
        observed = nested_integer(document, "status", "observedGeneration")
        if observed not in (ABSENT, generation):
            return Kstatus.IN_PROGRESS
    conditions = convert(document, "object", _CONDITIONS).get("status", {}).get("conditions", [])
    for condition in conditions:
        word = _STANDARD.get(condition.get("type", ""))
        if word is not None and condition.get("status") == "True":
            return word
    rule = RULES.get(kind_of(document).name, _ready_condition)
    return rule(Seen(document, conditions, at))


_STANDARD: Final = {"Reconciling": Kstatus.IN_PROGRESS, "Stalled": Kstatus.FAILED}


def _ready_condition(it: Seen) -> Kstatus:
    for condition in it.conditions:
        if condition.get("type") == "Ready" and condition.get("status") in _READY:
            return current_if(condition.get("status") == "True")
    return Kstatus.CURRENT


_READY: Final = frozenset({"True", "False", "Unknown"})


def _always(_it: Seen) -> Kstatus:
    return Kstatus.CURRENT


def _claim(it: Seen) -> Kstatus:
    return current_if(text(it.document, "status", "phase") == "Bound")


def _service(it: Seen) -> Kstatus:
    balanced = text(it.document, "spec", "type", default="ClusterIP") == "LoadBalancer"
    return current_if(not balanced or bool(text(it.document, "spec", "clusterIP")))


def _job(it: Seen) -> Kstatus:
    ends = {"Complete": Kstatus.CURRENT, "Failed": Kstatus.FAILED}
    for condition in it.conditions:
        if condition.get("status") == "True" and condition.get("type") in ends:
            return ends[condition["type"]]
    return current_if(bool(text(it.document, "status", "startTime")))


def _definition(it: Seen) -> Kstatus:
    for condition in it.conditions:
        kind, refused = condition.get("type"), condition.get("status") == "False"
        if kind == "NamesAccepted" and refused:
            return Kstatus.FAILED
        if kind == "Established" and refused and condition.get("reason") != "Installing":
            return Kstatus.FAILED
        if kind == "Established" and condition.get("status") == "True":
            return Kstatus.CURRENT
    return Kstatus.IN_PROGRESS


RULES: Final[dict[str, Callable[[Seen], Kstatus]]] = {
    "Service": _service,
    "Pod": pod,
    "Secret": _always,
    "PersistentVolumeClaim": _claim,
    "apps/StatefulSet": stateful_set,
    "apps/DaemonSet": daemon_set,
    "extensions/DaemonSet": daemon_set,
    "apps/Deployment": deployment,
    "extensions/Deployment": deployment,
    "apps/ReplicaSet": replica_set,
    "extensions/ReplicaSet": replica_set,
    "policy/PodDisruptionBudget": _always,
    "batch/CronJob": _always,
    "ConfigMap": _always,
    "batch/Job": _job,
    "apiextensions.k8s.io/CustomResourceDefinition": _definition,
}
"""By group and kind; the core group goes unnamed. Other kinds go by the condition Ready."""
