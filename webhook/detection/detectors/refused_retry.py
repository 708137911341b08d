"""A write that is asked for again and again, and never comes out.

Reads   attempts at one change by one requester, how far each came, and what is stored
Acts on updates and creations
Result  blames the requester; other webhooks where they changed the write on its way, unless changes
        like these are admitted elsewhere
Relies  on the stored fields staying as they are, which a lost outcome does not do; on a resource of
        which outcomes are seen; on a minimum of time: writes at once may share a version that is
        out of date
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from webhook.detection.detectors.detector import Blame, Detector, Signal, Sort
from webhook.detection.diff import NO_DIFF
from webhook.detection.history import ObjectHistory
from webhook.detection.refusals import Refusal
from webhook.detection.write import Write

_ATTEMPTS: Final = 4
"""A person who gets it wrong tries three times."""
_SECONDS: Final = 0.5
_WINDOW: Final = 600.0
_CALM_SECONDS: Final = 0.2
"""Between its outcome and the moment when a write is stored, much less passes."""
_STATUS: Final = "status"


class RefusedRetry(Detector):
    """See the module."""

    name: ClassVar[str] = "refused-retry"
    only_if: ClassVar[Sort] = "has_outcome"

    def judge_refusal(self, refusal: Refusal) -> Iterator[Signal]:
        """Yield one signal for an attempt that did not come out."""
        if refusal.attempts < _ATTEMPTS or refusal.seconds < _SECONDS:
            return
        what = "creates" if refusal.is_creation else "writes"
        how = "it is admitted and never stored" if refusal.is_admitted else "it has no outcome"
        if refusal.answer:
            how = f"the answer is {refusal.answer}"
        is_others = refusal.made or refusal.is_made_invalid
        blame = Blame.OTHERS if is_others else Blame.REQUESTER
        if refusal.made and refusal.others_pass:
            blame = Blame.EITHER if refusal.is_creation else Blame.REQUESTER
        yield _signal(refusal.write, blame, f"{what} it again and again: {how}", refusal)

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for an update that was admitted, and not stored after all."""
        last = past.earlier[-1] if past.earlier else None
        if last is None or not _changes_something(write) or not _may_be_again(write, last):
            return
        tries = list(_tries(write, past))
        seconds = write.time - tries[-1].time if tries else 0.0
        if len(tries) < _ATTEMPTS or seconds < _SECONDS:
            return
        refusal = Refusal(
            write,
            attempts=len(tries),
            seconds=seconds,
            asked=write.sent_diff,
            made=write.webhook_diff or NO_DIFF,
        )
        blame = Blame.REQUESTER if write.requested_diff is not None else Blame.EITHER
        blame = Blame.OTHERS if write.webhook_diff else blame
        yield _signal(
            write, blame, "writes it again and again: it is admitted and never stored", refusal
        )


def _changes_something(write: Write) -> bool:
    admitted = write.admitted_diff
    return admitted.differs and (bool(admitted.changes) or not admitted.is_compared)


def _may_be_again(write: Write, last: Write) -> bool:
    """Return whether the write before it, of whomever, has left the same to be changed."""
    if last.base == write.base or write.subresource == _STATUS:
        return last.base == write.base
    return _is_same(write, last) or not _turns_back(last, write)


def _tries(write: Write, past: ObjectHistory) -> Iterator[Write]:
    """Yield the earlier writes that asked for the same, newest first.

    Upon one version none of them was stored. Upon other versions none was, if nobody has turned
    back since what they changed. A conflict is none of them: there another write comes at once.
    genguard itself turns back values of status, and nobody sees it.
    """
    next_time = write.time
    for one in reversed(past.earlier):
        is_calm, next_time = next_time - one.time >= _CALM_SECONDS, one.time
        is_upon_one_version = bool(write.base) and one.base == write.base
        if one.time <= write.time - _WINDOW:
            return
        if _is_same(write, one):
            if is_upon_one_version or (is_calm and write.subresource != _STATUS):
                yield one
        elif not is_upon_one_version and _turns_back(one, write):
            return


def _turns_back(one: Write, write: Write) -> bool:
    """Return whether a write may have changed what the other one changes."""
    touched = one.admitted_diff
    if not touched.is_compared:
        return one.touches_more
    keys = {change.key for change in write.admitted_diff}
    return any(change.key in keys for change in touched)


def _is_same(write: Write, one: Write) -> bool:
    """Return whether two writes of one user make the same change of the same values."""
    if one.requester.user != write.requester.user or one.subresource != write.subresource:
        return False
    if write.base and one.base == write.base:
        return one.state_after == write.state_after and one.admitted_diff.differs
    return bool(write.admitted_diff.changes) and (
        one.admitted_diff.changes == write.admitted_diff.changes
    )


def _signal(write: Write, blame: Blame, what: str, refusal: Refusal) -> Signal:
    user = write.requester.user
    changes = refusal.made if blame is Blame.OTHERS else refusal.asked
    paths = tuple(change.pointer for change in changes)
    if blame is Blame.OTHERS:
        what += ", since another webhook changed it"
    return Signal(
        blame,
        paths or (() if refusal.is_creation else write.pointers()),
        f"{user} {what}",
        () if blame is Blame.OTHERS else (write.requester,),
        evidence={"attempts": refusal.attempts, "seconds": round(refusal.seconds, 1)},
    )
