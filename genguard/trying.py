"""Turns recorded reviews into those that would have come with a step of a finding taken.

Reads   the lines of a recording, and the registration of each webhook
Result  the same lines: byte for byte, where the step concerns nothing; elsewhere without what a
        webhook changed that is not called any more, or with what writers leave alone. What would
        have been stored goes on into later reviews. A write that then asks for nothing would not
        have been sent: its lines are left out
Relies  on everybody else asking for what was recorded. Of what is not called before /intent
        (policies, static webhooks) no review shows what was asked for: that cannot be undone
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import jsonpatch
import msgspec

from genguard.admission.decode import decode_review
from genguard.admission.errors import UndecodableReviewError
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
_NOT_ASKED_FOR: Final = frozenset({"resourceVersion", "generation", "managedFields"})
"""Fields of metadata that are the API server's, or change with each write."""


class StepTaken:
    """A recording with one step taken."""

    def __init__(self, taken: Taken, suspects: Suspects, engine: Engine) -> None:
        """Raise LookupError where the webhook of the step is not registered."""
        self._taken: Final = taken
        self._paths: Final = [from_pointer(one) for one in taken.paths]
        self._engine: Final = engine
        self._others: Final = suspects.others
        self._conditions: Final = suspects.conditions
        self._before: Final = _find(suspects.others, taken.webhook) if taken.webhook else None
        self._after: Final = self._before and _patched(self._before, suspects.registered, taken)
        self._writes: Final[dict[object, _Write]] = {}
        self._stored: Final[dict[object, tuple[Any, Any]]] = {}
        self.is_decided = True
        """Every condition could be evaluated."""

    def lines(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Yield the lines with the step taken; what is no recorded review stays as it is."""
        for line in lines:
            try:
                changed = line if isinstance(line, LongLine) else self._changed(line)
            except (UndecodableReviewError, msgspec.MsgspecError, ValueError, RecursionError):
                changed = line  # replay says what is wrong with it
            if changed is not None:
                yield changed

    def _changed(self, line: bytes) -> bytes | None:
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
        if not request.wire.dry_run:
            self._store(where, write)
        return None if left_out or write.is_called_once_more else line

    def _begun(self, request: AdmissionRequest, told: Any, where: object) -> "_Write":
        """Return a write at its first review."""
        recorded_old, recorded = told.get("oldObject"), told.get("object")
        old, new = recorded_old, recorded
        if recorded_old is not None:
            if where in self._stored:
                was, is_now = self._stored[where]
                old = merged(was, recorded_old, is_now)
            new = recorded if recorded is None else merged(recorded_old, recorded, old)
            if any(is_sent_by(one, request) for one in self._taken.writers):
                new = new if new is None else self._without_paths(new, old)
        write = _Write(recorded_old, recorded, old, new)
        if old is not None and new is not None and not _asks(old, new):
            write.is_left_out = _asks(recorded_old, recorded)
        if self._before and self._after:
            write.is_called = self._is_called(self._after, request)
            write.is_called_again = write.is_called and self._after.reinvoked
            if not self._is_called(self._before, request):
                write.is_called = write.is_called_again = True  # it has changed nothing here
            others = [one for one in self._others if self._is_called(one, request)]
            write.is_alone = others == [self._before]
        return write

    def _go_on(self, write: "_Write", phase: Phase, recorded: Any) -> None:
        """Take a write to its next review."""
        write.is_called_once_more = False
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
            write.is_called_once_more = is_again and new == write.new
        write.calls += phase is Phase.MUTATE
        write.recorded, write.new = recorded, new

    def _without_paths(self, new: Any, source: Any) -> Any:
        """Return an object with another one's values of the finding's fields."""
        for path in self._paths:
            new = with_field_of(new, source, path)
        return new

    def _is_called(self, one: Registered, request: AdmissionRequest) -> bool:
        truths = self._conditions.evaluate(one.conditions, request)
        if one is self._after and self._before is not None:
            added = one.conditions[len(self._before.conditions) :]
            self.is_decided &= Truth.UNKNOWN not in [truths[each] for each in added]
        return every((one.covers(matched(request)), *truths.values())) is not Truth.FALSE

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

    def _store(self, where: object, write: "_Write") -> None:
        now = write.old if write.is_left_out else write.new
        if write.recorded is None or write.recorded == now:
            self._stored.pop(where, None)
        else:
            self._stored[where] = write.recorded, now


@dataclass(slots=True)
class _Write:
    """One write between its reviews.

    recorded  the object of its last review
    old, new  the objects as they would have been
    """

    recorded_old: Any
    recorded: Any
    old: Any
    new: Any
    is_left_out: bool = False
    is_called: bool = True
    is_called_again: bool = True
    is_alone: bool = False
    is_called_once_more: bool = False
    calls: int = 0


def _place(request: AdmissionRequest) -> object:
    """Return what the object is stored as; a Scale is no part of what it scales."""
    wire = request.wire
    return wire.kind, wire.resource, wire.namespace, _name(request)


def _key_of_create(request: AdmissionRequest) -> object:
    wire = request.wire
    return wire.resource, wire.sub_resource, wire.namespace, wire.name, wire.user_info.username


def _name(request: AdmissionRequest) -> str:
    return request.wire.name or (request.object and request.object.metadata.name) or ""


def _find(registered: Iterable[Registered], name: str) -> Registered:
    found = next((one for one in registered if one.name == name), None)
    if found is None:
        raise LookupError(name)
    return found


def _patched(one: Registered, registered: Iterable[Registered], taken: Taken) -> Registered:
    """Return a webhook after the patch that the command of the step sends."""
    patch = msgspec.json.decode(taken.patch)
    if isinstance(patch, list):
        within = [each for each in registered if each.configuration == one.configuration]
        hooks = [{"name": each.webhook, "rules": list(each.rules)} for each in within]
        after = jsonpatch.apply_patch({"webhooks": hooks}, patch)["webhooks"]
        return replace(one, rules=tuple(after[within.index(one)]["rules"]))
    (hook,) = patch["webhooks"]
    added = [each["expression"] for each in hook.get("matchConditions", ())]
    return replace(
        one,
        conditions=(*one.conditions, *added),
        reinvoked=one.reinvoked and hook.get("reinvocationPolicy") != "Never",
    )


def _asks(old: Any, new: Any) -> bool:
    """Whether an update asks for anything."""
    return bool(_asked_for(old) != _asked_for(new))


def _asked_for(document: Any) -> Any:
    metadata = document.get("metadata", {})
    kept = {key: value for key, value in metadata.items() if key not in _NOT_ASKED_FOR}
    return {**document, "metadata": kept}


def merged(base: Any, theirs: Any, ours: Any, *, keeps_ours: bool = False) -> Any:
    """Make to `ours` the change from `base` to `theirs`.

    keeps_ours  also where both differ from base; else theirs is what was asked for there
    """
    if base == ours:
        return theirs
    if base == theirs:
        return ours
    if all(isinstance(one, dict) for one in (base, theirs, ours)):
        return _merged_fields(base, theirs, ours, keeps_ours=keeps_ours)
    if all(isinstance(one, list) for one in (base, theirs, ours)):
        return _merged_items(base, theirs, ours, keeps_ours=keeps_ours)
    return ours if keeps_ours else theirs


def _merged_fields(*sides: dict[Any, Any], keeps_ours: bool) -> dict[Any, Any]:
    _, theirs, ours = sides
    found = {
        key: merged(*(one.get(key, ABSENT) for one in sides), keeps_ours=keeps_ours)
        for key in dict.fromkeys((*theirs, *ours))
    }
    return {key: value for key, value in found.items() if value is not ABSENT}


def _merged_items(*sides: list[Any], keeps_ours: bool) -> list[Any]:
    """Match items as the API server does, by what names them; else by their place."""
    _, theirs, ours = sides
    for key in _ITEM_KEYS:
        named = [known for one in sides if (known := _by_name(one, key)) is not None]
        if len(named) == len(sides):
            found = _merged_fields(*named, keeps_ours=keeps_ours)
            order = named[2] if [*named[0]] == [*named[1]] else named[1]
            first = [name for name in order if name in found]
            return [found[name] for name in dict.fromkeys((*first, *found))]
    if all(len(one) == len(other) for one, other in pairwise(sides)):
        items = zip(*sides, strict=True)
        return [merged(*each, keeps_ours=keeps_ours) for each in items]
    return ours if keeps_ours else theirs


def _by_name(items: Sequence[Any], key: str) -> dict[Any, Any] | None:
    found = [one for one in items if isinstance(one, dict) and isinstance(one.get(key), str)]
    named = {one[key]: one for one in found}
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
