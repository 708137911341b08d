"""The page of durations: how long changes take by kind, from the histograms of the metrics."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

import msgspec

from webhook.dashboard.page import PageContext, PageData, check_parameters, number
from webhook.status.kind_counts import (
    DurationHistogram,
    KindCounts,
    ResourceKind,
)

_PARAMETERS: Final = ("q", "page")
_ROWS: Final = 50
_MOST_PAGES: Final = 100


class Histogram(msgspec.Struct, frozen=True, rename="camel"):
    """A histogram in seconds; `half` and `most` bound 50 % and 95 % of the values.

    Both are null if the value is above all bounds.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    count: int
    mean: float | None
    half: float | None
    most: float | None


class KindDurations(msgspec.Struct, frozen=True, rename="camel"):
    """The objects and durations of one kind."""

    group: str
    kind: str
    objects: dict[str, int]
    behind: int
    flips: int
    observation: Histogram
    reconcile: Histogram


class DurationsPage(msgspec.Struct, frozen=True):
    """One page of kinds, the slowest first; `total` kinds match."""

    kinds: tuple[KindDurations, ...]
    total: int
    page: int
    pages: int


async def load(context: PageContext, query: Mapping[str, str], _: float) -> PageData:
    """Return the kinds with tracked objects."""
    check_parameters(query, _PARAMETERS)
    words = query.get("q", "").casefold().split()
    found = [
        _of_kind(kind, counts)
        for kind, counts in context.sources.detecting.tracking.counts_by_kind
        if (any(counts.healths.values()) or counts.reconcile.sum)
        and all(word in f"{kind.kind} {kind.resource}.{kind.group}".casefold() for word in words)
    ]
    found.sort(key=lambda one: (-(one.reconcile.mean or 0.0), one.kind, one.group))
    pages = max(1, -(-len(found) // _ROWS))
    page = min(number(query, "page", 1, _MOST_PAGES), pages)
    shown = tuple(found[(page - 1) * _ROWS : page * _ROWS])
    model = DurationsPage(shown, len(found), page, pages)
    return PageData(model, {"q": query.get("q", "")})


def _of_kind(kind: ResourceKind, counts: KindCounts) -> KindDurations:
    healths = {health.value: count for health, count in counts.healths.items()}
    return KindDurations(
        kind.group,
        kind.kind,
        healths,
        counts.behind,
        counts.flips,
        histogram(counts.observation),
        histogram(counts.reconcile),
    )


def histogram(found: DurationHistogram) -> Histogram:
    """Return a histogram with its count, mean and bounds."""
    count = sum(found.counts)
    return Histogram(
        found.bounds,
        tuple(found.counts),
        count,
        found.sum / count if count else None,
        _within(found.bounds, found.counts, 0.5),
        _within(found.bounds, found.counts, 0.95),
    )


def _within(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """Return the smallest bound that holds this share of the values, or None."""
    wanted = share * sum(counts)
    for bound, count in zip(bounds, accumulate(counts), strict=False):
        if count and count >= wanted:
            return bound
    return None
