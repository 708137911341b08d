"""Unstable: a webhook that changes an object again when it is asked again.

Reads   the two mutate calls of one write, genguard's own repairs left out; what webhooks made of
        the metadata of earlier writes
Acts on writes that were reinvoked, and on those whose metadata webhooks changed
Result  blames other webhooks for leaves that round 1 changed once more; for labels and annotations
        to which they add something in each write, or that they change in a write that asks for
        nothing, after they had changed them in the one before
Relies  on one reinvocation being ordinary convergence: only the same again on one object is a loop
        (apiserver pkg/admission/plugin/webhook/mutating/reinvocationcontext.go). A stamp in a write
        that asks for something, and a hash that follows it, are ordinary as well
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import ClassVar, Final

from genguard.detection.changes import Change
from genguard.detection.diff import PartDiffs
from genguard.detection.history import ObjectHistory
from genguard.detection.questions.question import (
    Answers,
    Blame,
    Declared,
    Event,
    Question,
    Seen,
    Signal,
)
from genguard.detection.write import Write
from genguard.objects.fields import Path

UNSTABLE: Final = Declared(
    "unstable-mutation",
    "a webhook changes an object again whenever it is called again",
    "[changes|change] {} at each call anew",
)
_IN_A_ROW: Final = 3


class Unstable(Question):
    """See the module."""

    findings: ClassVar = (UNSTABLE,)

    def ask(self, event: Event) -> Answers:
        """Ask what webhooks changed once more."""
        if isinstance(event, Seen) and event.write.is_mutated:
            yield from UNSTABLE.of(_changed_once_more(*event))


def _changed_once_more(write: Write, past: ObjectHistory) -> Iterator[Signal]:
    spec, metadata = write.content.reinvocation.changes, _again(write)
    # A Deployment's annotations are in both.
    made = {change.pointer: change for change in (*spec, *metadata)}
    if made:
        yield Signal(
            Blame.OTHERS,
            tuple(made),
            f"a webhook changed {len(made)} field(s) once more when it was reinvoked",
            minor=not spec and not _is_unstable(write, metadata, past),
            reinvoked=True,
        )
        return
    added = _added_to(write)
    changed = _changed_for_nothing(write, past) or added
    if changed:
        # A list of what is in a spec grows as well, but not in each write.
        keys = {change.key for change in changed}
        yield Signal(
            Blame.OTHERS,
            tuple(dict.fromkeys(change.pointer for change in changed)),
            f"a webhook changed {len(changed)} field(s) of metadata once more "
            f"that {write.requester.user} left alone",
            minor=changed is added and not _is_in_a_row(past, keys, lambda one: one.grown),
        )


def _again(write: Write) -> tuple[Change, ...]:
    """The leaves of metadata that round 1 changed, and that are not as they are stored."""
    net = {change.key for change in write.metadata.admitted}
    return tuple(one for one in write.metadata.reinvocation if one.key in net)


def _is_unstable(write: Write, changed: Collection[Change], past: ObjectHistory) -> bool:
    """Whether nothing explains what round 1 changed: it is added to, or changes in each write."""
    keys = {change.key for change in changed}
    return (
        not keys.isdisjoint(write.metadata.grown)
        or _asks_nothing(write, keys)
        or _is_in_a_row(past, keys, lambda one: [change.key for change in one.reinvocation])
    )


def _added_to(write: Write) -> list[Change]:
    """The labels and annotations to whose stored value webhooks have added something."""
    metadata = write.metadata
    asked = {change.key for change in metadata.requested or ()}
    return [one for one in metadata.admitted if one.key in metadata.grown and one.key not in asked]


def _is_in_a_row(
    past: ObjectHistory, keys: set[Path], which: Callable[[PartDiffs], Iterable[Path]]
) -> bool:
    """Whether each of the last writes of the object itself had one of these keys among `which`.

    Writes that were seen in part are passed over.
    """
    seen = [one for one in past.earlier if not one.subresource and not one.missing]
    last = [one.metadata for one in seen[-_IN_A_ROW:]]
    found = [one for one in last if not keys.isdisjoint(which(one))]
    return len(found) == _IN_A_ROW


def _changed_for_nothing(write: Write, past: ObjectHistory) -> list[Change]:
    """What webhooks changed, as in the last write of this user, though nothing is asked for."""
    made = {one.key for one in write.metadata.webhook or ()}
    if not made or not _asks_nothing(write, made):
        return []
    last = next((one for one in reversed(past.earlier) if _is_before(one, write)), None)
    theirs = None if last is None else last.metadata.webhook
    before = {one.key: one.after for one in theirs or ()}
    return [
        one
        for one in write.metadata.admitted
        if one.key in made and one.key in before and before[one.key] != one.after
    ]


def _is_before(one: Write, write: Write) -> bool:
    """Whether it is an earlier write of the same user, and was not seen in part."""
    is_same = (one.requester.user, one.subresource) == (write.requester.user, write.subresource)
    return is_same and not one.missing


def _asks_nothing(write: Write, made: set[Path]) -> bool:
    """Whether the requester changed nothing, but that a PUT left out what webhooks add."""
    asked = (write.content.requested, write.metadata.requested)
    return all(
        diff is not None and all(one.removed and one.key in made for one in diff) for diff in asked
    )
