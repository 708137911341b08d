"""Makes the loop of the few writes that a reduced recording has left."""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from statistics import median
from typing import Any, Final

import msgspec

from genguard.detection.finding import Finding
from genguard.objects.pointer import to_pointer
from genguard.patch.merge import merge_patch
from genguard.reproduce.effects import effects_of
from genguard.reproduce.fields import without
from genguard.reproduce.loop import Beginning, Effect, Field, Loop, Write
from genguard.reproduce.recorded import (
    Document,
    RecordedWrite,
    generations,
    is_refused,
    moment,
    object_of,
    place_of,
    request_of,
    user_of,
)
from genguard.reproduce.writers import change_of, whole, write_of

_FASTEST, _SLOWEST = 0.02, 2.0
"""Seconds between two writes."""


def loop_of(
    writes: Sequence[RecordedWrite],
    found: Finding,
    definitions: Iterable[Document],
    *,
    severity: str,
    server_version: str,
) -> Loop:
    """Return the loop of a reduced recording; `severity` is that of its finding in the whole one.

    A webhook makes it where the writes show that one has changed a field of the finding, or an
    object of which no field is named.
    """
    if not any(line["phase"] == "outcome" for write in writes for line in write):
        # Nobody knows then what was refused.
        writes = [(*write, {**write[-1], "phase": "outcome"}) for write in writes]
    kinds: dict[tuple[Any, ...], list[RecordedWrite]] = {}
    for write in writes:
        kinds.setdefault(_kind_of(write), []).append(write)
    effects = tuple(effects_of(writes))
    made = [write_of(several, writes) for several in kinds.values()]
    places = {kind: place for place, kind in enumerate(kinds)}
    order: list[tuple[int, int]] = []
    moves = _Moves()
    for write in writes:
        place = places[_kind_of(write)]
        where = moves.before(write)
        if where is not None:
            version = request_of(write[0])["resource"]["version"]
            move = Write("somebody", "move", where[0], version, *where[1:])
            if move not in made:
                made.append(move)
            order.append((made.index(move), 0))
        changes = made[place].changes
        change = change_of(write, made[place].verb)
        order.append((place, changes.index(change) if changes else 0))
    order = order if effects else _never_idle(made, order)
    if len(order) > 1 and order[0][0] == order[-1][0]:
        order = order[:-1]  # it is played again and again
    users = [one.name for one in found.actors if one.type == "user"]
    return Loop(
        found.detector,
        "info" if severity == "info" else "warning",
        found.paths,
        "" if _is_by_webhook(effects, found) else (users or [user_of(writes[-1])])[-1],
        tuple(definitions),
        tuple(_beginning(writes, {one.field for write in made for one in write.held})),
        tuple(made),
        effects,
        tuple(order),
        _pace(writes),
        server_version,
    )


def _is_by_webhook(effects: Sequence[Effect], found: Finding) -> bool:
    changed = [to_pointer(one.field) for one in effects]
    return any(
        not found.paths or f"{path}/".startswith(f"{at}/") or f"{at}/".startswith(f"{path}/")
        for at in changed
        for path in found.paths or ("",)
    )


def _never_idle(made: list[Write], order: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return an order in which each write changes something; it may get more changes for that.

    Who sets the same value again and again has found another one each time: somebody has changed
    it, and reducing has left that out.
    """
    states: dict[tuple[str, str, str], Document] = {}
    found = []
    for place, turn in order:
        write, at = made[place], turn
        if write.verb == "patch" and any(write.changes):
            where = write.resource, write.namespace, write.name
            change, state = write.changes[turn], states.get(where, {})
            numbers = {*write.renewed, *(one.field for one in write.held)}
            if merge_patch(state, change) == state and without(change, numbers) == change:
                change = _other_values(change)
                if change not in write.changes:
                    write = msgspec.structs.replace(write, changes=(*write.changes, change))
                    made[place] = write
                at = write.changes.index(change)
            states[where] = merge_patch(state, change)
        found.append((place, at))
    return found


def _other_values(change: Any) -> Any:
    if isinstance(change, dict):
        return {key: _other_values(value) for key, value in change.items()}
    if isinstance(change, list):
        return [_other_values(one) for one in change]
    if isinstance(change, bool):
        return not change
    if isinstance(change, str):
        return {"True": "False", "False": "True"}.get(change, f"{change}-again")
    return change + 1 if isinstance(change, int) else change


def _kind_of(write: RecordedWrite) -> tuple[Any, ...]:
    """Return what tells kinds of writes apart: who writes what, and whether it is refused."""
    request = request_of(write[0])
    plural, below, namespace, name = place_of(request)
    operation = request["operation"]
    named = name if operation == "UPDATE" else ""  # a server may make another name each time
    return plural, below, namespace, named, user_of(write), operation, is_refused(write)


def _pace(writes: Sequence[RecordedWrite]) -> float:
    """Return the usual seconds between two writes."""
    times = [moment(write[0]["time"]).timestamp() for write in writes]
    gaps = [after - before for before, after in pairwise(sorted(times))]
    return round(min(max(median(gaps), _FASTEST), _SLOWEST), 3) if gaps else _SLOWEST


class _Moves:
    """Finds where generation moved between two writes: a change of the spec was left out."""

    def __init__(self) -> None:
        self._known: Final[dict[tuple[str, str, str], int]] = {}

    def before(self, write: RecordedWrite) -> tuple[str, str, str] | None:
        """Return the object, where somebody must have changed its spec before this write."""
        where = object_of(write)
        first, last = generations(write)
        known = self._known.get(where, first)
        self._known[where] = max(first, last)
        return where if first > known else None


def _beginning(writes: Sequence[RecordedWrite], held: AbstractSet[Field]) -> Iterator[Beginning]:
    """Yield the objects that are there before the first write, without fields of numbers."""
    seen = set()
    for write in writes:
        request, where = request_of(write[0]), object_of(write)
        if where in seen or (request.get("oldObject") or {}).get("kind") == "Scale":
            continue
        seen.add(where)
        if request["operation"] != "CREATE" and request.get("oldObject"):
            yield Beginning(where[0], without(whole(request["oldObject"]), held))
