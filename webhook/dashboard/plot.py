"""A plot of generations over time, with a lane below it for each writer, to be drawn as SVG."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from webhook.dashboard.timeline import Step
from webhook.dashboard.words import ago
from webhook.status.tracking import Milestone

WIDTH: Final = 800
_LEFT, _RIGHT, _TOP, _HEIGHT, _LANE = 56, 784, 12, 180, 36
_TICKS: Final = 4
_MOST_LANES: Final = 6
_QUIET_SHARE, _LEAST = 0.25, 1.0
_APART: Final = 3.0
"""Lines that show the same number would hide each other."""


class Line(NamedTuple):
    """One quantity; `number` says which colour and pattern it has."""

    name: str
    number: int
    path: str


class Mark(NamedTuple):
    """One write in its lane."""

    x: float
    y: float
    kind: str
    told: str


class Label(NamedTuple):
    """A number at an axis, or the name of a lane."""

    at: float
    text: str


class Plot(NamedTuple):
    """Where everything goes, in units of the viewBox."""

    height: float
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...]
    lanes: tuple[Label, ...]
    across: tuple[Label, ...]
    up: tuple[Label, ...]


def plot(steps: Sequence[Step], reconciled: Sequence[Milestone], now: float) -> Plot:
    """Of at least one step; what lies before the first of them is not shown."""
    begin, last = steps[0].time, steps[-1].time
    # What was quiet since is not worth the room: the last writes are what one wants to see.
    end = min(max(now, last), last + max((last - begin) * _QUIET_SHARE, _LEAST))
    wide = max(end - begin, _LEAST)
    series = (
        ("generation", _changes((one.time, one.generation) for one in steps)),
        ("observedGeneration", _changes((one.time, _number(one)) for one in steps)),
        ("reconciledGeneration", [(one.at, one.generation) for one in reconciled]),
    )
    numbers = [value for _, points in series for _, value in points if value is not None]
    low, high = min(numbers, default=0), max(numbers, default=1)
    bottom = _TOP + _HEIGHT

    def x(at: float) -> float:
        share = (min(max(at, begin), end) - begin) / wide
        return round(_LEFT + share * (_RIGHT - _LEFT), 1)

    def y(value: float) -> float:
        return round(bottom - 20 - (value - low) / max(high - low, 1) * (_HEIGHT - 40), 1)

    names = _lanes(steps)
    first = bottom + 54
    places = {name: first + index * _LANE for index, name in enumerate(names)}
    marks = (
        Mark(x(one.time), places.get(one.actor, places[names[-1]]), _kind(one), _told(one))
        for one in steps
    )
    return Plot(
        height=first + len(names) * _LANE - 20,
        lines=tuple(
            Line(name, index + 1, _path(points, x, y, index * _APART))
            for index, (name, points) in enumerate(series)
            if any(value is not None for _, value in points)
        ),
        marks=tuple(marks),
        lanes=tuple(Label(place, name) for name, place in places.items()),
        across=tuple(
            Label(x(at), ago(at, now))
            for at in (begin + wide * tick / _TICKS for tick in range(_TICKS + 1))
            if at <= max(now, end)
        ),
        up=tuple(Label(y(value), str(value)) for value in _ticks(low, high)),
    )


Points = Sequence[tuple[float, int | None]]


def _number(one: Step) -> int | None:
    """Argo Rollouts writes its observedGeneration as text."""
    value = one.observed
    if isinstance(value, str):
        return int(value) if value else None
    return value


def _changes(points: Iterable[tuple[float, int | None]]) -> Points:
    found: list[tuple[float, int | None]] = []
    for at, value in points:
        if not found or found[-1][1] != value:
            found.append((at, value))
    return found


def _path(
    points: Points, x: Callable[[float], float], y: Callable[[float], float], lower: float
) -> str:
    """A step at each change, and a gap where there is no value."""
    parts: list[str] = []
    last = None
    for at, value in points:
        if last is not None:
            parts.append(f"H{x(at)}")
        if value is not None:
            parts.append(f"{'M' if last is None else 'L'}{x(at)} {y(value) + lower:g}")
        last = value
    return " ".join((*parts, f"H{_RIGHT}")) if last is not None else " ".join(parts)


def _lanes(steps: Iterable[Step]) -> list[str]:
    """Who wrote, in the order in which they came; the last lane is that of all the others."""
    names = list(dict.fromkeys(one.actor for one in steps))
    return names if len(names) <= _MOST_LANES else [*names[: _MOST_LANES - 1], "others"]


def _kind(one: Step) -> str:
    return "lost" if one.lost else "mended" if one.mended else "write"


def _told(one: Step) -> str:
    what = f"/{one.subresource}" if one.subresource else "spec"
    told = {"lost": ", observedGeneration lost", "mended": ", mended"}.get(_kind(one), "")
    return f"{one.actor}: {what}, generation {one.generation}{told}"


def _ticks(low: int, high: int) -> list[int]:
    """Whole numbers, five at most."""
    apart = max(1, -(-(high - low) // _TICKS))
    return list(range(low, high + 1, apart))
