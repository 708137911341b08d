"""The page of durations: how long changes take by kind, from the histograms of the metrics.

Beneath them, how controllers handle observedGeneration.

A histogram counts by buckets. So of a single change, and of a share of them, only an upper bound is
known: "≤ 500 ms".
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import msgspec

from genguard.detection.honesty import HOW, WriterHonesty
from genguard.status.counts import DurationHistogram, KindCounts, ResourceKind
from webhook.dashboard.page import (
    PageContext,
    PageData,
    check_parameters,
    has_words,
    number,
    part_of,
)
from webhook.dashboard.rendering import span

_PARAMETERS: Final = ("q", "page")
_ROWS: Final = 20
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


class Bar(NamedTuple):
    """One bucket: its count of changes, and what it holds in words."""

    x: float
    y: float
    height: float
    changes: int
    bounds: str


class Tick(NamedTuple):
    """A position at an axis and its text."""

    at: float
    text: str


class Limit(NamedTuple):
    """The bucket below whose bound a share of all changes is, as a vertical line."""

    x: float
    number: int


class Bars(NamedTuple):
    """A plot of a histogram: counts upwards, the bounds of the buckets across; see WIDTH."""

    bars: tuple[Bar, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    limits: tuple[Limit, ...]
    beyond: str


WIDTH: Final = 360
HEIGHT: Final = 170
LEFT: Final = 44
BOTTOM: Final = 122
_TOP: Final = 10
_BAR: Final = 28
_ROUND: Final = tuple(lead * 10**power for power in range(16) for lead in (1, 2, 5))
_EVERY: Final = 2
"""Of the bounds, every second one has room for its text."""


def draw(found: Histogram) -> Bars:
    """Lay out the plot of a histogram that counts at least one change."""
    ticks = _ticks(max(found.counts))
    high = ticks[-1]

    def y(count: float) -> float:
        return round(BOTTOM - (BOTTOM - _TOP) * count / high, 1)

    bounds = [span(bound) for bound in found.bounds]
    beyond = f"> {bounds[-1]}"
    names = [f"≤ {bounds[0]}", *(f"{low} to {top}" for low, top in pairwise(bounds)), beyond]
    shares = (found.half, 1), (found.most, 2)
    return Bars(
        tuple(
            Bar(LEFT + _BAR * number + 1, y(count), round(BOTTOM - y(count), 1), count, name)
            for number, (count, name) in enumerate(zip(found.counts, names, strict=True))
        ),
        tuple(
            Tick(LEFT + _BAR * (number + 1), text)
            for number, text in enumerate(bounds)
            if number % _EVERY == 0
        ),
        tuple(Tick(y(tick), f"{tick:,}") for tick in ticks),
        tuple(
            Limit(LEFT + _BAR * (found.bounds.index(bound) + 1) + 2 * (number - 1), number)
            for bound, number in shares
            if bound is not None
        ),
        beyond,
    )


def _ticks(most: int) -> tuple[int, ...]:
    """Return three or fewer whole numbers from 0 to a round number that is not less than `most`."""
    if most <= 1:
        return (0, 1)
    step = next(one for one in _ROUND if 2 * one >= most)
    return (0, step, 2 * step)


class ControllersPage(msgspec.Struct, frozen=True):
    """How controllers handle observedGeneration; `judged`: writes are judged by this replica."""

    controllers: tuple[WriterHonesty, ...]
    judged: bool


async def load_controllers(context: PageContext, query: Mapping[str, str], _: float) -> PageData:
    """Return the JSON of all controllers, those who are wrong most often first."""
    check_parameters(query, ())
    return PageData(_controllers(context), {})


def _controllers(context: PageContext) -> ControllersPage:
    detecting = context.sources.detecting
    return ControllersPage(tuple(detecting.detection.honesty.writers()), detecting.judges)


async def load(context: PageContext, query: Mapping[str, str], _: float) -> PageData:
    """Return the kinds with tracked objects."""
    check_parameters(query, _PARAMETERS)
    words = query.get("q", "").casefold().split()
    found = [
        _of_kind(kind, counts)
        for kind, counts in context.sources.detecting.tracking.counts_by_kind
        if (any(counts.healths.values()) or counts.reconcile.sum)
        and has_words(words, (kind.kind, f"{kind.resource}.{kind.group}"))
    ]
    found.sort(key=lambda one: (-(one.reconcile.mean or 0.0), one.kind, one.group))
    shown, page, pages = part_of(found, number(query, "page", 1, _MOST_PAGES), _ROWS)
    model = DurationsPage(tuple(shown), len(found), page, pages)
    controllers = _controllers(context).controllers[:_ROWS]
    return PageData(
        model, {"q": query.get("q", ""), "draw": draw, "controllers": controllers, "hows": HOW}
    )


def _of_kind(kind: ResourceKind, counts: KindCounts) -> KindDurations:
    healths = {health.value: count for health, count in counts.healths.items()}
    return KindDurations(
        kind.group,
        kind.kind,
        healths,
        len(counts.behind_since),
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
