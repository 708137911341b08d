"""Group the observers' views into admission passes and count what each configuration changed.

The calls of one pass share no uid, so views are joined by their JoinKey. Within one pass the API
server calls webhooks one after the other, so positions only rise. A lower position starts another
pass: the write was denied and repeated, or a second write runs at the same time.

Relies  on genguard.detection.changes, which matches list items by their type, name or uid
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from genguard.admission.review import AdmissionRequest, JoinKey
from genguard.detection.changes import changes, identities, item_name
from genguard.objects.fields import ABSENT, Fields
from genguard.objects.intended import cleared
from genguard.trace.plan import Plan

_OBSERVED: Final = "observedGeneration"
_OF_OBJECT: Final = 2
"""Steps to status.observedGeneration, which no condition holds."""


class FieldEffect(NamedTuple):
    """One field that differs, as the report counts it.

    change     added, changed or removed
    clobber    of an observedGeneration: cleared (absent, null, 0 or ""), lowered, or ""
    discarded  the API server ignores this field in such a write
    """

    pointer: str
    subresource: str
    change: str
    clobber: str
    discarded: bool


Effects = dict[FieldEffect, tuple[Any, Any]]
"""With the values before and after: object contents, printed only with --values."""


def effects(before: AdmissionRequest, after: AdmissionRequest, *, status: bool) -> Effects:
    """Return the fields that changed between two views; `status`: is there that subresource.

    Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
    """
    return _effects(_fields(before), _fields(after), after.subresource, status=status)


def requested_effects(first: AdmissionRequest, *, status: bool) -> Effects:
    """Return what the requester changed: stored object against first view, without metadata.

    Raises as `effects` does.
    """
    old = first.old_object.content if first.old_object is not None else {}
    new = first.object.content if first.object is not None else {}
    found = _effects(old, new, first.subresource, status=status)
    return {field: values for field, values in found.items() if not field.discarded}


def carried(view: AdmissionRequest, *, status: bool) -> list[str]:
    """Name the observedGeneration values of a view that a webhook could clobber: no other is lost.

    Raises as `effects` does.
    """
    if view.object is None or _discarded("status", view.subresource, status=status):
        return []
    observed = view.object.observed
    if observed is None:
        return []
    own = ["status.observedGeneration"] if observed.own is not None else []
    return own + [
        f"status.conditions[{condition.type}].observedGeneration"
        for condition in observed.conditions
        if condition.type is not None and condition.observed is not None
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
    if cleared(given.get(_OBSERVED, ABSENT)):
        changed[_OBSERVED] = generation
    conditions = given.get("conditions")
    if isinstance(conditions, list) and all(
        isinstance(condition, dict) for condition in conditions
    ):
        # A merge patch replaces a list as a whole.
        complete = [
            {**condition, _OBSERVED: generation}
            if cleared(condition.get(_OBSERVED, ABSENT))
            else condition
            for condition in conditions
        ]
        if complete != conditions:
            changed["conditions"] = complete
    return {"status": changed} if changed else {}


def _effects(before: Fields, after: Fields, subresource: str, *, status: bool) -> Effects:
    old, new = (
        {key: msgspec.json.decode(raw) for key, raw in fields.items()} for fields in (before, after)
    )
    found: Effects = {}
    for change in changes(before, after):
        values = _at(old, change.key), _at(new, change.key)
        discarded = _discarded(str(change.key[0]), subresource, status=status)
        clobber = ""
        # A condition that was removed as a whole is not a cleared observedGeneration.
        in_place = len(change.key) <= _OF_OBJECT or _at(new, change.key[:-1]) is not ABSENT
        if (change.key[0], change.key[-1]) == ("status", _OBSERVED) and in_place and not discarded:
            clobber = _clobber(*values)
        how = "added" if change.added else "removed" if change.removed else "changed"
        found[FieldEffect(change.pointer, subresource, how, clobber, discarded)] = values
    return found


def _clobber(before: Any, after: Any) -> str:
    if cleared(before):
        return ""
    if cleared(after):
        return "cleared"
    return "lowered" if type(before) is type(after) is int and after < before else ""


def _discarded(key: str, subresource: str, *, status: bool) -> bool:
    """Whether the API server ignores this field. A status write changes status alone."""
    if subresource == "status":
        return key not in {"status", "metadata"}
    return key == "status" and status


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return the value at the key of a Change. A step into a list is an item's name or an index."""
    for token in path:
        if isinstance(value, dict):
            value = value.get(token, ABSENT)
        elif isinstance(value, list) and isinstance(token, int):
            value = value[token] if token < len(value) else ABSENT
        elif isinstance(value, list):
            found, names = identities(value)
            named = zip(value, (item_name(found, name) for name in names), strict=True)
            value = next((item for item, name in named if name == token), ABSENT)
        else:
            return ABSENT
    return value


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


@dataclass(slots=True)
class Row:
    """The changes of one configuration, or of several that no observer could separate.

    writes  by subresource
    fields  how often each field changed, and its latest values
    """

    writes: Counter[str] = field(default_factory=Counter)
    changed: int = 0
    fields: dict[FieldEffect, tuple[int, tuple[Any, Any]]] = field(default_factory=dict)

    def add(self, subresource: str, found: Effects) -> None:
        """Count one write and its effects."""
        self.writes[subresource] += 1
        self.changed += bool(found)
        for effect, values in found.items():
            if effect in self.fields or len(self.fields) < _MOST_FIELDS:
                self.fields[effect] = (self.fields.get(effect, (0,))[0] + 1, values)

    @property
    def clobbers(self) -> list[FieldEffect]:
        """The observedGeneration fields that were cleared or lowered."""
        return [effect for effect in self.fields if effect.clobber]


class Passes:
    """Turns views into steps. Counts complete, incomplete and ambiguous passes."""

    def __init__(self, positions: frozenset[int]) -> None:
        self._positions: Final = positions
        self._last: Final = max(positions, default=0)
        self._open: list[_Pass] = []
        self.complete: Final[Counter[str]] = Counter()  # by subresource
        self.broken = 0  # an observer was not reached, or the write was denied
        self.mixed = 0  # views of simultaneous writes that could not be told apart

    def see(self, position: int, view: AdmissionRequest) -> Step | None:
        """Return the step that this view completes, or None if its pass is ambiguous."""
        key = view.join_key
        if key is None or position not in self._positions:
            return None
        fitting = [begun for begun in self._open if begun.key == key and begun.position < position]
        if not fitting:
            self._begin(_Pass(key, position, view))
            return Step(-1, position, None, view)
        if any(_fields(begun.view) != _fields(fitting[0].view) for begun in fitting):
            self._open = [begun for begun in self._open if begun not in fitting]
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

    def _begin(self, begun: _Pass) -> None:
        self._open.append(begun)
        if begun.position == self._last:
            self._end(begun)
        elif len(self._open) > _MOST_OPEN:
            self._open.pop(0)
            self.broken += 1

    def _end(self, ended: _Pass) -> None:
        self._open = [each for each in self._open if each is not ended]
        if ended.seen == len(self._positions):
            self.complete[ended.view.subresource] += 1
        else:
            self.broken += 1


class Watch:
    """The state of one trace: the steps of all passes, by configuration and by requester."""

    def __init__(self, plan: Plan, *, writes: int | None, each: bool) -> None:
        """End after `writes` writes, or never.

        each  the writes are our own dry runs: end after one of each subresource
        """
        self.plan: Final = plan
        self._writes: Final = writes
        self.is_poked: Final = each
        self.passes: Final = Passes(frozenset(plan.observers))
        self.rows: Final[dict[tuple[str, ...], Row]] = {}
        self.requests: Final[dict[tuple[str, str], Row]] = {}
        self.carried: Final[Counter[str]] = Counter()
        """In how many requests an observedGeneration was sent, by its path."""
        self.creation: Mapping[str, Any] = {}  # what a dry run of one has shown

    def see(self, position: int, view: AdmissionRequest) -> None:
        """Take one observer's view of one write. Views of other objects are ignored."""
        wire, traced = view.wire, self.plan.traced
        if (wire.name, wire.namespace) != (traced.name, traced.namespace):
            return
        step = self.passes.see(position, view)
        if step is not None:
            try:
                self._add(step)
            except (msgspec.MsgspecError, RecursionError):
                self.passes.mixed += 1

    @property
    def is_enough(self) -> bool:
        """Whether enough complete writes were seen."""
        complete = self.passes.complete
        if self._writes is not None:
            return complete.total() >= self._writes
        return self.is_poked and all(
            complete[subresource] for subresource in self.plan.traced.subresources
        )

    @property
    def status_writes(self) -> int:
        """How many requests were seen in which a status can be changed."""
        where = "status" if self.plan.traced.served.has_status else ""
        return sum(row.writes[where] for row in self.requests.values())

    def unseen(self) -> list[str]:
        """Return the configurations that no pair of views enclosed in any write."""
        enclosed = {name for names in self.rows for name in names}
        names = [candidate.configuration for candidate in self.plan.candidates]
        return [name for name in names if name not in enclosed]

    def _add(self, step: Step) -> None:
        """Count what changed between the two views of a step."""
        view, status = step.after, self.plan.traced.served.has_status
        if step.before is not None:
            acting = self._between(step.position_before, step.position, view.subresource)
            found = effects(step.before, view, status=status)
            if acting:
                self.rows.setdefault(acting, Row()).add(view.subresource, found)
        elif step.position == 0:
            who = view.wire.user_info.username, view.wire.field_manager
            row = self.requests.setdefault(who, Row())
            row.add(view.subresource, requested_effects(view, status=status))
            for path in carried(view, status=status):
                if path in self.carried or len(self.carried) < _MOST_FIELDS:
                    self.carried[path] += 1

    def _between(self, first: int, last: int, subresource: str) -> tuple[str, ...]:
        return tuple(
            candidate.configuration
            for slot in self.plan.slots[first + 1 : last + 1]
            for candidate in slot.candidates
            if candidate.webhooks.get(subresource)
        )
