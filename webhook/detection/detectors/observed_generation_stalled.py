"""Generation moves, status is written, and observedGeneration stands still.

Reads   generation and every observedGeneration over the latest status writes
Acts on writes of status that have an outcome
Result  a sign for each status write of a stall that has lasted for several of them
Relies  on KEP-5067's second symptom. Not stalled are: a status whose conditions observe the
        generation (Flux starts its own at -1), a custom resource without status subresource that
        trails by one for ever, and single writes of controllers that lag by themselves
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import ClassVar, Final

from webhook.detection.detectors.detector import Blame, Sign
from webhook.detection.history import ObjectHistory
from webhook.detection.write import Write

_WRITES: Final = 5
_SECONDS: Final = 2.0
_STEPS: Final = 3


class ObservedGenerationStalled:
    """See the module."""

    name: ClassVar[str] = "observed-generation-stalled"

    def asked(self, write: Write, past: ObjectHistory) -> Iterator[Sign]:
        """One sign a write."""
        if not _lags(write):
            return
        # The write itself is the newest of the history.
        recent = [one for one in reversed(past.writes) if one.writes_status and one.has_outcome]
        stall = list(takewhile(lambda one: _lags(one) and _own(one) == _own(write), recent))
        if len(stall) < _WRITES:
            return
        lasted = write.time - stall[-1].time
        behind = write.generation_after - (_own(write) or 0)
        if lasted < _SECONDS and behind < _STEPS:
            return
        cleared = (_number(write.observed_asked.own) or 0) >= write.generation_after
        yield Sign(
            Blame.OTHERS if cleared else Blame.REQUESTER,
            ("/status/observedGeneration",),
            f"observedGeneration stands at {_own(write) or 0} while generation is "
            f"{write.generation_after}, over {len(stall)} status writes",
            () if cleared else (write.requester,),
            evidence={"observedGeneration": _own(write), "generation": write.generation_after},
        )

    def stored(self, write: Write, past: ObjectHistory) -> Iterator[Sign]:
        """Nothing more."""
        del write, past
        return iter(())


def _number(value: int | str | None) -> int | None:
    try:
        return None if value is None else int(value)
    except ValueError:
        return None


def _own(write: Write) -> int | None:
    return _number(write.observed_after.own)


def _lags(write: Write) -> bool:
    if not write.writes_status or not write.has_outcome or not write.generation_after:
        return False
    asked = _number(write.observed_asked.own)
    own = _own(write)
    if own is None and asked is None:
        return False  # nobody observes this kind here
    if (own or 0) >= write.generation_after - (1 if write.status_counts else 0):
        return False
    in_conditions = [_number(one.observed) or 0 for one in write.observed_after.conditions]
    # Where conditions alone are current the controller is at work: kstatus reads them first.
    return not (in_conditions and max(in_conditions) >= write.generation_after and own == -1)
