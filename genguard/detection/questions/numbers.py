"""Numbers: what generation and observedGeneration of the writes of one object say."""

from collections.abc import Iterator
from itertools import starmap, takewhile
from typing import ClassVar, Final

import msgspec

from genguard.detection.damage import Damage, lost_values
from genguard.detection.finding import FoundObject
from genguard.detection.history import ObjectHistory
from genguard.detection.question import DECLARED, Answers, ChangedBy, Question, signal
from genguard.detection.values import digest_of
from genguard.detection.write import NAMES, NODE_USER, PODS, Write, is_manager
from genguard.generation.table import counted_since, has_observed_generation
from genguard.objects.bounded import Bounded
from genguard.objects.observed import Observed, generation_number

STALLED: Final = DECLARED["observed-generation-stalled"]
AHEAD: Final = DECLARED["observed-generation-ahead"]
MISMATCH: Final = DECLARED["generation-mismatch"]
DISHONEST: Final = DECLARED["observed-generation-dishonest"]
MISSING: Final = DECLARED["condition-generation-missing"]
FOREIGN: Final = DECLARED["foreign-status-writer"]

_PATH: Final = ("/status/observedGeneration",)
_WRITES: Final = 5
_SECONDS: Final = 2.0
_STEPS: Final = 3
_MANY_WRITES: Final = 8
_SLOW_WRITES: Final = 10
_SLOW_SECONDS: Final = 10.0


def _stalled(write: Write, past: ObjectHistory) -> Answers:
    """Generation moves, status is written, and observedGeneration stands still (KEP-5067).

    Webhooks are blamed where the number was asked for and did not arrive, the writer where
    generation has moved on and it still asks for the old. These are not stalled: a status whose
    conditions observe the generation (Flux raises its own on success only, and starts at -1), a
    custom resource without status subresource that trails by one for ever, and a controller that
    is one or two generations behind while a long change goes on.
    """
    if not _lags(write):
        return
    # A PATCH that meets another write is tried again: only writes that were stored count.
    recent = filter(_speaks_of_status, (write, *reversed(past.stored)))
    known = (
        kept for kept in recent if not kept.missing or _number(kept.observed_after) or _lags(kept)
    )
    observed, cleared = _number(write.observed_after), _is_cleared(write)
    lagging = takewhile(_lags, known)
    stall = [*takewhile(lambda kept: _number(kept.observed_after) == observed, lagging)]
    if len(stall) < _WRITES:
        return
    seconds, generation = write.time - stall[-1].time, write.generation_after
    is_far = generation - observed >= _STEPS
    has_moved = len({kept.generation_after for kept in stall}) > 1
    if cleared:
        is_stall = is_far or seconds >= _SECONDS
    elif is_far and has_moved:
        # For a moment a busy controller writes from a cache that is several generations old.
        is_stall = len(stall) >= _MANY_WRITES or seconds >= _SECONDS
    else:
        is_stall = len(stall) >= _SLOW_WRITES and seconds >= _SLOW_SECONDS
    if is_stall:
        changed_by = ChangedBy.OTHERS if cleared else ChangedBy.REQUESTER
        stored = observed or (0 if write.observed_after.is_zero else None)
        stands = "is absent" if stored is None else f"stands at {stored}"
        said = f"observedGeneration {stands} while generation is {generation}, over"
        said += f" {len(stall)} status writes"
        evidence = {"observedGeneration": stored, "generation": generation}
        lost = lost_values(write.observed_asked, write.observed_after) if cleared else ()
        writer = write.requester.user if lost else ""
        damage = Damage(lost, writer, behind=1 if write.status_counts else 0)
        yield signal(STALLED, write, changed_by, _PATH, said, evidence=evidence, damage=damage)


def _number(observed: Observed) -> int:
    """Return observedGeneration, 0 without any."""
    return generation_number(observed.own) or 0


def _speaks_of_status(write: Write) -> bool:
    """Whether it writes status: where status is no subresource, whether it changes status."""
    return write.touches_status if write.status_counts else write.writes_status


def _is_cleared(write: Write) -> bool:
    """It was asked for, and is not there once the other webhooks have been asked."""
    asked, sent = _number(write.observed_asked), _number(write.observed_sent)
    return write.content.webhook is not None and asked > sent


def _lags(write: Write) -> bool:
    if not _speaks_of_status(write) or not write.generation_after:
        return False
    observed, wanted = _number(write.observed_after), write.generation_after
    seen = write.observed_asked, write.observed_sent, write.observed_after
    if not any(shown.has_own for shown in seen):
        return False  # nobody observes this kind here
    if observed >= wanted - (1 if write.status_counts else 0):
        return False
    # Where conditions are current the controller is at work: kstatus reads them as well.
    in_conditions = [
        generation_number(condition.observed) for condition in write.observed_after.conditions
    ]
    return _is_cleared(write) or not any((number or 0) >= wanted for number in in_conditions)


def _ahead(write: Write, _: ObjectHistory) -> Answers:
    """An observedGeneration that no spec has had yet.

    Nothing in the API server refuses it: it accepts any value but a cleared one on Pods.
    """
    after, generation = write.observed_after.own, write.generation_after
    if write.writes_status and isinstance(after, int) and 0 < generation < after:
        is_changed = write.observed_asked.own != write.observed_sent.own
        by_others = write.content.webhook is not None and is_changed
        changed_by = ChangedBy.OTHERS if by_others else ChangedBy.REQUESTER
        said = f"observedGeneration {after} is ahead of generation {generation}"
        evidence = {"observedGeneration": after, "generation": generation}
        more = {"evidence": evidence, "damage": Damage(ahead=True)}
        yield signal(AHEAD, write, changed_by, _PATH, said, **more)


def _mismatched(write: Write, _: ObjectHistory) -> Answers:
    """The API server counted what genguard did not predict, or the other way round.

    It is of another version or has another feature gate than assumed, or it is one of the few
    changes that no review shows; its requester may be the one who sends those. Where an older API
    server leaves the generation as it is, the message says so: during an upgrade there are two
    versions at once (KEP-5067, Version Skew Strategy), and no review shows which it is of.
    """
    if not write.has_outcome or (write.content.requested and not write.changed_anything):
        return  # write-not-kept tells of a change that was counted, and is not shown
    if is_manager(write.requester.user):
        return  # a watch shows versions: a list after a pause leaves out the writes between two
    predicted = write.generation_predicted
    # A server that keeps none of this kind yet is older, or has a gate off: nothing is wrong.
    keeps = write.generation_before or write.generation_after
    if keeps and predicted is not None and predicted != write.generation_after:
        since = counted_since(write.object.group, write.object.resource)
        is_left = since and write.generation_after == write.generation_before
        older = f"; an API server before {since} does not count it" if is_left else ""
        said = f"generation {write.generation_after} where {predicted} was predicted{older}"
        evidence = {"predicted": predicted, "generation": write.generation_after}
        where = ("/metadata/generation",)
        yield signal(MISMATCH, write, ChangedBy.SERVER, where, said, evidence=evidence)


def _of_pod(write: Write, past: ObjectHistory) -> Answers:
    """Once a pod is bound its kubelet is the writer of its status (KEP-5067, Other writers).

    A condition should be set with the generation of the pod that its writer has seen, else nobody
    can tell which spec it is about; where the kubelet has not set status.observedGeneration, it is
    older than 1.33 or has the feature off: then nobody is told. Condition types that
    spec.readinessGates names are quiet, and what others may write by names.yaml. The kubelet's user
    must have been seen to write this pod: a virtual kubelet may have any name, and is not foreign.
    """
    if write.gates is None or not write.writes_status:
        return
    sent = (change.key for change in write.content.sent)
    keys = [key[1:] for key in sent if key[0] == "status" and key[1:]]
    items = (str(key[1]) for key in keys if key[0] == "conditions" and key[1:])
    types = {item.removeprefix("type=") for item in items}
    changed_by, user = ChangedBy.of(write.content), write.requester.user
    there = (
        write.observed_asked if changed_by is ChangedBy.REQUESTER else write.observed_after
    ).conditions
    unobserved = [
        f"/status/conditions/{index}/observedGeneration"
        for index, condition in enumerate(there)
        if condition.type in types and not condition.observed
    ]
    if unobserved and write.observed_before.own:
        said = f"{user} sets {len(unobserved)} condition(s) of a pod without observedGeneration"
        yield signal(MISSING, write, changed_by, unobserved, said)
    of_others = types - NAMES["shared_conditions"].keys()
    is_quiet = all(digest_of(kind.encode()) in write.gates for kind in of_others)
    quiet = NAMES["not_of_kubelet"].keys() | ({"conditions"} if is_quiet else set())
    foreign = dict.fromkeys(f"/status/{key[0]}" for key in keys if key[0] not in quiet)
    of_status = (write.requester.user for write in past.writes if write.writes_status)
    has_kubelet = any(writer.startswith(NODE_USER) for writer in of_status)
    if foreign and user not in NAMES["control_plane"] and has_kubelet:
        what = f"{len(foreign)} field(s) in the status of a pod that are its kubelet's"
        yield signal(FOREIGN, write, changed_by, foreign, f"{user} writes {what}")


MOST_WRITERS: Final = 200
_EARLY_SECONDS: Final = 60.0
_LEAST_EARLY: Final = 5
_LEAST_NEVER: Final = 10
_REGULAR: Final = 0.5
"""This share of the times that the number was raised, or was to be."""
_OBSERVED: Final = "observedGeneration"
_CONDITION_WORDS: Final = ("status", "reason")
_PHASES: Final = frozenset({"/status/phase", "/status/state"})

HOW: Final = ("raised", "early", "late", "never", "backwards")
"""The fields of GenerationReporting that count."""


class GenerationReporting(msgspec.Struct, frozen=True, rename="camel"):
    """How one writer handles the observedGeneration of one kind; `example` is the latest object.

    raised  how often the number was raised; `early` and `late` are among them
    never   how many generations passed without that
    """

    user: str
    field_manager: str
    group: str
    resource: str
    example: FoundObject
    raised: int = 0
    early: int = 0
    late: int = 0
    never: int = 0
    backwards: int = 0

    def told(self, field: str) -> str:
        """Return what it does at least every second time; `field` has just been counted."""
        generations = self.never + self.raised
        if field == "early" and self.early >= max(_LEAST_EARLY, _REGULAR * self.raised):
            what = "raises observedGeneration before conditions and phase are about the new spec"
            return f"{what}: {self.early} of {self.raised} times"
        if field == "never" and self.never >= max(_LEAST_NEVER, _REGULAR * generations):
            what = "writes status and does not raise observedGeneration"
            return f"{what}: {self.never} of {generations} generations"
        return ""


class Controllers(msgspec.Struct, frozen=True):
    """How all writers do, those who are wrong most often first; `detects`: this replica does."""

    controllers: tuple[GenerationReporting, ...]
    detects: bool = True


def _handled(write: Write, past: ObjectHistory) -> Iterator[tuple[Write, str]]:
    """Yield how a write of an object, the newest, handles the number, and which write is meant.

      early      it is raised alone, and within a minute, at the same generation, the same writer
                 changes a condition or the phase: until then they spoke of the old spec
      late       it is raised alone, after the same writer has changed the rest of the status at
                 this generation: for a while nobody could know that the status was new
      never      spec changes again, and status was written at the generation before it, but
                 observedGeneration was not raised
      backwards  a lower number is written
    The convention is that observedGeneration says of which spec the status was made (api
    conventions, sig-architecture/api-conventions.md). Numbers that change, as those of replicas, do
    not say that a status was of the old spec: a rollout goes on. Nor do the conditions of a Pod,
    which follow its containers. Where status makes generations, no number is that of the spec.
    The request of the writer counts: a webhook may have taken the number away.
    """
    where = write.object.group, write.object.resource
    if write.status_counts or where == PODS:
        return
    if write.counted and has_observed_generation(*where):
        last = next(_status_writes(past, write.generation_before), None)
        if last is not None and not _is_at(last.observed_asked, last):
            yield last, "never"
    after = _number(write.observed_asked)
    if not write.touches_status or not after:
        return
    if after < _number(write.observed_before):
        yield write, "backwards"
        return
    of_it = [*_status_writes(past, write.generation_after)]
    mine = [other for other in of_it if other.requester.user == write.requester.user]
    # Where it had been raised somebody has taken it away since.
    ends = (
        (end, other) for other in of_it for end in (other.observed_before, other.observed_asked)
    )
    if _raises(write) and not any(starmap(_is_at, ends)):
        yield write, "raised"
        if _is_alone(write) and any(map(_speaks, mine)):
            yield write, "late"
    elif after >= write.generation_after and _speaks(write):
        earlier = [other for other in mine if _raises(other) or _speaks(other)]
        raised = [other for other in earlier if _raises(other) and _is_alone(other)]
        if len(earlier) == len(raised) == 1 and write.time - raised[0].time <= _EARLY_SECONDS:
            yield write, "early"


def _status_writes(past: ObjectHistory, generation: int) -> Iterator[Write]:
    """Return the earlier status writes, the newest first, as long as they are of a generation."""
    of_it = takewhile(lambda write: write.generation_after == generation, reversed(past.earlier))
    return (write for write in of_it if write.touches_status)


def _is_at(observed: Observed, write: Write) -> bool:
    """Whether the number says that the spec was seen."""
    return _number(observed) >= write.generation_after


def _raises(write: Write) -> bool:
    return _is_at(write.observed_asked, write) and not _is_at(write.observed_before, write)


def _is_alone(write: Write) -> bool:
    """Whether leaves tell that it changes nothing but observedGeneration, times aside."""
    changes = write.content.sent.changes
    return bool(changes) and all(
        change.holds_time or change.key[-1] == _OBSERVED for change in changes
    )


def _speaks(write: Write) -> bool:
    """Whether it changes a condition or the phase."""
    return any(
        change.pointer in _PHASES
        or (change.pointer.startswith("/status/conditions/") and change.key[-1] in _CONDITION_WORDS)
        for change in write.content.sent
    )


class Numbers(Question):
    """See the module. The writer that was not seen for longest is forgotten first."""

    findings: ClassVar = (STALLED, AHEAD, MISMATCH, DISHONEST, MISSING, FOREIGN)

    def __init__(self) -> None:
        self._writers: Final[Bounded[tuple[str, ...], GenerationReporting]] = Bounded(MOST_WRITERS)
        self.seen = (_stalled, _ahead, _of_pod, _mismatched, self._count_handling)

    def writers(self) -> list[GenerationReporting]:
        """Return who raises observedGeneration, those who are wrong most often first."""
        return sorted(
            self._writers.values(),
            key=lambda writer: (
                -(writer.early + writer.never + writer.backwards),
                -writer.late,
                writer.user,
            ),
        )

    def _count_handling(self, write: Write, past: ObjectHistory) -> Answers:
        """Count how its writer handles the number, over the writes of many objects.

        A client that waits takes an old status for new, or waits for ever.
        """
        for of, how in _handled(write, past) if write.has_outcome else ():
            who, where = of.requester, of.object
            key = who.user, who.manager, where.group, where.resource
            example = FoundObject(*msgspec.structs.astuple(where))
            known = self._writers.get(key) or GenerationReporting(*key, example)
            counted = {how: getattr(known, how) + 1, "example": example}
            tally = msgspec.structs.replace(known, **counted)
            self._writers.put(key, tally)
            if what := tally.told(how):
                evidence = {"raised": tally.raised, "early": tally.early, "never": tally.never}
                evidence["generation"] = of.generation_after
                more = {"evidence": evidence, "of": of}
                yield signal(
                    DISHONEST, of, ChangedBy.REQUESTER, _PATH, f"{who.user} {what}", **more
                )
