"""The same change is asked for again and again, each time with success, and nobody takes it back.

Reads   what each writer asked for, what was stored, and who moved generation in between
Acts on writes of more than status
Result  names the writer and the version of the API that it uses. The API server itself loses the
        value: a conversion between two versions of a custom resource that does not know the field,
        or a strategy that drops it
Relies  on generation: between most of these writes it must not have moved unseen, else somebody
        whose reviews were lost may have taken the value back
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import ClassVar, Final

from genguard.detection.changes import Change
from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.history import ObjectHistory
from genguard.detection.sample import field_names
from genguard.detection.write import Write
from genguard.objects.fields import Path

_TIMES: Final = 6
_SECONDS: Final = 3_600.0
_MOST_LEAVES: Final = 20
_NOT_MEANT: Final = frozenset({"status", "metadata"})


class WriteNotKept(Detector):
    """See the module."""

    name: ClassVar[str] = "write-not-kept"
    only_if: ClassVar[Sort] = "has_outcome"
    stored_only_if: ClassVar[Sort] = "counted"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for a change that the server drops before it is stored."""
        if write.subresource or write.changed_anything or write.content.webhook:
            return
        asked = _asked(write)
        if not asked:
            return
        same = [
            one
            for one in past.earlier
            if one.requester.user == write.requester.user
            and not one.subresource
            and one.time > write.time - _SECONDS
        ]
        lost = _in_each(asked, [one for one in same if _asked(one)][-_TIMES + 1 :])
        if lost:
            yield _signal(write, lost, "and the API server drops it")

    def judge_stored(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for a change that was stored, and was not there any more."""
        if write.subresource or write.content.webhook:
            return
        stored = [one for one in past.stored if one.counted and one.time > write.time - _SECONDS]
        jumps = [one.generation_after != after.generation_before for one, after in pairwise(stored)]
        if 2 * sum(jumps) > len(jumps):
            return
        own = [one for one in stored if one.requester.user == write.requester.user]
        lost = _in_each(_asked(write), own[-_TIMES:-1])
        since = own[-_TIMES].time if len(own) >= _TIMES else 0.0
        lost = [one for one in lost if not _is_taken_back(one, stored, since)]
        if lost:
            yield _signal(write, lost, "it is stored each time, and nobody is seen to take it back")


def _asked(write: Write) -> list[Change]:
    """Return the fields that a write asks for and that are not stored as yet."""
    found = [one for one in write.content.requested or () if one.key[0] not in _NOT_MEANT]
    return [one for one in found if not (one.holds_time or one.removed)][:_MOST_LEAVES]


def _in_each(asked: Sequence[Change], writes: Sequence[Write]) -> list[Change]:
    """Return those that each of the other writes asks for as well, in place of the same value."""
    if len(writes) < _TIMES - 1:
        return []
    each = [{(one.key, one.before, one.after) for one in _asked(it)} for it in writes]
    return [one for one in asked if all((one.key, one.before, one.after) in some for some in each)]


def _is_taken_back(change: Change, stored: Sequence[Write], since: float) -> bool:
    """Whether a stored write is seen to have undone the change."""
    back: tuple[Path, object, object] = change.key, change.after, change.before
    return any(
        (one.key, one.before, one.after) == back
        for write in stored
        if write.time >= since
        for one in write.content.admitted
    )


def _signal(write: Write, lost: Sequence[Change], what: str) -> Signal:
    version = write.object.version
    return Signal(
        Blame.REQUESTER,
        tuple(one.pointer for one in lost),
        f"{write.requester.user} asks for the same {field_names(lost)} again and again, in version "
        f"{version}: {what}",
        (write.requester,),
        evidence={"version": version},
    )
