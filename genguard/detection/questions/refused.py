"""Refused: the same write is asked for again and again, and never comes out.

Reads   attempts at one change by one requester, how far each came, and what is stored
Result  blames the requester; other webhooks where they changed the write on its way, unless
        changes like these are admitted elsewhere
Relies  on the stored fields staying as they are, which a lost outcome does not do; on a resource
        of which outcomes are seen; on a minimum of time: writes at once may share a version that
        is out of date
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from genguard.admission.review import Operation
from genguard.detection.history import ObjectHistory
from genguard.detection.questions.question import (
    Answers,
    Blame,
    Declared,
    Event,
    Question,
    Seen,
    Signal,
    blame_of,
)
from genguard.detection.refusals import Refusal
from genguard.detection.write import Write

RETRY: Final = Declared(
    "refused-retry",
    "a write is requested again and again, and always refused",
    "[repeats|repeat] a refused write of {}",
    is_harm=True,
)


class Refused(Question):
    """See the module."""

    findings: ClassVar = (RETRY,)

    def ask(self, event: Event) -> Answers:
        """Ask whether an attempt that did not come out is one of many."""
        if isinstance(event, Refusal):
            yield from RETRY.of(_refused(event))
        elif isinstance(event, Seen) and event.write.has_outcome:
            yield from RETRY.of(_not_stored(*event))


_ATTEMPTS: Final = 4
"""A person who gets it wrong tries three times."""
_TRIES: Final = 10
"""Of one change after another, or of a version that is out of date: a person does not try so many,
and a cache is behind for less long (client-go util/workqueue/default_rate_limiters.go: the tenth
try comes 2.5 s after the first)."""
_SECONDS_REFUSED: Final = 0.5
_STALE_TRIES: Final = 5
_STALE_SECONDS: Final = 3.0
"""Of one old version: no cache is behind for so long after it was answered 409 so often."""
_WINDOW: Final = 600.0


def _refused(refusal: Refusal) -> Iterator[Signal]:
    """Yield one signal for an attempt that did not come out."""
    is_same = refusal.attempts >= _ATTEMPTS and refusal.seconds >= _SECONDS_REFUSED
    if not is_same and not _is_tried_long(refusal):
        return
    is_creation = refusal.write.operation is Operation.CREATE
    what = "creates" if is_creation else "writes"
    if not is_same:
        attempts, seconds = refusal.tries, refusal.tried_seconds
        refusal = refusal._replace(attempts=attempts, seconds=seconds)
    how = "it is admitted and never stored" if refusal.is_admitted else "it has no outcome"
    if refusal.is_stale:
        how = "it names a resourceVersion that is no longer stored"
    blame = Blame.REQUESTER
    if refusal.write.content.webhook and not refusal.is_admitted:
        blame = Blame.OTHERS
        if refusal.others_pass:
            blame = Blame.EITHER if is_creation else Blame.REQUESTER
    yield _signal_refused(refusal.write, blame, f"{what} it again and again: {how}", refusal)


def _not_stored(write: Write, past: ObjectHistory) -> Iterator[Signal]:
    """Yield one signal for an update that was admitted, and not stored after all."""
    if not _is_again(write, past):
        return
    tries = [
        one
        for one in past.earlier
        if one.base == write.base
        and one.requester.user == write.requester.user
        and one.subresource == write.subresource
        and one.state_after == write.state_after
        and one.time > write.time - _WINDOW
    ]
    if len(tries) < _ATTEMPTS or write.time - tries[0].time < _SECONDS_REFUSED:
        return
    refusal = Refusal(write, len(tries), write.time - tries[0].time)
    blame = Blame.OTHERS if write.content.webhook else blame_of(write.content)
    yield _signal_refused(
        write, blame, "writes it again and again: it is admitted and never stored", refusal
    )


def _is_tried_long(refusal: Refusal) -> bool:
    tries, seconds = refusal.tries, refusal.tried_seconds
    if refusal.is_stale and tries >= _STALE_TRIES and seconds >= _STALE_SECONDS:
        return True
    return tries >= _TRIES and seconds >= _SECONDS_REFUSED


def _is_again(write: Write, past: ObjectHistory) -> bool:
    """Return whether the write before it changed something, and the object is as it was."""
    earlier = past.earlier
    if not earlier or not write.base or earlier[-1].base != write.base:
        return False
    return bool(write.content.admitted.changes)


def _signal_refused(write: Write, blame: Blame, what: str, refusal: Refusal) -> Signal:
    user = write.requester.user
    paths: tuple[str, ...] = ()
    if blame is Blame.OTHERS:
        paths = tuple(one.pointer for one in write.content.webhook or ())
        what += ", since another webhook changed it"
    elif write.operation is Operation.UPDATE:
        paths = tuple(one.pointer for one in write.content.sent)
    if not paths and write.operation is Operation.UPDATE:
        paths = write.pointers()
    return Signal(
        blame,
        paths,
        f"{user} {what}",
        () if blame is Blame.OTHERS else (write.requester,),
        evidence={"attempts": refusal.attempts, "seconds": round(refusal.seconds, 1)},
    )
