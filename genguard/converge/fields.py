"""The fields that a manifest sets, in what would be stored: which of them have another value."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from genguard.blame.field_paths import FieldPath, Item, children, leaves, pointer_of
from genguard.blame.managed import atomic_paths
from genguard.objects.atomic import owned_pointer
from genguard.objects.equality import same_json, same_quantity
from genguard.objects.fields import ABSENT
from genguard.objects.metadata import SET_BY_SERVER
from genguard.objects.served import Served

_OF_SERVER: Final = frozenset(("metadata", name) for name in SET_BY_SERVER)


class Difference(NamedTuple):
    """A field with two values; either may be ABSENT. `order`: a list with another order."""

    path: FieldPath
    before: Any
    after: Any
    order: bool = False

    @property
    def is_omitted(self) -> bool:
        """Whether it is a zero value that is not there: Go leaves it out where omitempty is set."""
        return self.after is ABSENT and self.before in (False, 0, "", [], {})

    @property
    def is_filled(self) -> bool:
        """Whether an object or list has more than was asked for; that counts where it is atomic."""
        is_more = type(self.before) is type(self.after) and bool(self.after)
        return isinstance(self.before, dict | list) and is_more and not self.order


def overwritten(
    manifest: Mapping[str, Any],
    stored: Mapping[str, Any],
    atomic: frozenset[FieldPath] = frozenset(),
) -> list[Difference]:
    """Return the fields that a manifest sets and that have another value in an object.

    atomic  objects and lists that are one value, beside those that are owned so
    """
    atomic = atomic | atomic_paths(stored)
    found = _overwritten(_counted(manifest), stored, ())
    return [field for field in found if not field.is_filled or field.path in atomic]


def at(document: Any, path: FieldPath) -> Any:
    """Return the value at a path, or ABSENT."""
    for depth, step in enumerate(path):
        document = dict(children(document, path[:depth])).get(step, ABSENT)
    return document


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], *, below: FieldPath = ()
) -> list[Difference]:
    """Return what differs between two objects, without what the API server writes itself."""
    old, new = (dict(leaves(_counted(document))) for document in (before, after))
    found = [
        Difference(path, old.get(path, ABSENT), new.get(path, ABSENT))
        for path in dict.fromkeys((*old, *new))
        if path[: len(below)] == below
        and not _same(old.get(path, ABSENT), new.get(path, ABSENT))
        # An object or list that has become empty is no leaf of its own before.
        and (new.get(path, ABSENT) not in ({}, []) or old.get(path, ABSENT) is not ABSENT)
    ]
    return found + [
        difference
        for difference in _overwritten(before, after, ())
        if difference.order and difference.path[: len(below)] == below
    ]


def as_owned(found: list[Difference], before: Any, after: Any, of: Served) -> list[Difference]:
    """Return differences; a list that is owned as a whole is one difference."""
    kept: dict[FieldPath, Difference] = {}
    for difference in found:
        owned = owned_pointer(of.group, of.version, of.kind, pointer_of(difference.path))
        path = difference.path[: owned.count("/")]
        values = at(before, path), at(after, path)
        kept.setdefault(path, difference if path == difference.path else Difference(path, *values))
    return list(kept.values())


def overlay(
    stored: Any, asked: Any, path: FieldPath = (), atomic: frozenset[FieldPath] = frozenset()
) -> Any:
    """Return the object with each field of the manifest set again, as a second apply does.

    Items of a list are joined by their keys; what is `atomic`, or a list without keys, is replaced.
    """
    if path not in atomic and isinstance(stored, dict) and isinstance(asked, dict):
        found = dict(stored)
        for key, value in asked.items():
            if (*path, key) not in _OF_SERVER or key not in stored:
                found[key] = overlay(stored.get(key), value, (*path, key), atomic)
        return found
    if isinstance(stored, list) and isinstance(asked, list):
        steps, wanted = dict(children(stored, path)), dict(children(asked, path))
        if _have_keys(steps) and _have_keys(wanted):
            # The order is that of the manifest, as the API server merges lists.
            laid = [
                overlay(steps.get(step), value, (*path, step), atomic)
                for step, value in wanted.items()
            ]
            return laid + [value for step, value in steps.items() if step not in wanted]
    return copy.deepcopy(asked)


def _overwritten(asked: Any, stored: Any, path: FieldPath) -> Iterator[Difference]:
    steps = dict(children(asked, path))
    if not steps:
        # A list of Go without items is stored as null.
        is_empty = asked in ({}, []) and stored is None
        if asked is not None and not is_empty and not _same(asked, stored):
            yield Difference(path, asked, stored)
        return
    found = dict(children(stored, path)) if type(stored) is type(asked) else {}
    if len(found) > len(steps) and not _have_keys(found) and isinstance(asked, list):
        yield Difference(path, asked, stored)
    kept = [step for step in found if step in steps]
    if isinstance(asked, list) and kept != [step for step in steps if step in found]:
        yield Difference(path, asked, stored, order=True)
    for step, value in steps.items():
        if (*path, step) not in _OF_SERVER:
            yield from _overwritten(value, found.get(step, ABSENT), (*path, step))


def _counted(document: Mapping[str, Any]) -> dict[str, Any]:
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        return dict(document)
    kept = {key: value for key, value in metadata.items() if ("metadata", key) not in _OF_SERVER}
    return {**document, "metadata": kept}


def _have_keys(steps: Mapping[str, Any]) -> bool:
    """Whether the items of a list have names of their own; an index is none."""
    named = [step for step in steps if isinstance(step, Item)]
    return named != [str(index) for index in range(len(named))]


def _same(value: Any, other: Any) -> bool:
    """Whether two values are equal to Kubernetes: 1000m is 1."""
    return same_json(value, other) or same_quantity(value, other)
