"""Reduces a recording to the fewest writes and fields that still give a finding.

Each candidate is judged by a replay of its own: nothing is assumed about detectors.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeVar

from genguard.reproduce.recorded import (
    Document,
    NewReplay,
    RecordedWrite,
    Sought,
    findings_in,
    objects_of,
    request_of,
)

T = TypeVar("T")
Field = tuple[str | int, ...]
"""A field of an object: keys, and indexes of lists."""
_IDENTITY: Final = frozenset(
    {
        ("apiVersion",),
        ("kind",),
        ("metadata",),
        *(
            ("metadata", one)
            for one in ("name", "namespace", "uid", "resourceVersion", "generation")
        ),
    }
)
"""What every object has; it is not counted."""
_ENVELOPE: Final = (
    ("options",),
    ("requestKind",),
    ("requestResource",),
    ("requestSubResource",),
    ("userInfo", "uid"),
    ("userInfo", "groups"),
    ("userInfo", "extra"),
)
"""What a request may have besides, and a finding may need."""


class NotFoundError(ValueError):
    """The recording does not give the finding."""


def reduced(
    writes: Sequence[RecordedWrite], sought: Sought, new_replay: NewReplay
) -> list[RecordedWrite]:
    """Return the smallest recording that gives the finding. Raises NotFoundError."""

    def holds(some: Sequence[RecordedWrite]) -> bool:
        found = findings_in(some, new_replay)
        return any(sought.matches(Sought.of(one)) for one in found if one.objects is None)

    own = [one for one in writes if sought.is_of(one)]
    start = own if holds(own) else list(writes)
    if not holds(start):
        raise NotFoundError("these writes do not give the finding")
    kept = minimal(_shortest_beginning(start, holds), holds)
    return _with_fewest_fields(kept, holds)


def minimal(items: Sequence[T], holds: Callable[[list[T]], bool]) -> list[T]:
    """Return a part of the items for which it holds, and for no part with one item less.

    It must hold for all of them. This is delta debugging (Zeller and Hildebrandt, "Simplifying and
    Isolating Failure-Inducing Input", 2002): halves are left out, then quarters, then single items.
    """
    kept, pieces = list(items), 2
    if not kept or holds([]):
        return []
    while len(kept) > 1:
        size = -(-len(kept) // pieces)
        without = (kept[:at] + kept[at + size :] for at in range(0, len(kept), size))
        smaller = next((one for one in without if holds(one)), None)
        if smaller is not None:
            kept, pieces = smaller, max(pieces - 1, 2)
        elif size == 1:
            break
        else:
            pieces = min(pieces * 2, len(kept))
    return kept


def _shortest_beginning(
    writes: list[RecordedWrite], holds: Callable[[list[RecordedWrite]], bool]
) -> list[RecordedWrite]:
    """Return about as many of the first writes as the finding needs: its first sign is enough."""
    low, high = 0, len(writes)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(writes[:middle]) else (middle, high)
    return writes[:high]


def _with_fewest_fields(
    writes: list[RecordedWrite], holds: Callable[[list[RecordedWrite]], bool]
) -> list[RecordedWrite]:
    """Leave out fields of objects, the same in all reviews, and what a request need not have."""
    gone: set[Field] = set()
    level: list[Field] = [()]
    while level:
        fields = [one for field in level for one in _below(writes, field)]
        free = [one for one in fields if one not in _IDENTITY]
        holds_with = _holds_with(writes, gone, free, holds)
        kept = minimal(free, holds_with)
        gone |= {*free} - {*kept}
        level = [*kept, *(one for one in fields if one in _IDENTITY)]
    small = _without(writes, gone)
    envelope = minimal(_ENVELOPE, lambda some: holds(_stripped(small, some)))
    return _stripped(small, envelope)


def _holds_with(
    writes: list[RecordedWrite],
    gone: AbstractSet[Field],
    free: Iterable[Field],
    holds: Callable[[list[RecordedWrite]], bool],
) -> Callable[[list[Field]], bool]:
    """Return whether it holds with these of the free fields alone."""
    without = frozenset(gone)
    return lambda kept: holds(_without(writes, without | ({*free} - {*kept})))


def fields_of(writes: Sequence[RecordedWrite]) -> set[Field]:
    """Return the fields that are left, those aside that every object has."""
    found = {field for one in _documents(writes) for field in _leaves(one, ())}
    return {one for one in found if one not in _IDENTITY}


def _documents(writes: Sequence[RecordedWrite]) -> list[Document]:
    return [one for write in writes for line in write for one in objects_of(line)]


def _below(writes: Sequence[RecordedWrite], field: Field) -> list[Field]:
    """Return the fields directly below one, in any of the objects."""
    names: dict[str | int, None] = {}
    for document in _documents(writes):
        inner = _at(document, field)
        if isinstance(inner, dict):
            names |= dict.fromkeys(inner)
        elif isinstance(inner, list):
            names |= dict.fromkeys(range(len(inner)))
    return [(*field, name) for name in names]


def _at(value: Any, field: Field) -> Any:
    for step in field:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _leaves(value: Any, field: Field) -> list[Field]:
    if isinstance(value, dict) and value:
        return [one for key, below in value.items() for one in _leaves(below, (*field, key))]
    if isinstance(value, list) and value:
        return [one for at, below in enumerate(value) for one in _leaves(below, (*field, at))]
    return [field]


def _without(writes: Sequence[RecordedWrite], gone: AbstractSet[Field]) -> list[RecordedWrite]:
    """Return the writes without these fields."""
    made = copy.deepcopy(list(writes))
    for line in (line for write in made for line in write):
        request = request_of(line)
        for key in ("object", "oldObject"):
            if request.get(key):
                request[key] = _pruned(request[key], (), gone)
    return made


def _pruned(value: Any, field: Field, gone: AbstractSet[Field]) -> Any:
    if isinstance(value, dict):
        kept = ((key, (*field, key), below) for key, below in value.items())
        return {key: _pruned(below, at, gone) for key, at, below in kept if at not in gone}
    if isinstance(value, list):
        items = (((*field, index), below) for index, below in enumerate(value))
        return [_pruned(below, at, gone) for at, below in items if at not in gone]
    return value


def _stripped(
    writes: Sequence[RecordedWrite], kept: Sequence[tuple[str, ...]]
) -> list[RecordedWrite]:
    """Return the writes with only these of the parts that a request may have besides."""
    made = copy.deepcopy(list(writes))
    for line in (line for write in made for line in write):
        request = request_of(line)
        for *above, last in set(_ENVELOPE) - set(kept):
            inner = request.get(above[0], {}) if above else request
            inner.pop(last, None)
    return made
