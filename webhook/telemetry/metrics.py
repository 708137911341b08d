"""Counts answered reviews, and collects the numbers of all parts when Prometheus asks.

Counting a review is a dictionary increment; families are made at a scrape. Labels are bounded:
resource and subresource are the table's, a known custom resource's or "other", never the name of an
object, a namespace or a user. The names of all metrics are in declarations.py.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import prometheus_client
from prometheus_client.metrics_core import Metric

from genguard.admission.review import Phase
from genguard.generation.table import load_rows
from genguard.review import Reply, Verdict
from webhook.telemetry import declarations

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call] # the time of a start

_BUCKETS: Final = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5,
)  # fmt: skip

_SUBRESOURCES: Final = {"", "scale", "status"}.union(*(row.subresources for row in load_rows()))


Counts = Iterable[tuple[tuple[str, ...], int]]
"""How often something was counted, by the values of a metric's labels."""


class _ResourceLabels(NamedTuple):
    resource: str
    subresource: str


_OTHER: Final = _ResourceLabels("other", "")


class Metrics:
    """A collector of prometheus_client; `record` is called for every review."""

    def __init__(self, known: Callable[[str, str], bool]) -> None:
        """`known(group, resource)` says whether a resource may be a label of its own."""
        self._known: Final = known
        self._reviews: Final[Counter[tuple[Phase, str, _ResourceLabels, str]]] = Counter()
        self._resources: Final[dict[tuple[str, str, str], _ResourceLabels]] = {}
        self._mends: Final[Counter[tuple[str, str, str]]] = Counter()
        self._dropped: Final[Counter[str]] = Counter()
        self._refused: Final[Counter[str]] = Counter()
        self._causes: Final[Counter[str]] = Counter()
        self.registry: Final = prometheus_client.CollectorRegistry()
        """All metrics of a server, with those of other collectors that are registered."""
        self.registry.register(self)
        seconds = declarations.REVIEW_SECONDS
        self._seconds: Final = prometheus_client.Histogram(
            seconds.name, seconds.help, buckets=_BUCKETS, registry=self.registry
        )
        self.gauge(declarations.LAST_REVIEW, lambda: self.last_review)
        self._counts: Final[
            dict[declarations.Counter | declarations.Gauge, Callable[[], Counts]]
        ] = {}
        self._started: Final = time.time()
        self.last_review = 0.0

    def gauge(self, declared: declarations.Gauge, read: Callable[[], float]) -> None:
        """Export a gauge without labels; `read` returns its value at each scrape."""
        gauge = prometheus_client.Gauge(declared.name, declared.help, registry=self.registry)
        gauge.set_function(read)

    def counts(
        self, declared: declarations.Counter | declarations.Gauge, read: Callable[[], Counts]
    ) -> None:
        """Export numbers with labels; `read` returns them at each scrape."""
        self._counts[declared] = read

    def record(self, phase: Phase, reply: Reply, seconds: float, *, audit_only: bool) -> None:
        """Count one answered review."""
        verdict = reply.verdict
        self._seconds.observe(seconds)
        operation, place = "", _OTHER
        if verdict.request is not None:
            wire = verdict.request.wire
            if not wire.dry_run:
                self.last_review = time.time()
            operation, found = wire.operation, wire.resource
            written = (found.group, found.resource, wire.sub_resource)
            place = self._resources.get(written) or self._labels_of(*written)
        self._reviews[phase, operation, place, decision_of(verdict, audit_only=audit_only)] += 1
        if verdict.prediction is not None and phase is Phase.MUTATE:
            self._causes[verdict.prediction.cause] += 1
        for repair in verdict.repairs:
            mode = "would" if audit_only else "did"
            self._mends[repair.rule, place.resource, mode] += len(repair.edits)
        if verdict.dropped:
            self._dropped[place.resource] += len(verdict.dropped)

    def _labels_of(self, group: str, resource: str, subresource: str) -> _ResourceLabels:
        """The labels of a resource; remembered for those that the table or the cluster knows."""
        if not self._known(group, resource):
            return _OTHER
        name = self.resource_label(group, resource)
        if subresource not in _SUBRESOURCES:
            return _ResourceLabels(name, "other")
        self._resources[group, resource, subresource] = found = _ResourceLabels(name, subresource)
        return found

    def resource_label(self, group: str, resource: str) -> str:
        """Return `deployments.apps`; "other" for what neither the table nor the cluster knows."""
        if not self._known(group, resource):
            return _OTHER.resource
        return f"{resource}.{group}" if group else resource

    def refuse(self, reason: str) -> None:
        """Count a request or connection that was refused before decoding."""
        self._refused[reason] += 1

    def collect(self) -> Iterator[Metric]:
        """The families that have labels."""
        yield declarations.REVIEWS.family(
            ((phase, operation, *place, decision), count)
            for (phase, operation, place, decision), count in self._reviews.items()
        )
        yield declarations.MENDS.family(self._mends.items())
        for declared, counted in (
            (declarations.DROPPED_EDITS, self._dropped),
            (declarations.REFUSED_REQUESTS, self._refused),
            (declarations.PREDICTIONS, self._causes),
        ):
            yield declared.family(((value,), count) for value, count in counted.items())
        for named, counts in self._counts.items():
            yield named.family(counts())


def decision_of(verdict: Verdict, *, audit_only: bool) -> str:
    """Return what was decided of a review, in one word."""
    if verdict.refused is not None:
        return "undecodable"
    if verdict.skipped is not None:
        return "skipped"
    if verdict.patch:
        return "would-patch" if audit_only else "patched"
    return "allowed"
