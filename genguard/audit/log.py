"""Read an audit log event by event: count, and find loops with those who cause them.

At level RequestResponse each write becomes the reviews that genguard would have seen, and the same
detection judges them (`reviewing.py`). Other writes are counted, with the reason why they cannot
be judged. Memory is bounded by the ledger, the history and the remembered objects.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from genguard.audit.changers import Changers, NamedSuspects
from genguard.audit.event import Call, Event, failed_open, read_calls, read_event
from genguard.audit.reviewing import SHOWS_ALL, Reviewing
from genguard.audit.unjudged import UnjudgedWrites
from genguard.detection.detection import Detection
from genguard.detection.finding import Finding
from genguard.detection.history import History
from genguard.detection.suspects import Suspects
from genguard.generation.transition import Engine

_COMPLETE: Final = "ResponseComplete"
_READS: Final = frozenset({"get", "list", "watch"})
IGNORED: Final = frozenset(
    {
        ("", "endpoints"),
        ("", "events"),
        ("coordination.k8s.io", "leases"),
        ("events.k8s.io", "events"),
    }
)
"""Records without a generation and a status: most writes of a cluster. Nothing waits for them."""
_NEVER_STORED: Final = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
"""Groups of questions to the API server."""
_MOST_NAMES: Final = 1_000
_MOST_OBJECTS: Final = 10_000
_MOST_BYTES: Final = 8 * 1024 * 1024


class AuditLog:
    """Takes the events of a log in their order."""

    def __init__(self, engine: Engine, given: Suspects | None = None) -> None:
        """`engine` predicts generation; `given` are the cluster's webhooks and policies."""
        self._suspects: Final = NamedSuspects(given)
        self._detection: Final = Detection(
            self._suspects,
            history=History(_MOST_OBJECTS, _MOST_BYTES, _MOST_BYTES),
            compares_all=True,
        )
        self._reviewing: Final = Reviewing(engine, self._detection)
        self._unjudged: Final = UnjudgedWrites()
        self._failed_open: Counter[str] = Counter()
        self._webhooks: Counter[str] = Counter()
        self._reinvoked: Counter[str] = Counter()
        self._last = 0.0
        self._refused = 0
        self._shows_all = False
        self.events = 0
        self.patches = 0

    def see(self, text: bytes) -> None:
        """Read one event.

        Raises msgspec.MsgspecError, UnicodeDecodeError and RecursionError if it cannot be read.
        """
        event = read_event(text)
        if event.stage == _COMPLETE:
            self._see(event)

    def findings(self) -> tuple[Finding, ...]:
        """Return all findings; those without signals at the end of the log are resolved."""
        self._detection.finish(self._last, is_whole=True)
        return self.open_findings()

    def open_findings(self) -> tuple[Finding, ...]:
        """Return all findings as they are before the end of the log."""
        return self._detection.findings()

    @property
    def is_blind(self) -> bool:
        """Whether there were writes, and none of them shows what is stored."""
        return not self._shows_all and any(self._unjudged.lines())

    def summary(self) -> dict[str, Any]:
        """Return counts: events, patches, and for each webhook its changes and failed calls.

        What did not occur is left out: refused writes, webhooks that changed an object once more
        when they were reinvoked, and writes that were not judged.
        """
        found: dict[str, Any] = {
            "events": self.events,
            "patches": self.patches,
            "refused": self._refused,
            "webhooks": dict(sorted(self._webhooks.items())),
            "reinvoked": dict(sorted(self._reinvoked.items())),
            "failedOpen": dict(sorted(self._failed_open.items())),
            "notJudged": list(self._unjudged.lines()),
        }
        optional = ("refused", "reinvoked", "notJudged")
        return {key: value for key, value in found.items() if value or key not in optional}

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
        self._refused += event.is_refused
        group = reference.api_group
        if (group, reference.resource) in IGNORED or group in _NEVER_STORED:
            return
        changed = [one for one in calls if one.mutated]
        self._suspects.changers = Changers.of([one for one in changed if not one.is_own])
        self._shows_all |= event.level == SHOWS_ALL
        reason = self._reviewing.see(event, reference, changed)
        if reason is not None:
            self._unjudged.count(reason, reference)

    def _count(self, calls: Sequence[Call], annotations: dict[str, str]) -> None:
        self.patches += sum(1 for call in calls if call.operations is not None)
        changed = [call for call in calls if call.mutated]
        for counts, names in (
            (self._webhooks, [call.name for call in changed]),
            (self._reinvoked, [call.name for call in changed if call.round > 0]),
            (self._failed_open, failed_open(annotations)),
        ):
            for name in names:
                if name in counts or len(counts) < _MOST_NAMES:
                    counts[name] += 1
