"""Makes the loop of the few writes that a reduced recording has left.

Each kind of write is there once, with the values that it had in turn: two writers who overwrite
each other eight times are two writes. What webhooks did is found call by call.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from importlib import resources
from itertools import pairwise
from statistics import median
from typing import Any, Final

import msgspec

from genguard.detection.finding import Finding
from genguard.formats.documents import load_document
from genguard.objects.fields import ABSENT, to_pointer
from genguard.patch.merge import merge_patch, merge_patch_between
from genguard.reproduce.loop import (
    Beginning,
    Effect,
    Field,
    Held,
    Loop,
    Write,
    differences,
    is_renewed,
    own_fields,
    without,
)
from genguard.reproduce.recorded import (
    Document,
    RecordedWrite,
    asked,
    generations,
    is_refused,
    moment,
    name_of,
    object_of,
    place_of,
    request_of,
    user_of,
)

_VERBS: Final = {"CREATE": "create", "UPDATE": "patch", "DELETE": "delete"}


def write_of(several: Sequence[RecordedWrite], writes: Sequence[RecordedWrite]) -> Write:
    """Return several recorded writes of one kind as one, with their changes in turn.

    writes  all of the recording, which show the numbers of other objects at the time
    """
    request = request_of(several[0][0])
    pairs = [asked(one) for one in several]
    verb = _VERBS[request["operation"]]
    if verb == "patch" and all(_version(old) != _version(new) for old, new in pairs):
        verb = "put"
    changes = [change_of(one, verb) for one in several]
    values: dict[Field, list[Any]] = {}
    held: dict[Field, list[set[Held]]] = {}
    for write in several if verb == "patch" else ():
        old, new = asked(write)
        for field, _, value in differences(old, new):
            if value is not ABSENT:
                values.setdefault(field, []).append(value)
                if field[-1] == "observedGeneration" or _others_then(write, writes):
                    held.setdefault(field, []).append(set(_held(field, value, write, writes)))
    numbers = {field: _best(set.intersection(*seen)) for field, seen in held.items()}
    if verb == "patch" and not any(changes) and all(map(_moves_generation, several)):
        verb, changes = "move", []
    plural, below, namespace, name = place_of(request)
    return Write(
        user_of(several[0]),
        verb,
        plural,
        request["resource"]["version"],
        namespace,
        name,
        below,
        tuple(one for at, one in enumerate(changes) if one not in changes[:at]),
        tuple(
            field
            for field, seen in values.items()
            if numbers.get(field) is None and is_renewed(seen)
        ),
        tuple(one for one in numbers.values() if one is not None),
        is_refused(several[0]) and verb != "put",
    )


def _moves_generation(write: RecordedWrite) -> bool:
    """Whether the requester changes the spec: reducing has left out how."""
    shown = [request_of(line).get("object") for line in write if line["phase"] != "outcome"]
    if any(one != shown[0] for one in shown):
        return False  # a webhook does
    before, after = generations(write)
    return after > before


def change_of(write: RecordedWrite, verb: str) -> Document:
    """Return what a write changes: a merge patch, or of another verb a whole object."""
    old, new = asked(write)
    if verb == "delete":
        return {"metadata": {"name": name_of(request_of(write[0]))}}
    if verb != "patch":
        return whole(new)
    base = _bases().get(request_of(write[0])["kind"]["kind"], {})
    patch: Document = _with_base(
        merge_patch_between(own_fields(old), own_fields(new)), base, is_whole=False
    )
    return patch


def whole(document: Document) -> Document:
    """Return an object as somebody creates it, with what its kind must have."""
    base = _bases().get(document.get("kind", ""), {})
    whole: Document = _with_base(own_fields(document, with_kind=True), base)
    return whole


@cache
def _bases() -> dict[str, Document]:
    text = resources.files("genguard.reproduce").joinpath("bases.yaml").read_bytes()
    return msgspec.convert(load_document(text), dict[str, dict[str, Any]])


def _with_base(value: Any, base: Any, *, is_whole: bool = True) -> Any:
    """Return an object, or a merge patch, in which each item of a list has what it must have.

    is_whole  what is missing is added; a patch gets no field that it does not change
    """
    if isinstance(value, list) and isinstance(base, list) and base:
        return [_with_base(one, base[0]) for one in value]
    if not isinstance(value, dict) or not isinstance(base, dict):
        return value
    made = {**base, **value} if is_whole else dict(value)
    return {
        key: _with_base(value[key], base.get(key), is_whole=is_whole) if key in value else one
        for key, one in made.items()
    }


def _version(document: Document) -> str:
    return str((document.get("metadata") or {}).get("resourceVersion", ""))


def _held(
    field: Field, value: Any, write: RecordedWrite, writes: Sequence[RecordedWrite]
) -> Iterator[Held]:
    """Yield which numbers of which objects a field may hold: of itself, or of another object."""
    if field[-1] == "observedGeneration" and isinstance(value, int):
        generation = (asked(write)[1].get("metadata") or {}).get("generation", 0)
        if value >= generation:
            yield Held(field, "generation", (), value - generation)
        return
    for where, metadata in _others_then(write, writes):
        if value == metadata.get("generation"):
            yield Held(field, "generation", where)
        elif value == metadata.get("resourceVersion"):
            yield Held(field, "resourceVersion", where)


def _others_then(
    write: RecordedWrite, writes: Sequence[RecordedWrite]
) -> list[tuple[tuple[str, str, str], Document]]:
    """Return the metadata of other objects at a write: what the next write of each is based on."""
    own = object_of(write)
    found: dict[tuple[str, str, str], Document] = {}
    for later in writes[writes.index(write) :]:
        old = request_of(later[0]).get("oldObject") or {}
        if object_of(later) != own:
            found.setdefault(object_of(later), old.get("metadata") or {})
    return list(found.items())


def _best(held: AbstractSet[Held]) -> Held | None:
    return min(held, key=lambda one: (one.what, one.object), default=None)


def effects_of(writes: Sequence[RecordedWrite]) -> Iterator[Effect]:
    """Yield what webhooks did between the intent and the last mutate, call by call."""
    calls: dict[tuple[str, str, Field], list[tuple[Any, Any]]] = {}
    unasked: set[tuple[str, str, Field]] = set()
    users: dict[tuple[str, str], dict[str, bool]] = {}
    for write in writes:
        plural, below, *_ = place_of(request_of(write[0]))
        target = f"{plural}/{below}".rstrip("/"), str(request_of(write[0])["operation"])
        mutating = [line for line in write if line["phase"] != "outcome"]
        shown = [request_of(line).get("object") or {} for line in mutating]
        asks_nothing = not any(differences(*asked(write)))
        known = users.setdefault(target, {})
        known.setdefault(user_of(write), False)
        for before, after in pairwise(shown):
            for field, old, new in differences(before, after):
                key = (*target, field)
                calls.setdefault(key, []).append((old, new))
                unasked |= {key} if asks_nothing else set()
                known[user_of(write)] = True
    for key, seen in calls.items():
        resource, operation, field = key
        by_user = users[resource, operation]
        whose = tuple(user for user, changed in by_user.items() if changed)
        does, values = _does(seen, is_unasked=key in unasked)
        everybody = len(whose) == len(by_user)
        yield Effect(resource, operation, field, does, values, () if everybody else whose)


def _does(seen: Sequence[tuple[Any, Any]], *, is_unasked: bool) -> tuple[str, tuple[Any, ...]]:
    """Return what a webhook does, and with which values.

    is_unasked  it changed the field in a write that asks for nothing: who sets always the same
                value would have set it before
    """
    values = [new for _, new in seen if new is not ABSENT]
    if not values:
        return "remove", ()
    texts = [("" if old is ABSENT else old, new) for old, new in seen]
    if all(isinstance(old, str) and isinstance(new, str) for old, new in texts):
        added = {new.removeprefix(old) for old, new in texts}
        if (
            len(added) == 1
            and any(old for old, _ in texts)
            and all(n.startswith(o) for o, n in texts)
        ):
            return "append", tuple(added)
    if is_renewed(values) or (is_unasked and isinstance(values[0], str | int)):
        return "renew", tuple(values[:1])
    return "set", tuple(one for at, one in enumerate(values) if one not in values[:at])


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
