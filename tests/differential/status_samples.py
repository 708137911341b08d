"""Objects with every status that a reader may meet, made from status_samples.yaml.

Each kind is varied one field at a time, so that every value meets an otherwise healthy object, and
then at random, several fields at once. Equal seeds and times give equal objects.
"""

import copy
import json
import random
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any

from tests.cases_loader import read_beside
from tests.scenarios import recording

Document = dict[str, Any]
_TIME = re.compile(r"\$at([+-][0-9]+)([+-][0-9]{2}:[0-9]{2})?")
_ABSENT = "$absent"
_WRONG = 0.05
"""How often a random change is of a wrong type; few objects would be left to evaluate otherwise."""
_GENERAL = 0.3
"""How often a random object is changed in what every kind has, besides its own fields."""


@cache
def _catalogue() -> dict[str, Any]:
    return read_beside(__file__, "status_samples.yaml")


def generated(seed: int, at: float, each: int) -> Iterator[Document]:
    """Every single variation of every kind, and `each` random ones a kind; `at` in Unix seconds."""
    draw = random.Random(seed)
    yield from copy.deepcopy(_catalogue()["strange"])
    for kind, row in _catalogue()["kinds"].items():
        versions = list(dict.fromkeys(row["versions"]))
        named = {"kind": row.get("kind", kind)}
        for document in _one_by_one(row):
            yield _dated({"apiVersion": versions[0], **named, **document}, at)
        for version in versions[1:]:
            yield {"apiVersion": version, **named, **copy.deepcopy(row["object"])}
        for document in _at_random(row, draw, each):
            yield _dated({"apiVersion": draw.choice(row["versions"]), **named, **document}, at)


def recorded(most: int) -> list[Document]:
    """Objects as API servers sent them, of every kind recorded, evenly from all the recordings."""
    found: dict[str, Document] = {}
    for name in recording.recorded():
        for line in recording.read_lines(name):
            document = json.loads(line)["review"]["request"]["object"]
            if document is not None:
                found.setdefault(_told(document), document)
    stride = -(-len(found) // most)
    return list(found.values())[::stride]


def _told(document: Document) -> str:
    """What makes an object worth a look: kind and status, without the times in it."""
    told = {key: document.get(key) for key in ("kind", "status")}
    return re.sub(r'"[0-9-]{10}T[^"]*"', "", json.dumps(told, sort_keys=True))


def _one_by_one(row: dict[str, Any]) -> Iterator[Document]:
    """The object itself, then one change at a time."""
    yield copy.deepcopy(row["object"])
    fields = _fields(row)
    for path, values in fields.items():
        for value in values:
            yield _changed(row["object"], {path: value})
    for path in fields:
        for value in _catalogue()["wrong"]:
            yield _changed(row["object"], {path: value})
    for condition in _conditions(row):
        for place in ("before", "after", "instead"):
            yield _conditioned(row["object"], [(condition, place)])
    for changes in [*row.get("more", ()), *_catalogue()["everything"]["more"]]:
        yield _changed(row["object"], changes)


def _at_random(row: dict[str, Any], draw: random.Random, count: int) -> Iterator[Document]:
    """Several changes at once."""
    fields, conditions = _fields(row), _conditions(row)
    own, general = list(row["fields"]), list(_catalogue()["everything"]["fields"])
    for _ in range(count):
        start = _changed(row["object"], draw.choice([{}, *row.get("more", ())]))
        paths = draw.sample(own, min(draw.choice((0, 1, 2, 2, 3, 4)), len(own)))
        if draw.random() < _GENERAL:
            paths.append(draw.choice(general))
        changes = {
            path: draw.choice(_catalogue()["wrong"] if draw.random() < _WRONG else fields[path])
            for path in paths
        }
        document = _changed(start, changes)
        places = [
            (condition, draw.choice(("before", "after", "instead")))
            for condition in draw.sample(conditions, draw.choice((0, 1, 1, 2, 3)))
        ]
        yield _conditioned(document, places)


def _fields(row: dict[str, Any]) -> dict[str, list[Any]]:
    return {**_catalogue()["everything"]["fields"], **row["fields"]}


def _conditions(row: dict[str, Any]) -> list[Document]:
    rows = [*row["conditions"], *_catalogue()["everything"]["conditions"]]
    return [
        {"type": of, "status": status, "reason": reason, "message": f"{of} is {status}"}
        for of, status, reason in rows
    ]


def _changed(document: Document, changes: dict[str, Any]) -> Document:
    """A copy with the values at some paths; shallow paths first, for they hold the deeper ones."""
    made = copy.deepcopy(document)
    for path in sorted(changes, key=lambda path: path.count(".")):
        _put(made, path.split("."), copy.deepcopy(changes[path]))
    return made


def _put(into: Any, steps: list[str], value: Any) -> None:
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(into, list) and step.isdigit() and int(step) < len(into):
            key: Any = int(step)
        elif isinstance(into, dict):
            key = step
        else:
            return  # an earlier change made it something that holds no fields
        if following is not None:
            into = into.setdefault(key, {}) if isinstance(into, dict) else into[key]
        elif value == _ABSENT:
            into.pop(key, None)
        else:
            into[key] = value


def _conditioned(document: Document, places: list[tuple[Document, str]]) -> Document:
    """A copy with conditions before, after or instead of its own of the same type."""
    made = copy.deepcopy(document)
    status = made.setdefault("status", {})
    if not isinstance(status, dict) or not isinstance(status.get("conditions", []), list):
        return made
    for condition, place in places:
        held = status.get("conditions", [])
        if place == "instead":
            held = [one for one in held if not _is_of(one, condition["type"])]
        status["conditions"] = [condition, *held] if place == "before" else [*held, condition]
    return made


def _is_of(condition: Any, of: str) -> bool:
    return isinstance(condition, dict) and condition.get("type") == of


def _dated(value: Any, at: float) -> Any:
    """The same with its times relative to the run written out."""
    if isinstance(value, dict):
        return {key: _dated(one, at) for key, one in value.items()}
    if isinstance(value, list):
        return [_dated(one, at) for one in value]
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    zone = datetime.strptime(match[2] or "+00:00", "%z").tzinfo
    return datetime.fromtimestamp(int(at) + int(match[1]), zone).isoformat()
