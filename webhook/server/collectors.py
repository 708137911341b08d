"""Collectors of prometheus_client: what is counted from findings and objects at a scrape.

Objects, actors and users are no labels. Families are made from what the parts of the server keep:
metrics of prometheus_client itself would keep every number twice, and a time beside each counter.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Final, NamedTuple

from prometheus_client.metrics_core import Metric

from genguard.admission.review import Phase
from genguard.detection.detectors import ALL
from genguard.detection.finding import Severity
from genguard.status.counts import (
    OTHER,
    DurationHistogram,
    Key,
    KindCounts,
    SetCounts,
    Summaries,
)
from genguard.status.terminating_pods import DEPLOYMENT, REPLICA_SET
from genguard.status.tracking import Tracking
from genguard.status.view import Health
from webhook.server.detecting import Detecting
from webhook.server.watching import Watching
from webhook.telemetry import declarations
from webhook.telemetry.declarations import Distribution, Gauge


class FindingMetrics:
    """The metrics of findings, writes and remembered objects."""

    def __init__(self, detecting: Detecting) -> None:
        self._detecting: Final = detecting

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; with a zero for detectors without findings, since alerts need it."""
        detecting, detection = self._detecting, self._detecting.detection
        open_now = Counter(
            (finding.detector, finding.severity)
            for finding in detecting.findings()
            if finding.state != "resolved" and not finding.part_of
        )
        yield declarations.FINDINGS_OPEN.family(
            ((detector.name, severity.value), open_now[detector.name, severity])
            for detector in ALL
            for severity in Severity
        )
        yield declarations.DETECTION_DROPPED.of(detecting.dropped + detection.dropped)
        yield declarations.SINK_REPLACED.family(
            ((sink.name,), sink.replaced) for sink in detecting.sinks
        )
        seen = detection.completeness
        yield declarations.WRITES.of(seen.joined)
        yield declarations.INCOMPLETE_WRITES.family(
            ((phase.value,), seen.missing.get(phase, 0)) for phase in Phase
        )
        yield declarations.DETECTION_OBJECTS.of(len(detection.history))


class TrackedMetrics:
    """The metrics of tracked objects: by group and kind, and by namespace only if asked for."""

    def __init__(self, tracking: Tracking, known: Callable[[str, str], bool]) -> None:
        """`known(group, resource)` says whether a kind may be a label of its own."""
        self._tracking: Final = tracking
        self._known: Final = known

    def collect(self) -> Iterator[Metric]:
        """Every family; of every kind that was seen also the zeros, which alerts need."""
        by_kind: defaultdict[tuple[str, str], list[KindCounts]] = defaultdict(list)
        for kind, counts in self._tracking.counts_by_kind:
            known = self._known(kind.group, kind.resource)
            by_kind[(kind.group, kind.kind) if known else (OTHER.group, OTHER.kind)].append(counts)
        kinds, now = by_kind.items(), time.time()
        yield declarations.OBJECTS.family(
            ((*labels, health.value), sum(one.healths[health] for one in several))
            for labels, several in kinds
            for health in Health
        )
        yield declarations.GENERATION_LAG_OBJECTS.family(
            (labels, sum(len(one.behind_since) for one in several)) for labels, several in kinds
        )
        yield declarations.GENERATION_LAG_OLDEST.family(
            (labels, _oldest_gap(several, now)) for labels, several in kinds
        )
        yield declarations.READY_FLIPS.family(
            (labels, sum(one.flips for one in several)) for labels, several in kinds
        )
        yield declarations.OBSERVATION_LAG.family(
            (labels, _joined([one.observation for one in several])) for labels, several in kinds
        )
        yield declarations.RECONCILE_DURATION.family(
            (labels, _joined([one.reconcile for one in several])) for labels, several in kinds
        )
        if self._tracking.summaries is not None:
            yield from _summaries(self._tracking.summaries)


def _oldest_gap(several: Iterable[KindCounts], now: float) -> float:
    """Seconds since the first object of a kind fell behind, 0.0 where none is."""
    gaps = (one.oldest_gap for one in several if one.has_status_subresource)
    since = min((gap for gap in gaps if gap is not None), default=now)
    return max(0.0, now - since)


def _joined(several: list[DurationHistogram]) -> Distribution:
    counts = [sum(each) for each in zip(*(one.counts for one in several), strict=True)]
    return Distribution(several[0].bounds, counts, sum(one.sum for one in several))


def _summaries(summaries: Summaries) -> Iterator[Metric]:
    """The metrics of `serve --summary-metrics`; a set without objects has no sample."""
    yield from _of_sets(
        tuple(summaries.namespaces()),
        declarations.NAMESPACE_OBJECTS,
        declarations.NAMESPACE_UNREADY,
        declarations.NAMESPACE_UNSETTLED,
    )
    yield from _of_sets(
        tuple(summaries.applications()),
        declarations.APPLICATION_OBJECTS,
        declarations.APPLICATION_UNREADY,
        declarations.APPLICATION_UNSETTLED,
    )
    yield declarations.SUMMARIES_WITHOUT_SERIES.family(
        ((by,), count)
        for by, count in zip(("namespace", "application"), summaries.without_series(), strict=True)
    )


def _of_sets(
    sets: tuple[tuple[Key, SetCounts], ...], objects: Gauge, unready: Gauge, unsettled: Gauge
) -> Iterator[Metric]:
    yield objects.family(
        ((*key, health.value), counts.healths[health]) for key, counts in sets for health in Health
    )
    yield unready.family((key, counts.unready) for key, counts in sets)
    yield unsettled.family((key, counts.unsettled) for key, counts in sets)


_CONTROLLERS: Final = frozenset(
    {"", "DaemonSet", "Job", "Node", "ReplicaSet", "ReplicationController", "StatefulSet"}
)
"""Who controls pods in Kubernetes itself; "" is nobody. Every other kind is "other"."""


class _Named(NamedTuple):
    """The metrics by name of a kind: as controllers report, and as counted from pods."""

    kind: str
    resource: str
    reported: Gauge
    counted: Gauge
    age: Gauge
    without_series: Gauge


_NAMED: Final = (
    _Named(
        REPLICA_SET,
        "replicasets.apps",
        declarations.REPLICASET_TERMINATING_REPLICAS,
        declarations.REPLICASET_TERMINATING_PODS,
        declarations.REPLICASET_TERMINATING_POD_AGE,
        declarations.REPLICASETS_WITHOUT_SERIES,
    ),
    _Named(
        DEPLOYMENT,
        "deployments.apps",
        declarations.DEPLOYMENT_REPLICAS_TERMINATING,
        declarations.DEPLOYMENT_TERMINATING_PODS,
        declarations.DEPLOYMENT_TERMINATING_POD_AGE,
        declarations.DEPLOYMENTS_WITHOUT_SERIES,
    ),
)


class TerminatingMetrics:
    """Terminating replicas, as controllers report them and as counted from pods.

    | on the servers (KEP-3973, version skew)           | kube_*                 | genguard_*_pods |
    |---------------------------------------------------|------------------------|-----------------|
    | kube-apiserver and controller manager have it on  | status                 | the same number |
    | one is older than 1.33, or has its gate off       | no sample              | the truth       |
    | switched off, or an older controller manager,     | what was stored last,  | the truth       |
    | and status not written since                      | as kube-state-metrics  |                 |
    | part of the ReplicaSets written since             | Deployment: no sample  | the truth       |

    The kubelet's version changes neither: both sides read deletionTimestamp and phase of the same
    pods. A number counted from pods is shown only once all pods and ReplicaSets have been seen.
    Ages are those at the scrape; a pod whose deletionTimestamp is no time has none.
    """

    def __init__(
        self, watching: Watching, most_named: int, clock: Callable[[], float] = time.time
    ) -> None:
        """`most_named`: of each kind, so many objects have samples with their names; 0 is none."""
        self._watching: Final = watching
        self._most_named: Final = most_named
        self._clock: Final = clock

    def collect(self) -> Iterator[Metric]:
        """What is known: a family whose resources are not watched, or not seen yet, is empty."""
        states = self._watching.states().items()
        yield declarations.WATCH_CURRENT.family(((name,), current) for name, current in states)
        yield from self._pods()
        yield declarations.TERMINATING_REPLICAS_OBJECTS.family(
            ((named.kind, state), count)
            for named in _NAMED
            if self._watching.knows(named.resource, *_COUNTED_FROM)
            for state, count in zip(
                ("agrees", "differs", "absent"),
                self._watching.terminating.agreement(named.kind),
                strict=True,
            )
        )
        if self._most_named:
            yield from chain.from_iterable(map(self._by_name, _NAMED))

    def _pods(self) -> Iterator[Metric]:
        """How many pods terminate by the kind of their controller, and since when the oldest."""
        counts: dict[str, int] = {}
        ages: dict[str, float] = {}
        late: dict[str, float] = {}
        if self._watching.knows("pods"):
            terminating, now = self._watching.terminating, self._clock()
            counts = dict.fromkeys((*sorted(_CONTROLLERS), "other"), 0)
            ages, late = dict.fromkeys(counts, 0.0), dict.fromkeys(counts, 0.0)
            for kind, count in terminating.pods().items():
                counts[kind if kind in _CONTROLLERS else "other"] += count
            for kind, (deleted_at, due_at) in terminating.oldest().items():
                label = kind if kind in _CONTROLLERS else "other"
                ages[label] = max(ages[label], now - deleted_at)
                late[label] = max(late[label], now - due_at)
        for declared, values in (
            (declarations.TERMINATING_PODS, counts),
            (declarations.TERMINATING_POD_AGE, ages),
            (declarations.TERMINATING_POD_OVERDUE, late),
        ):
            yield declared.family(((label,), value) for label, value in values.items())

    def _by_name(self, named: _Named) -> Iterator[Metric]:
        watching, now = self._watching, self._clock()
        is_known = watching.knows(named.resource)
        is_counted = is_known and watching.knows(*_COUNTED_FROM)
        found = watching.terminating.counts(named.kind) if is_known else ()
        shown = [((one.namespace, one.name), one) for one in islice(found, self._most_named)]
        yield named.reported.family(
            (where, one.reported) for where, one in shown if one.reported is not None
        )
        yield named.counted.family((where, one.counted) for where, one in shown if is_counted)
        yield named.age.family(
            (where, max(0.0, now - one.oldest))
            for where, one in shown
            if is_counted and one.oldest is not None
        )
        every = sum(watching.terminating.agreement(named.kind))
        yield named.without_series.family([((), every - len(shown))] if is_known else ())


_COUNTED_FROM: Final = ("pods", "replicasets.apps")
