"""Read an audit log event by event: count, and find loops with the webhooks that cause them.

Damage by a patch is visible in one event. Storms and fights are found by the detectors of the
server, on writes made from events. Memory is bounded by the ledger, the history and the remembered
objects.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from webhook.audit.event import (
    NO_OBJECT,
    Call,
    Event,
    ObjectReference,
    failed_open,
    read_calls,
    read_events,
)
from webhook.audit.fight import Fights
from webhook.audit.lives import AuditedLives
from webhook.audit.signs import Told, describe, signs
from webhook.audit.write import Memory, StatusCounts
from webhook.detection.causes import followed
from webhook.detection.detectors import Blame, DetectorRunner, Signal
from webhook.detection.detectors.cross_object_loop import CrossObjectLoop
from webhook.detection.detectors.generation_storm import GenerationStorm
from webhook.detection.detectors.spec_fight import SpecFight
from webhook.detection.detectors.status_oscillation import StatusOscillation
from webhook.detection.detectors.status_write_storm import StatusWriteStorm
from webhook.detection.finding import Confidence, Finding
from webhook.detection.history import History
from webhook.detection.ledger import Ledger
from webhook.detection.suspects import Suspects
from webhook.detection.write import Called, Write

_COMPLETE: Final = "ResponseComplete"
_FOLLOWED: Final = frozenset({"", "status"})
_NO_GENERATION: Final = frozenset({"events", "leases", "endpoints", "endpointslices"})
"""Ignored: nothing waits for them, and they are most writes of a cluster."""

_RUNNER: Final = DetectorRunner(
    (StatusWriteStorm(), GenerationStorm(), StatusOscillation(), SpecFight(), CrossObjectLoop())
)
_MOST_NAMES: Final = 1_000
_MOST_OBJECTS: Final = 10_000
_MOST_BYTES: Final = 8 * 1024 * 1024


def never(group: str, version: str, resource: str) -> bool:
    """The default StatusCounts: every kind has a status subresource."""
    del group, version, resource
    return False


class NamedSuspects(Suspects):
    """The webhooks named by the audit log in Write.called: all have the same confidence."""

    def __init__(self, confidence: Confidence) -> None:
        super().__init__()
        self._confidence: Final = confidence

    def ranked(self, names: Iterable[str]) -> Iterator[tuple[str, Confidence]]:
        """Yield the named webhooks, most frequent first: each of them changed the object."""
        counts = names if isinstance(names, Mapping) else dict.fromkeys(names, 0)
        for name in sorted(counts, key=lambda one: (-counts[one], one)):
            yield name, self._confidence


class AuditLog:
    """Takes the events of a log in their order."""

    def __init__(self, status_counts: StatusCounts = never) -> None:
        self._memory: Final = Memory(status_counts)
        self._history: Final = History(_MOST_OBJECTS, _MOST_BYTES, _MOST_BYTES)
        self._fights: Final = Fights()
        self._lives: Final = AuditedLives()
        self._proved: Final = Ledger(NamedSuspects(Confidence.CERTAIN))
        self._unproved: Final = Ledger(NamedSuspects(Confidence.LIKELY))
        self._failed_open: Counter[str] = Counter()
        self._webhooks: Counter[str] = Counter()
        self._last = 0.0
        self.documents = 0
        self.events = 0
        self.patches = 0

    def see(self, document: bytes, kind: str) -> None:
        """Read one document, an Event or an EventList.

        Raises msgspec.MsgspecError and RecursionError if it cannot be read.
        """
        self.documents += 1
        for event in read_events(document, kind):
            if event.stage == _COMPLETE:
                self._see(event)

    def findings(self) -> Iterator[Finding]:
        """Yield all findings; those without signals at the end of the log are resolved."""
        known = set()
        for ledger in (self._proved, self._unproved):
            list(ledger.settle(self._last))
            for finding in ledger.findings():
                if finding.id not in known:
                    known.add(finding.id)
                    yield finding

    def summary(self) -> dict[str, Any]:
        """Return counts: events, patches, and for each webhook its changes and failed calls."""
        return {
            "events": self.events,
            "patches": self.patches,
            "webhooks": dict(sorted(self._webhooks.items())),
            "failedOpen": dict(sorted(self._failed_open.items())),
        }

    def _see(self, event: Event) -> None:
        self.events += 1
        self._last = max(self._last, event.time)
        annotations = event.annotations or {}
        calls: tuple[Call, ...] = ()
        # Most events have only the two annotations of the authorizer.
        if any("webhook.admission.k8s.io/" in key for key in annotations):
            calls = read_calls(annotations)
            self._count(calls, annotations)
        reference = event.object_ref
        if reference is None or reference.resource in _NO_GENERATION:
            return
        others = [one for one in calls if one.mutated and not one.is_own]
        for name, sign, write in self._lives.see(event, reference, others):
            self._proved.add(name, sign, write)
        if event.is_update and reference.subresource in _FOLLOWED:
            self._judge(event, reference, others)
        elif event.verb not in ("get", "list", "watch"):
            self._memory.forget(reference)

    def _count(self, calls: Sequence[Call], annotations: dict[str, str]) -> None:
        self.patches += sum(1 for call in calls if call.operations is not None)
        for counts, names in (
            (self._webhooks, [call.name for call in calls if call.mutated]),
            (self._failed_open, failed_open(annotations)),
        ):
            for name in names:
                if name in counts or len(counts) < _MOST_NAMES:
                    counts[name] += 1

    def _judge(self, event: Event, reference: ObjectReference, others: Sequence[Call]) -> None:
        sees_objects = event.request_object != NO_OBJECT or event.response_object != NO_OBJECT
        if not others and not sees_objects:
            return
        write = self._memory.write(event, reference, others)
        for told in signs(event, others, writes_status=write.writes_status):
            self._enter(told, write)
        if sees_objects:
            self._detect(event, write, others)

    def _detect(self, event: Event, write: Write, others: Sequence[Call]) -> None:
        if event.response_object == NO_OBJECT:
            for sign in self._fights.signs(event, write, others):
                self._proved.add(SpecFight.name, sign, write)
        for name, sign, judged in _RUNNER.judge(write, self._history):
            told = _with_calls(sign, others) if judged is write else sign
            self._proved.add(name, told, judged, followed(told, judged, self._history))

    def _enter(self, told: Told, write: Write) -> None:
        names = tuple(dict.fromkeys(call.name for call in told.calls))
        ledger = self._proved if told.proved else self._unproved
        judged = msgspec.structs.replace(write, called=Called(names, names))
        ledger.add(told.detector, told.sign, judged)


def _with_calls(sign: Signal, calls: Sequence[Call]) -> Signal:
    if sign.blame is not Blame.OTHERS:
        return sign
    evidence = {**sign.evidence, "calls": [describe(call) for call in calls]}
    return replace(sign, evidence=evidence)
