"""The same status is asked for again and again, and is not kept.

Reads   digests of what was asked, and what came of it
Acts on writes of status
Result  blames other webhooks where they change what is asked; else the requester may be the one
        who asks for what the server drops. What another user undoes is status-oscillation or
        status-clobbered: then the one who asks again is the victim. A requester that writes
        nothing but times, many times a second, is fed by its own watch
Relies  on KEP-5067's first symptom, and not on rate: a controller that writes often writes
        something new each time, or walks a cycle of its own; a loop asks for what it did not get
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import ClassVar, Final

from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.history import ObjectHistory
from genguard.detection.write import Write

_SECONDS: Final = 60.0
_ASKED_AGAIN: Final = 5
_TIMES_SECONDS: Final = 10.0
_TIMES_ONLY: Final = 35


class StatusWriteStorm(Detector):
    """See the module."""

    name: ClassVar[str] = "status-write-storm"
    only_if: ClassVar[Sort] = "writes_status"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for each write from the fifth equal one on."""
        if write.requested_nothing:
            return
        same = _uncontended(_asked_again(write, past), past)
        if len(same) >= _ASKED_AGAIN:
            if write.content.webhook or not _is_undone(write, same[-1].time, past):
                changed = write.content.webhook or write.content.requested or ()
                yield Signal(
                    Blame.OTHERS if write.content.webhook else Blame.SERVER,
                    tuple(change.pointer for change in changed) or write.pointers(),
                    f"{write.requester.user} has asked for the same status {len(same)} times, "
                    "and it is not kept",
                    () if write.content.webhook else (write.requester,),
                )
            return
        if not _only_times(write):
            return
        hurried = [one for one in _own(write, past) if one.time > write.time - _TIMES_SECONDS]
        # Of those that were too many to be compared nothing else is known.
        churn = [one for one in hurried if _only_times(one) or not one.content.admitted.is_compared]
        if len(churn) >= _TIMES_ONLY:
            yield Signal(
                Blame.REQUESTER,
                tuple(change.pointer for change in write.content.admitted),
                f"{write.requester.user} wrote {len(churn)} times in {_TIMES_SECONDS:g} s and "
                "changed nothing but times",
                (write.requester,),
            )


def _recent(write: Write, past: ObjectHistory) -> Iterator[Write]:
    """Status writes that asked for something, newest first; the write itself is among them."""
    for one in reversed(past.writes):
        if one.time <= write.time - _SECONDS:
            return
        if one.writes_status and not one.requested_nothing:
            yield one


def _asked_again(write: Write, past: ObjectHistory) -> Iterable[Write]:
    """The latest that asked for the same, newest first; none where they are known to be few.

    Writes of which it was not seen what they asked for are passed over.
    """
    if len(past.writes) < _ASKED_AGAIN:
        return ()
    if write.content_hash is None:
        return ()
    is_asked_known = write.content.requested is not None
    own = _own(write, past)
    seen = (one for one in own if one.content.requested is not None or not is_asked_known)
    return takewhile(lambda one: one.content_hash == write.content_hash, seen)


def _own(write: Write, past: ObjectHistory) -> Iterator[Write]:
    """Those of the same user."""
    user = write.requester.user
    return (one for one in _recent(write, past) if one.requester.user == user)


def _uncontended(writes: Iterable[Write], past: ObjectHistory) -> list[Write]:
    """Return the writes without a rival upon the same resourceVersion.

    Of several writes upon one version all but one are refused, and tried again.
    """
    found = list(writes)
    if len(found) < _ASKED_AGAIN:
        return []
    rivals = Counter(one.base for one in past.writes if one.changed_something)
    return [
        one
        for one in found
        if one.content.webhook or not one.changed_something or rivals[one.base] == 1
    ]


def _is_undone(write: Write, since: float, past: ObjectHistory) -> bool:
    """Somebody else has meanwhile written the same leaves."""
    keys = {change.key for change in write.content.sent}
    return any(
        not one.content.admitted.is_compared
        or any(change.key in keys for change in one.content.admitted)
        for one in _recent(write, past)
        if one.time >= since and one.requester.user != write.requester.user
    )


def _only_times(write: Write) -> bool:
    changes = write.content.admitted.changes
    return bool(changes) and all(one.holds_time for one in changes)
