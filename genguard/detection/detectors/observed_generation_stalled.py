"""Generation moves, status is written, and observedGeneration stands still.

Reads   generation and every observedGeneration over the latest status writes
Acts on writes of status
Result  a signal for each status write of a stall: of webhooks where the number was asked for and
        did not arrive, of the writer where generation has moved on and it still asks for the old
Relies  on KEP-5067's second symptom. Not stalled are: a status whose conditions observe the
        generation (Flux raises its own on success only, and starts at -1), a custom resource
        without status subresource that trails by one for ever, and a controller that is one or
        two generations behind while a long change goes on
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import ClassVar, Final

from genguard.detection.damage import Damage
from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.history import ObjectHistory
from genguard.detection.write import Write
from genguard.objects.observed import generation_number

_WRITES: Final = 5
_SECONDS: Final = 2.0
_STEPS: Final = 3
_MANY_WRITES: Final = 8
_SLOW_WRITES: Final = 10
_SLOW_SECONDS: Final = 10.0


class ObservedGenerationStalled(Detector):
    """See the module."""

    name: ClassVar[str] = "observed-generation-stalled"
    only_if: ClassVar[Sort] = "writes_status"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield at most one signal for a write."""
        if not (_lags(write) and _speaks_of_status(write)):
            return
        # A PATCH that meets another write is tried again: only writes that were stored count.
        stored = (one for one in reversed(past.stored) if one.changed_something)
        recent = (one for one in (write, *stored) if _is_known(one))
        stall = list(takewhile(lambda one: _lags(one) and _own(one) == _own(write), recent))
        if len(stall) < _WRITES:
            return
        cleared = _is_cleared(write)
        if not (_is_lost(write, stall) if cleared else _is_forgotten(write, stall)):
            return
        yield Signal(
            Blame.OTHERS if cleared else Blame.REQUESTER,
            ("/status/observedGeneration",),
            f"observedGeneration stands at {_own(write) or 0} while generation is "
            f"{write.generation_after}, over {len(stall)} status writes",
            () if cleared else (write.requester,),
            evidence={"observedGeneration": _own(write), "generation": write.generation_after},
            damage=Damage(behind=1 if write.status_counts else 0),
        )


def _is_known(write: Write) -> bool:
    """Whether a write is about status, and what was seen of it says whether it lags."""
    is_vague = write.missing and _own(write) is None and not _lags(write)
    return _speaks_of_status(write) and not is_vague


def _speaks_of_status(write: Write) -> bool:
    """Where status is no subresource any write may, and one of the spec alone does not."""
    if not write.status_counts:
        return write.writes_status
    return write.touches_status


def _is_lost(write: Write, stall: list[Write]) -> bool:
    return _seconds(write, stall) >= _SECONDS or _behind(write) >= _STEPS


def _is_forgotten(write: Write, stall: list[Write]) -> bool:
    moved = len({one.generation_after for one in stall}) > 1
    if _behind(write) >= _STEPS and moved:
        # For a moment a busy controller writes from a cache that is several generations old.
        return len(stall) >= _MANY_WRITES or _seconds(write, stall) >= _SECONDS
    return len(stall) >= _SLOW_WRITES and _seconds(write, stall) >= _SLOW_SECONDS


def _seconds(write: Write, stall: list[Write]) -> float:
    return write.time - stall[-1].time


def _behind(write: Write) -> int:
    return write.generation_after - (_own(write) or 0)


def _own(write: Write) -> int | None:
    return generation_number(write.observed_after.own)


def _is_cleared(write: Write) -> bool:
    """It was asked for, and is not there once the other webhooks have been asked."""
    return write.content.webhook is not None and (
        (generation_number(write.observed_asked.own) or 0)
        > (generation_number(write.observed_sent.own) or 0)
    )


def _lags(write: Write) -> bool:
    if not write.writes_status or not write.generation_after:
        return False
    own = _own(write)
    if own is None and not write.observes:
        return False  # nobody observes this kind here
    if (own or 0) >= write.generation_after - (1 if write.status_counts else 0):
        return False
    in_conditions = [
        generation_number(one.observed) or 0 for one in write.observed_after.conditions
    ]
    # Where conditions are current the controller is at work: kstatus reads them as well.
    at_work = bool(in_conditions) and max(in_conditions) >= write.generation_after
    return _is_cleared(write) or not at_work
