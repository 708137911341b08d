"""What a detector reads and what it yields, and the runner that calls all detectors."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import Any, ClassVar, Final, Literal, get_args

from genguard.admission.review import Phase
from genguard.detection.damage import Damage
from genguard.detection.history import History, ObjectHistory
from genguard.detection.honesty import DishonestWriter
from genguard.detection.lives import Turns, blank_write
from genguard.detection.refusals import Refusal
from genguard.detection.write import Requester, Write


class Blame(StrEnum):
    """Between which phases it happened, which decides who can have done it."""

    OTHERS = "others"  # between intent and mutate: other webhooks
    REQUESTER = "requester"  # already there at intent: the requester, or a policy before it
    EITHER = "either"  # the intent was not seen
    SERVER = "server"  # between mutate and outcome


@dataclass(frozen=True, slots=True)
class Signal:
    """Something wrong about one write; the ledger makes a finding of signals that repeat.

    requesters  who is blamed besides, or instead of, other webhooks
    minor       never more than info, however often it comes
    reinvoked   it happened in round 1, in which only webhooks are called that ask for it
    damage      what is wrong in the stored object because of it; None where nothing stays wrong
    pace        seconds between two turns of a slow loop, which has been seen to repeat: the next
                sign comes as late as that
    averted     what would be wrong, had genguard not restored it: a write that nobody restores may
                do it yet
    """

    blame: Blame
    paths: tuple[str, ...]
    message: str
    requesters: tuple[Requester, ...] = ()
    minor: bool = False
    reinvoked: bool = False
    evidence: dict[str, object] = field(default_factory=dict)
    damage: Damage | None = None
    averted: Damage | None = None
    pace: float = 0.0


Sort = Literal[
    "writes_status",
    "writes_more",
    "is_changed",
    "is_mutated",
    "counted",
    "has_outcome",
    "changed_metadata",
]
"""A question that a Write answers with yes or no."""
_sorts: Final = attrgetter(*get_args(Sort))


class Detector:
    """Judges writes of one object. Pure: equal writes and histories give equal signals.

    only_if         the writes that `judge` is called for; None for all of them
    stored_only_if  the same of `judge_stored`
    """

    name: ClassVar[str]
    only_if: ClassVar[Sort | None] = None
    stored_only_if: ClassVar[Sort | None] = None

    def judge(self, write: Write, past: ObjectHistory) -> Iterable[Signal]:
        """Judge a write that is complete, whether or not it will be stored."""
        del write, past
        return ()

    def judge_stored(self, write: Write, past: ObjectHistory) -> Iterable[Signal]:
        """Judge a write that is known to have been stored, and changed something."""
        del write, past
        return ()

    def judge_turns(self, turns: Turns) -> Iterable[Signal]:
        """Judge creations and deletions that follow one from another."""
        del turns
        return ()

    def judge_refusal(self, refusal: Refusal) -> Iterable[Signal]:
        """Judge a write that did not come out."""
        del refusal
        return ()

    def judge_dishonest(self, dishonest: DishonestWriter) -> Iterable[Signal]:
        """Judge a writer whose observedGeneration cannot be relied upon."""
        del dishonest
        return ()


_Judge = Callable[[Write, ObjectHistory], Iterable[Signal]]
_Judges = tuple[tuple[str, _Judge], ...]


def _ask(
    judges: Iterable[tuple[str, Callable[..., Iterable[Signal]]]],
    errors: list[Exception],
    *judged: Any,
) -> Iterator[tuple[str, Signal]]:
    """Yield the signals of detectors; what one raises is added to `errors`, and ends no other."""
    for name, judge in judges:
        try:
            for signal in judge(*judged):
                yield name, signal
        except Exception as error:  # noqa: BLE001 - whatever a detector raises, others are asked
            errors.append(error)


def _raise(errors: list[Exception]) -> None:
    if errors:
        raise ExceptionGroup("detectors failed", errors)


class DetectorRunner:
    """Calls each detector for the writes that it is about."""

    def __init__(self, detectors: Iterable[Detector]) -> None:
        each = tuple(detectors)
        self._detectors: Final[tuple[tuple[Sort | None, str, _Judge], ...]] = tuple(
            (one.only_if, one.name, one.judge)
            for one in each
            if type(one).judge is not Detector.judge
        )
        self._detectors_of_stored: Final[tuple[tuple[Sort | None, str, _Judge], ...]] = tuple(
            (one.stored_only_if, one.name, one.judge_stored)
            for one in each
            if type(one).judge_stored is not Detector.judge_stored
        )
        self._judges: Final[dict[tuple[bool, ...], tuple[_Judges, _Judges]]] = {}
        self._all: Final = each

    def judge(self, write: Write, history: History) -> Iterator[tuple[str, Signal, Write]]:
        """Remember a write, and yield (detector, signal, write) for all that is wrong with it.

        An earlier write that it shows to have been stored is judged as well. Read it to the end:
        what detectors raise comes then, in one ExceptionGroup, after the signals of all others.
        """
        past, errors = history.of(write.object), list[Exception]()
        if Phase.OUTCOME in write.missing:
            # Not remembered, as it may have been refused. What other webhooks did is true anyway.
            for name, signal in _ask(self._judges_of(write)[0], errors, write, past):
                if signal.blame is Blame.OTHERS:
                    yield name, signal, write
            _raise(errors)
            return
        stored = history.confirm(past, write)
        if stored is not None:
            for name, signal in _ask(self._judges_of(stored)[1], errors, stored, past):
                yield name, signal, stored
        history.add(past, write)
        for name, signal in _ask(self._judges_of(write)[0], errors, write, past):
            yield name, signal, write
        _raise(errors)

    def judge_turns(self, turns: Turns) -> Iterator[tuple[str, Signal, Write]]:
        """Yield (detector, signal, deletion) for all that is wrong with these turns, as `judge`."""
        write = blank_write(turns.object, turns.deleter, turns.deleted)
        return self._ask_all("judge_turns", turns, write)

    def judge_refusal(self, refusal: Refusal) -> Iterator[tuple[str, Signal, Write]]:
        """Yield (detector, signal, write) for what is wrong with a refused write, as `judge`."""
        return self._ask_all("judge_refusal", refusal, refusal.write)

    def judge_dishonest(self, dishonest: DishonestWriter) -> Iterator[tuple[str, Signal, Write]]:
        """Yield (detector, signal, write) for what is wrong with a writer, as `judge`."""
        return self._ask_all("judge_dishonest", dishonest, dishonest.write)

    def _ask_all(
        self, method: str, judged: Any, write: Write
    ) -> Iterator[tuple[str, Signal, Write]]:
        errors = list[Exception]()
        judges = [(one.name, getattr(one, method)) for one in self._all]
        for name, signal in _ask(judges, errors, judged):
            yield name, signal, write
        _raise(errors)

    def _judges_of(self, write: Write) -> tuple[_Judges, _Judges]:
        """Return the methods that judge such a write when it is requested, and when stored."""
        answers = _sorts(write)
        found = self._judges.get(answers)
        if found is None:
            of = {None, *(sort for sort in get_args(Sort) if getattr(write, sort))}
            of_write, of_stored = (
                tuple((name, judge) for sort, name, judge in each if sort in of)
                for each in (self._detectors, self._detectors_of_stored)
            )
            found = self._judges[answers] = of_write, of_stored
        return found
