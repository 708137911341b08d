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

from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from typing import ClassVar, Final

from webhook.detection.detectors.detector import Blame, Detector, Sign, Sort
from webhook.detection.history import ObjectHistory
from webhook.detection.write import Write

_SECONDS: Final = 60.0
_ASKED_AGAIN: Final = 5
_TIMES_SECONDS: Final = 10.0
_TIMES_ONLY: Final = 35


class StatusWriteStorm(Detector):
    """See the module."""

    name: ClassVar[str] = "status-write-storm"
    asked_of: ClassVar[Sort] = "writes_status"

    def asked(self, write: Write, past: ObjectHistory) -> Iterator[Sign]:
        """One sign for each write from the fifth equal one on."""
        if write.asked_nothing:
            return
        same = [one for one in _asked_again(write, past) if not _is_contended(one, past)]
        if len(same) >= _ASKED_AGAIN:
            if write.others or not _is_undone(write, same[-1].time, past):
                changed = write.others or write.asked or ()
                yield Sign(
                    Blame.OTHERS if write.others else Blame.SERVER,
                    tuple(change.pointer for change in changed),
                    f"{write.requester.user} has asked for the same status {len(same)} times, "
                    "and it is not kept",
                    () if write.others else (write.requester,),
                )
            return
        hurried = [one for one in _own(write, past) if one.time > write.time - _TIMES_SECONDS]
        if len(hurried) < _TIMES_ONLY or not _only_times(write):
            return
        churn = [one for one in hurried if _only_times(one)]
        if len(churn) >= _TIMES_ONLY:
            yield Sign(
                Blame.REQUESTER,
                tuple(change.pointer for change in write.result),
                f"{write.requester.user} wrote {len(churn)} times in {_TIMES_SECONDS:g} s and "
                "changed nothing but times",
                (write.requester,),
            )


def _recent(write: Write, past: ObjectHistory) -> Iterator[Write]:
    """Status writes that asked for something, newest first; the write itself is among them."""
    for one in reversed(past.writes):
        if one.time <= write.time - _SECONDS:
            return
        if one.writes_status and not one.asked_nothing:
            yield one


def _asked_again(write: Write, past: ObjectHistory) -> Iterable[Write]:
    """The latest that asked for the same, newest first; none where they are known to be few."""
    if len(past.writes) < _ASKED_AGAIN:
        return ()
    latest = list(islice(_own(write, past), _ASKED_AGAIN))
    # What was kept is there, and cannot be asked for again.
    if len(latest) < _ASKED_AGAIN or write.sent.begins_with(latest[1].sent):
        return ()
    if write.wanted is None:
        return ()
    return takewhile(lambda one: one.wanted == write.wanted, _own(write, past))


def _own(write: Write, past: ObjectHistory) -> Iterator[Write]:
    """Those of the same user."""
    user = write.requester.user
    return (one for one in _recent(write, past) if one.requester.user == user)


def _is_contended(one: Write, past: ObjectHistory) -> bool:
    """Of several writes upon one resourceVersion all but one are refused, and tried again."""
    if one.others or not one.changed_something:
        return False
    rivals = (other for other in past.writes if other.base == one.base and other is not one)
    return any(other.changed_something for other in rivals)


def _is_undone(write: Write, since: float, past: ObjectHistory) -> bool:
    """Somebody else has meanwhile written the same leaves."""
    keys = {change.key for change in write.sent}
    return any(
        change.key in keys
        for one in _recent(write, past)
        if one.time >= since and one.requester.user != write.requester.user
        for change in one.result
    )


def _only_times(write: Write) -> bool:
    return bool(write.result) and all(one.holds_time for one in write.result)
