"""Collectors of prometheus_client: what is counted from findings and objects at a scrape.

Objects, actors and users are no labels. Families are made from what the parts of the server keep.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from prometheus_client.metrics_core import Metric

from genguard.admission.review import Phase
from genguard.detection.finding import Severity
from genguard.detection.questions import FINDINGS
from genguard.status.counts import OTHER, DurationHistogram, Key, KindCounts, SetCounts
from genguard.status.terminating_pods import DEPLOYMENT, REPLICA_SET
from genguard.status.tracking import Tracking
from genguard.status.view import Health
from webhook.server.detecting import Detecting
from webhook.server.watching import Watching
from webhook.telemetry.metrics import Distribution, family, histogram


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
        found = [
            ((name, severity.value), open_now[name, severity])
            for name in FINDINGS
            for severity in Severity
        ]
        yield family("genguard_findings_open", found)
        dropped = detecting.dropped + detection.dropped
        yield family("genguard_detection_dropped_total", [((), dropped)])
        replaced = [((sink.name,), sink.replaced) for sink in detecting.sinks]
        yield family("genguard_sink_replaced_total", replaced)
        seen = detection.completeness
        yield family("genguard_writes_total", [((), seen.joined)])
        missing = [((phase.value,), seen.missing.get(phase, 0)) for phase in Phase]
        yield family("genguard_incomplete_writes_total", missing)
        yield family("genguard_detection_objects", [((), len(detection.history))])


class TrackedMetrics:
    """The metrics of tracked objects: by group and kind, and by namespace only if asked for."""

    def __init__(self, tracking: Tracking, known: Callable[[str, str], bool]) -> None:
        """`known(group, resource)` says whether a kind may be a label of its own."""
        self._tracking: Final = tracking
        self._known: Final = known

    def collect(self) -> Iterator[Metric]:
        """Every family, with the zeros of every kind that was seen: alerts need them."""
        by_kind: defaultdict[tuple[str, str], list[KindCounts]] = defaultdict(list)
        for kind, counts in self._tracking.counts_by_kind:
            known = self._known(kind.group, kind.resource)
            by_kind[(kind.group, kind.kind) if known else (OTHER.group, OTHER.kind)].append(counts)
        now = time.time()

        def of_each(count: Callable[[list[KindCounts]], float]) -> list[tuple[Key, float]]:
            return [(labels, count(several)) for labels, several in by_kind.items()]

        healths = [
            ((*labels, health.value), sum(row.healths[health] for row in several))
            for labels, several in by_kind.items()
            for health in Health
        ]
        yield family("genguard_objects", healths)
        behind = of_each(lambda several: sum(len(row.behind_since) for row in several))
        yield family("genguard_generation_lag_objects", behind)
        oldest = of_each(lambda several: _oldest_gap(several, now))
        yield family("genguard_generation_lag_oldest_seconds", oldest)
        flips = of_each(lambda several: sum(row.flips for row in several))
        yield family("genguard_ready_flips_total", flips)
        kinds = by_kind.items()
        seen = [(labels, _joined([row.observation for row in found])) for labels, found in kinds]
        yield histogram("genguard_observation_lag_seconds", seen)
        done = [(labels, _joined([row.reconcile for row in found])) for labels, found in kinds]
        yield histogram("genguard_reconcile_duration_seconds", done)
        if (summaries := self._tracking.summaries) is not None:
            yield from _of_sets("namespace", tuple(summaries.namespaces()))
            yield from _of_sets("application", tuple(summaries.applications()))
            left = zip((("namespace",), ("application",)), summaries.without_series(), strict=True)
            yield family("genguard_summaries_without_series", left)


def _oldest_gap(several: Iterable[KindCounts], now: float) -> float:
    """Seconds since the first object of a kind fell behind, 0.0 where none is."""
    gaps = (counts.oldest_gap for counts in several if counts.has_status_subresource)
    since = min((gap for gap in gaps if gap is not None), default=now)
    return max(0.0, now - since)


def _joined(several: list[DurationHistogram]) -> Distribution:
    counts = [sum(each) for each in zip(*(durations.counts for durations in several), strict=True)]
    return Distribution(several[0].bounds, counts, sum(durations.sum for durations in several))


def _of_sets(what: str, sets: tuple[tuple[Key, SetCounts], ...]) -> Iterator[Metric]:
    """The metrics of `serve --summary-metrics`; a set without objects has no sample."""
    healths = [
        ((*key, health.value), counts.healths[health]) for key, counts in sets for health in Health
    ]
    yield family(f"genguard_{what}_objects", healths)
    for name in ("unready", "unsettled"):
        found = [(key, getattr(counts, name)) for key, counts in sets]
        yield family(f"genguard_{what}_{name}_objects", found)


_CONTROLLERS: Final = frozenset(
    {"", "DaemonSet", "Job", "Node", "ReplicaSet", "ReplicationController", "StatefulSet"}
)
"""Who controls pods in Kubernetes itself; "" is nobody. Every other kind is "other"."""


class _Named(NamedTuple):
    """A kind whose objects have metrics with their name; `reported` is by its controller."""

    kind: str
    resource: str
    reported: str


_NAMED: Final = (
    _Named(REPLICA_SET, "replicasets.apps", "kube_replicaset_status_terminating_replicas"),
    # The name of KEP-3973. kube-state-metrics since v2.18.0 exports this figure itself, as
    # kube_deployment_status_terminating_replicas (its internal/store/deployment.go).
    _Named(DEPLOYMENT, "deployments.apps", "kube_deployment_status_replicas_terminating"),
)
_COUNTED_FROM: Final = ("pods", "replicasets.apps")


class TerminatingMetrics:
    """Terminating replicas, as controllers report them and as counted from pods.

    docs/status.md says where the two differ. A number counted from pods is shown only once all pods
    and ReplicaSets have been seen. Ages are those at the scrape; a pod whose deletionTimestamp is
    no time has none.
    """

    def __init__(
        self, watching: Watching, most_named: int, clock: Callable[[], float] = time.time
    ) -> None:
        """`most_named`: how many objects of each kind have samples with their names; 0 is none."""
        self._watching: Final = watching
        self._most_named: Final = most_named
        self._clock: Final = clock

    def collect(self) -> Iterator[Metric]:
        """What is known: a family whose resources are not watched, or not seen yet, is empty."""
        watching = self._watching
        states = [((name,), current) for name, current in watching.states().items()]
        yield family("genguard_watch_current", states)
        yield from self._pods()
        agreement = [
            ((named.kind, state), count)
            for named in _NAMED
            if watching.knows(named.resource, *_COUNTED_FROM)
            for state, count in zip(
                ("agrees", "differs", "absent"),
                watching.terminating.agreement(named.kind),
                strict=True,
            )
        ]
        yield family("genguard_terminating_replicas_objects", agreement)
        for named in _NAMED if self._most_named else ():
            yield from self._by_name(named)

    def _pods(self) -> Iterator[Metric]:
        """How many pods terminate, and since when the oldest does, by the kind of controller."""
        terminating, now = self._watching.terminating, self._clock()
        kinds = (*sorted(_CONTROLLERS), "other") if self._watching.knows("pods") else ()
        counts, ages, late = (dict.fromkeys(kinds, 0.0) for _ in range(3))
        for kind, count in terminating.pods().items() if kinds else ():
            counts[kind if kind in _CONTROLLERS else "other"] += count
        for kind, (deleted_at, due_at) in terminating.oldest().items() if kinds else ():
            label = kind if kind in _CONTROLLERS else "other"
            ages[label] = max(ages[label], now - deleted_at)
            late[label] = max(late[label], now - due_at)
        for name, values in (
            ("genguard_terminating_pods", counts),
            ("genguard_terminating_pod_age_seconds", ages),
            ("genguard_terminating_pod_overdue_seconds", late),
        ):
            yield family(name, [((label,), value) for label, value in values.items()])

    def _by_name(self, named: _Named) -> Iterator[Metric]:
        watching, now = self._watching, self._clock()
        is_known = watching.knows(named.resource)
        is_counted = is_known and watching.knows(*_COUNTED_FROM)
        found = watching.terminating.counts(named.kind) if is_known else ()
        shown = [((row.namespace, row.name), row) for row in islice(found, self._most_named)]
        said = [(where, row.reported) for where, row in shown if row.reported is not None]
        yield family(named.reported, said)
        prefix, counted = f"genguard_{named.kind.lower()}", shown if is_counted else []
        yield family(f"{prefix}_terminating_pods", [(where, row.counted) for where, row in counted])
        ages = [(at, max(0.0, now - row.oldest)) for at, row in counted if row.oldest is not None]
        yield family(f"{prefix}_terminating_pod_age_seconds", ages)
        left = sum(watching.terminating.agreement(named.kind)) - len(shown)
        yield family(f"{prefix}s_without_series", [((), left)] if is_known else ())
