"""Unstable: a webhook changes an object again when it is asked again.

One reinvocation is ordinary convergence: only the same again on one object is a loop (apiserver
pkg/admission/plugin/webhook/mutating/reinvocationcontext.go). A stamp in a write that asks for
something, and a hash that follows it, are ordinary as well.
"""

from collections.abc import Callable, Collection, Iterable
from typing import ClassVar, Final

from genguard.detection.changes import Change
from genguard.detection.diff import PartDiffs, asks_nothing, values
from genguard.detection.history import ObjectHistory
from genguard.detection.question import DECLARED, Answers, ChangedBy, Question, own, signal
from genguard.detection.write import Write
from genguard.objects.fields import Path

UNSTABLE: Final = DECLARED["unstable-mutation"]
_IN_A_ROW: Final = 3


def _changed_once_more(write: Write, past: ObjectHistory) -> Answers:
    """Blames webhooks for leaves that round 1 changed once more.

    And for labels and annotations to which they add something in each write, or that they change in
    a write that asks for nothing, after they had changed them in the one before.
    """
    if not write.is_mutated:
        return
    metadata, net = write.metadata, values(write.metadata.admitted)
    spec, again = write.content.reinvocation.changes, _of(metadata.reinvocation, net)
    # A Deployment's annotations are in both.
    made = {change.pointer: change for change in (*spec, *again)}
    if made:
        said = f"a webhook changed {len(made)} field(s) once more when it was reinvoked"
        # Nothing explains a leaf that is added to, or that changes, in each write.
        is_unstable = (
            spec
            or _of(again, metadata.grown)
            or _asks_nothing(write, again)
            or _is_in_a_row(past, again, lambda part: values(part.reinvocation))
        )
        more = {"minor": not is_unstable, "reinvoked": True}
        yield signal(UNSTABLE, write, ChangedBy.OTHERS, made.values(), said, **more)
        return
    asked = values(metadata.requested)
    grown = [change for change in _of(metadata.admitted, metadata.grown) if change.key not in asked]
    changed = _changed_for_nothing(write, past) or grown
    if changed:
        user = write.requester.user
        said = f"a webhook changed {len(changed)} field(s) of metadata again that {user} left alone"
        # A list of what is in a spec grows as well, but not in each write.
        minor = changed is grown and not _is_in_a_row(past, grown, lambda part: part.grown)
        yield signal(UNSTABLE, write, ChangedBy.OTHERS, changed, said, minor=minor)


def _of(changes: Iterable[Change], keys: Collection[Path]) -> list[Change]:
    return [change for change in changes if change.key in keys]


def _is_in_a_row(
    past: ObjectHistory, changed: Collection[Change], which: Callable[[PartDiffs], Collection[Path]]
) -> bool:
    """Whether each of the last writes of the object itself had one of the leaves among `which`.

    Writes that were seen in part are passed over.
    """
    seen = [write for write in past.earlier if not write.subresource and not write.missing]
    last = [write.metadata for write in seen[-_IN_A_ROW:]]
    return sum(bool(_of(changed, which(part))) for part in last) == _IN_A_ROW


def _changed_for_nothing(write: Write, past: ObjectHistory) -> list[Change]:
    """What webhooks changed, as in the last write of this user, though nothing is asked for."""
    made = write.metadata.webhook
    if not made or not _asks_nothing(write, made.changes):
        return []
    same = (other for other in own(write, past.earlier) if other.subresource == write.subresource)
    before = next((values(other.metadata.webhook) for other in same if not other.missing), {})
    both = before.keys() & values(made)
    return [leaf for leaf in _of(write.metadata.admitted, both) if before[leaf.key] != leaf.after]


def _asks_nothing(write: Write, made: Collection[Change]) -> bool:
    both = (write.content.requested, write.metadata.requested)
    return all(asks_nothing(diff, made) for diff in both)


class Unstable(Question):
    """See the module."""

    findings: ClassVar = (UNSTABLE,)
    seen = (_changed_once_more,)
