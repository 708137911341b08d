"""A loop as data: who writes what in turn, and what a webhook makes of it. The tests play it.

Reads   the writes that a reduced recording has left, and its finding
Result  each kind of write once, with the values that it had in turn: two writers who overwrite each
        other eight times are two writes. Of webhooks, what they changed in each call
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from importlib import resources
from itertools import pairwise
from statistics import median
from typing import Any, Final

import msgspec

from genguard.detection.finding import Finding
from genguard.formats.kube_yaml import load_document
from genguard.objects.fields import ABSENT
from genguard.objects.pointer import to_pointer
from genguard.patch.merge import merge_patch
from genguard.reproduce.anonymous import is_builtin
from genguard.reproduce.recorded import Document, RecordedWrite, moment, name_of, request_of

WRITES_PLAYED: Final = 120
"""Most loops are a warning after ten rounds, storms after thirty writes."""
_FASTEST, _SLOWEST = 0.02, 2.0
"""Seconds between two writes."""
_OF_SERVER: Final = (
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink", "generateName",
)  # fmt: skip
_SCALE: Final = "scale"
_PATHS_OF_SCALE: Final = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
}
_VERBS: Final = {"CREATE": "create", "UPDATE": "patch", "DELETE": "delete"}
Field = tuple[str, ...]


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
    changes  merge patches (RFC 7386), of a create and a put whole objects
    renewed  fields that have another value in each write
    held     fields that hold a number of an object
    refused  the API server refused it in the recording: here a webhook does
    """

    user: str
    verb: str
    resource: str
    version: str
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
    users     whose writes; of everybody where it is empty
    field     the names of the field, from the outside
    does      `set`, to the next of the values in each call; `renew`, to a value that it never had;
              `remove`; or `append`, of a text
    """

    resource: str
    operation: str
    field: Field
    does: str
    values: tuple[Any, ...] = ()
    users: tuple[str, ...] = ()


class Beginning(msgspec.Struct, frozen=True):
    """An object that is there at the beginning; `resource` as in Write."""

    resource: str
    document: Document


class Loop(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that the tests need; loop.json has it.

    culprit      the user whose writes are left out to see what happens without them; "" where a
                 webhook makes the loop
    severity     the least of a finding that makes the test red
    definitions  a CustomResourceDefinition of each custom resource, with any fields
    objects      what is there at the beginning
    order        the writes as they follow each other: each by its place in `writes`, and that of
                 its change. The tests repeat it until there were WRITES_PLAYED
    seconds      from one write to the next
    server_version  of Kubernetes, whose rules held
    """

    detector: str
    severity: str
    paths: tuple[str, ...]
    culprit: str
    definitions: tuple[Document, ...]
    objects: tuple[Beginning, ...]
    writes: tuple[Write, ...]
    effects: tuple[Effect, ...]
    order: tuple[tuple[int, int], ...]
    seconds: float
    server_version: str
    played: int = WRITES_PLAYED


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
    effects = tuple(_effects(writes))
    made = [_write(several, writes) for several in kinds.values()]
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
        change = _change(write, made[place].verb)
        order.append((place, changes.index(change) if changes else 0))
    order = order if effects else _never_idle(made, order)
    if len(order) > 1 and order[0][0] == order[-1][0]:
        order = order[:-1]  # it is played again and again
    users = [one.name for one in found.actors if one.type == "user"]
    return Loop(
        found.detector,
        "info" if severity == "info" else "warning",
        found.paths,
        "" if _is_by_webhook(effects, found) else (users or [_user(writes[-1])])[-1],
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
            if merge_patch(state, change) == state and _dropped(change, numbers) == change:
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
    plural, below, namespace, name = _where(request)
    operation = request["operation"]
    named = name if operation == "UPDATE" else ""  # a server may make another name each time
    return plural, below, namespace, named, _user(write), operation, _is_refused(write)


def _pace(writes: Sequence[RecordedWrite]) -> float:
    """Return the usual seconds between two writes."""
    times = [moment(write[0]["time"]).timestamp() for write in writes]
    gaps = [after - before for before, after in pairwise(sorted(times))]
    return round(min(max(median(gaps), _FASTEST), _SLOWEST), 3) if gaps else _SLOWEST


def _where(request: Document) -> tuple[str, str, str, str]:
    resource = request["resource"]
    plural = f"{resource['resource']}.{resource.get('group', '')}".rstrip(".")
    below = request.get("subResource", "")
    return plural, below, request.get("namespace", ""), name_of(request)


def _user(write: RecordedWrite) -> str:
    return str((request_of(write[0]).get("userInfo") or {}).get("username", ""))


def _is_refused(write: RecordedWrite) -> bool:
    return bool(write[-1]["phase"] != "outcome" and request_of(write[0])["operation"] != "DELETE")


def _asked(write: RecordedWrite) -> tuple[Document, Document]:
    """Return what was stored, and what the requester sent."""
    request = request_of(write[0])
    return request.get("oldObject") or {}, request.get("object") or {}


def _write(several: Sequence[RecordedWrite], writes: Sequence[RecordedWrite]) -> Write:
    request = request_of(several[0][0])
    pairs = [_asked(one) for one in several]
    verb = _VERBS[request["operation"]]
    if verb == "patch" and all(_version(old) != _version(new) for old, new in pairs):
        verb = "put"
    changes = [_change(one, verb) for one in several]
    values: dict[Field, list[Any]] = {}
    held: dict[Field, list[set[Held]]] = {}
    for write in several if verb == "patch" else ():
        old, new = _asked(write)
        for field, _, value in _differences(old, new):
            if value is not ABSENT:
                values.setdefault(field, []).append(value)
                if field[-1] == "observedGeneration" or _others_then(write, writes):
                    held.setdefault(field, []).append(set(_held(field, value, write, writes)))
    numbers = {field: _best(set.intersection(*seen)) for field, seen in held.items()}
    if verb == "patch" and not any(changes) and all(map(_moves_generation, several)):
        verb, changes = "move", []
    plural, below, namespace, name = _where(request)
    return Write(
        _user(several[0]),
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
            if numbers.get(field) is None and _is_renewed(seen)
        ),
        tuple(one for one in numbers.values() if one is not None),
        _is_refused(several[0]) and verb != "put",
    )


def _moves_generation(write: RecordedWrite) -> bool:
    """Whether the requester changes the spec: reducing has left out how."""
    shown = [request_of(line).get("object") for line in write if line["phase"] != "outcome"]
    if any(one != shown[0] for one in shown):
        return False  # a webhook does
    before, after = _generations(write)
    return after > before


def _generations(write: RecordedWrite) -> tuple[int, int]:
    """Return the generation before a write and after it; 0 where there is none."""
    before, after = request_of(write[0]).get("oldObject"), request_of(write[-1]).get("object")
    found = [((one or {}).get("metadata") or {}).get("generation", 0) for one in (before, after)]
    return int(found[0]), int(found[1])


def _change(write: RecordedWrite, verb: str) -> Document:
    old, new = _asked(write)
    if verb == "delete":
        return {"metadata": {"name": name_of(request_of(write[0]))}}
    if verb != "patch":
        return _whole(new)
    base = _bases().get(request_of(write[0])["kind"]["kind"], {})
    patch: Document = _with_base(_merge_patch(_own(old), _own(new)), base, is_whole=False)
    return patch


def _whole(document: Document) -> Document:
    """Return an object as somebody creates it, with what its kind must have."""
    base = _bases().get(document.get("kind", ""), {})
    whole: Document = _with_base(_own(document, with_kind=True), base)
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
        generation = (_asked(write)[1].get("metadata") or {}).get("generation", 0)
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
    own = _object(write)
    found: dict[tuple[str, str, str], Document] = {}
    for later in writes[writes.index(write) :]:
        old = request_of(later[0]).get("oldObject") or {}
        if _object(later) != own:
            found.setdefault(_object(later), old.get("metadata") or {})
    return list(found.items())


def _object(write: RecordedWrite) -> tuple[str, str, str]:
    plural, _, namespace, name = _where(request_of(write[0]))
    return plural, namespace, name


def _best(held: AbstractSet[Held]) -> Held | None:
    return min(held, key=lambda one: (one.what, one.object), default=None)


def _is_renewed(values: Sequence[Any]) -> bool:
    """Whether a field never had the same text or number again."""
    plain = [one for one in values if isinstance(one, str | int) and not isinstance(one, bool)]
    return 1 < len(plain) == len(values) == len(set(plain))


class _Moves:
    """Finds where generation moved between two writes: a change of the spec was left out."""

    def __init__(self) -> None:
        self._known: Final[dict[tuple[str, str, str], int]] = {}

    def before(self, write: RecordedWrite) -> tuple[str, str, str] | None:
        """Return the object, where somebody must have changed its spec before this write."""
        where = _object(write)
        first, last = _generations(write)
        known = self._known.get(where, first)
        self._known[where] = max(first, last)
        return where if first > known else None


def _own(document: Document, *, with_kind: bool = False) -> Document:
    """Return an object without what the server writes."""
    kept: Document = {
        key: value for key, value in document.items() if key not in ("apiVersion", "kind")
    }
    metadata = document.get("metadata") or {}
    kept["metadata"] = {key: one for key, one in metadata.items() if key not in _OF_SERVER}
    if with_kind:
        names = {key: metadata[key] for key in ("name", "namespace") if metadata.get(key)}
        if "name" not in names:
            names["generateName"] = "object-"
        kind: Document = {key: document[key] for key in ("apiVersion", "kind") if key in document}
        kept = {**kind, **kept, "metadata": {**names, **kept["metadata"]}}
    return kept


def _merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> Document:
    patch: Document = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key, ABSENT)
        if isinstance(before, dict) and isinstance(value, dict):
            below = _merge_patch(before, value)
            if below:
                patch[key] = below
        elif before is ABSENT or before != value:
            patch[key] = value
    return patch


def _beginning(writes: Sequence[RecordedWrite], held: AbstractSet[Field]) -> Iterator[Beginning]:
    """Yield the objects that are there before the first write, without fields of numbers."""
    seen = set()
    for write in writes:
        request, where = request_of(write[0]), _object(write)
        if where in seen or (request.get("oldObject") or {}).get("kind") == "Scale":
            continue
        seen.add(where)
        if request["operation"] != "CREATE" and request.get("oldObject"):
            yield Beginning(where[0], _dropped(_whole(request["oldObject"]), held))


def _dropped(document: Document, fields: AbstractSet[Field], at: Field = ()) -> Document:
    return {
        key: _dropped(value, fields, (*at, key)) if isinstance(value, dict) else value
        for key, value in document.items()
        if (*at, key) not in fields
    }


def definitions_of(
    writes: Sequence[RecordedWrite], with_status: AbstractSet[str]
) -> Iterator[Document]:
    """Yield a CustomResourceDefinition, of any fields, for each custom resource that is written.

    with_status  those with a subresource `status`, as `widgets.example.org`
    """
    found: dict[str, tuple[Document, set[str]]] = {}
    for request in (request_of(line) for write in writes for line in write):
        resource = request["resource"]
        if not is_builtin(resource.get("group", "")):
            plural = f"{resource['resource']}.{resource['group']}"
            known, below = found.setdefault(plural, (request, set()))
            if known.get("subResource") == _SCALE:  # which is of another kind
                found[plural] = request, below
            below.add(request.get("subResource", ""))
    for plural, (request, below) in found.items():
        resource, kind = request["resource"], request["kind"]["kind"]
        if kind == "Scale":
            kind = "Scaled"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {
            "name": resource["version"],
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
        }
        version["subresources"] = {
            **({"status": {}} if "status" in below or plural in with_status else {}),
            **({_SCALE: _PATHS_OF_SCALE} if _SCALE in below else {}),
        }
        names = {"plural": resource["resource"], "kind": kind, "listKind": f"{kind}List"}
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": plural},
            "spec": {
                "group": resource["group"],
                "scope": "Namespaced" if request.get("namespace") else "Cluster",
                "names": {**names, "singular": kind.lower()},
                "versions": [version],
            },
        }


def _differences(old: Any, new: Any, field: Field = ()) -> Iterator[tuple[Field, Any, Any]]:
    """Yield each field that differs, with both values; a list is one value."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            if field != ("metadata",) or key not in _OF_SERVER:
                yield from _differences(old.get(key, ABSENT), new.get(key, ABSENT), (*field, key))
    elif old is ABSENT and isinstance(new, dict) and new:
        yield from _differences({}, new, field)
    elif new is ABSENT and isinstance(old, dict) and old:
        yield from _differences(old, {}, field)
    elif old is ABSENT or new is ABSENT or old != new:
        yield field, old, new


def _effects(writes: Sequence[RecordedWrite]) -> Iterator[Effect]:
    """Yield what webhooks did between the intent and the last mutate, call by call."""
    calls: dict[tuple[str, str, Field], list[tuple[Any, Any]]] = {}
    unasked: set[tuple[str, str, Field]] = set()
    users: dict[tuple[str, str], dict[str, bool]] = {}
    for write in writes:
        plural, below, *_ = _where(request_of(write[0]))
        target = f"{plural}/{below}".rstrip("/"), str(request_of(write[0])["operation"])
        mutating = [line for line in write if line["phase"] != "outcome"]
        shown = [request_of(line).get("object") or {} for line in mutating]
        asks_nothing = not any(_differences(*_asked(write)))
        known = users.setdefault(target, {})
        known.setdefault(_user(write), False)
        for before, after in pairwise(shown):
            for field, old, new in _differences(before, after):
                key = (*target, field)
                calls.setdefault(key, []).append((old, new))
                unasked |= {key} if asks_nothing else set()
                known[_user(write)] = True
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
    if _is_renewed(values) or (is_unasked and isinstance(values[0], str | int)):
        return "renew", tuple(values[:1])
    return "set", tuple(one for at, one in enumerate(values) if one not in values[:at])
