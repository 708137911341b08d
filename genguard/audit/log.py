"""Read an audit log event by event: count, and find loops with those who cause them.

At level RequestResponse each write becomes the reviews that genguard would have seen, and the same
detection judges them (`reviewing.py`). Where the stored state is not known, and at lower levels,
damage by a patch is visible in one event (`signs.py`), and some loops in what is asked for again
(`fight.py`). Memory is bounded by the ledger, the history and the remembered objects.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from genguard.audit.changers import Changers, ExactLedger, NamedSuspects
from genguard.audit.event import (
    NO_OBJECT,
    Call,
    Event,
    ObjectReference,
    failed_open,
    read_calls,
    read_event,
)
from genguard.audit.fight import Fights
from genguard.audit.lives import AuditedLives
from genguard.audit.reviewing import Reviewing
from genguard.audit.sent import SentWrites
from genguard.audit.signs import SeenSign, describe, signs
from genguard.detection.detection import Detection
from genguard.detection.detectors import Blame, DetectorRunner, Signal
from genguard.detection.detectors.spec_fight import SpecFight
from genguard.detection.detectors.status_write_storm import StatusWriteStorm
from genguard.detection.finding import Confidence, Finding
from genguard.detection.history import History
from genguard.detection.ledger import Ledger
from genguard.detection.suspects import Suspects
from genguard.detection.write import Called, Write
from genguard.generation.custom import StatusSubresource
from genguard.generation.transition import Engine

_COMPLETE: Final = "ResponseComplete"
_READS: Final = frozenset({"get", "list", "watch"})
_FOLLOWED: Final = frozenset({"", "status"})
IGNORED: Final = frozenset(
    {
        ("", "endpoints"),
        ("", "events"),
        ("coordination.k8s.io", "leases"),
        ("events.k8s.io", "events"),
    }
)
"""Records without a generation and a status: most writes of a cluster. Nothing waits for them."""

_OF_REQUESTS: Final = DetectorRunner((StatusWriteStorm(),))
"""The detector that finds loops in what is asked for alone."""
_MOST_NAMES: Final = 1_000
_MOST_OBJECTS: Final = 10_000
_MOST_BYTES: Final = 8 * 1024 * 1024


class AuditLog:
    """Takes the events of a log in their order."""

    def __init__(self, engine: Engine, given: Suspects | None = None) -> None:
        """`engine` predicts generation; `given` are the cluster's webhooks and policies."""
        self._engine: Final = engine
        self._suspects: Final = NamedSuspects(Confidence.CERTAIN, given)
        self._detection: Final = Detection(
            self._suspects,
            history=History(_MOST_OBJECTS, _MOST_BYTES, _MOST_BYTES),
            compares_all=True,
            ledger=ExactLedger(self._suspects),
        )
        self._reviewing: Final = Reviewing(engine, self._detection)
        self._sent: Final = SentWrites(self._status_counts)
        self._past: Final = History(_MOST_OBJECTS, _MOST_BYTES, _MOST_BYTES)
        self._fights: Final = Fights()
        self._lives: Final = AuditedLives()
        self._unproved: Final = Ledger(NamedSuspects(Confidence.LIKELY))
        self._failed_open: Counter[str] = Counter()
        self._webhooks: Counter[str] = Counter()
        self._last = 0.0
        self.events = 0
        self.patches = 0

    def see(self, text: bytes) -> None:
        """Read one event.

        Raises msgspec.MsgspecError, UnicodeDecodeError and RecursionError if it cannot be read.
        """
        event = read_event(text)
        if event.stage == _COMPLETE:
            self._see(event)

    def findings(self) -> Iterator[Finding]:
        """Yield all findings; those without signals at the end of the log are resolved."""
        self._detection.finish(self._last)
        list(self._unproved.settle(self._last))
        yield from self.open_findings()

    def open_findings(self) -> Iterator[Finding]:
        """Yield all findings as they are before the end of the log."""
        found = self._detection.findings()
        yield from found
        known = {one.id for one in found}
        yield from (one for one in self._unproved.findings() if one.id not in known)

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
        if reference is None or event.verb in _READS or event.is_dry_run:
            return
        if (reference.api_group, reference.resource) in IGNORED:
            return
        changed = [one for one in calls if one.mutated]
        others = [one for one in changed if not one.is_own]
        self._suspects.changers = Changers.of(others)
        is_reviewed = self._reviewing.see(event, reference, changed)
        # It learns of each creation: no review shows who evicts a Pod.
        if not is_reviewed or (event.is_stored and event.verb != "delete"):
            for name, sign, write in self._lives.see(event, reference, others):
                self._detection.ledger.add(name, sign, write)
        if not is_reviewed:
            self._judge(event, reference, others)

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
        """Judge an update by its request and its annotations alone."""
        if not event.is_update or reference.subresource not in _FOLLOWED or not others:
            return
        write = self._sent.write(event, reference, others)
        for seen in signs(event, others, writes_status=write.writes_status):
            self._enter(seen, write)
        if event.request_object == NO_OBJECT or event.response_object != NO_OBJECT:
            return
        for sign in self._fights.signs(event, write, others):
            self._detection.ledger.add(SpecFight.name, sign, write)
        for name, sign, judged in _OF_REQUESTS.judge(write, self._past):
            told_of = _with_calls(sign, others) if judged is write else sign
            self._detection.ledger.add(name, told_of, judged)

    def _enter(self, seen: SeenSign, write: Write) -> None:
        names = tuple(dict.fromkeys(call.name for call in seen.calls))
        ledger = self._detection.ledger if seen.proved else self._unproved
        judged = msgspec.structs.replace(write, called=Called(names, names))
        ledger.add(seen.detector, seen.sign, judged)

    def _status_counts(self, group: str, version: str, resource: str) -> bool:
        status, _ = self._engine.custom.find(group, version, resource)
        return status is StatusSubresource.ABSENT


def _with_calls(sign: Signal, calls: Sequence[Call]) -> Signal:
    if sign.blame is not Blame.OTHERS:
        return sign
    evidence = {**sign.evidence, "calls": [describe(call) for call in calls]}
    return replace(sign, evidence=evidence)
