"""How long intents take, by kind: the histograms behind the metrics, as a page."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

import msgspec

from webhook.dashboard.query import known_only, number
from webhook.dashboard.scene import Scene, Seen
from webhook.status.kind_counts import DurationHistogram, KindCounts, ResourceKind

_PARAMETERS: Final = ("q", "page")
_ROWS: Final = 50
_MOST_PAGES: Final = 100


class Spread(msgspec.Struct, frozen=True, rename="camel"):
    """A histogram; `half` and `most` took at most so long, in seconds, null above all bounds.

    most   19 of 20
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    count: int
    mean: float | None
    half: float | None
    most: float | None


class OfKind(msgspec.Struct, frozen=True, rename="camel"):
    """One kind."""

    group: str
    kind: str
    objects: dict[str, int]
    behind: int
    flips: int
    observation: Spread
    reconcile: Spread


class DurationsPage(msgspec.Struct, frozen=True):
    """The slowest first; `total` kinds match."""

    kinds: tuple[OfKind, ...]
    total: int
    page: int
    pages: int


async def look(scene: Scene, query: Mapping[str, str], _: float) -> Seen:
    """Kinds of which objects were seen."""
    known_only(query, _PARAMETERS)
    words = query.get("q", "").casefold().split()
    found = [
        _of_kind(kind, counts)
        for kind, counts in scene.sources.detecting.tracking.counts_by_kind
        if (any(counts.healths.values()) or counts.reconcile.sum)
        and all(word in f"{kind.kind} {kind.resource}.{kind.group}".casefold() for word in words)
    ]
    found.sort(key=lambda one: (-(one.reconcile.mean or 0.0), one.kind, one.group))
    pages = max(1, -(-len(found) // _ROWS))
    page = min(number(query, "page", 1, _MOST_PAGES), pages)
    shown = tuple(found[(page - 1) * _ROWS : page * _ROWS])
    model = DurationsPage(shown, len(found), page, pages)
    return Seen(model, {"q": query.get("q", "")})


def _of_kind(kind: ResourceKind, counts: KindCounts) -> OfKind:
    healths = {health.value: count for health, count in counts.healths.items()}
    return OfKind(
        kind.group,
        kind.kind,
        healths,
        counts.behind,
        counts.flips,
        spread(counts.observation),
        spread(counts.reconcile),
    )


def spread(found: DurationHistogram) -> Spread:
    """A histogram with what people ask of it."""
    count = sum(found.counts)
    return Spread(
        found.bounds,
        tuple(found.counts),
        count,
        found.sum / count if count else None,
        _within(found.bounds, found.counts, 0.5),
        _within(found.bounds, found.counts, 0.95),
    )


def _within(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """The least bound that so many are within: no more than that is known."""
    wanted = share * sum(counts)
    for bound, count in zip(bounds, accumulate(counts), strict=False):
        if count and count >= wanted:
            return bound
    return None
