"""What generation and observedGeneration of the writes of one object say."""

from collections.abc import Iterator
from itertools import takewhile
from typing import ClassVar, Final

from genguard.detection.damage import Damage
from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.history import ObjectHistory
from genguard.detection.honesty import DishonestWriter
from genguard.detection.write import NODE_USER, Write
from genguard.generation.table import counted_since
from genguard.objects.observed import generation_number

_WRITES: Final = 5
_SECONDS: Final = 2.0
_STEPS: Final = 3
_MANY_WRITES: Final = 8
_SLOW_WRITES: Final = 10
_SLOW_SECONDS: Final = 10.0


class ObservedGenerationStalled(Detector):
    """Generation moves, status is written, and observedGeneration stands still.

    Reads   generation and every observedGeneration over the latest status writes
    Acts on writes of status
    Result  a signal for each status write of a stall: of webhooks where the number was asked for
            and did not arrive, of the writer where generation has moved on and it still asks for
            the old
    Relies  on KEP-5067's second symptom. Not stalled are: a status whose conditions observe the
            generation (Flux raises its own on success only, and starts at -1), a custom resource
            without status subresource that trails by one for ever, and a controller that is one or
            two generations behind while a long change goes on
    """

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


class ObservedGenerationAhead(Detector):
    """An observedGeneration that no spec has had yet.

    Reads   observedGeneration as asked and as stored, and generation
    Acts on writes of status
    Result  a signal for each write that sets it above generation
    Relies  on nothing in the API server refusing it: it accepts any value but a cleared one on Pods
    """

    name: ClassVar[str] = "observed-generation-ahead"
    only_if: ClassVar[Sort] = "writes_status"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield at most one signal for a write."""
        del past
        after = write.observed_after.own
        if not isinstance(after, int) or not 0 < write.generation_after < after:
            return
        asked = write.observed_asked.own
        by_others = write.content.webhook is not None and asked != write.observed_sent.own
        yield Signal(
            Blame.OTHERS if by_others else Blame.REQUESTER,
            ("/status/observedGeneration",),
            f"observedGeneration {after} is ahead of generation {write.generation_after}",
            () if by_others else (write.requester,),
            evidence={"observedGeneration": after, "generation": write.generation_after},
            damage=Damage(ahead=True),
        )


class GenerationMismatch(Detector):
    """The API server counted what genguard did not predict, or the other way round.

    Reads   the prediction and the generation of the outcome
    Acts on writes that have an outcome
    Result  a signal about the server: another version or feature gate than assumed, or one of the
            few changes that no review shows; its requester may be the one who sends those. Where an
            older API server leaves the generation as it is, the message says so: during an upgrade
            there are two versions at once (KEP-5067, Version Skew Strategy), and no review shows
            which it is of
    Relies  on tests/differential, which finds none on the version the table is tested against
    """

    name: ClassVar[str] = "generation-mismatch"
    only_if: ClassVar[Sort] = "has_outcome"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield at most one signal for a write."""
        del past
        if write.content.requested and not write.changed_anything:
            return  # write-not-kept tells of a change that was counted, and is not shown
        predicted = write.generation_predicted
        # A server that keeps none of this kind yet is older, or has a gate off: nothing is wrong.
        keeps = write.generation_before or write.generation_after
        if keeps and predicted is not None and predicted != write.generation_after:
            since = counted_since(write.object.group, write.object.resource)
            is_left = since and write.generation_after == write.generation_before
            older = f"; an API server before {since} does not count it" if is_left else ""
            yield Signal(
                Blame.SERVER,
                ("/metadata/generation",),
                f"generation {write.generation_after} where {predicted} was predicted{older}",
                (write.requester,),
                evidence={"predicted": predicted, "generation": write.generation_after},
            )


class ObservedGenerationDishonest(Detector):
    """observedGeneration is raised regularly before status is about the new spec, or never.

    Reads   how often a writer was early, or never raised it, over all objects of a kind
    Acts on each write in which it is so again
    Result  info, and blames the writer, with the counts as evidence: who waits for
            observedGeneration takes an old status for the new one, or waits for ever
    Relies  on genguard/detection/honesty.py
    """

    name: ClassVar[str] = "observed-generation-dishonest"

    def judge_dishonest(self, dishonest: DishonestWriter) -> Iterator[Signal]:
        """Yield one signal for a write in which it is so again."""
        found, write = dishonest
        if found.is_early:
            what = (
                "raises observedGeneration before conditions and phase are about the new spec: "
                f"{found.early} of {found.raised} times"
            )
        else:
            what = (
                "writes status and does not raise observedGeneration: "
                f"{found.never} of {found.never + found.raised} generations"
            )
        yield Signal(
            Blame.REQUESTER,
            ("/status/observedGeneration",),
            f"{found.user} {what}",
            (write.requester,),
            minor=True,
            evidence={
                "raised": found.raised,
                "early": found.early,
                "never": found.never,
                "generation": write.generation_after,
            },
        )


class ConditionGenerationMissing(Detector):
    """A condition of a pod is set without its observedGeneration.

    Reads   the conditions that a write sets, and whether the kubelet of the pod tracks generations
    Acts on writes of a bound pod's status by others than its kubelet
    Result  info, and blames the writer: nobody can tell which spec its condition is about
    Relies  on KEP-5067 (Other writers of pod status). Where the kubelet has not set
            status.observedGeneration, it is older than 1.33 or has the feature off: then nobody is
            told
    """

    name: ClassVar[str] = "condition-generation-missing"
    only_if: ClassVar[Sort] = "writes_status"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for a write that sets such conditions."""
        del past
        if write.unobserved:
            yield Signal(
                Blame.REQUESTER if write.content.requested is not None else Blame.EITHER,
                write.unobserved,
                f"{write.requester.user} sets {len(write.unobserved)} condition(s) of a pod "
                "without observedGeneration",
                (write.requester,),
                minor=True,
            )


class ForeignStatusWriter(Detector):
    """The status of a bound pod is written by somebody else than its kubelet.

    Reads   who writes the status of a pod, and which fields of it that belong to the kubelet change
    Acts on writes of status
    Result  info, and blames the writer. Quiet are condition types that spec.readinessGates names,
            DisruptionTarget and PodScheduled, fields that a kubelet leaves to others, and the
            controllers that Kubernetes itself allows to write pods/status
    Relies  on KEP-5067 (Other writers of pod status), and on having seen the kubelet's user write
            this pod: a virtual kubelet may have any name, and must not be called foreign for that
    """

    name: ClassVar[str] = "foreign-status-writer"
    only_if: ClassVar[Sort] = "writes_status"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for a write of another user than the kubelet."""
        if not write.foreign or not _has_kubelet(past):
            return
        yield Signal(
            Blame.REQUESTER if write.content.requested is not None else Blame.EITHER,
            write.foreign,
            f"{write.requester.user} writes {len(write.foreign)} field(s) in the status of a pod "
            "that belong to the kubelet of its node",
            (write.requester,),
            minor=True,
        )


def _has_kubelet(past: ObjectHistory) -> bool:
    return any(
        one.writes_status and one.requester.user.startswith(NODE_USER) for one in past.writes
    )
