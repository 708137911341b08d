"""Exports tracked objects as metrics: by group and kind, and by namespace only if asked for."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.metrics_core import Metric

from genguard.status.kind_counts import OTHER, DurationHistogram, KindCounts
from genguard.status.tracking import Tracking
from genguard.status.view import Health
from webhook.telemetry import declarations
from webhook.telemetry.summaries import summary_families


class TrackedMetrics:
    """A collector of prometheus_client."""

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
        objects = declarations.OBJECTS.family()
        behind = declarations.GENERATION_LAG_OBJECTS.family()
        oldest = declarations.GENERATION_LAG_OLDEST.family()
        now = time.time()
        flips = declarations.READY_FLIPS.family()
        for labels, several in kinds.items():
            for health in Health:
                count = sum(one.healths[health] for one in several)
                objects.add_metric((*labels, health.value), count)
            behind.add_metric(labels, sum(one.behind for one in several))
            gaps = [one.oldest_gap for one in several if one.has_status_subresource]
            since = min((one for one in gaps if one is not None), default=now)
            oldest.add_metric(labels, max(0.0, now - since))
            flips.add_metric(labels, sum(one.flips for one in several))
        yield from (objects, behind, oldest, flips)
        yield _histogram(
            declarations.OBSERVATION_LAG,
            {labels: [one.observation for one in several] for labels, several in kinds.items()},
        )
        yield _histogram(
            declarations.RECONCILE_DURATION,
            {labels: [one.reconcile for one in several] for labels, several in kinds.items()},
        )
        memory = declarations.TRACKED_BYTES.family()
        memory.add_metric((), self._tracking.bytes)
        yield memory
        if self._tracking.summaries is not None:
            yield from summary_families(self._tracking.summaries)


def _histogram(
    declared: declarations.Histogram, found: dict[tuple[str, str], list[DurationHistogram]]
) -> Metric:
    family = declared.family()
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
