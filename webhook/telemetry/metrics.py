"""Counts answered reviews, and collects the numbers of all parts when Prometheus asks.

Every metric is declared in metrics.yaml. A part of the server hands over a function that reads its
numbers at a scrape. Labels are bounded: resource and subresource are the table's, a known custom
resource's or "other", never the name of an object, a namespace or a user.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec
import prometheus_client
from prometheus_client import metrics_core as core

from genguard.admission.review import Phase
from genguard.generation.table import load_rows
from genguard.objects.served import resource_name
from genguard.review import Reply, ReviewResult

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call] # the time of a start

_BUCKETS: Final = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5,
)  # fmt: skip
_SUBRESOURCES: Final = {"", "scale", "status"}.union(*(row.subresources for row in load_rows()))

Counts = Iterable[tuple[Sequence[str], float]]
"""Numbers by the values of a metric's labels."""


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A metric: its help, the names of its labels, and its type where the name does not say it."""

    help: str
    labels: tuple[str, ...] = ()
    type: Literal["counter", "gauge", "histogram"] = "gauge"


class Distribution(NamedTuple):
    """What a histogram counted: `counts` has one more than `bounds`, for what is above them all."""

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float


@cache
def declared() -> Mapping[str, Declaration]:
    """All metrics, by their full names."""
    text = Path(__file__).with_name("metrics.yaml").read_bytes()
    found = msgspec.yaml.decode(text, type=dict[str, Declaration])
    return {
        name: msgspec.structs.replace(metric, type="counter") if name.endswith("_total") else metric
        for name, metric in found.items()
    }


def family(name: str, samples: Counts) -> core.Metric:
    """The family of a counter or gauge, with a value for each combination of labels."""
    metric = declared()[name]
    made: Any = core.CounterMetricFamily if metric.type == "counter" else core.GaugeMetricFamily
    found: core.Metric = made(name, metric.help, labels=metric.labels)
    for labels, value in list(samples):
        found.add_metric(labels, value)  # type: ignore[attr-defined] # both classes have it
    return found


def histogram(name: str, samples: Iterable[tuple[Sequence[str], Distribution]]) -> core.Metric:
    """The family of a histogram; its samples end in _bucket, _sum and _count."""
    metric = declared()[name]
    found = core.HistogramMetricFamily(name, metric.help, labels=metric.labels)
    for labels, (bounds, counts, total) in samples:
        names = (*map(str, bounds), "+Inf")
        buckets = zip(names, map(float, accumulate(counts)), strict=True)
        found.add_metric(labels, list(buckets), sum_value=total)
    return found


_OTHER: Final = ("other", "")
"""The labels resource and subresource of what is not known."""


class Metrics:
    """A collector of prometheus_client; `record` is called for every review."""

    def __init__(self, known: Callable[[str, str], bool]) -> None:
        """`known(group, resource)` says whether a resource may be a label of its own."""
        self._known: Final = known
        self._resources: Final[dict[tuple[str, str, str], tuple[str, str]]] = {}
        self._reviews: Final[Counter[tuple[str, ...]]] = Counter()
        self._mends: Final[Counter[tuple[str, ...]]] = Counter()
        self._dropped: Final[Counter[tuple[str, ...]]] = Counter()
        self._refused: Final[Counter[tuple[str, ...]]] = Counter()
        self._causes: Final[Counter[tuple[str, ...]]] = Counter()
        self._counts: Final[dict[str, Callable[[], Counts]]] = {
            "genguard_reviews_total": self._reviews.items,
            "genguard_mends_total": self._mends.items,
            "genguard_dropped_edits_total": self._dropped.items,
            "genguard_refused_requests_total": self._refused.items,
            "genguard_predictions_total": self._causes.items,
        }
        self.last_review = 0.0
        self.gauge("genguard_last_review_timestamp_seconds", lambda: self.last_review)
        self.registry: Final = prometheus_client.CollectorRegistry()
        """All metrics of a server, with those of other collectors that are registered."""
        self.registry.register(self)
        seconds = "genguard_review_seconds"
        self._seconds: Final = prometheus_client.Histogram(
            seconds, declared()[seconds].help, buckets=_BUCKETS, registry=self.registry
        )

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Export a number without labels; `read` returns it at each scrape."""
        self._counts[name] = lambda: [((), read())]

    def counts(self, name: str, read: Callable[[], Counts]) -> None:
        """Export numbers with labels; `read` returns them at each scrape."""
        self._counts[name] = read

    def record(self, phase: Phase, reply: Reply, seconds: float, *, audit_only: bool) -> None:
        """Count one answered review."""
        result = reply.result
        self._seconds.observe(seconds)
        operation, (resource, subresource) = "", _OTHER
        if result.request is not None:
            wire = result.request.wire
            if not wire.dry_run:
                self.last_review = time.time()
            operation, found = wire.operation, wire.resource
            written = (found.group, found.resource, wire.sub_resource)
            resource, subresource = self._resources.get(written) or self._labels_of(*written)
        decision = decision_of(result, audit_only=audit_only)
        self._reviews[phase, operation, resource, subresource, decision] += 1
        if result.prediction is not None and phase is Phase.MUTATE:
            self._causes[result.prediction.cause,] += 1
        for repair in result.repairs:
            mode = "would" if audit_only else "did"
            self._mends[repair.rule, resource, mode] += len(repair.edits)
        if result.dropped:
            self._dropped[resource,] += len(result.dropped)

    def _labels_of(self, group: str, resource: str, subresource: str) -> tuple[str, str]:
        """The labels of a resource; remembered for those that the table or the cluster knows."""
        if not self._known(group, resource):
            return _OTHER
        name = self.resource_label(group, resource)
        if subresource not in _SUBRESOURCES:
            return name, "other"
        self._resources[group, resource, subresource] = name, subresource
        return name, subresource

    def resource_label(self, group: str, resource: str) -> str:
        """Return `deployments.apps`; "other" for what neither the table nor the cluster knows."""
        if not self._known(group, resource):
            return _OTHER[0]
        return resource_name(group, resource)

    def refuse(self, reason: str) -> None:
        """Count a request or connection that was refused before decoding."""
        self._refused[reason,] += 1

    def collect(self) -> Iterator[core.Metric]:
        """Every family but those of other collectors."""
        for name, read in self._counts.items():
            yield family(name, read())


def decision_of(result: ReviewResult, *, audit_only: bool) -> str:
    """Return what was decided of a review, in one word."""
    if result.rejected is not None:
        return "undecodable"
    if result.skipped is not None:
        return "skipped"
    if result.patch:
        return "would-patch" if audit_only else "patched"
    return "allowed"
