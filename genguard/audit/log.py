"""Read an audit log event by event: count, and find loops with those who cause them.

At level RequestResponse each write becomes the reviews that genguard would have seen, and the same
detection examines them (`reviewing.py`). Other writes are counted, with the reason why they cannot
be examined. Memory is bounded by the ledger, the history and the remembered objects.

Who changed a write is known from its annotations, so nobody is suspected of it: a webhook is named
in a finding if its patch wrote one of the fields that the finding is about.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from genguard.audit.event import Call, Event, failed_open, read_calls, read_event
from genguard.audit.reviewing import SHOWS_ALL, Reviewing, Unexamined, told_unexamined
from genguard.audit.stages import meet
from genguard.detection.detection import Detection
from genguard.detection.finding import Finding
from genguard.detection.mutators import Mutators
from genguard.detection.write import NOBODY, Called
from genguard.generation.transition import Engine

_MOST_OPERATIONS: Final = 20


class Changers(Called):
    """The webhooks that changed one write, with their calls."""

    calls: tuple[Call, ...] = ()

    @classmethod
    def of(cls, calls: Sequence[Call]) -> Called:
        """Return the webhooks of these calls, each of which changed the object."""
        if not calls:
            return NOBODY
        first, again = (
            tuple(dict.fromkeys(call.name for call in calls if (call.round > 0) is is_again))
            for is_again in (False, True)
        )
        found = cls(first or again, again)
        found.calls = tuple(calls)
        return found

    def about(
        self, pointers: Sequence[str], /, *, again: bool
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Return the webhooks whose patches wrote these fields, and their calls as evidence."""
        calls = _that_wrote(self.calls, pointers, again=again)
        names = tuple(dict.fromkeys(call.name for call in calls))
        return names, {"calls": [_described(call) for call in calls]}


def _that_wrote(calls: Sequence[Call], pointers: Iterable[str], *, again: bool) -> Sequence[Call]:
    """Return the calls whose patches wrote some of these fields; all where that is unclear."""
    calls = [call for call in calls if (call.round > 0) is again] or calls
    paths = [tuple(pointer.split("/")) for pointer in pointers]
    # Items of a list are named by index, and patches before this one may have moved them.
    for shown in (tuple, _without_indexes):
        wanted = [shown(path) for path in paths]
        found = [
            call
            for call in calls
            if any(meet(shown(path), pointer) for path in _written(call) for pointer in wanted)
        ]
        if found:
            return found
    return calls


def _written(call: Call) -> Iterator[tuple[str, ...]]:
    """Yield the paths that a patch writes, and those that it moves away."""
    for operation in call.operations or ():
        if operation.op != "test":
            yield tuple(operation.path.split("/"))
        if operation.op == "move":
            yield tuple(operation.source.split("/"))


def _without_indexes(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("-" if token.isdigit() else token for token in path)


def _described(call: Call) -> dict[str, Any]:
    """Return a call as evidence: operations and paths, never their values."""
    shown = [{"op": operation.op, "path": operation.path} for operation in call.operations or ()]
    return {
        "webhook": call.name,
        "round": call.round,
        "index": call.position,
        "operations": shown[:_MOST_OPERATIONS],
    }


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


class AuditLog:
    """Takes the events of a log in their order."""

    def __init__(self, engine: Engine, given: Mutators | None = None) -> None:
        """`engine` predicts generation; `given` are the cluster's webhooks and policies."""
        # Policies leave no trace in an audit log, webhooks do.
        policies, conditions = (given.policies, given.conditions) if given else ((), None)
        self._mutators: Final = Mutators((), policies, conditions, named=NOBODY)
        self._detection: Final = Detection(self._mutators)
        self._reviewing: Final = Reviewing(engine, self._detection)
        self._unexamined: Final = defaultdict[Unexamined, Counter[tuple[str, str]]](Counter)
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
        if event.stage == "ResponseComplete":
            self._see(event)

    def findings(self) -> tuple[Finding, ...]:
        """Return all findings; those without signals at the end of the log are resolved."""
        self._detection.finish(self._last, is_complete=True)
        return self._detection.findings()

    @property
    def is_blind(self) -> bool:
        """Whether there were writes, and none of them shows what is stored."""
        return not self._shows_all and bool(self._unexamined)

    def summary(self) -> dict[str, Any]:
        """Return counts: events, patches, and for each webhook its changes and failed calls.

        What did not occur is left out: refused writes, webhooks that changed an object once more
        when they were reinvoked, and writes that were not examined.
        """
        found: dict[str, Any] = {
            "events": self.events,
            "patches": self.patches,
            "refused": self._refused,
            "webhooks": dict(sorted(self._webhooks.items())),
            "reinvoked": dict(sorted(self._reinvoked.items())),
            "failedOpen": dict(sorted(self._failed_open.items())),
            "notExamined": list(told_unexamined(self._unexamined)),
        }
        optional = ("refused", "reinvoked", "notExamined")
        return {key: value for key, value in found.items() if value or key not in optional}

    def _see(self, event: Event) -> None:
        self.events += 1
        self._last = max(self._last, event.time)
        annotations = event.annotations
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
        changed = [call for call in calls if call.mutated]
        self._mutators.named = Changers.of([call for call in changed if not call.is_own])
        self._shows_all |= event.level == SHOWS_ALL
        reason = self._reviewing.see(event, reference, changed)
        if reason is not None:
            self._unexamined[reason][group, reference.resource] += 1

    def _count(self, calls: Sequence[Call], annotations: dict[str, str]) -> None:
        self.patches += sum(1 for call in calls if call.operations is not None)
        changed = [call for call in calls if call.mutated]
        self._webhooks.update(call.name for call in changed)
        self._reinvoked.update(call.name for call in changed if call.round > 0)
        self._failed_open.update(failed_open(annotations))
