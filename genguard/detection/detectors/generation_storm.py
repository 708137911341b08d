"""Generation runs away: each write makes a reason for the next.

Reads   what moved generation in each write, and what the writer observes
Acts on writes that generation counted
Result  blames other webhooks that change a spec nobody asked to change; a writer that chases
        generation with observedGeneration where status counts (no status subresource); a writer
        that walks spec back and forth by itself. Status writes that count but do not chase are
        told as info: nobody is waiting for them
Relies  on kubernetes/autoscaler#5675 and actions/actions-runner-controller#1643 (generation 50,597)
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.history import ObjectHistory
from genguard.detection.write import Write

_SECONDS: Final = 60.0
_CHASES: Final = 4
_RETURNS: Final = 6
_RETURN_SECONDS: Final = 10.0
_VISITS: Final = 2
"""A rollout that is undone at once passes each of its states twice, and no more."""


class GenerationStorm(Detector):
    """See the module."""

    name: ClassVar[str] = "generation-storm"
    only_if: ClassVar[Sort] = "is_changed"
    stored_only_if: ClassVar[Sort] = "counted"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for a spec that only a webhook changed."""
        del past
        requested, made = write.content.requested, write.content.webhook
        if not write.counted or requested is None or not requested.is_compared or not made:
            return
        if write.writes_status and not write.status_counts:
            return
        # A PUT of a whole manifest leaves out what a webhook adds: that is no wish of its own.
        theirs = {change.key for change in made}
        if made.changes and all(change.key in theirs and change.removed for change in requested):
            yield Signal(
                Blame.OTHERS,
                tuple(change.pointer for change in made),
                f"another webhook changed what counts in a write of {write.requester.user} "
                "that asked for no such change",
                evidence={"generation": write.generation_after},
            )

    def judge_stored(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for each write of a chase or of a walk back and forth."""
        mine = [
            one
            for one in past.stored
            if one.counted
            and one.changed_something
            and one.requester.user == write.requester.user
            and one.time > write.time - _SECONDS
        ]
        if write.status_counts and _only_status(write):
            chases = [one for one in mine if _chases(one)]
            # What it observes is what it made itself, not what somebody else has asked for.
            made = {one.generation_after for one in chases}
            own = [one for one in chases if one.generation_before in made]
            if _chases(write) and write.generation_before in made and len(own) >= _CHASES - 1:
                yield _signal(write, "chases generation: each status write moves it")
            elif not _chases(write) and sum(1 for one in mine if _only_status(one)) >= _CHASES:
                message = "moves generation by writing status; there is no status subresource"
                yield _signal(write, message, minor=True)
        elif not write.writes_status and not write.content.webhook and _moves_state(write):
            recent = [one for one in mine if one.time > write.time - _RETURN_SECONDS]
            states = [one.state_before for one in recent]
            returns = sum(1 for one in recent if one.state_after in states)
            if returns >= _RETURNS and states.count(write.state_after) >= _VISITS:
                yield _signal(write, "walks the spec back and forth")


def _moves_state(write: Write) -> bool:
    return write.state_before != write.state_after


def _only_status(write: Write) -> bool:
    return not write.touches_more


def _chases(write: Write) -> bool:
    """It writes the generation that was, and thereby makes the next one."""
    own = write.observed_asked.own
    return _only_status(write) and own is not None and str(own) == str(write.generation_before)


def _signal(write: Write, what: str, *, minor: bool = False) -> Signal:
    return Signal(
        Blame.REQUESTER,
        write.pointers(),
        f"{write.requester.user} {what}",
        (write.requester,),
        minor=minor,
        evidence={"generation": write.generation_after},
    )
