"""Generation runs away: each write makes a reason for the next.

Reads   what moved generation in each write, and what the writer observes
Acts on writes that generation counted
Result  blames other webhooks that change a spec nobody asked to change; a writer that chases
        generation with observedGeneration where status counts (no status subresource); a writer
        that walks a field of spec back and forth by itself, gives the pod template a new value in
        each of its writes, or puts a list in another order and changes nothing else. Status writes
        that count but do not chase are told as info: nobody is waiting for them
Relies  on kubernetes/autoscaler#5675 and actions/actions-runner-controller#1643 (generation 50,597)
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final

from genguard.detection.changes import Change
from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.detectors.own_turns import (
    SECONDS,
    is_new_each_time,
    is_to_and_fro,
    own_turns,
)
from genguard.detection.history import ObjectHistory
from genguard.detection.sample import field_names
from genguard.detection.write import Write

_SECONDS: Final = 60.0
_CHASES: Final = 4
_FEWEST: Final = 4
_ROLLOUTS: Final = 6
_ROLLOUT_SECONDS: Final = 300.0
_TEMPLATE: Final = ("spec", "template")


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
            and one.time > write.time - _ROLLOUT_SECONDS
        ]
        if write.status_counts and _only_status(write):
            mine = [one for one in mine if one.time > write.time - _SECONDS]
            chases = [one for one in mine if _chases(one)]
            # What it observes is what it made itself, not what somebody else has asked for.
            made = {one.generation_after for one in chases}
            own = [one for one in chases if one.generation_before in made]
            if _chases(write) and write.generation_before in made and len(own) >= _CHASES - 1:
                yield _signal(write, "chases generation: each status write moves it")
            elif not _chases(write) and sum(1 for one in mine if _only_status(one)) >= _CHASES:
                message = "moves generation by writing status; there is no status subresource"
                yield _signal(write, message, minor=True)
        elif write.touches_more and not write.content.webhook and len(mine) >= _FEWEST:
            walked = _walked(write, past.stored)
            if walked:
                yield _signal(write, f"walks {field_names(walked)} back and forth", walked)
                return
            churned = _churned(write, mine)
            if churned:
                what = f"gives {field_names(churned)} a new value in each of its writes"
                if all(one.is_order for one in churned):
                    what = f"puts {field_names(churned)} in another order in each of its writes"
                yield _signal(write, what, churned)


def _walked(write: Write, stored: Sequence[Write]) -> list[Change]:
    """Return the leaves that come back too often; metadata-fight judges those of metadata.

    What is switched on and off beside spec is what happens to others: endpoints come and go.
    """
    meant = [
        one
        for one in write.content.admitted
        if one.key[0] == "spec" or not (one.is_switch or one.key[0] == "metadata")
    ]
    turns = own_turns(meant, write, stored, write.time - SECONDS)
    return [one for one in meant if is_to_and_fro(turns.get(one.key, ()))]


def _churned(write: Write, mine: Sequence[Write]) -> list[Change]:
    """Return the leaves that each of the latest writes has changed, to a value that is new.

    Of a list that is put in order the values come back, as there are few orders.
    """
    latest = mine[-_ROLLOUTS:]
    if len(latest) < _ROLLOUTS:
        return []
    order_alone = all(change.is_order for one in latest for change in one.content.admitted)
    turns = own_turns(write.content.admitted, write, latest, since=0.0)
    return [
        one
        for one in write.content.admitted
        if len(turns.get(one.key, ())) >= _ROLLOUTS
        and (
            (one.is_order and order_alone)
            or (one.key[:2] == _TEMPLATE and (one.is_order or is_new_each_time(turns[one.key])))
        )
    ]


def _only_status(write: Write) -> bool:
    return not write.touches_more


def _chases(write: Write) -> bool:
    """It writes the generation that was, and thereby makes the next one."""
    own = write.observed_asked.own
    return _only_status(write) and own is not None and str(own) == str(write.generation_before)


def _signal(
    write: Write, what: str, changed: Iterable[Change] = (), *, minor: bool = False
) -> Signal:
    return Signal(
        Blame.REQUESTER,
        tuple(one.pointer for one in changed) or write.pointers(),
        f"{write.requester.user} {what}",
        (write.requester,),
        minor=minor,
        evidence={"generation": write.generation_after},
    )
