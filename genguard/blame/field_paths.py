"""Field paths: fields of one object, with list items named as people name them.

`status.conditions[Available].status`, `spec.template.spec.containers[web].image`. An index would
be another item after the next write, so a list whose items have a key is named by it: conditions
by type, containers by name, ports by number and protocol (the `x-kubernetes-list-map-keys` of
Kubernetes' own types). A list without such a key has indexes.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import Any, Final, Self

from genguard.objects.fields import from_pointer, to_pointer
from genguard.shipped import shipped


class Item(str):
    """One item of a list: its label, which alone is compared; and `at` which index it was."""

    __slots__ = ("at",)
    at: int

    def __new__(cls, label: str, index: int = -1) -> Self:
        """Make a step of a path."""
        made = super().__new__(cls, label)
        made.at = index
        return made


FieldPath = tuple[str, ...]
"""Keys and Items."""

_KEYS: Final = shipped("genguard.blame", "keys.yaml", dict[str, tuple[tuple[str, ...], ...]])
_USUAL: Final = (("type",), ("name",))
KEY_DEFAULTS: Final = {"protocol": "TCP"}
"""Keys that an item may lack: an API server that stores the default has the same item."""
_SETS: Final = frozenset({"finalizers"})
_OFFERED: Final = 3
_LIKE: Final = 0.75
_STEP: Final = re.compile(r"\.?((?:[^.\[\]\\]|\\.)+)|\[([^\]]*)\]")


def _labels(name: str, items: Sequence[Any]) -> Sequence[str]:
    """Return a label for each item of the list of this name: by key where all have one."""
    ways = [[_key(item, keys) for item in items] for keys in _KEYS.get(name, _USUAL)]
    if name in _SETS:
        ways.append([item if isinstance(item, str) else "" for item in items])
    for found in ways:
        if all(found) and len(set(found)) == len(found):
            return found
    return [str(index) for index in range(len(items))]


def _key(item: Any, keys: Sequence[str]) -> str:
    if not isinstance(item, dict):
        return ""
    values = [item.get(key, KEY_DEFAULTS.get(key)) for key in keys]
    return (
        "/".join(map(str, values)) if all(isinstance(value, str | int) for value in values) else ""
    )


def children(value: Any, path: FieldPath) -> Iterator[tuple[str, Any]]:
    """Yield the steps from a value to what is directly in it; nothing for a scalar."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        for index, label in enumerate(_labels(path[-1] if path else "", value)):
            yield Item(label, index), value[index]


def leaves(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Yield each leaf below a value with its path; an empty object or list is a leaf."""
    below = list(children(value, path))
    if not below:
        yield path, value
    for step, child in below:
        yield from leaves(child, (*path, step))


def show(path: FieldPath) -> str:
    """`("metadata", "labels", "a.b/c")` → `metadata.labels[a.b/c]`."""
    text = ""
    for step in path:
        if isinstance(step, Item) or "." in step or "[" in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def pointer_of(path: FieldPath) -> str:
    """Return the JSON Pointer of a path, in the object in which it was found."""
    return to_pointer(step.at if isinstance(step, Item) else step for step in path)


def path_of_pointer(pointer: str, document: Any) -> FieldPath | None:
    """Return the path that a JSON Pointer leads to, also one that the object has no more.

    None for an item of a list that is not there: its index names nobody.
    """
    path: FieldPath = ()
    try:
        tokens = from_pointer(pointer)
    except ValueError:
        return None
    for at, token in enumerate(tokens):
        steps = children(document, path)
        found = next((step for step in steps if pointer_of(step[:1]) == to_pointer((token,))), None)
        if found is None:
            return None if isinstance(document, list) else (*path, *tokens[at:])
        path, document = (*path, found[0]), found[1]
    return path


class NoSuchFieldError(Exception):
    """The object has no such field; the message names similar ones."""


def choose(
    field: str, there: Iterable[FieldPath], gone: Iterable[FieldPath] = ()
) -> list[FieldPath]:
    """Return those of the paths that a FIELD of the command line means: it or what is below it.

    gone  what the object has no more: a FIELD may be below it, for with a map goes what was in it
    Raises NoSuchFieldError.
    """
    tokens, known, lost = _read_field(field), list(there), list(gone)
    found = [path for path in (*known, *lost) if _begins(path, tokens)]
    if found or not tokens:
        return found
    if any(_begins(tokens, path) for path in lost):
        return [tokens]
    raise NoSuchFieldError(_no_such(tokens, (*known, *lost)))


def _read_field(text: str) -> FieldPath:
    r"""Return the steps of a field as people write it: `.spec.replicas`, `/spec/replicas`.

    In brackets stands a key, a label or an index: `metadata.labels[a.b/c]`, `containers[web]`. A
    dot inside a key may also be written `\.`, as in a jsonpath.
    """
    if text.startswith("/"):
        return from_pointer(text)
    plain = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps = (plainly or inside for plainly, inside in _STEP.findall(plain))
    return tuple(step.replace("\\", "").strip("'\"") for step in steps)


def _begins(path: FieldPath, tokens: FieldPath) -> bool:
    return len(path) >= len(tokens) and all(map(_is_named, path, tokens))


def _is_named(step: str, token: str) -> bool:
    """Whether it is a key or label; of an item also an index, or `type=Ready` as others write."""
    of_item = isinstance(step, Item) and (
        token == str(step.at) or step == token.partition("=")[2].strip("'\"")
    )
    return step == token or of_item


def _no_such(tokens: FieldPath, known: Iterable[FieldPath]) -> str:
    """Say it with the names that end as the field does, or nearly so, the most similar first."""
    wanted = show(tokens)
    names = {show(path[:end]): path[end - 1] for path in known for end in range(1, len(path) + 1)}
    words = get_close_matches(tokens[-1], set(names.values()), n=_OFFERED, cutoff=_LIKE)
    near = [name for name, word in names.items() if word in words]
    near.sort(key=lambda name: SequenceMatcher(None, wanted, name).ratio(), reverse=True)
    meant = f"; did you mean {', '.join(near[:_OFFERED])}?" if near else ""
    return f"there is no field {wanted}{meant}"
