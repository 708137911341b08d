"""What genguard counts, and how Prometheus reads it.

Counting on the answer path is a dictionary increment; the families are made when scraped. Labels
are bounded: resource and subresource are the table's, a known custom resource's or "other", never
the name of an object, a namespace or a user.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from webhook.admission.review import Phase
from webhook.generation.table import load_rows
from webhook.pipeline import Reply, Verdict

_BUCKETS: Final = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5,
)  # fmt: skip

_SUBRESOURCES: Final = {"", "scale", "status"}.union(*(row.subresources for row in load_rows()))


Counts = Callable[[], Iterable[tuple[tuple[str, ...], int]]]


class _Place(NamedTuple):
    resource: str
    subresource: str


_NOWHERE: Final = _Place("other", "")
_LABELS: Final = ("phase", "operation", "resource", "subresource", "decision")


class Metrics:
    """A collector to register; `record` is called for every review."""

    def __init__(self, known: Callable[[str, str], bool]) -> None:
        """`known(group, resource)` says whether a resource may be a label of its own."""
        self._known: Final = known
        self._reviews: Final[Counter[tuple[Phase, str, _Place, str]]] = Counter()
        self._resources: Final[dict[tuple[str, str, str], _Place]] = {}
        self._mends: Final[Counter[tuple[str, str, str]]] = Counter()
        self._dropped: Final[Counter[str]] = Counter()
        self._refused: Final[Counter[str]] = Counter()
        self._causes: Final[Counter[str]] = Counter()
        self._seconds: Final = [0] * (len(_BUCKETS) + 1)
        self._seconds_sum = 0.0
        self._gauges: Final[dict[str, tuple[str, Callable[[], float]]]] = {}
        self._counts: Final[list[tuple[str, str, tuple[str, ...], Counts]]] = []
        self._started: Final = time.time()
        self.last_review = 0.0

    def gauge(self, name: str, documentation: str, read: Callable[[], float]) -> None:
        """Export `genguard_<name>`, read at each scrape."""
        self._gauges[name] = (documentation, read)

    def counts(self, name: str, documentation: str, labels: tuple[str, ...], read: Counts) -> None:
        """Export `genguard_<name>_total`; `read` gives the counts by values of the labels."""
        self._counts.append((f"genguard_{name}", documentation, labels, read))

    def record(self, phase: Phase, reply: Reply, seconds: float, *, audit_only: bool) -> None:
        """Count one answered review."""
        verdict = reply.verdict
        self._seconds[bisect_left(_BUCKETS, seconds)] += 1
        self._seconds_sum += seconds
        operation, place = "", _NOWHERE
        if verdict.request is not None:
            wire = verdict.request.wire
            if not wire.dry_run:
                self.last_review = time.time()
            operation, found = wire.operation, wire.resource
            written = (found.group, found.resource, wire.sub_resource)
            place = self._resources.get(written) or self._place(*written)
        self._reviews[phase, operation, place, _decision(verdict, audit_only=audit_only)] += 1
        if verdict.prediction is not None and phase is Phase.MUTATE:
            self._causes[verdict.prediction.cause] += 1
        for repair in verdict.repairs:
            mode = "would" if audit_only else "did"
            self._mends[repair.rule, place.resource, mode] += len(repair.edits)
        if verdict.dropped:
            self._dropped[place.resource] += len(verdict.dropped)

    def _place(self, group: str, resource: str, subresource: str) -> _Place:
        """The labels of a resource; kept for those that the table or the cluster knows."""
        if not self._known(group, resource):
            return _NOWHERE
        name = f"{resource}.{group}" if group else resource
        if subresource not in _SUBRESOURCES:
            return _Place(name, "other")
        self._resources[group, resource, subresource] = found = _Place(name, subresource)
        return found

    def refuse(self, reason: str) -> None:
        """Count a request or connection that was refused before decoding."""
        self._refused[reason] += 1

    def collect(self) -> Iterator[Metric]:
        """Every family, as prometheus_client asks for them."""
        yield _counter(
            "genguard_reviews",
            "Reviews answered.",
            _LABELS,
            (
                ((phase, operation, *place, decision), count)
                for (phase, operation, place, decision), count in list(self._reviews.items())
            ),
        )
        yield _counter(
            "genguard_mends",
            "Edits by rule; mode did or, in audit-only, would.",
            ("rule", "resource", "mode"),
            self._mends.items(),
        )
        yield _counter(
            "genguard_dropped_edits",
            "Edits that would not have applied and were not sent.",
            ("resource",),
            ((((name,), count)) for name, count in self._dropped.items()),
        )
        yield _counter(
            "genguard_refused_requests",
            "Requests and connections refused before a review was decoded.",
            ("reason",),
            ((((name,), count)) for name, count in self._refused.items()),
        )
        yield _counter(
            "genguard_predictions",
            "Predictions of generation at /mutate, by cause.",
            ("cause",),
            ((((name,), count)) for name, count in self._causes.items()),
        )
        for name, documentation, labels, counted in self._counts:
            yield _counter(name, documentation, labels, counted())
        yield self._histogram()
        yield GaugeMetricFamily(
            "genguard_last_review_timestamp_seconds",
            "When the last review came that was no dry run; 0 before the first.",
            value=self.last_review,
        )
        for name, (documentation, read) in self._gauges.items():
            yield GaugeMetricFamily(f"genguard_{name}", documentation, value=read())

    def _histogram(self) -> HistogramMetricFamily:
        total, cumulative = 0, []
        for bound, count in zip((*map(str, _BUCKETS), "+Inf"), list(self._seconds), strict=True):
            total += count
            cumulative.append((bound, float(total)))
        return HistogramMetricFamily(
            "genguard_review_seconds",
            "Time to judge one review, without reading or writing it.",
            buckets=cumulative,
            sum_value=self._seconds_sum,
        )


def _decision(verdict: Verdict, *, audit_only: bool) -> str:
    if verdict.refused is not None:
        return "undecodable"
    if verdict.skipped is not None:
        return "skipped"
    if verdict.patch:
        return "would-patch" if audit_only else "patched"
    return "allowed"


def _counter(
    name: str,
    documentation: str,
    labels: tuple[str, ...],
    counts: Iterable[tuple[tuple[str, ...], int]],
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, documentation, labels=labels)
    for values, count in list(counts):
        family.add_metric(list(values), count)
    return family
