"""Exports terminating replicas as metrics: as controllers report them, and as counted from pods.

| on the servers (KEP-3973, version skew)           | kube_*                 | genguard_*_pods |
|---------------------------------------------------|------------------------|-----------------|
| kube-apiserver and controller manager have it on  | status                 | the same number |
| one is older than 1.33, or has its gate off       | no sample              | the truth       |
| switched off, or an older controller manager,     | what was stored last,  | the truth       |
| and status not written since                      | as kube-state-metrics  |                 |
| part of the ReplicaSets written since             | Deployment: no sample  | the truth       |

The kubelet's version changes neither: both sides read deletionTimestamp and phase of the same pods.
A number counted from pods is shown only once all pods and ReplicaSets have been seen. Ages are
those at the scrape; a pod whose deletionTimestamp is no time has none.
"""

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from prometheus_client.metrics_core import Metric

from genguard.status.terminating_pods import DEPLOYMENT, REPLICA_SET
from webhook.server.watching import Watching
from webhook.telemetry import declarations
from webhook.telemetry.declarations import Gauge

_CONTROLLERS: Final = frozenset(
    {"", "DaemonSet", "Job", "Node", "ReplicaSet", "ReplicationController", "StatefulSet"}
)
"""Who controls pods in Kubernetes itself; "" is nobody. Every other kind is "other"."""


class _Named(NamedTuple):
    """The metrics by name of a kind: as controllers report, and as counted from pods."""

    kind: str
    resource: str
    reported: tuple[Gauge, ...]
    counted: Gauge
    age: Gauge
    without_series: Gauge


_NAMED: Final = (
    _Named(
        REPLICA_SET,
        "replicasets.apps",
        (declarations.REPLICASET_TERMINATING_REPLICAS,),
        declarations.REPLICASET_TERMINATING_PODS,
        declarations.REPLICASET_TERMINATING_POD_AGE,
        declarations.REPLICASETS_WITHOUT_SERIES,
    ),
    _Named(
        DEPLOYMENT,
        "deployments.apps",
        (
            declarations.DEPLOYMENT_REPLICAS_TERMINATING,
            declarations.DEPLOYMENT_TERMINATING_REPLICAS,
        ),
        declarations.DEPLOYMENT_TERMINATING_PODS,
        declarations.DEPLOYMENT_TERMINATING_POD_AGE,
        declarations.DEPLOYMENTS_WITHOUT_SERIES,
    ),
)


class TerminatingMetrics:
    """A collector to register."""

    def __init__(
        self, watching: Watching, most_named: int, clock: Callable[[], float] = time.time
    ) -> None:
        """`most_named`: of each kind, so many objects have samples with their names; 0 is none."""
        self._watching: Final = watching
        self._most_named: Final = most_named
        self._clock: Final = clock

    def collect(self) -> Iterator[Metric]:
        """What is known: a family whose resources are not watched, or not seen yet, is empty."""
        yield self._watches()
        yield self._pods()
        yield from self._ages()
        yield self._agreement()
        if self._most_named:
            for named in _NAMED:
                yield from self._by_name(named)

    def _watches(self) -> Metric:
        family = declarations.WATCH_CURRENT.family()
        for resource, is_current in self._watching.states().items():
            family.add_metric((resource,), is_current)
        return family

    def _pods(self) -> Metric:
        family = declarations.TERMINATING_PODS.family()
        if self._watching.knows("pods"):
            counts = dict.fromkeys((*sorted(_CONTROLLERS), "other"), 0)
            for kind, count in self._watching.terminating.pods().items():
                counts[kind if kind in _CONTROLLERS else "other"] += count
            for kind, count in counts.items():
                family.add_metric((kind,), count)
        return family

    def _ages(self) -> Iterator[Metric]:
        age = declarations.TERMINATING_POD_AGE.family()
        overdue = declarations.TERMINATING_POD_OVERDUE.family()
        if self._watching.knows("pods"):
            now = self._clock()
            ages = dict.fromkeys((*sorted(_CONTROLLERS), "other"), 0.0)
            late = dict(ages)
            for kind, (deleted_at, due_at) in self._watching.terminating.oldest().items():
                label = kind if kind in _CONTROLLERS else "other"
                ages[label] = max(ages[label], now - deleted_at)
                late[label] = max(late[label], now - due_at)
            for label, seconds in ages.items():
                age.add_metric((label,), seconds)
                overdue.add_metric((label,), late[label])
        yield from (age, overdue)

    def _agreement(self) -> Metric:
        family = declarations.TERMINATING_REPLICAS_OBJECTS.family()
        for named in _NAMED:
            if self._watching.knows(named.resource, *_COUNTED_FROM):
                agreeing, disagreeing, silent = self._watching.terminating.agreement(named.kind)
                family.add_metric((named.kind, "agrees"), agreeing)
                family.add_metric((named.kind, "differs"), disagreeing)
                family.add_metric((named.kind, "absent"), silent)
        return family

    def _by_name(self, named: _Named) -> Iterator[Metric]:
        reported = [declared.family() for declared in named.reported]
        counted = named.counted.family()
        age = named.age.family()
        left_out = named.without_series.family()
        if self._watching.knows(named.resource):
            is_counted = self._watching.knows(*_COUNTED_FROM)
            terminating, now = self._watching.terminating, self._clock()
            shown = tuple(islice(terminating.counts(named.kind), self._most_named))
            for one in shown:
                where = (one.namespace, one.name)
                if one.reported is not None:
                    for family in reported:
                        family.add_metric(where, one.reported)
                if is_counted:
                    counted.add_metric(where, one.counted)
                    if one.oldest is not None:
                        age.add_metric(where, max(0.0, now - one.oldest))
            left_out.add_metric((), sum(terminating.agreement(named.kind)) - len(shown))
        yield from (*reported, counted, age, left_out)


_COUNTED_FROM: Final = ("pods", "replicasets.apps")
