"""Group the observers' views into admission passes and count what each configuration changed.

The calls of one pass share no uid, so views are joined by their JoinKey. Within one pass the API
server calls webhooks one after the other, so positions only rise. A lower position starts another
pass: the write was denied and repeated, or a second write runs at the same time.

Relies  on genguard.detection.changes, which matches list items by their type, name or uid
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from genguard.admission.review import AdmissionRequest, JoinKey
from genguard.detection.changes import Change, changes
from genguard.detection.fact import manager_of
from genguard.objects.fields import ABSENT, Fields
from genguard.trace.plan import Candidate, Plan

_OBSERVED: Final = "observedGeneration"


class ChangeType(StrEnum):
    """How a field changed."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


class Clobber(StrEnum):
    """How an observedGeneration was damaged."""

    CLEARED = "cleared"  # absent, null, 0 or ""
    LOWERED = "lowered"


class Effect(NamedTuple):
    """One field that differs. The values are object contents: printed only with --values."""

    pointer: str
    change: ChangeType
    clobber: Clobber | None
    discarded: bool  # the API server ignores this field in such a write
    before: Any
    after: Any


def effects(before: AdmissionRequest, after: AdmissionRequest, *, status: bool) -> list[Effect]:
    """List the fields that changed between two views; `status`: the resource has that subresource.

    Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
    """
    a, b = _fields(before), _fields(after)
    return _effects(a, b, sorted(a.keys() | b.keys()), after.subresource, status=status)


def requested_effects(first: AdmissionRequest, *, status: bool) -> list[Effect]:
    """List what the requester changed: stored object against first view, without metadata.

    Raises as `effects` does.
    """
    old = first.old_object.content if first.old_object is not None else {}
    new = first.object.content if first.object is not None else {}
    keys = sorted(old.keys() | new.keys())
    found = _effects(old, new, keys, first.subresource, status=status)
    return [one for one in found if not one.discarded]


def carried(view: AdmissionRequest, *, status: bool) -> list[str]:
    """Name the observedGeneration values of a view that a webhook could clobber: none is lost else.

    Raises as `effects` does.
    """
    if view.object is None or _discarded("status", view.subresource, status=status):
        return []
    observed = view.object.observed
    if observed is None:
        return []
    own = ["status.observedGeneration"] if observed.own is not None else []
    return own + [
        f"status.conditions[{one.type}].observedGeneration"
        for one in observed.conditions
        if one.type is not None and one.observed is not None
    ]


def status_as_reported(document: Mapping[str, Any], *, status: bool) -> dict[str, Any]:
    """Make a merge patch that gives a stored object the observedGeneration values that it lacks.

    Its controller would send the same: the generation of now. Once a value is cleared in the stored
    object, a write that does not carry it cannot show who clears it. The patch is empty when
    nothing is lacking, or the object has no generation.
    """
    generation = document.get("metadata", {}).get("generation")
    found = document.get("status")
    if not generation or not (isinstance(found, dict) or (status and found is None)):
        return {}
    given = found or {}
    changed: dict[str, Any] = {}
    if _is_cleared(given.get(_OBSERVED, ABSENT)):
        changed[_OBSERVED] = generation
    conditions = given.get("conditions")
    if isinstance(conditions, list) and all(isinstance(one, dict) for one in conditions):
        # A merge patch replaces a list as a whole.
        whole = [
            {**one, _OBSERVED: generation} if _is_cleared(one.get(_OBSERVED, ABSENT)) else one
            for one in conditions
        ]
        if whole != conditions:
            changed["conditions"] = whole
    return {"status": changed} if changed else {}


def _effects(
    before: Fields, after: Fields, keys: list[str], subresource: str, *, status: bool
) -> list[Effect]:
    decoded: dict[str, tuple[Any, Any]] = {}
    found = []
    for change in changes(before, after, keys):
        top = str(change.key[0])
        if top not in decoded:
            decoded[top] = _decoded(before, top), _decoded(after, top)
        old, new = decoded[top]
        discarded = _discarded(top, subresource, status=status)
        found.append(_effect(change, old, new, discarded=discarded))
    return found


def _effect(change: Change, old: Any, new: Any, *, discarded: bool) -> Effect:
    kind = (
        ChangeType.ADDED
        if change.added
        else ChangeType.REMOVED
        if change.removed
        else ChangeType.CHANGED
    )
    before, after = _at(old, change.key[1:]), _at(new, change.key[1:])
    clobber = None
    # A condition that was removed as a whole is not a cleared observedGeneration.
    whole = len(change.key) > 2 and _at(new, change.key[1:-1]) is ABSENT  # noqa: PLR2004
    if change.key[0] == "status" and change.key[-1] == _OBSERVED and not discarded and not whole:
        clobber = _clobber(before, after)
    return Effect(change.pointer, kind, clobber, discarded, before, after)


def _clobber(before: Any, after: Any) -> Clobber | None:
    if _is_cleared(before):
        return None
    if _is_cleared(after):
        return Clobber.CLEARED
    if type(before) is int and type(after) is int and after < before:
        return Clobber.LOWERED
    return None


def _is_cleared(value: Any) -> bool:
    return value is ABSENT or value is None or value == "" or (type(value) is int and value == 0)


def _discarded(key: str, subresource: str, *, status: bool) -> bool:
    """Whether the API server ignores this field. A status write changes status alone."""
    if subresource == "status":
        return key not in {"status", "metadata"}
    return key == "status" and status


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return the value at the key of a Change. A step into a list is `field=name` or an index."""
    for token in path:
        if isinstance(value, dict):
            value = value.get(token, ABSENT)
        elif isinstance(value, list) and isinstance(token, int):
            value = value[token] if token < len(value) else ABSENT
        elif isinstance(value, list):
            field, _, name = str(token).partition("=")
            named = (one for one in value if isinstance(one, dict) and one.get(field) == name)
            value = next(named, ABSENT)
        else:
            return ABSENT
    return value


def _decoded(fields: Fields, key: str) -> Any:
    raw = fields.get(key)
    return ABSENT if raw is None else msgspec.json.decode(raw)


def _fields(view: AdmissionRequest) -> Fields:
    return view.object.fields if view.object is not None else {}


_MOST_OPEN: Final = 64
_MOST_FIELDS: Final = 500


class Step(NamedTuple):
    """Two consecutive views of one pass. `before` is None for the first view."""

    position_before: int  # -1: before the first view
    position: int
    before: AdmissionRequest | None
    after: AdmissionRequest


@dataclass(slots=True)
class _Pass:
    key: JoinKey
    position: int
    view: AdmissionRequest
    seen: int = 1


@dataclass(frozen=True, slots=True)
class FieldKey:
    """Identifies effects that the report counts together."""

    subresource: str
    pointer: str
    change: ChangeType
    clobber: Clobber | None
    discarded: bool


@dataclass(slots=True)
class Row:
    """The changes of one configuration, or of several that no observer could separate."""

    writes: Counter[str] = field(default_factory=Counter)  # by subresource
    changed: int = 0
    fields: dict[FieldKey, tuple[int, Effect]] = field(
        default_factory=dict
    )  # count and latest effect

    def add(self, subresource: str, found: list[Effect]) -> None:
        """Count one write and its effects."""
        self.writes[subresource] += 1
        self.changed += bool(found)
        for one in found:
            key = FieldKey(subresource, one.pointer, one.change, one.clobber, one.discarded)
            if key in self.fields or len(self.fields) < _MOST_FIELDS:
                self.fields[key] = (self.fields.get(key, (0, one))[0] + 1, one)

    @property
    def clobbers(self) -> list[FieldKey]:
        """The observedGeneration fields that were cleared or lowered."""
        return [key for key in self.fields if key.clobber is not None]


class Passes:
    """Turns views into steps. Counts complete, incomplete and ambiguous passes."""

    def __init__(self, positions: frozenset[int]) -> None:
        self._positions: Final = positions
        self._last: Final = max(positions, default=0)
        self._open: list[_Pass] = []
        self.whole: Final[Counter[str]] = Counter()  # by subresource
        self.broken = 0  # an observer was not reached, or the write was denied
        self.mixed = 0  # views of simultaneous writes that could not be told apart

    def see(self, position: int, view: AdmissionRequest) -> Step | None:
        """Return the step that this view completes, or None if its pass is ambiguous."""
        key = view.join_key
        if key is None or position not in self._positions:
            return None
        fitting = [one for one in self._open if one.key == key and one.position < position]
        if not fitting:
            self._begin(_Pass(key, position, view))
            return Step(-1, position, None, view)
        if len({_state(one.view) for one in fitting}) > 1:
            self._open = [one for one in self._open if one not in fitting]
            self.mixed += len(fitting)
            return None
        current = fitting[-1]
        step = Step(current.position, position, current.view, view)
        current.position, current.view = position, view
        current.seen += 1
        if position == self._last:
            self._end(current)
        return step

    def close(self) -> None:
        """Count the passes that are still open as incomplete."""
        self.broken += len(self._open)
        self._open.clear()

    def _begin(self, one: _Pass) -> None:
        self._open.append(one)
        if one.position == self._last:
            self._end(one)
        elif len(self._open) > _MOST_OPEN:
            self._open.pop(0)
            self.broken += 1

    def _end(self, one: _Pass) -> None:
        self._open = [each for each in self._open if each is not one]
        if one.seen == len(self._positions):
            self.whole[one.view.subresource] += 1
        else:
            self.broken += 1


class Tally:
    """Adds up the steps of all passes, by configuration and by requester."""

    def __init__(self, plan: Plan) -> None:
        self._plan: Final = plan
        self.rows: Final[dict[tuple[str, ...], Row]] = {}
        self.requests: Final[dict[tuple[str, str], Row]] = {}
        self.carried: Final[Counter[str]] = Counter()
        """In how many requests an observedGeneration was sent, by its path."""

    def add(self, step: Step) -> None:
        """Count what changed between the two views of a step.

        Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
        """
        subresource = step.after.subresource
        status = self._plan.traced.has_status
        if step.before is None:
            if step.position == 0:
                who = step.after.wire.user_info.username, manager_of(step.after)
                row = self.requests.setdefault(who, Row())
                row.add(subresource, requested_effects(step.after, status=status))
                for path in carried(step.after, status=status):
                    if path in self.carried or len(self.carried) < _MOST_FIELDS:
                        self.carried[path] += 1
            return
        acting = self._between(step.position_before, step.position, subresource)
        found = effects(step.before, step.after, status=status)
        if acting:
            self.rows.setdefault(tuple(acting), Row()).add(subresource, found)

    def _between(self, first: int, last: int, subresource: str) -> list[str]:
        slots = self._plan.slots[first + 1 : last + 1]
        return [
            one.configuration
            for slot in slots
            for one in slot.candidates
            if one.webhooks.get(subresource)
        ]

    @property
    def status_writes(self) -> int:
        """How many requests were seen in which a status can be changed."""
        where = "status" if self._plan.traced.has_status else ""
        return sum(row.writes[where] for row in self.requests.values())

    def unseen(self) -> Iterator[Candidate]:
        """Candidates that no pair of views enclosed in any write."""
        judged = {name for names in self.rows for name in names}
        for one in self._plan.candidates:
            if one.configuration not in judged:
                yield one


def _state(view: AdmissionRequest) -> tuple[tuple[str, bytes], ...]:
    fields = view.object.fields if view.object is not None else {}
    return tuple((key, bytes(fields[key])) for key in sorted(fields))
