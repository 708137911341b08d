"""Exports the counts by namespace and application as metrics: `serve --summary-metrics`."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.metrics_core import Metric

from genguard.status.summaries import Key, SetCounts, Summaries
from genguard.status.view import Health
from webhook.telemetry import declarations
from webhook.telemetry.declarations import Gauge

_Sets = Callable[[], Iterable[tuple[Key, SetCounts]]]


def summary_families(summaries: Summaries) -> Iterator[Metric]:
    """Yield every family; a set without objects has no sample."""
    yield from _families(
        summaries.namespaces,
        declarations.NAMESPACE_OBJECTS,
        declarations.NAMESPACE_UNREADY,
        declarations.NAMESPACE_UNSETTLED,
    )
    yield from _families(
        summaries.applications,
        declarations.APPLICATION_OBJECTS,
        declarations.APPLICATION_UNREADY,
        declarations.APPLICATION_UNSETTLED,
    )
    left_out = declarations.SUMMARIES_WITHOUT_SERIES.family()
    for by, count in zip(("namespace", "application"), summaries.without_series(), strict=True):
        left_out.add_metric((by,), count)
    yield left_out


def _families(
    sets: _Sets, objects: Gauge, unready: Gauge, unsettled: Gauge
) -> tuple[Metric, Metric, Metric]:
    families = objects.family(), unready.family(), unsettled.family()
    for key, counts in sets():
        for health in Health:
            families[0].add_metric((*key, health.value), counts.healths[health])
        families[1].add_metric(key, counts.unready)
        families[2].add_metric(key, counts.unsettled)
    return families
