"""What a question is asked about, what it declares and answers, and who asks all questions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Any, ClassVar, Final

import msgspec

from genguard.admission.review import Phase
from genguard.detection.changes import Change
from genguard.detection.damage import Damage
from genguard.detection.diff import PartDiffs
from genguard.detection.finding import Severity
from genguard.detection.history import History, ObjectHistory
from genguard.detection.observation import Observation
from genguard.detection.write import Requester, Write
from genguard.shipped import shipped


class Declared(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True):
    """A finding that a question may give, as findings.yaml has it; that explains the fields.

    name  of it, of its runbook, of the file with its cases, and of its plan in fix.yaml
    """

    name: str
    means: str
    headline: str
    part: str = ""
    is_harm: bool = False
    worst: Severity = Severity.CRITICAL


_TABLE: Final = shipped("genguard.detection", "findings.yaml", dict[str, dict[str, Any]])
DECLARED: Final = {
    name: msgspec.convert({"name": name, **fields}, Declared) for name, fields in _TABLE.items()
}


class ChangedBy(StrEnum):
    """Between which phases it happened, which decides who can have done it."""

    OTHERS = "others"  # between intent and mutate: other webhooks
    REQUESTER = "requester"  # already there at intent: the requester, or a policy before it
    EITHER = "either"  # the intent was not seen
    SERVER = "server"  # between mutate and outcome

    @classmethod
    def of(cls, part: PartDiffs) -> "ChangedBy":
        """Return who is to blame for what was asked: the requester, if the intent was seen."""
        return cls.EITHER if part.requested is None else cls.REQUESTER


@dataclass(frozen=True, slots=True)
class Signal:
    """Something wrong about one write; the ledger makes a finding of signals that repeat.

    requesters  who is blamed besides, or instead of, other webhooks
    minor       may be ordinary: no more than info, unless it comes again and again for long
    reinvoked   it happened in round 1, in which only webhooks are called that ask for it
    damage      what is wrong in the stored object because of it; None where nothing stays wrong
    pace        seconds between two signals of a slow loop, which has been seen to repeat
    prevented   what would be wrong, had genguard not restored it: a write that nobody restores may
                do it yet
    of          the write, where it is another one than that of the event
    """

    changed_by: ChangedBy
    paths: tuple[str, ...]
    message: str
    requesters: tuple[Requester, ...] = ()
    minor: bool = False
    reinvoked: bool = False
    evidence: dict[str, object] = field(default_factory=dict)
    damage: Damage | None = None
    prevented: Damage | None = None
    pace: float = 0.0
    of: Write | None = None


def signal(
    found: Declared,
    write: Write,
    changed_by: ChangedBy,
    about: Iterable[Change | str],
    message: str,
    **more: Any,
) -> tuple[Declared, Signal]:
    """Return a signal about leaves, or pointers, else about all that a write changed.

    The requester is blamed, unless other webhooks are.
    """
    paths = dict.fromkeys(change if isinstance(change, str) else change.pointer for change in about)
    requesters = () if changed_by is ChangedBy.OTHERS else (write.requester,)
    fields = {"requesters": requesters, "minor": found.worst is Severity.INFO, **more}
    return found, Signal(changed_by, tuple(paths) or write.pointers(), message, **fields)


def own(write: Write, writes: Sequence[Write], seconds: float = inf) -> Iterator[Write]:
    """Yield what the requester of a write wrote in the last seconds, the newest first."""
    for earlier in reversed(writes):
        if earlier.time <= write.time - seconds:
            return
        if earlier.requester.user == write.requester.user:
            yield earlier


Answers = Iterator[tuple[Declared, Signal]]
Rule = Callable[[Write, ObjectHistory], Answers]
"""Yields a signal, with the finding it is of, for each thing that is wrong with a write."""
JoinedRule = Callable[[Write, Observation], Answers]


class Question:
    """`findings` declares what its rules find; a rule that remembers is a method.

    seen    asked about each update that may be stored, the newest of its object
    stored  asked about a write that is known now to have been stored, and changed something
    joined  asked about a creation, a deletion, or a write that was not stored; see Joined
    """

    findings: ClassVar[tuple[Declared, ...]]
    seen: tuple[Rule, ...] = ()
    stored: tuple[Rule, ...] = ()
    joined: tuple[JoinedRule, ...] = ()


def all_of(questions: Sequence[Question]) -> Question:
    """Return one question with the rules of all of these, in their order."""
    merged = Question()
    merged.seen = tuple(rule for question in questions for rule in question.seen)
    merged.stored = tuple(rule for question in questions for rule in question.stored)
    merged.joined = tuple(rule for question in questions for rule in question.joined)
    return merged


Found = Iterator[tuple[str, Signal, Write]]
"""The name of a finding, its signal, and the write that it is about."""
Event = tuple[Sequence[Callable[[Write, Any], Answers]], Write, Any]
"""The rules that are asked, and what they are asked about."""


def examine(merged: Question, write: Write, history: History) -> Found:
    """Remember a write, and yield all that is wrong with it: see `ask`.

    An earlier write that it shows to have been stored is asked about as well.
    """
    found = ask(_events(merged, write, history))
    if Phase.OUTCOME in write.missing:
        # It may have been refused, but other webhooks did what they did.
        return (answer for answer in found if answer[1].changed_by is ChangedBy.OTHERS)
    return found


def ask(events: Iterable[Event]) -> Found:
    """Ask all about each event. Read the answer to the end.

    The errors of rules are raised then, in one ExceptionGroup, after the signals of all others.
    """
    errors: list[Exception] = []
    for rules, write, about in events:
        for rule in rules:
            try:
                for found, told in rule(write, about):
                    yield found.name, told, told.of or write
            except Exception as error:  # noqa: BLE001 - whatever one raises, others are asked
                errors.append(error)
    if errors:
        raise ExceptionGroup("questions failed", errors)


def _events(merged: Question, write: Write, history: History) -> Iterator[Event]:
    """Yield what is to be asked about, and remember a write that may be stored in between."""
    past = history.of(write.object)
    if Phase.OUTCOME not in write.missing:
        stored = history.confirm(past, write)
        if stored is not None:
            yield merged.stored, stored, past
        history.add(past, write)
    yield merged.seen, write, past
