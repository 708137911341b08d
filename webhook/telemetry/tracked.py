"""Tracked objects as metrics: by group and kind, never by name; read from running counts."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from webhook.status.kind_counts import OTHER, DurationHistogram, KindCounts
from webhook.status.tracking import Tracking
from webhook.status.view import Health

_KIND: Final = ("group", "kind")


class TrackedMetrics:
    """A collector to register."""

    def __init__(self, tracking: Tracking, known: Callable[[str, str], bool]) -> None:
        """`known(group, resource)` says whether a kind may be a label of its own."""
        self._tracking: Final = tracking
        self._known: Final = known

    def collect(self) -> Iterator[Metric]:
        """Every family; of every kind that was seen also the zeros, which alerts need."""
        kinds: defaultdict[tuple[str, str], list[KindCounts]] = defaultdict(list)
        for kind, counts in self._tracking.counts_by_kind:
            known = self._known(kind.group, kind.resource)
            kinds[(kind.group, kind.kind) if known else (OTHER.group, OTHER.kind)].append(counts)
        objects = GaugeMetricFamily(
            "genguard_objects",
            "Tracked objects, as of their last write.",
            labels=(*_KIND, "health"),
        )
        behind = GaugeMetricFamily(
            "genguard_generation_lag_objects",
            "Tracked objects whose observedGeneration is behind their generation.",
            labels=_KIND,
        )
        flips = CounterMetricFamily(
            "genguard_ready_flips",
            "Turns of Ready within one generation, after it was ready once.",
            labels=_KIND,
        )
        for labels, several in kinds.items():
            for health in Health:
                count = sum(one.healths[health] for one in several)
                objects.add_metric((*labels, health.value), count)
            behind.add_metric(labels, sum(one.behind for one in several))
            flips.add_metric(labels, sum(one.flips for one in several))
        yield from (objects, behind, flips)
        yield _histogram(
            "genguard_observation_lag_seconds",
            "From a change of intent to an observedGeneration that has caught up.",
            {labels: [one.observation for one in several] for labels, several in kinds.items()},
        )
        yield _histogram(
            "genguard_reconcile_duration_seconds",
            "From a change of intent until the object was settled.",
            {labels: [one.reconcile for one in several] for labels, several in kinds.items()},
        )
        yield GaugeMetricFamily(
            "genguard_tracked_bytes", "Memory of tracked objects.", value=self._tracking.bytes
        )


def _histogram(
    name: str, documentation: str, found: dict[tuple[str, str], list[DurationHistogram]]
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, documentation, labels=_KIND)
    for labels, several in found.items():
        bounds = (*map(str, several[0].bounds), "+Inf")
        counts: Sequence[int] = [
            sum(each) for each in zip(*(one.counts for one in several), strict=True)
        ]
        buckets = [
            (bound, float(total)) for bound, total in zip(bounds, accumulate(counts), strict=True)
        ]
        family.add_metric(labels, buckets, sum_value=sum(one.sum for one in several))
    return family
