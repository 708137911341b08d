"""Who changed an audited write: known from its annotations, so nobody is suspected of it.

A webhook is named in a finding if its patch wrote one of the fields that the finding is about.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from genguard.admission.review import AdmissionRequest
from genguard.audit.event import Call
from genguard.audit.signs import describe
from genguard.detection.detectors import Blame, Signal
from genguard.detection.finding import Confidence, Severity
from genguard.detection.ledger import Ledger
from genguard.detection.suspects import Suspects
from genguard.detection.write import NOBODY, Called, Write
from genguard.objects.pointer import from_pointer

_BY_WEBHOOKS: Final = frozenset({Blame.OTHERS, Blame.EITHER})


class Changers(Called):
    """The webhooks that changed one write, with their calls."""

    calls: tuple[Call, ...] = ()

    @classmethod
    def of(cls, calls: Sequence[Call]) -> Called:
        """Return the webhooks of these calls, each of which changed the object."""
        if not calls:
            return NOBODY
        first, again = (
            tuple(dict.fromkeys(one.name for one in calls if (one.round > 0) is is_again))
            for is_again in (False, True)
        )
        found = cls(first or again, again)
        found.calls = tuple(calls)
        return found


class NamedSuspects(Suspects):
    """The webhooks named by the audit log in Write.called: all have the same confidence."""

    def __init__(self, confidence: Confidence, given: Suspects | None = None) -> None:
        """`given`: the policies of the cluster; they leave no trace in an audit log."""
        policies, conditions = (given.policies, given.conditions) if given else ((), None)
        super().__init__(policies=policies, conditions=conditions)
        self._confidence: Final = confidence
        self.changers: Called = NOBODY
        """Of the event that is being judged."""

    def called_in(self, request: AdmissionRequest) -> Called:
        """Return the webhooks that changed the write."""
        del request
        return self.changers

    def ranked(self, names: Iterable[str]) -> Iterator[tuple[str, Confidence]]:
        """Yield the named webhooks, most frequent first: each of them changed the object."""
        counts = names if isinstance(names, Mapping) else dict.fromkeys(names, 0)
        for name in sorted(counts, key=lambda one: (-counts[one], one)):
            yield name, self._confidence


class ExactLedger(Ledger):
    """A ledger that knows of each signal which of the webhooks that changed a write it is about."""

    def add(
        self, detector: str, sign: Signal, write: Write, follows: Iterable[str] = ()
    ) -> Severity:
        """Enter a signal as Ledger does, with the calls that it is about."""
        called = write.called
        if isinstance(called, Changers) and sign.blame in _BY_WEBHOOKS:
            calls = _that_wrote(called.calls, sign)
            names = tuple(dict.fromkeys(one.name for one in calls))
            write = msgspec.structs.replace(write, called=Called(names, names))
            shown = [describe(one) for one in calls]
            sign = replace(sign, evidence={**sign.evidence, "calls": shown})
        return super().add(detector, sign, write, follows)


def _that_wrote(calls: Sequence[Call], sign: Signal) -> Sequence[Call]:
    """Return the calls whose patches wrote what a signal is about; all where that is unclear."""
    calls = [one for one in calls if (one.round > 0) is sign.reinvoked] or calls
    paths = [from_pointer(one) for one in sign.paths]
    exact = [one for one in calls if _writes(one, paths)]
    if exact:
        return exact
    # Items of a list are named by index, and patches before this one may have moved them.
    loose = [_without_indexes(one) for one in paths]
    return [one for one in calls if _writes(one, loose, loosely=True)] or calls


def _writes(call: Call, paths: Iterable[tuple[str, ...]], *, loosely: bool = False) -> bool:
    for one in call.operations or ():
        if one.op == "test":
            continue
        for pointer in (one.path, one.source) if one.op == "move" else (one.path,):
            written = _path(pointer)
            written = _without_indexes(written) if loosely else written
            for path in paths:
                shorter = min(len(path), len(written))
                if path[:shorter] == written[:shorter]:
                    return True
    return False


def _without_indexes(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("-" if token.isdigit() else token for token in path)


def _path(pointer: str) -> tuple[str, ...]:
    try:
        return from_pointer(pointer)
    except ValueError:
        return ("",)  # the place of nothing
