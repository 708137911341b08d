"""Makes the loop of the few writes that a reduced recording has left: loop.json.

Each kind of write is there once, with the values that it had in turn: two writers who overwrite
each other eight times are two writes. What webhooks did is found call by call.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from statistics import median
from typing import Any, Final

import msgspec

from genguard.detection.finding import Finding
from genguard.detection.questions.refused import RETRY
from genguard.generation.table import kind_of
from genguard.objects.fields import ABSENT, get, to_pointer
from genguard.objects.metadata import SET_BY_SERVER
from genguard.patch.merge import merge_patch, merge_patch_between
from genguard.reproduce.recorded import Document, RecordedWrite, location_of, moment, request_of

Field = tuple[str, ...]
"""Names of a field, from the outside."""
_Object = tuple[str, str, str]
_VERBS: Final = {"CREATE": "create", "UPDATE": "patch", "DELETE": "delete"}
_HELD: Final = ["example.org/held"]
_FASTEST, _SLOWEST = 0.02, 2.0
"""Seconds between two writes."""


class Held(msgspec.Struct, frozen=True, omit_defaults=True):
    """A field that holds the generation, or the resourceVersion, that an object has then.

    object  resource, namespace and name; of the object itself where it is empty
    offset  so many more
    """

    field: Field
    what: str
    object: tuple[str, ...] = ()
    offset: int = 0


class Write(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One kind of write.

    verb     `patch`, `create`, `delete`; `put`, of an old version; or `move`, which stands for any
             change of the spec, and counts generation
    changes  merge patches (RFC 7386); whole objects for a create and a put
    renewed  fields that have another value in each write
    held     fields that hold a number of an object
    refused  the API server refused it in the recording: here a validation does, of a webhook that
             makes it invalid as long as that one does
    """

    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    subresource: str = ""
    changes: tuple[Document, ...] = ()
    renewed: tuple[Field, ...] = ()
    held: tuple[Held, ...] = ()
    refused: bool = False


class Effect(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a webhook does to one field in the writes of one resource.

    resource  with the subresource: `deployments.apps/status`
    does      `set`, to the next of the values in each call; `renew`, to a value that it never had;
              or `remove`
    """

    resource: str
    operation: str
    field: Field
    does: str
    values: tuple[Any, ...] = ()


class Loop(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that the test needs besides the definitions of custom resources.

    severity  the least of a finding that makes the test red
    culprit   the user whose writes are left out to see what happens without them; "" where a
              webhook makes the loop
    objects   what is there at the beginning
    order     the writes as they follow each other, again and again: each by its index in `writes`,
              and that of its change
    seconds   from one write to the next
    server_version  of Kubernetes, whose rules held
    """

    severity: str
    culprit: str
    objects: tuple[Document, ...]
    writes: tuple[Write, ...]
    effects: tuple[Effect, ...]
    order: tuple[tuple[int, int], ...]
    seconds: float
    server_version: str


def loop_of(
    writes: Sequence[RecordedWrite], found: Finding, *, severity: str, server_version: str
) -> Loop:
    """Return the loop of a reduced recording; `severity` is that of its finding in the full one.

    A webhook makes it where the writes show that one has changed a field of the finding, or an
    object of which no field is named.
    """
    kinds: dict[tuple[Any, ...], list[RecordedWrite]] = {}
    for write in writes:
        kinds.setdefault(_kind_of(write), []).append(write)
    effects = tuple(_effects_of(writes))
    # The last write of a refused one is its last try, whether or not it was admitted.
    refused = _kind_of(writes[-1]) if found.detector == RETRY.name else None
    made = [
        _write_of(several, writes, is_refused=kind == refused or several[0].is_refused)
        for kind, several in kinds.items()
    ]
    indexes = {kind: index for index, kind in enumerate(kinds)}
    order: list[tuple[int, int]] = []
    known: dict[_Object, int] = {}
    for write in writes:
        where, (first, last) = write.object, write.generations
        if first > known.get(where, first):  # a change of the spec was left out
            move = Write("somebody", "move", *where)
            if move not in made:
                made.append(move)
            order.append((made.index(move), 0))
        known[where] = max(first, last)
        index = indexes[_kind_of(write)]
        merged = made[index]
        change = _change_of(write, merged.verb, is_refused=merged.refused)
        order.append((index, merged.changes.index(change) if merged.changes else 0))
    order = order if effects else _never_idle(made, order)
    if len(order) > 1 and order[0][0] == order[-1][0]:
        order = order[:-1]  # it is played again and again
    users = [actor.name for actor in found.actors if actor.type == "user"]
    numbers = {held.field for write in made for held in write.held}
    return Loop(
        "info" if severity == "info" else "warning",
        "" if _is_by_webhook(effects, found) else (users or [writes[-1].user])[-1],
        tuple(_beginning(writes, numbers)),
        tuple(made),
        effects,
        tuple(order),
        _pace(writes),
        server_version,
    )


def _kind_of(write: RecordedWrite) -> tuple[Any, ...]:
    """Return what tells kinds of writes apart: who writes what, and whether it is refused."""
    request = write.request
    *where, name = location_of(request)
    operation = request["operation"]
    named = name if operation == "UPDATE" else ""  # a server may make another name each time
    return *where, named, write.user, operation, write.is_refused


def _pace(writes: Sequence[RecordedWrite]) -> float:
    """Return the usual seconds between two writes."""
    times = sorted(moment(write[0]["time"]).timestamp() for write in writes)
    gaps = [after - before for before, after in pairwise(times)]
    return round(min(max(median(gaps), _FASTEST), _SLOWEST), 3) if gaps else _SLOWEST


def _is_by_webhook(effects: Sequence[Effect], found: Finding) -> bool:
    changed = [to_pointer(effect.field) for effect in effects]
    return any(
        not found.paths or f"{path}/".startswith(f"{at}/") or f"{at}/".startswith(f"{path}/")
        for at in changed
        for path in found.paths or ("",)
    )


def _write_of(
    several: Sequence[RecordedWrite], writes: Sequence[RecordedWrite], *, is_refused: bool
) -> Write:
    """Return several recorded writes of one kind as one, with their changes in turn.

    writes  all of the recording, which show the numbers of other objects at the time
    """
    request = several[0].request
    pairs = [write.asked for write in several]
    verb = _VERBS[request["operation"]]
    based = [[get(document, "metadata", "resourceVersion") for document in pair] for pair in pairs]
    if verb == "patch" and all(stored != sent for stored, sent in based):
        verb = "put"
    changes = [_change_of(write, verb, is_refused=is_refused) for write in several]
    values: dict[Field, list[Any]] = {}
    held: dict[Field, list[set[Held]]] = {}
    for write, (old, new) in zip(several, pairs, strict=True) if verb == "patch" else ():
        others = _others_then(write, writes)
        for field, value in _differences(old, new):
            if value is not ABSENT:
                values.setdefault(field, []).append(value)
                if field[-1] == "observedGeneration" or others:
                    held.setdefault(field, []).append({*_held(field, value, new, others)})
    numbers: dict[Field, Held] = {
        field: min(same, key=lambda number: (number.what, number.object))
        for field, seen in held.items()
        if (same := set.intersection(*seen))
    }
    plural, below, namespace, name = location_of(request)
    return Write(
        several[0].user,
        verb,
        plural,
        namespace,
        name,
        below,
        _once(changes),
        tuple(f for f, seen in values.items() if f not in numbers and _is_renewed(seen)),
        tuple(numbers.values()),
        is_refused and verb in ("create", "patch"),
    )


def _once(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(value for at, value in enumerate(values) if value not in values[:at])


def _change_of(write: RecordedWrite, verb: str, *, is_refused: bool) -> Document:
    """Return what a write changes: a merge patch, or a whole object for another verb."""
    old, new = write.asked
    if verb == "delete":
        return {"metadata": {"name": write.object[-1]}}
    if is_refused and "generateName" in (new.get("metadata") or {}):
        new = {**new, "metadata": {**new["metadata"], "name": ""}}  # another one in each try
    if verb != "patch":
        return _as_created(new)
    return merge_patch_between(_own_fields(old), _own_fields(new))


def _as_created(document: Document) -> Document:
    """Return an object as somebody creates it."""
    own, metadata = _own_fields(document), document.get("metadata") or {}
    names = {key: metadata[key] for key in ("name", "namespace") if metadata.get(key)}
    if "name" not in names:
        names["generateName"] = "object-"
    kind: Document = {key: document[key] for key in ("apiVersion", "kind") if key in document}
    return {**kind, **own, "metadata": {**names, **own["metadata"]}}


def _held(
    field: Field, value: Any, new: Document, others: Sequence[tuple[_Object, Document]]
) -> Iterator[Held]:
    """Yield which numbers of which objects a field may hold: of itself, or of another object."""
    if field[-1] == "observedGeneration" and isinstance(value, int):
        generation = (new.get("metadata") or {}).get("generation", 0)
        if value >= generation:
            yield Held(field, "generation", (), value - generation)
        return
    for where, metadata in others:
        for what in ("generation", "resourceVersion"):
            if value == metadata.get(what):
                yield Held(field, what, where)


def _others_then(
    write: RecordedWrite, writes: Sequence[RecordedWrite]
) -> list[tuple[_Object, Document]]:
    """Return the metadata of other objects at a write: what the next write of each is based on."""
    found: dict[_Object, Document] = {}
    for later in writes[writes.index(write) :]:
        found.setdefault(later.object, later.asked[0].get("metadata") or {})
    found.pop(write.object, None)
    return list(found.items())


def _effects_of(writes: Sequence[RecordedWrite]) -> Iterator[Effect]:
    """Yield what webhooks did between the intent and the last mutate, call by call."""
    calls: dict[tuple[str, str, Field], list[Any]] = {}
    unasked: set[tuple[str, str, Field]] = set()
    for write in writes:
        plural, below, *_ = location_of(write.request)
        target = f"{plural}/{below}".rstrip("/"), str(write.request["operation"])
        mutating = [line for line in write if line["phase"] != "outcome"]
        shown = [request_of(line).get("object") or {} for line in mutating]
        asks_nothing = not any(_differences(*write.asked))
        for before, after in pairwise(shown):
            for field, new in _differences(before, after):
                key = (*target, field)
                calls.setdefault(key, []).append(new)
                unasked |= {key} if asks_nothing else set()
    for (resource, operation, field), seen in calls.items():
        does, values = _does(seen, is_unasked=(resource, operation, field) in unasked)
        yield Effect(resource, operation, field, does, values)


def _does(seen: Sequence[Any], *, is_unasked: bool) -> tuple[str, tuple[Any, ...]]:
    """Return what a webhook does, and with which values.

    is_unasked  it changed the field in a write that asks for nothing: who sets always the same
                value would have set it before
    """
    values = [new for new in seen if new is not ABSENT]
    if not values:
        return "remove", ()
    if _is_renewed(values) or (is_unasked and isinstance(values[0], str | int)):
        return "renew", tuple(values[:1])
    return "set", _once(values)


def _never_idle(made: list[Write], order: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return an order in which each write changes something; it may get more changes for that.

    Who sets the same value again and again has found another one each time: somebody has changed
    it, and reducing has left that out.
    """
    states: dict[_Object, Document] = {}
    found = []
    for index, number in order:
        write, at = made[index], number
        if write.verb == "patch" and any(write.changes) and not write.refused:
            where = write.resource, write.namespace, write.name
            change, state = write.changes[number], states.get(where, {})
            numbers = {*write.renewed, *(held.field for held in write.held)}
            if merge_patch(state, change) == state and _without(change, numbers) == change:
                change = _other_values(change)
                if change not in write.changes:
                    write = msgspec.structs.replace(write, changes=(*write.changes, change))
                    made[index] = write
                at = write.changes.index(change)
            states[where] = merge_patch(state, change)
        found.append((index, at))
    return found


def _other_values(change: Any) -> Any:
    if isinstance(change, dict):
        return {key: _other_values(value) for key, value in change.items()}
    if isinstance(change, list):
        return [_other_values(item) for item in change]
    if isinstance(change, bool):
        return not change
    if isinstance(change, str):
        return {"True": "False", "False": "True"}.get(change, f"{change}-again")
    return change + 1 if isinstance(change, int) else change


def _beginning(writes: Sequence[RecordedWrite], numbers: AbstractSet[Field]) -> Iterator[Document]:
    """Yield the objects that are there before the first write, without fields of numbers."""
    seen = set()
    for write in sorted(writes, key=lambda write: write.asked[0].get("kind") == "Scale"):
        where, (old, _), request = write.object, write.asked, write.request
        if where not in seen:
            seen.add(where)
            if old and request["operation"] != "CREATE":
                document = _without(_as_created(old), numbers)
                if old.get("kind") == "Scale":  # nothing else shows what is scaled
                    scaled = request["resource"]
                    group, resource = scaled.get("group", ""), scaled["resource"]
                    document["apiVersion"] = f"{group}/{scaled['version']}".lstrip("/")
                    document["kind"] = kind_of(group, resource) or "Scaled"
                same = (w.request["operation"] for w in writes if w.object == where)
                if ("DELETE", "UPDATE") in pairwise(same):  # something holds it
                    metadata = document["metadata"]
                    metadata["finalizers"] = metadata.get("finalizers") or _HELD
                yield document


def _own_fields(document: Document) -> Document:
    """Return an object without what the server writes, and without its kind."""
    kept = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    metadata = document.get("metadata") or {}
    own = {key: metadata[key] for key in metadata if key not in SET_BY_SERVER}
    return {**kept, "metadata": own}


def _without(document: Document, fields: AbstractSet[Field], at: Field = ()) -> Document:
    """Return an object without these fields."""
    return {
        key: _without(value, fields, (*at, key)) if isinstance(value, dict) else value
        for key, value in document.items()
        if (*at, key) not in fields
    }


def _differences(old: Any, new: Any, field: Field = ()) -> Iterator[tuple[Field, Any]]:
    """Yield each field that differs, with its new value; a list is one value."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            if field != ("metadata",) or key not in SET_BY_SERVER:
                yield from _differences(old.get(key, ABSENT), new.get(key, ABSENT), (*field, key))
    elif old is ABSENT and isinstance(new, dict) and new:
        yield from _differences({}, new, field)
    elif new is ABSENT and isinstance(old, dict) and old:
        yield from _differences(old, {}, field)
    elif old is ABSENT or new is ABSENT or old != new:
        yield field, new


def _is_renewed(values: Sequence[Any]) -> bool:
    """Whether a field never had the same text or number again."""
    plain = [
        value for value in values if isinstance(value, str | int) and not isinstance(value, bool)
    ]
    return 1 < len(plain) == len(values) == len(set(plain))
