"""The remembered writes of one object, as a table and as a plot."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec

from genguard.detection.history import ObjectHistory
from genguard.detection.sample import Letters, ShownField, values_of
from genguard.detection.write import Outcome, Write
from genguard.objects.fields import to_field_path
from genguard.objects.observed import Generation, Observed, generation_number, restorations
from genguard.status.tracked_state import Milestone

MOST_PATHS = 8
"""The most paths shown for each write."""
LEFT, RIGHT = 56, 784
"""The ends of the plot, in units of the viewBox: it has 800, and a phone shows a part at a time."""
_TICKS: Final = 4
_TOP, _HEIGHT, _LANE = 12, 180, 36
_UP: Final = 4
_MOST_LANES: Final = 6
_QUIET_SHARE, _LEAST = 0.25, 1.0
_SHORT: Final = 10.0
"""Seconds: in a shorter plot two ticks may be in the same second."""
_LONG: Final = 86_400.0
"""Seconds: in a longer one two ticks may be at the same time of two days."""
_APART: Final = 3.0
"""The offset of each curve, since curves with the same number would hide each other."""


class Stored(StrEnum):
    """Whether a write was stored."""

    YES = "yes"
    UNKNOWN = "not known"
    NO = "no, it changed nothing"


class Step(msgspec.Struct, frozen=True, rename="camel"):
    """One write: the changed fields, and those of their values that may be shown.

    fields   the values of the first of the changed fields
    others   paths that other webhooks changed; null if the intent was not seen
    mended   fields that another webhook cleared and genguard restored
    lost     fields that were cleared and not restored
    """

    time: float
    user: str
    field_manager: str
    subresource: str
    stored: Stored
    generation: int
    counted: bool
    observed: Generation | None
    changed: tuple[str, ...]
    changed_count: int
    others: tuple[str, ...] | None
    mended: tuple[str, ...]
    lost: tuple[str, ...]
    fields: tuple[ShownField, ...] = ()

    @property
    def actor(self) -> str:
        """The requester as one text."""
        return f"{self.user} ({self.field_manager})" if self.field_manager else self.user


class Curve(NamedTuple):
    """One plotted quantity; `number` selects its colour and pattern."""

    name: str
    number: int
    path: str


class Mark(NamedTuple):
    """One write in the lane of its writer."""

    x: float
    y: float
    kind: str
    title: str


class Label(NamedTuple):
    """A number at an axis, or the name of a lane."""

    at: float
    text: str


class Plot(NamedTuple):
    """The positions of all parts, in units of the viewBox."""

    begin: float
    height: float
    lines: tuple[Curve, ...]
    marks: tuple[Mark, ...]
    lanes: tuple[Label, ...]
    across: tuple[Label, ...]
    up: tuple[Label, ...]


def steps(known: ObjectHistory, ahead: float = 0.0) -> tuple[Step, ...]:
    """Return the remembered writes, oldest first.

    ahead  the seconds by which the time of day is ahead of their times
    """
    letters: Letters = {}
    return tuple(_step(write, letters, ahead) for write in known.writes)


def _step(write: Write, letters: Letters, ahead: float) -> Step:
    known = Stored.YES if write.outcome is Outcome.STORED else Stored.UNKNOWN
    metadata, others = (change.pointer for change in write.metadata.admitted), write.of_webhooks()
    changed = tuple(dict.fromkeys((*write.pointers(), *metadata)))
    return Step(
        time=write.time + ahead,
        user=write.requester.user,
        field_manager=write.requester.manager,
        subresource=write.subresource,
        stored=known if write.changed_anything else Stored.NO,
        generation=write.generation_after,
        counted=write.counted,
        observed=write.observed_after.own,
        changed=changed[:MOST_PATHS],
        changed_count=len(changed),
        others=None
        if write.content.webhook is None
        else tuple(other.pointer for other in others[:MOST_PATHS]),
        mended=tuple(_between(write.observed_sent, write.observed_after)),
        lost=tuple(_between(write.observed_after, write.observed_asked)),
        fields=tuple(islice(values_of(write, letters), MOST_PATHS)),
    )


def _between(cleared: Observed, wanted: Observed) -> Iterator[str]:
    """Yield the fields that `wanted` has and `cleared` lacks."""
    for restoration in restorations(wanted, cleared):
        yield to_field_path(restoration.path)


def plot(steps: Sequence[Step], reconciled: Sequence[Milestone], now: float) -> Plot:
    """Lay out a plot of at least one write, from the first of them on.

    A long time without writes is cut off, so that the last writes have room.
    """
    begin, last = steps[0].time, steps[-1].time
    end = min(max(now, last), last + max((last - begin) * _QUIET_SHARE, _LEAST))
    end = max(end, begin + _LEAST)
    wide = end - begin
    series = (
        ("generation", _changes((step.time, step.generation) for step in steps)),
        (
            "observedGeneration",
            _changes((step.time, generation_number(step.observed)) for step in steps),
        ),
        (
            "reconciledGeneration",
            [(milestone.at, milestone.generation) for milestone in reconciled],
        ),
    )
    numbers = [value for _, points in series for _, value in points if value is not None]
    low, high = min(numbers, default=0), max(numbers, default=1)
    bottom = _TOP + _HEIGHT

    def x(at: float) -> float:
        share = (min(max(at, begin), end) - begin) / wide
        return round(LEFT + share * (RIGHT - LEFT), 1)

    def y(value: float) -> float:
        return round(bottom - 20 - (value - low) / max(high - low, 1) * (_HEIGHT - 40), 1)

    names = _lanes(steps)
    first = bottom + 54
    lane_of = {name: first + index * _LANE for index, name in enumerate(names)}
    marks = (
        Mark(x(step.time), lane_of.get(step.actor, lane_of[names[-1]]), _kind(step), _title(step))
        for step in steps
    )
    apart = max(1, -(-(high - low) // _UP))  # five whole numbers at most
    edges = [begin + wide * tick / _TICKS for tick in range(_TICKS + 1)]
    return Plot(
        begin=begin,
        height=first + len(names) * _LANE - 20,
        lines=tuple(
            Curve(name, index + 1, _path(points, x, y, index * _APART))
            for index, (name, points) in enumerate(series)
            if any(value is not None for _, value in points)
        ),
        marks=tuple(marks),
        lanes=tuple(Label(at, name) for name, at in lane_of.items()),
        across=tuple(Label(x(at), _clock(at, wide)) for at in edges),
        up=tuple(Label(y(value), str(value)) for value in range(low, high + 1, apart)),
    )


Points = Sequence[tuple[float, int | None]]


def _changes(points: Iterable[tuple[float, int | None]]) -> Points:
    """Return the first point of each run of the same value."""
    return [next(run) for _, run in groupby(points, itemgetter(1))]


def _path(
    points: Points, x: Callable[[float], float], y: Callable[[float], float], lower: float
) -> str:
    """Return an SVG path with a step at each change, and a gap where there is no value."""
    parts: list[str] = []
    last = None
    for at, value in points:
        if last is not None:
            parts.append(f"H{x(at)}")
        if value is not None:
            parts.append(f"{'M' if last is None else 'L'}{x(at)} {y(value) + lower:g}")
        last = value
    return " ".join((*parts, f"H{RIGHT}")) if last is not None else " ".join(parts)


def _clock(at: float, wide: float) -> str:
    """Return the time of day in UTC: the finer, the less time is shown."""
    found = datetime.fromtimestamp(at, UTC)
    if wide < _SHORT:
        return f"{found:%H:%M:%S}.{found.microsecond // 100_000}"
    return f"{found:%m-%d %H:%M}" if wide >= _LONG else f"{found:%H:%M:%S}"


def _lanes(steps: Iterable[Step]) -> list[str]:
    """Return the writers in order of appearance; the last lane holds all others."""
    names = list(dict.fromkeys(step.actor for step in steps))
    return names if len(names) <= _MOST_LANES else [*names[: _MOST_LANES - 1], "others"]


def _kind(step: Step) -> str:
    return "lost" if step.lost else "mended" if step.mended else "write"


def _title(step: Step) -> str:
    what = f"/{step.subresource}" if step.subresource else "spec"
    outcome = {"lost": ", observedGeneration lost", "mended": ", restored"}.get(_kind(step), "")
    fields = "".join(f"\n{each.field}: {each.text}" for each in step.fields)
    return f"{step.actor}: {what}, generation {step.generation}{outcome}{fields}"
