"""Reduces a recording to the fewest writes and fields that still give a finding.

Each candidate is examined by a replay of its own: nothing is assumed about detectors.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeVar

from genguard.detection.finding import Finding
from genguard.reproduce.recorded import (
    NewReplay,
    NotFoundError,
    RecordedWrite,
    findings_in,
    request_of,
    what_of,
)

T = TypeVar("T")
Field = tuple[str | int, ...]
"""A field of a request: keys, and indexes of lists. Those of oldObject are named as of object."""
_IDENTITY: Final = frozenset(
    {
        *((name,) for name in ("uid", "kind", "resource", "subResource", "name", "namespace")),
        ("operation",),
        ("userInfo",),
        ("userInfo", "username"),
        ("object",),
        *(("object", name) for name in ("apiVersion", "kind", "metadata")),
        *(("object", "metadata", name) for name in ("name", "namespace", "uid", "generation")),
        ("object", "metadata", "resourceVersion"),
    }
)
"""What every request has."""
_ATOMS: Final = frozenset({("kind",), ("resource",)})


def reduced(
    writes: Sequence[RecordedWrite], sought: Finding, new_replay: NewReplay
) -> list[RecordedWrite]:
    """Return the smallest recording that gives the finding. Raises NotFoundError.

    It gives no finding that the full recording does not: without the fields that explain it, a
    generation that moves is one.
    """
    known = set(map(what_of, findings_in(writes, new_replay)))

    def holds(part: Sequence[RecordedWrite]) -> bool:
        found = [finding for finding in findings_in(part, new_replay) if finding.objects is None]
        is_there = any(_is_same(sought, finding) for finding in found)
        return is_there and known.issuperset(map(what_of, found))

    own = [write for write in writes if write.object == what_of(sought)[1]]
    start = own if holds(own) else list(writes)
    if not holds(start):
        raise NotFoundError("these writes do not give the finding")
    return _with_fewest_fields(minimal(_shortest_beginning(start, holds), holds), holds)


def _is_same(finding: Finding, other: Finding) -> bool:
    """Whether a finding of fewer writes is the same: one of its fields is enough."""
    whose = [[(who.type, who.name) for who in each.actors[:1]] for each in (finding, other)]
    if what_of(finding) != what_of(other) or whose[0] != whose[1]:
        return False
    return finding.paths == other.paths or not {*finding.paths}.isdisjoint(other.paths)


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
        smaller = next((part for part in without if holds(part)), None)
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
    """Return about as many of the first writes as the finding needs: its first signal is enough."""
    low, high = 0, len(writes)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(writes[:middle]) else (middle, high)
    return writes[:high]


def _with_fewest_fields(
    writes: list[RecordedWrite], holds: Callable[[list[RecordedWrite]], bool]
) -> list[RecordedWrite]:
    """Leave out fields of requests, the same in all reviews, level by level."""
    requests = [request_of(line) for write in writes for line in write]
    every = dict.fromkeys(field for request in requests for field in _fields(request))
    gone: frozenset[Field] = frozenset()
    level: set[Field] = {()}
    while level:
        fields = [field for field in every if field[:-1] in level]
        free = [field for field in fields if field not in _IDENTITY]
        gone = gone.union(free)

        def still(part: list[Field], gone: frozenset[Field] = gone) -> bool:
            return holds(_without(writes, gone.difference(part)))

        kept = minimal(free, still)
        gone = gone.difference(kept)
        level = {*fields} - gone - _ATOMS if fields else set()
    return _without(writes, gone)


def _fields(value: Any, at: Field = ()) -> Iterator[Field]:
    """Yield the names of all fields, from the outside to the inside."""
    for name, below in _inside(value):
        field = _named(at, name)
        yield field
        yield from _fields(below, field)


def _inside(value: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _named(at: Field, name: str | int) -> Field:
    return (*at, name) if at or name != "oldObject" else ("object",)


def _without(writes: Sequence[RecordedWrite], gone: AbstractSet[Field]) -> list[RecordedWrite]:
    """Return the writes without these fields."""
    return [
        RecordedWrite(
            {**line, "review": {**line["review"], "request": _pruned(request_of(line), (), gone)}}
            for line in write
        )
        for write in writes
    ]


def _pruned(value: Any, at: Field, gone: AbstractSet[Field]) -> Any:
    kept = [
        (name, _pruned(below, _named(at, name), gone))
        for name, below in _inside(value)
        if _named(at, name) not in gone
    ]
    if isinstance(value, dict):
        return dict(kept)
    return [item for _, item in kept] if isinstance(value, list) else value
