"""Every metric that genguard exports, declared once: its full name, type, help and labels.

A part of the server that has a number to show hands a function that reads it to `Metrics.gauge` or
`Metrics.counts`, or makes the family in a collector. Both take the declaration from here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, Final, NamedTuple

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)


@dataclass(frozen=True, slots=True)
class Declaration:
    """A metric: its full name, its help and the names of its labels."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


class _Number(Declaration):
    __slots__ = ()
    _made: ClassVar[type[CounterMetricFamily | GaugeMetricFamily]]

    def family(self, samples: Iterable[tuple[Sequence[str], float]]) -> Metric:
        """The family with a value for each combination of labels."""
        family = self._made(self.name, self.help, labels=self.labels)
        for labels, value in list(samples):
            family.add_metric(labels, value)
        return family

    def of(self, value: float) -> Metric:
        """The family of a metric without labels."""
        return self.family([((), value)])


class Counter(_Number):
    """A number that only grows; its name ends in _total."""

    __slots__ = ()
    _made = CounterMetricFamily


class Gauge(_Number):
    """A number that rises and falls."""

    __slots__ = ()
    _made = GaugeMetricFamily


class Distribution(NamedTuple):
    """What a histogram counted: `counts` has one more than `bounds`, of what is above them all."""

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float


class Histogram(Declaration):
    """A distribution; its samples end in _bucket, _sum and _count."""

    __slots__ = ()

    def family(self, distributions: Iterable[tuple[Sequence[str], Distribution]]) -> Metric:
        """The family with a distribution for each combination of labels."""
        family = HistogramMetricFamily(self.name, self.help, labels=self.labels)
        for labels, (bounds, counts, total) in distributions:
            names = (*map(str, bounds), "+Inf")
            buckets = zip(names, map(float, accumulate(counts)), strict=True)
            family.add_metric(labels, list(buckets), sum_value=total)
        return family


_KIND: Final = ("group", "kind")
_SET: Final = ("namespace", "application")

# Reviews.
REVIEWS: Final = Counter(
    "genguard_reviews_total",
    "Reviews answered.",
    ("phase", "operation", "resource", "subresource", "decision"),
)
MENDS: Final = Counter(
    "genguard_mends_total",
    "Repairs by rule; mode is did, or would with --audit-only.",
    ("rule", "resource", "mode"),
)
DROPPED_EDITS: Final = Counter(
    "genguard_dropped_edits_total",
    "Repairs that were not sent, because they would not have applied.",
    ("resource",),
)
REFUSED_REQUESTS: Final = Counter(
    "genguard_refused_requests_total",
    "Requests and connections refused before a review was decoded.",
    ("reason",),
)
PREDICTIONS: Final = Counter(
    "genguard_predictions_total", "Predictions of generation at /mutate, by cause.", ("cause",)
)
REVIEW_SECONDS: Final = Histogram(
    "genguard_review_seconds", "Time to judge one review, without reading or writing it."
)
LAST_REVIEW: Final = Gauge(
    "genguard_last_review_timestamp_seconds",
    "When the last review came that was no dry run; 0 before the first.",
)
REMEMBERED_DROPPED: Final = Counter(
    "genguard_remembered_dropped_total",
    "Intents and answers that were forgotten while their writes were in progress.",
    ("what",),
)
FLIP_STATUS_REFUSED: Final = Gauge(
    "genguard_flip_status_refused", "Resources of --flip-status whose status cannot be flipped."
)
SPANS: Final = Counter(
    "genguard_spans_total",
    "Spans of reviews for OpenTelemetry: sent, failed to be sent, or dropped from a full queue.",
    ("result",),
)
COSTLY_CONDITIONS: Final = Gauge(
    "genguard_costly_conditions",
    "matchConditions and rules that cost too much to evaluate; neither is evaluated again.",
)
RULES_REFUSED: Final = Gauge(
    "genguard_rules_refused",
    "1 while the ConfigMap of --rules has rules that cannot be used; earlier ones are kept.",
)

# The server.
SHED: Final = Counter(
    "genguard_shed_total",
    "Reviews rejected because of overload: in audit-only mode allowed without being judged, "
    "otherwise answered with 429.",
    ("reason",),
)
TASK_FAILURES: Final = Counter(
    "genguard_task_failures_total",
    "Failures of long-lived tasks; each task is started again after a pause.",
    ("task",),
)
LEFT_OUT: Final = Counter(
    "genguard_left_out_total",
    "Reviews, objects, findings and the like that were left out, since handling them failed.",
    ("what",),
)
SINK_REPLACED: Final = Counter(
    "genguard_sink_replaced_total",
    "Changes of findings that waited for a slow sink until a later change of the same finding took "
    "their place, or that had no room.",
    ("sink",),
)
OPEN_CONNECTIONS: Final = Gauge("genguard_open_connections", "Connections of the admission port.")
EVENT_LOOP_LAG: Final = Gauge(
    "genguard_event_loop_lag_seconds",
    "The longest recent delay of the event loop; each answer was delayed by as much.",
)
CERTIFICATE_EXPIRY: Final = Gauge(
    "genguard_certificate_expiry_seconds", "Seconds until the served certificate expires."
)
CERTIFICATE_ROTATION_FAILING: Final = Gauge(
    "genguard_certificate_rotation_failing",
    "1 on the leader while it cannot renew the certificate.",
)
RECORDING_DROPPED: Final = Gauge(
    "genguard_recording_dropped", "Reviews that the recording could not keep."
)
OPS_REFUSED_CONNECTIONS: Final = Counter(
    "genguard_ops_refused_connections_total",
    "Connections and requests of the ops port that were refused or dropped.",
    ("reason",),
)
LEADER: Final = Gauge("genguard_leader", "1 on the replica that leads.")
CLUSTER_KNOWN: Final = Gauge(
    "genguard_cluster_known",
    "1 once the version and the CustomResourceDefinitions of the cluster are known.",
)
REGISTERED_WRITES: Final = Gauge(
    "genguard_registered_writes",
    "Kinds of writes for which each phase is registered, with --registrations follow. Why: "
    "`watched`, `changed` by others, `repaired`, `refused`, or `kept` for a moment.",
    ("phase", "why"),
)
REGISTRATIONS_REVERTED: Final = Gauge(
    "genguard_registrations_reverted",
    "1 while somebody else writes back the registrations that this server keeps.",
)

# Detection.
FINDINGS_OPEN: Final = Gauge("genguard_findings_open", "Open findings.", ("detector", "severity"))
DETECTION_DROPPED: Final = Counter(
    "genguard_detection_dropped_total",
    "Reviews, writes and findings that were dropped, because a queue or table was full.",
)
WRITES: Final = Counter("genguard_writes_total", "Updates whose outcome was seen.")
UNCHANGED_STATUS_WRITES: Final = Counter(
    "genguard_unchanged_status_writes_total",
    "Status updates that change nothing of what is stored.",
    ("resource",),
)
OBSERVED_GENERATION: Final = Counter(
    "genguard_observed_generation_total",
    "How often a controller raised observedGeneration, and how often early, late, never or "
    "backwards: see docs/findings.md. Of 200 controllers at most.",
    ("user", "resource", "how"),
)
INCOMPLETE_WRITES: Final = Counter(
    "genguard_incomplete_writes_total",
    "Updates of which a phase was not seen here: it went to another replica, or was not answered "
    "in time. Without an outcome a write may also have been refused.",
    ("missing",),
)
DETECTION_OBJECTS: Final = Gauge("genguard_detection_objects", "Objects that detection remembers.")
HEALS: Final = Counter(
    "genguard_heals_total", "Attempts to put lost values back into stored objects.", ("result",)
)

# Tracked objects.
OBJECTS: Final = Gauge("genguard_objects", "Objects that watches show.", (*_KIND, "health"))
GENERATION_LAG_OBJECTS: Final = Gauge(
    "genguard_generation_lag_objects",
    "Tracked objects whose observedGeneration is behind their generation.",
    _KIND,
)
NAMESPACE_OBJECTS: Final = Gauge(
    "genguard_namespace_objects",
    "Tracked objects of a namespace; needs --summary-metrics.",
    (*_SET[:1], "health"),
)
NAMESPACE_UNREADY: Final = Gauge(
    "genguard_namespace_unready_objects",
    "Tracked objects of a namespace that are not known to be ready.",
    _SET[:1],
)
NAMESPACE_UNSETTLED: Final = Gauge(
    "genguard_namespace_unsettled_objects",
    "Tracked objects of a namespace that are not settled.",
    _SET[:1],
)
APPLICATION_OBJECTS: Final = Gauge(
    "genguard_application_objects",
    "Tracked objects of an application; needs --summary-metrics.",
    (*_SET, "health"),
)
APPLICATION_UNREADY: Final = Gauge(
    "genguard_application_unready_objects",
    "Tracked objects of an application that are not known to be ready.",
    _SET,
)
APPLICATION_UNSETTLED: Final = Gauge(
    "genguard_application_unsettled_objects",
    "Tracked objects of an application that are not settled.",
    _SET,
)
SUMMARIES_WITHOUT_SERIES: Final = Gauge(
    "genguard_summaries_without_series",
    "Objects that are counted as other, because --summary-metrics is too low.",
    ("by",),
)
GENERATION_LAG_OLDEST: Final = Gauge(
    "genguard_generation_lag_oldest_seconds",
    "For how long the observedGeneration of an object has been behind: the longest of its kind.",
    _KIND,
)
READY_FLIPS: Final = Counter(
    "genguard_ready_flips_total",
    "How often Ready changed within one generation, after the object was ready once.",
    _KIND,
)
OBSERVATION_LAG: Final = Histogram(
    "genguard_observation_lag_seconds",
    "From a change of what is wanted until observedGeneration has caught up.",
    _KIND,
)
RECONCILE_DURATION: Final = Histogram(
    "genguard_reconcile_duration_seconds",
    "From a change of what is wanted until the object was settled.",
    _KIND,
)

# Watched objects.
WATCH_CURRENT: Final = Gauge(
    "genguard_watch_current",
    "1 while the watch of a resource is up to date.",
    ("resource",),
)
TERMINATING_PODS: Final = Gauge(
    "genguard_terminating_pods",
    "Pods with a deletionTimestamp that have not ended, by the kind of their controller.",
    ("controller",),
)
TERMINATING_POD_AGE: Final = Gauge(
    "genguard_terminating_pod_age_seconds",
    "Since the deletion of the oldest terminating pod was asked for, by the kind of its "
    "controller; 0 without such a pod.",
    ("controller",),
)
TERMINATING_POD_OVERDUE: Final = Gauge(
    "genguard_terminating_pod_overdue_seconds",
    "Since the grace period of a terminating pod ended, of the pod where that is longest ago, by "
    "the kind of its controller; 0 while no grace period has ended.",
    ("controller",),
)
TERMINATING_REPLICAS_OBJECTS: Final = Gauge(
    "genguard_terminating_replicas_objects",
    "Objects whose status.terminatingReplicas agrees with their pods, differs, or is absent.",
    ("kind", "status"),
)
REPLICASET_TERMINATING_REPLICAS: Final = Gauge(
    "kube_replicaset_status_terminating_replicas",
    "status.terminatingReplicas of a ReplicaSet.",
    ("namespace", "replicaset"),
)
REPLICASET_TERMINATING_PODS: Final = Gauge(
    "genguard_replicaset_terminating_pods",
    "Terminating pods of a ReplicaSet, counted.",
    ("namespace", "replicaset"),
)
REPLICASET_TERMINATING_POD_AGE: Final = Gauge(
    "genguard_replicaset_terminating_pod_age_seconds",
    "Since the deletion of the oldest terminating pod of a ReplicaSet was asked for.",
    ("namespace", "replicaset"),
)
REPLICASETS_WITHOUT_SERIES: Final = Gauge(
    "genguard_replicasets_without_series",
    "Objects without metrics of their own, because --object-metrics is too low.",
)
# The name of KEP-3973. kube-state-metrics since v2.18.0 exports this figure itself, as
# kube_deployment_status_terminating_replicas (its internal/store/deployment.go).
DEPLOYMENT_REPLICAS_TERMINATING: Final = Gauge(
    "kube_deployment_status_replicas_terminating",
    "status.terminatingReplicas of a Deployment.",
    ("namespace", "deployment"),
)
DEPLOYMENT_TERMINATING_PODS: Final = Gauge(
    "genguard_deployment_terminating_pods",
    "Terminating pods of a Deployment, counted.",
    ("namespace", "deployment"),
)
DEPLOYMENT_TERMINATING_POD_AGE: Final = Gauge(
    "genguard_deployment_terminating_pod_age_seconds",
    "Since the deletion of the oldest terminating pod of a Deployment was asked for.",
    ("namespace", "deployment"),
)
DEPLOYMENTS_WITHOUT_SERIES: Final = Gauge(
    "genguard_deployments_without_series", "Objects that --object-metrics left no room for."
)

# The store.
STORE_SAVE_FAILURES: Final = Gauge(
    "genguard_store_save_failures", "Saves to the store that failed."
)
STORE_UP: Final = Gauge("genguard_store_up", "1 while the shared store is reached and used.")
STORE_REQUESTS: Final = Counter(
    "genguard_store_requests_total",
    "Commands for the shared store, by result.",
    ("operation", "result"),
)
STORE_FACTS: Final = Counter(
    "genguard_store_facts_total",
    "Records of updates for the replica that detects, by result.",
    ("result",),
)
STORE_LAG: Final = Gauge(
    "genguard_store_lag_seconds",
    "For how long the oldest record of this replica has not reached the shared store.",
)
STORE_DROPPED: Final = Counter(
    "genguard_store_dropped_total",
    "Values of the shared store that were not used, or not completely, by reason.",
    ("reason",),
)


def every_metric() -> Iterable[Declaration]:
    """All metrics that are declared above."""
    return [one for one in globals().values() if isinstance(one, Declaration)]
