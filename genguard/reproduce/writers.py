"""Makes the writes of a loop: each kind of write once, with the values that it had in turn.

Two writers who overwrite each other eight times are two writes.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from genguard.formats.kube_yaml import load_document
from genguard.objects.fields import ABSENT
from genguard.patch.merge import merge_patch_between
from genguard.reproduce.fields import differences, is_renewed, own_fields
from genguard.reproduce.loop import Field, Held, Write
from genguard.reproduce.recorded import (
    Document,
    RecordedWrite,
    asked,
    generations,
    is_refused,
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
