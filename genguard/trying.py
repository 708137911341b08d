"""Turns recorded reviews into those that would have come with a step of a finding taken.

Reads   the lines of a recording, and the registration of each webhook
Result  the same lines: byte for byte, where the step concerns nothing; elsewhere without what a
        webhook changed that is not called any more, or with what writers leave alone. What would
        have been stored goes on into later reviews. A write that then asks for nothing would not
        have been sent: its lines are left out
Relies  on everybody else asking for what was recorded. What acts before /intent (a policy or
        static webhook) cannot be undone: no review shows what was asked for
"""

from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import jsonpatch
import msgspec

from genguard.admission.decode import decode_review
from genguard.admission.review import AdmissionRequest, Phase
from genguard.detection.matching import matched
from genguard.detection.suspects import Registered, Suspects
from genguard.detection.trial import Taken, is_sent_by
from genguard.formats.lines import Line, LongLine
from genguard.generation.transition import Engine
from genguard.objects.fields import ABSENT
from genguard.objects.pointer import from_pointer
from genguard.objects.selectors import Truth, every

_ITEM_KEYS: Final = ("type", "name", "uid")
_MOST_WRITES: Final = 1_000
"""Between their reviews: of one that is refused, the outcome never comes."""
_MOST_STORED: Final = 8
"""Of one object: writes that were asked for at once, of which one is stored."""
_OF_EACH_WRITE: Final = frozenset({"resourceVersion", "managedFields"})
_NOT_ASKED_FOR: Final = _OF_EACH_WRITE | {"generation"}
"""Fields of metadata that the API server sets."""


class StepTaken:
    """A recording with one step taken."""

    def __init__(self, taken: Taken, suspects: Suspects, engine: Engine) -> None:
        """Raise LookupError where the webhook of the step is not registered."""
        self._taken: Final = taken
        self._paths: Final = [from_pointer(one) for one in taken.paths]
        self._engine: Final = engine
        self._others: Final = suspects.others
        self._conditions: Final = suspects.conditions
        self._webhook: Final = _before_and_after(taken, suspects) if taken.webhook else None
        self._writes: Final[dict[object, _Write]] = {}
        self._stored: Final[dict[object, deque[tuple[Any, Any]]]] = {}
        self.is_decided = True
        """Whether each write is known to meet the conditions that the step adds, or not to."""

    def lines(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Yield the lines with the step taken; what is no recorded review stays as it is."""
        for line in lines:
            try:
                found = line if isinstance(line, LongLine) else self._line(line)
            except Exception:  # noqa: BLE001 - replay says what is wrong with it
                found = line
            if found is not None:
                yield found

    def _line(self, line: bytes) -> bytes | None:
        """Return a line as it would have been; None where it would not have come."""
        recording = msgspec.json.decode(line)
        if not (isinstance(recording, dict) and {"phase", "review"} <= recording.keys()):
            return line
        phase, review = Phase(recording["phase"]), recording["review"]
        request = decode_review(msgspec.json.encode(review))
        told = review["request"]
        where, key = _place(request), request.join_key or _key_of_create(request)
        write = self._writes.get(key)
        if write is None or phase is Phase.INTENT:
            write = self._writes[key] = self._begun(request, told, where)
            if len(self._writes) > _MOST_WRITES:
                del self._writes[next(iter(self._writes))]
        else:
            self._go_on(write, phase, told.get("object"))
        if phase is Phase.OUTCOME:
            del self._writes[key]
        old, new, left_out = write.old, write.new, write.is_left_out
        if new != told.get("object") or old != told.get("oldObject"):
            changed = {**told, "object": new, "oldObject": old}
            if phase is Phase.OUTCOME and not left_out:
                new = write.new = self._counted(review, changed)
                changed["object"] = new
            line = msgspec.json.encode({**recording, "review": {**review, "request": changed}})
        if phase is Phase.OUTCOME and not request.wire.dry_run:
            self._store(where, write)
        return None if left_out or write.is_round_left_out else line

    def _begun(self, request: AdmissionRequest, told: Any, where: object) -> "_Write":
        """Return a write at its first review."""
        was, recorded = told.get("oldObject"), told.get("object")
        write = _Write(was, recorded, was, recorded)
        if was is not None:
            write.old = self._as_stored(where, was)
        if was is not None and recorded is not None:
            write.new = merged(was, recorded, write.old)
            if any(is_sent_by(one, request) for one in self._taken.writers):
                write.new = self._without_paths(write.new, write.old)
            write.is_left_out = _asks(was, recorded) and not _asks(write.old, write.new)
        if self._webhook is not None and self._may_call(self._webhook[0], request):
            before, after = self._webhook
            write.is_called = self._may_call(after, request, len(before.conditions))
            write.is_called_again = write.is_called and after.reinvoked >= before.reinvoked
            write.is_alone = [x for x in self._others if self._may_call(x, request)] == [before]
        return write

    def _go_on(self, write: "_Write", phase: Phase, recorded: Any) -> None:
        """Take a write to its next review."""
        write.is_round_left_out = False
        if recorded is None or write.new is None:
            return
        if phase is Phase.OUTCOME:
            # What the server has put back is what is stored. It has not met what is undone here.
            stored = merged(write.recorded_old, recorded, write.old)
            new = merged(write.recorded, stored, write.new, keeps_ours=True)
        else:
            new = merged(write.recorded, recorded, write.new)
        is_called = write.is_called_again if write.calls else write.is_called
        # Without a review for /mutate, what webhooks changed is first seen at the outcome.
        if not is_called and (phase is Phase.MUTATE or not write.calls):
            is_whole = write.is_alone and phase is Phase.MUTATE
            new = write.new if is_whole else self._without_paths(new, write.new)
            is_again = bool(write.calls) and phase is Phase.MUTATE
            write.is_round_left_out = is_again and new == write.new
        write.calls += phase is Phase.MUTATE
        write.recorded, write.new = recorded, new

    def _without_paths(self, new: Any, source: Any) -> Any:
        """Return an object with another one's values of the finding's fields."""
        for path in self._paths:
            new = with_field_of(new, source, path)
        return new

    def _may_call(
        self, one: Registered, request: AdmissionRequest, known: int | None = None
    ) -> bool:
        """Whether the API server may call a webhook; `known`: how many conditions it had before."""
        covered = one.covers(matched(request))
        if covered is Truth.FALSE:
            return False
        truths = self._conditions.evaluate(one.conditions, request)
        answer = every((covered, *truths.values()))
        if known is not None and answer is not Truth.FALSE:
            added = [truths[each] for each in one.conditions[known:]]
            self.is_decided = self.is_decided and Truth.UNKNOWN not in added
        return answer is not Truth.FALSE

    def _counted(self, review: Any, told: Any) -> Any:
        """Return an object with the generation that the API server would have given it."""
        new = told["object"]
        if not isinstance(new, dict) or "generation" not in new.get("metadata", {}):
            return new
        body = msgspec.json.encode({**review, "request": told})
        generation = self._engine.predict(decode_review(body)).generation
        if generation is None:
            return new
        return {**new, "metadata": {**new["metadata"], "generation": generation}}

    def _as_stored(self, where: object, recorded: Any) -> Any:
        """Return a stored object as it would have been.

        A write that met a conflict was reviewed as well: what was stored is known by its content.
        """
        known = self._stored.get(where)
        if not known:
            return recorded
        content = _without(recorded, _OF_EACH_WRITE)
        same = (one for one in reversed(known) if _without(one[0], _OF_EACH_WRITE) == content)
        was, is_now = next(same, known[-1])
        return merged(was, recorded, is_now)

    def _store(self, where: object, write: "_Write") -> None:
        """Keep what a write stores, for an object that is not as it was recorded."""
        now = write.old if write.is_left_out else write.new
        if write.recorded is None:
            self._stored.pop(where, None)
        elif where in self._stored or write.recorded != now:
            known = self._stored.setdefault(where, deque(maxlen=_MOST_STORED))
            known.append((write.recorded, now))


@dataclass(slots=True)
class _Write:
    """One write between its reviews.

    recorded  the object of its last review
    old, new  the objects as they would have been
    is_left_out        it asks for nothing any more
    is_called, is_called_again  the webhook of the step still is, at first and when reinvoked
    is_alone           no other webhook is called
    is_round_left_out  without the webhook, /mutate would not have been called once more
    calls              of /mutate
    """

    recorded_old: Any
    recorded: Any
    old: Any
    new: Any
    is_left_out: bool = False
    is_called: bool = True
    is_called_again: bool = True
    is_alone: bool = False
    is_round_left_out: bool = False
    calls: int = 0


def _place(request: AdmissionRequest) -> object:
    """Return what the object is stored as; a Scale is no part of what it scales."""
    wire = request.wire
    name = wire.name or (request.object and request.object.metadata.name)
    return wire.kind, wire.resource, wire.namespace, name


def _key_of_create(request: AdmissionRequest) -> object:
    wire = request.wire
    return wire.resource, wire.sub_resource, wire.namespace, wire.name, wire.user_info.username


def _before_and_after(taken: Taken, suspects: Suspects) -> tuple[Registered, Registered]:
    """Return a webhook before and after the patch that the command of the step sends."""
    one = next((one for one in suspects.others if one.name == taken.webhook), None)
    if one is None:
        raise LookupError(taken.webhook)
    patch = msgspec.json.decode(taken.patch)
    if isinstance(patch, list):
        within = [x for x in suspects.registered if x.configuration == one.configuration]
        hooks = [{"name": each.webhook, "rules": list(each.rules)} for each in within]
        after = jsonpatch.apply_patch({"webhooks": hooks}, patch)["webhooks"]
        return one, replace(one, rules=tuple(after[within.index(one)]["rules"]))
    (hook,) = patch["webhooks"]
    added = [each["expression"] for each in hook.get("matchConditions", ())]
    reinvoked = one.reinvoked and hook.get("reinvocationPolicy") != "Never"
    return one, replace(one, conditions=(*one.conditions, *added), reinvoked=reinvoked)


def _asks(old: Any, new: Any) -> bool:
    """Whether an update asks for anything."""
    return bool(_without(old, _NOT_ASKED_FOR) != _without(new, _NOT_ASKED_FOR))


def _without(document: Any, fields: Container[str]) -> Any:
    """Return an object without some fields of its metadata."""
    metadata = document.get("metadata", {})
    kept = {key: value for key, value in metadata.items() if key not in fields}
    return {**document, "metadata": kept}


def merged(base: Any, theirs: Any, ours: Any, *, keeps_ours: bool = False) -> Any:
    """Make to `ours` the change from `base` to `theirs`.

    keeps_ours  also where both differ from base; else theirs is what was asked for there
    """
    if base == ours:
        return theirs
    if base == theirs:
        return ours
    sides = base, theirs, ours
    if all(isinstance(one, dict) for one in sides):
        return _merged_fields(base, theirs, ours, keeps_ours=keeps_ours)
    if all(isinstance(one, list) for one in sides):
        # Items are matched as the API server does, by what names them; else by their place.
        for key in _ITEM_KEYS:
            was, is_theirs, is_ours = (_by_name(one, key) for one in sides)
            if was is not None and is_theirs is not None and is_ours is not None:
                found = _merged_fields(was, is_theirs, is_ours, keeps_ours=keeps_ours)
                order = is_ours if [*was] == [*is_theirs] else is_theirs
                return [found[one] for one in dict.fromkeys((*order, *found)) if one in found]
        if len(base) == len(theirs) == len(ours):
            items = zip(*sides, strict=True)
            return [merged(*each, keeps_ours=keeps_ours) for each in items]
    return ours if keeps_ours else theirs


def _merged_fields(
    base: dict[Any, Any], theirs: dict[Any, Any], ours: dict[Any, Any], *, keeps_ours: bool
) -> dict[Any, Any]:
    sides = base, theirs, ours
    found = {
        key: merged(*(one.get(key, ABSENT) for one in sides), keeps_ours=keeps_ours)
        for key in dict.fromkeys((*theirs, *ours))
    }
    return {key: value for key, value in found.items() if value is not ABSENT}


def _by_name(items: Sequence[Any], key: str) -> dict[Any, Any] | None:
    named = {
        one[key]: one for one in items if isinstance(one, dict) and isinstance(one.get(key), str)
    }
    return named if len(named) == len(items) else None


def with_field_of(target: Any, source: Any, path: Sequence[str]) -> Any:
    """Return `target` with the value that `source` has at a path, or without one."""
    if not path:
        return source
    name, *rest = path
    if isinstance(target, list) and isinstance(source, list) and name.isdecimal():
        at = int(name)
        if at >= len(target) or at >= len(source):
            return source
        return [*target[:at], with_field_of(target[at], source[at], rest), *target[at + 1 :]]
    if isinstance(target, list) or isinstance(source, list):
        return source
    fields = dict(target) if isinstance(target, dict) else {}
    given = source if isinstance(source, dict) else {}
    value = with_field_of(fields.get(name, ABSENT), given.get(name, ABSENT), rest)
    if value is ABSENT:
        fields.pop(name, None)
    else:
        fields[name] = value
    return fields if fields or isinstance(source, dict) else source
