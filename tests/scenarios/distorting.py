"""What happens to reviews on their way: some are lost, come twice, late, or between others."""

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

Line = dict[str, Any]
Distortion = Callable[[list[Line], "list[list[Line]]"], Iterable[Line]]
"""Takes all reviews in order and the same by write; gives the reviews that arrive, in order."""

_PHASES: Final = ("intent", "mutate", "outcome")
_LOST_SECONDS: Final = 2.0


def writes_of(lines: Iterable[Line]) -> list[list[Line]]:
    """Return the reviews of each write, in the order in which the writes began."""
    found: list[list[Line]] = []
    open_writes: dict[str, list[list[Line]]] = {}
    for line in lines:
        several = open_writes.setdefault(_key(line), [])
        if line["phase"] == "intent" or not several:
            several.append([])
            found.append(several[-1])
        # Calls of writes at once come in the order in which these began.
        write = next((one for one in several if line["phase"] not in _phases(one)), several[-1])
        write.append(line)
        if line["phase"] == "outcome":
            several[:] = [one for one in several if one is not write]
    return found


def only_whole(arrived: Iterable[Line], writes: Iterable[list[Line]]) -> list[Line]:
    """Return the reviews, in their order, of those writes of which each review has arrived."""
    arrived = list(arrived)
    seen = {id(line) for line in arrived}
    whole = {id(line) for write in writes if seen.issuperset(map(id, write)) for line in write}
    found: dict[int, Line] = {id(line): line for line in arrived if id(line) in whole}
    return list(found.values())


def one_phase_of_one_write(phase: str) -> Distortion:
    """Of one write in the middle only this phase arrives."""

    def distort(lines: list[Line], writes: list[list[Line]]) -> Iterator[Line]:
        whole = [one for one in writes if {*_PHASES} <= _phases(one)]
        victim = whole[len(whole) // 2] if whole else []
        lost = {id(line) for line in victim if line["phase"] != phase}
        return (line for line in lines if id(line) not in lost)

    return distort


def one_in_ten_lost(seed: int) -> Distortion:
    """One review in ten does not arrive."""

    def distort(lines: list[Line], writes: list[list[Line]]) -> Iterator[Line]:
        del writes
        random = Random(seed)
        return (line for line in lines if random.random() >= 0.1)

    return distort


def two_seconds_lost(lines: list[Line], writes: list[list[Line]]) -> Iterator[Line]:
    """Nothing arrives for two seconds, after a third of the time."""
    del writes
    times = [moment_of(line) for line in lines]
    begin = times[0] + (times[-1] - times[0]) / 3
    end = begin + timedelta(seconds=_LOST_SECONDS)
    return (line for line, time in zip(lines, times, strict=True) if not begin <= time < end)


def each_twentieth_twice(lines: list[Line], writes: list[list[Line]]) -> Iterator[Line]:
    """The API server asks again where a connection has broken."""
    del writes
    for number, line in enumerate(lines):
        yield line
        if number % 20 == 19:
            yield line


def neighbours_interleaved(lines: list[Line], writes: list[list[Line]]) -> Iterator[Line]:
    """Two writes, one after the other, are on their way at once: first both intents, and so on.

    Not where the second has seen what the first has stored.
    """
    times = iter([line["time"] for line in lines])
    pairs = zip(writes[::2], [*writes[1::2], []], strict=False)
    for first, second in pairs:
        both = [*first, *second]
        if not second or object_of(first[0]) != object_of(second[0]) or _same_version(both):
            both.sort(key=lambda one: _PHASES.index(one["phase"]))
        for line in both:
            line["time"] = next(times)
            yield line


def a_pause_of_a_minute(lines: list[Line], writes: list[list[Line]]) -> Iterator[Line]:
    """Everything stands still in the middle, as while a control plane is updated."""
    del writes
    for number, line in enumerate(lines):
        if number >= len(lines) // 2:
            line["time"] = (moment_of(line) + timedelta(seconds=60)).isoformat()
        yield line


DISTORTIONS: Final[dict[str, Distortion]] = {
    **{f"only the {phase} of one write": one_phase_of_one_write(phase) for phase in _PHASES},
    **{f"one in ten lost, {seed}": one_in_ten_lost(seed) for seed in (1, 2)},
    "two seconds lost": two_seconds_lost,
    "each twentieth twice": each_twentieth_twice,
    "neighbours interleaved": neighbours_interleaved,
    "a pause of a minute": a_pause_of_a_minute,
}


def encoded(lines: Iterable[Line]) -> list[bytes]:
    """Return reviews as a recording has them."""
    return [json.dumps(line).encode() for line in lines]


def _phases(write: Iterable[Line]) -> set[str]:
    return {line["phase"] for line in write}


def moment_of(line: Line) -> datetime:
    return datetime.fromisoformat(line["time"])


def _same_version(lines: Iterable[Line]) -> bool:
    return len({_version(line["review"]["request"]) for line in lines}) == 1


def _version(request: Line) -> str | None:
    old = request.get("oldObject") or {}
    return old.get("metadata", {}).get("resourceVersion")


def object_of(line: Line) -> tuple[str, ...]:
    request = line["review"]["request"]
    return (request["resource"]["resource"], request.get("namespace", ""), request.get("name", ""))


def _key(line: Line) -> str:
    request = line["review"]["request"]
    old = request.get("oldObject") or {}
    metadata = old.get("metadata", {})
    where = (request.get("namespace"), request.get("name"), request["operation"])
    what = (request["resource"], request.get("subResource"), request["userInfo"]["username"])
    new = (request.get("object") or {}).get("metadata", {})
    named = (new.get("generateName"), new.get("name")) if not old else ()
    return json.dumps([where, what, metadata.get("uid"), _version(request), named])
