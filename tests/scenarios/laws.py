"""The laws of a loop: changes of reviews that leave a loop a loop, and a quiet life quiet."""

import json
import re
from collections import Counter
from collections.abc import Collection
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any, Final

from genguard.detection.questions import FINDINGS
from genguard.objects.fields import from_pointer
from tests.scenarios import recording
from tests.scenarios.distorting import Line, moment_of, object_of, writes_of
from tests.scenarios.expecting import Expected

_OVER_A_FIELD: Final = {"spec-fight", "metadata-fight", "status-oscillation"}
_STAMP: Final = ("metadata", "annotations", "example.org/stamp")


def read(name: str) -> list[Line]:
    return [json.loads(line) for line in recording.read_lines(name)]


def renamed(found: Any, lines: list[Line]) -> Any:
    """The same with other names for all objects, namespaces and users, but Kubernetes' own."""
    requests = [line["review"]["request"] for line in lines]
    users = {one["userInfo"]["username"] for one in requests}
    names = {one.get(key) for one in requests for key in ("name", "namespace")} | users
    kept = {*FINDINGS, "", None, *(one for one in users if one.startswith("system:"))}
    either = "|".join(map(re.escape, sorted(names - kept)))  # as a value, or in CEL
    return json.loads(re.sub(rf"([\"'])({either})\1(?!:)", r"\1x-\2-y\1", json.dumps(found)))


def _paced(lines: list[Line], _: Expected, least: float = 10.0, most: float = 10.0) -> list[Line]:
    now, random = moment_of(lines[0]), Random(len(lines))
    pauses = [moment_of(b) - moment_of(a) for a, b in pairwise(lines)]
    for line, pause in zip(lines[1:], pauses, strict=True):
        now += pause * random.uniform(least, most)
        line["time"] = now.isoformat()
    return lines


def _noise(lines: list[Line], _: Expected) -> list[Line]:
    """Rollouts of other objects, from the first review to the last."""
    others = read("rollouts")
    start, begin = moment_of(lines[0]), moment_of(others[0])
    share = (moment_of(lines[-1]) - start) / (moment_of(others[-1]) - begin)
    for line in others:
        line["time"] = (start + (moment_of(line) - begin) * share).isoformat()
    return sorted([*lines, *others], key=moment_of)


def _at(line: Line, side: str, way: tuple[str, ...]) -> Any:
    found = line["review"]["request"].get(side)
    for token in way:
        is_list = isinstance(found, list)
        found = (found[int(token) :] or [None])[0] if is_list else (found or {}).get(token)
    return found


def _set(line: Line, side: str, way: tuple[str, ...], value: Any) -> None:
    found = line["review"]["request"][side]
    for token in way[:-1]:
        found = found[int(token)] if isinstance(found, list) else found.setdefault(token, {})
    found[int(way[-1]) if isinstance(found, list) else way[-1]] = value


def _with(value: Any, number: int) -> Any:
    """A value with a suffix: of owners the uid; what is no text and no number stays."""
    if isinstance(value, list):
        return [_with(one, number) for one in value]
    if isinstance(value, dict) and "uid" in value:
        return {**value, "uid": _with(value["uid"], number)}
    if isinstance(value, str):
        return f"{value}-x{number}"
    return value + 1_000 * number if type(value) is int else value


def _versioned(
    lines: list[Line], way: tuple[str, ...] = _STAMP, whose: Collection[str] = ()
) -> list[Line]:
    """Change a value in each review: of an old object as its latest writer has made it.

    Each write but of status stamps it, or what these write of it gets their number as a suffix.
    """
    made, latest, stored = dict[str, int](), dict[str, int](), dict[str, int]()
    counts = Counter[str]()
    for write in writes_of(lines):
        request, where, new, after = write[0]["review"]["request"], object_of(write[0]), None, 0
        old, base = _at(write[0], "oldObject", way), _at(write[0], "oldObject", _STAMP[:1]) or {}
        place = f"{where} {base.get('resourceVersion')}"
        before = stored.setdefault(place, made.get(f"{where} {old}", 0)) if base else 0
        counts[who := request["userInfo"]["username"]] += 1
        number = counts[who] if who in whose else None
        if not whose:
            is_idle = _at(write[-1], "object", ()) == _at(write[-1], "oldObject", ())
            number = before if is_idle or "subResource" in request else counts.total()
        for line in write if base else ():
            new = _at(line, "object", way)
            after = latest.get(repr(new), 0) if number is None else number
            after = before if new == old is not None else after
            for side, its in (("oldObject", before), ("object", after)):
                if its and _at(line, side, way if whose else ()):
                    value = _with(_at(line, side, way), its) if whose else f"{its} times"
                    _set(line, side, way, value)
        made[f"{where} {new}"] = latest[repr(new)] = after
    return lines


def contested(expected: Expected) -> tuple[tuple[str, ...], list[str]]:
    """A field over which several fight, and those who do; else nobody."""
    for one in expected.find:
        if one["detector"] in _OVER_A_FIELD and isinstance(one["actor"], list):
            return from_pointer(one["path"]), [actor["name"] for actor in one["actor"]]
    return (), []


def _renewed(lines: list[Line], expected: Expected, of: tuple[int, ...]) -> list[Line]:
    """What these of the writers of a contested field write is new each time."""
    way, writers = contested(expected)
    return _versioned(lines, way, [writers[one] for one in of])


QUIET: Final = {"jitter": partial(_paced, least=0.3, most=3.0), "slower": _paced, "noise": _noise}
FIGHTS: Final = {
    "fresh": partial(_renewed, of=(0,)),
    "other": partial(_renewed, of=(1,)),
    "both": partial(_renewed, of=(0, 1)),
}
LOOPS: Final = {
    "renamed": lambda lines, _: renamed(lines, lines),
    "stamped": lambda lines, _: _versioned(lines),
}
