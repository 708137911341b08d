"""Places: fields of one object, with list items named as people name them.

`status.conditions[Available].status`, `spec.template.spec.containers[web].image`. An index would
be another item after the next write, so a list whose items have a key is named by it: conditions
by type, containers by name, ports by number and protocol (the `x-kubernetes-list-map-keys` of
Kubernetes' own types). A list without such a key has indexes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import Any, Final, NamedTuple

from genguard.objects.fields import from_pointer, to_pointer


class Item(NamedTuple):
    """One item of a list, by its label."""

    label: str


Place = tuple[str | Item, ...]

_KEYS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "ports": (("containerPort", "protocol"), ("port", "protocol")),
    "ownerReferences": (("uid",),),
    "volumeMounts": (("mountPath",),),
    "volumeDevices": (("devicePath",),),
    "topologySpreadConstraints": (("topologyKey", "whenUnsatisfiable"),),
    "hostAliases": (("ip",), ("hostnames",)),
    "podIPs": (("ip",),),
    "hostIPs": (("ip",),),
    "taints": (("key", "effect"),),
}
_USUAL: Final = (("type",), ("name",))
KEY_DEFAULTS: Final = {"protocol": "TCP"}
"""Of keys that an item may lack: an API server that stores the default has the same item."""
_BOOKKEEPING: Final[Place] = ("metadata", "managedFields")
_SETS: Final = frozenset({"finalizers"})
_OFFERED: Final = 3
_LIKE: Final = 0.75
_STEP: Final = re.compile(r"\.?((?:[^.\[\]\\]|\\.)+)|\[([^\]]*)\]")


def labels(name: str, items: Sequence[Any]) -> list[str]:
    """Return a label for each item of the list of this name: by key where all have one."""
    if name in _SETS and all(isinstance(one, str) for one in items):
        found = list(map(str, items))
        if len(set(found)) == len(found):
            return found
    for keys in _KEYS.get(name, _USUAL):
        found = [_key(one, keys) for one in items]
        if all(found) and len(set(found)) == len(found):
            return found
    return [str(index) for index in range(len(items))]


def _key(item: Any, keys: Sequence[str]) -> str:
    if not isinstance(item, dict):
        return ""
    values = [item.get(key, KEY_DEFAULTS.get(key)) for key in keys]
    if not all(isinstance(one, str | int) for one in values):
        return ""
    return "/".join(map(str, values))


def children(value: Any, place: Place) -> Iterator[tuple[str | Item, Any]]:
    """Yield the steps from a value to what is directly in it; nothing for a scalar."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        name = place[-1] if place else ""
        named = labels(name if isinstance(name, str) else "", value)
        yield from zip(map(Item, named), value, strict=True)


def leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield each leaf below a value with its place; an empty object or list is a leaf."""
    below = list(children(value, place))
    if not below:
        yield place, value
    for step, child in below:
        yield from leaves(child, (*place, step))


def show(place: Place) -> str:
    """`("metadata", "labels", "a.b/c")` → `metadata.labels[a.b/c]`."""
    text = ""
    for step in place:
        if isinstance(step, Item):
            text += f"[{step.label}]"
        elif "." in step or "[" in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def find_child(value: Any, place: Place, token: str) -> tuple[Place, Any] | None:
    """Return what a key, label or index leads to; None if it leads nowhere.

    `type=Ready` is understood as well, as other tools write it.
    """
    steps = list(children(value, place))
    if isinstance(value, list):
        wanted = {token, token.partition("=")[2].strip("'\"") or token}
        for step, child in steps:
            if isinstance(step, Item) and step.label in wanted:
                return (*place, step), child
        return _item(steps, place, token)
    found = dict(steps)
    return ((*place, token), found[token]) if token in found else None


def _item(
    steps: Sequence[tuple[str | Item, Any]], place: Place, token: str
) -> tuple[Place, Any] | None:
    """Return the item of a list at an index."""
    is_index = token.isascii() and token.isdecimal() and len(token) < 7  # noqa: PLR2004
    if not is_index or int(token) >= len(steps):
        return None
    step, child = steps[int(token)]
    return (*place, step), child


def place_of_pointer(pointer: str, document: Any) -> Place | None:
    """Return the place that a JSON Pointer leads to, also one that the object has no more.

    None for an item of a list that is not there: its index names nobody.
    """
    place: Place = ()
    try:
        tokens = from_pointer(pointer)
    except ValueError:
        return None
    for at, token in enumerate(tokens):
        found: tuple[Place, Any] | None
        if isinstance(document, list):
            found = _item(list(children(document, place)), place, token)
            if found is None:
                return None
        else:
            found = find_child(document, place, token)
            if found is None:
                return (*place, *tokens[at:])
        place, document = found
    return place


def has_place(place: Place, document: Any) -> bool:
    """Whether an object has a place."""
    here: Place = ()
    for step in place:
        found = dict(children(document, here))
        if step not in found:
            return False
        here, document = (*here, step), found[step]
    return True


def pointer_of(place: Place, document: Any) -> str:
    """Return the JSON Pointer of a place in an object that has it."""
    path: list[str | int] = []
    here: Place = ()
    for step in place:
        if isinstance(document, dict):
            path.append(step if isinstance(step, str) else step.label)
            document = document[step]
        else:
            steps = [one for one, _ in children(document, here)]
            path.append(steps.index(step))
            document = document[path[-1]]
        here = (*here, step)
    return to_pointer(path)


def read_field(text: str) -> tuple[str, ...]:
    r"""Return the steps of a field as people write it: `.spec.replicas`, `/spec/replicas`.

    In brackets stands a key, a label or an index: `metadata.labels[a.b/c]`, `containers[web]`. A
    dot inside a key may also be written `\.`, as in a jsonpath.
    """
    if text.startswith("/"):
        return from_pointer(text)
    plain = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps = (plainly or inside for plainly, inside in _STEP.findall(plain))
    return tuple(one.replace("\\", "").strip("'\"") for one in steps)


class NoSuchFieldError(Exception):
    """The object has no such field; the message names similar ones."""


def find_place(field: str, document: Any) -> Place:
    """Return the place that a FIELD of the command line means; raises NoSuchFieldError."""
    place: Place = ()
    value = document
    for token in read_field(field):
        found = find_child(value, place, token)
        if found is None:
            raise NoSuchFieldError(_no_such(field, _places(document)))
        place, value = found
    return place


def choose(field: str, known: Iterable[Place]) -> tuple[Place, ...]:
    """Return those of the known places that a FIELD means: it or what is below it.

    Raises NoSuchFieldError.
    """
    tokens = read_field(field)
    every = list(known)
    found = tuple(one for one in every if _begins(one, tokens))
    if not found:
        raise NoSuchFieldError(_no_such(field, every))
    return found


def choose_absent(field: str, absent: Iterable[Place]) -> tuple[Place, ...]:
    """Return those of the places that an object has no more that a FIELD means; () for none.

    With a map all that was in it is gone, so a FIELD may be below a place.
    """
    tokens = read_field(field)
    every = list(absent)
    below = tuple(one for one in every if _begins(one, tokens))
    if below or not any(_begins(tokens, tuple(map(label, one))) for one in every):
        return below
    return (tokens,)


def _begins(place: Place, tokens: Sequence[str]) -> bool:
    steps = list(map(label, place))
    return steps[: len(tokens)] == [one.rpartition("=")[2].strip("'\"") for one in tokens]


def _places(value: Any, place: Place = ()) -> Iterator[Place]:
    for step, child in children(value, place):
        deeper = (*place, step)
        if deeper != _BOOKKEEPING:
            yield deeper
            yield from _places(child, deeper)


def _no_such(field: str, known: Iterable[Place]) -> str:
    """Say it with the names that end as the field does, or nearly so, the most similar first."""
    tokens = read_field(field)
    wanted = show(tokens) or field
    last = tokens[-1] if tokens else field
    names = {show(one): label(one[-1]) for one in known if one}
    words = get_close_matches(last, set(names.values()), n=_OFFERED, cutoff=_LIKE)
    near = [name for name, word in names.items() if word in words]
    near.sort(key=lambda name: SequenceMatcher(None, wanted, name).ratio(), reverse=True)
    meant = f"; did you mean {', '.join(near[:_OFFERED])}?" if near else ""
    return f"there is no field {wanted}{meant}"


def label(step: str | Item) -> str:
    """Return a step as a text: a key, or the label of an item."""
    return step.label if isinstance(step, Item) else step
