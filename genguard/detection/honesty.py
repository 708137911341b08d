"""Whether controllers raise observedGeneration when their status is about the new spec.

Reads    the stored writes of each object, in their order
Result   for each writer and kind, how often the number was raised, and how often wrongly; and a
         DishonestWriter at each write of one that is regularly early, or never raises it
Counted  early      it is raised alone, and within a minute, at the same generation, the same writer
                    changes a condition or the phase: until then they spoke of the old spec
         late       it is raised alone, after the same writer has changed the rest of the status at
                    this generation: for a while nobody could know that the status was new
         never      spec changes again, and of the generation before it status was written, but
                    observedGeneration was not raised
         backwards  a lower number is written
Relies   on the convention that observedGeneration says of which spec the status was made (api
         conventions, sig-architecture/api-conventions.md). Numbers that change, as those of
         replicas, do not say that a status was of the old spec: a rollout goes on. Nor do the
         conditions of a Pod, which follow its containers
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from genguard.detection.changes import Change
from genguard.detection.finding import FoundObject
from genguard.detection.history import ObjectHistory
from genguard.detection.write import Write
from genguard.generation.table import has_observed_generation
from genguard.objects.bounded import Bounded
from genguard.objects.observed import generation_number

MOST_WRITERS: Final = 200
_EARLY_SECONDS: Final = 60.0
_LEAST_EARLY: Final = 5
_LEAST_NEVER: Final = 10
_REGULAR: Final = 0.5
"""Of the times that the number was raised, or was to be."""
_OBSERVED: Final = "observedGeneration"
_CONDITION_WORDS: Final = ("status", "reason")
_PHASES: Final = frozenset({"/status/phase", "/status/state"})
_PODS: Final = ("", "pods")

HOW: Final = ("raised", "early", "late", "never", "backwards")
"""The fields of WriterHonesty that count."""


class WriterHonesty(msgspec.Struct, frozen=True, rename="camel"):
    """How one writer handles the observedGeneration of one kind; `example` is the latest object.

    raised  how often the number was raised; `early` and `late` are among them
    never   how many generations passed without that
    """

    user: str
    field_manager: str
    group: str
    resource: str
    example: FoundObject
    raised: int = 0
    early: int = 0
    late: int = 0
    never: int = 0
    backwards: int = 0

    @property
    def is_early(self) -> bool:
        """Whether it is early at least every second time."""
        return self.early >= _LEAST_EARLY and self.early >= _REGULAR * self.raised

    @property
    def is_silent(self) -> bool:
        """Whether it does not raise the number at least every second time."""
        return self.never >= _LEAST_NEVER and self.never >= _REGULAR * (self.raised + self.never)


class DishonestWriter(NamedTuple):
    """A writer that is regularly early, or never raises the number, and its latest such write."""

    honesty: WriterHonesty
    write: Write


class Honesty:
    """Counts by writer. Bounded: who was not seen for longest is forgotten first."""

    def __init__(self) -> None:
        self._writers: Final[Bounded[tuple[str, ...], WriterHonesty]] = Bounded(MOST_WRITERS)

    def writers(self) -> list[WriterHonesty]:
        """Return all writers, those who are wrong most often first."""
        return sorted(
            self._writers.values(),
            key=lambda one: (-(one.early + one.never + one.backwards), -one.late, one.user),
        )

    def see(self, write: Write, past: ObjectHistory) -> DishonestWriter | None:
        """Take in a write with an outcome, the newest of its history."""
        found = None
        for judged, field in _judged(write, past):
            honesty = self._count(judged, field)
            is_wrong = (field == "early" and honesty.is_early) or (
                field == "never" and honesty.is_silent
            )
            if is_wrong:
                found = DishonestWriter(honesty, judged)
        return found

    def _count(self, write: Write, field: str) -> WriterHonesty:
        who, where = write.requester, write.object
        key = who.user, who.manager, where.group, where.resource
        example = FoundObject(*msgspec.structs.astuple(where))
        known = self._writers.get(key) or WriterHonesty(*key, example)
        more = {field: getattr(known, field) + 1, "example": example}
        honesty = msgspec.structs.replace(known, **more)
        self._writers.put(key, honesty)
        return honesty


def _judged(write: Write, past: ObjectHistory) -> Iterator[tuple[Write, str]]:
    """Yield what is to be counted: the write that it is about, and the field of WriterHonesty."""
    # Where status makes generations of its own, no number is that of the spec.
    if write.status_counts or (write.object.group, write.object.resource) == _PODS:
        return
    if write.counted and (unraised := _unraised(write, past)) is not None:
        yield unraised, "never"
    if not write.touches_status:
        return
    before, after = _observed(write)
    if after is None:
        return
    if before is not None and after < before:
        yield write, "backwards"
    elif _raises(write) and not _was_raised(write, past):
        yield write, "raised"
        if _is_alone(write) and any(_speaks(one) for one in _of_same_writer(write, past)):
            yield write, "late"
    elif after >= write.generation_after and _speaks(write) and _is_early(write, past):
        yield write, "early"


def _is_early(write: Write, past: ObjectHistory) -> bool:
    """Whether a write speaks first of a spec of which the number was raised a moment ago."""
    spoken = (one for one in _of_same_writer(write, past) if _raises(one) or _speaks(one))
    raised = next(spoken, None)
    if raised is None or not _raises(raised) or not _is_alone(raised):
        return False
    return write.time - raised.time <= _EARLY_SECONDS and next(spoken, None) is None


def _unraised(write: Write, past: ObjectHistory) -> Write | None:
    """Return the last status write of the generation that ends, if it was not raised in it."""
    if not has_observed_generation(write.object.group, write.object.resource):
        return None
    last = next(_status_writes(past, write.generation_before), None)
    if last is None or (generation_number(last.observed_after.own) or 0) >= last.generation_after:
        return None
    return last


def _was_raised(write: Write, past: ObjectHistory) -> bool:
    """Whether the number had been raised at this generation: somebody has taken it away since."""
    return any(
        _raises(one) or (generation_number(one.observed_before.own) or 0) >= one.generation_after
        for one in _status_writes(past, write.generation_after)
    )


def _of_same_writer(write: Write, past: ObjectHistory) -> Iterator[Write]:
    """Yield the earlier status writes of its user at its generation, the newest first."""
    for one in _status_writes(past, write.generation_after):
        if one.requester.user == write.requester.user:
            yield one


def _status_writes(past: ObjectHistory, generation: int) -> Iterator[Write]:
    """Yield the earlier status writes, the newest first, as long as they are of a generation."""
    for one in reversed(past.earlier):
        if one.generation_after != generation:
            return
        if one.touches_status:
            yield one


def _observed(write: Write) -> tuple[int | None, int | None]:
    """Return observedGeneration before and after a write."""
    return generation_number(write.observed_before.own), generation_number(write.observed_after.own)


def _raises(write: Write) -> bool:
    before, after = _observed(write)
    return after is not None and (before or 0) < write.generation_after <= after


def _is_alone(write: Write) -> bool:
    """Whether observedGeneration is all that it changes, times aside; of that leaves must tell."""
    admitted = write.content.admitted
    return bool(admitted.changes) and all(
        one.holds_time or one.key[-1] == _OBSERVED for one in admitted
    )


def _speaks(write: Write) -> bool:
    """Whether it changes a condition or the phase."""
    return any(_is_word(one) for one in write.content.admitted)


def _is_word(one: Change) -> bool:
    is_of_condition = one.pointer.startswith("/status/conditions/")
    return one.pointer in _PHASES or (is_of_condition and one.key[-1] in _CONDITION_WORDS)
