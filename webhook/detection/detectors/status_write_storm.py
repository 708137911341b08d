"""The same status is asked for again and again, and is not kept.

Reads   digests of what was asked, and whether anything came of it
Acts on writes of status
Result  blames other webhooks where they change what is asked, else the requester
Relies  on KEP-5067's first symptom, and not on rate: a controller that writes often writes
        something new each time; a loop asks for what it did not get
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from webhook.detection.detectors.detector import Blame, Sign
from webhook.detection.history import ObjectHistory
from webhook.detection.write import Write

_SECONDS: Final = 60.0
_ASKED_AGAIN: Final = 5
_TIMES_SECONDS: Final = 10.0
_TIMES_ONLY: Final = 35


class StatusWriteStorm:
    """See the module."""

    name: ClassVar[str] = "status-write-storm"

    def asked(self, write: Write, past: ObjectHistory) -> Iterator[Sign]:
        """One sign for each write from the fifth equal one on."""
        if not write.writes_status or write.asked == ():
            return
        mine = [
            one
            for one in past.writes
            if one.requester.user == write.requester.user and one.time > write.time - _SECONDS
        ]
        same = [one for one in mine if one.asked_digest == write.asked_digest and one.asked != ()]
        blame = Blame.OTHERS if write.others else Blame.REQUESTER
        requesters = () if write.others else (write.requester,)
        if len(same) >= _ASKED_AGAIN:
            paths = tuple(change.pointer for change in (write.others or write.asked or ()))
            yield Sign(
                blame,
                paths,
                f"{write.requester.user} has asked for the same status {len(same)} times, "
                "and it is not kept",
                requesters,
            )
            return
        churn = [one for one in mine if one.time > write.time - _TIMES_SECONDS and _only_times(one)]
        if _only_times(write) and len(churn) >= _TIMES_ONLY:
            yield Sign(
                blame,
                tuple(change.pointer for change in write.result),
                f"{write.requester.user} wrote {len(churn)} times in {_TIMES_SECONDS:g} s and "
                "changed nothing but times",
                requesters,
            )

    def stored(self, write: Write, past: ObjectHistory) -> Iterator[Sign]:
        """Nothing more."""
        del write, past
        return iter(())


def _only_times(write: Write) -> bool:
    return bool(write.result) and all(
        str(change.key[-1]).lower().endswith(("time", "timestamp")) for change in write.result
    )
