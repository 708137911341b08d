"""Joins the reviews of one write: intent, mutate, its reinvocation, outcome.

What is known of a live API server decides the cases:

- a mutate call is not a write: a stale PUT passes mutating admission and has no outcome. Where
  outcomes are seen at all, a write without one is forgotten;
- a storage conflict runs admission again with a newer oldObject: that is another key, and the
  first pass has no outcome;
- reinvocation keeps the key: a second mutate without a new intent is round 1;
- two intents with one key that differ cannot be told apart: neither is joined;
- a dry run is no write.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from webhook.admission.join import JoinKey, join_key
from webhook.admission.review import AdmissionRequest, Operation, Phase
from webhook.detection.assemble import Reviewed, assemble, stored_fields_differ
from webhook.detection.suspects import Suspects
from webhook.detection.write import Write

SECONDS_WAITED: Final = 10.0
"""For the next phase of a write; genguard's registrations time out after 2 s each."""
SECONDS_WITHOUT_OUTCOMES: Final = 2.0
"""For a reinvocation, where no outcome of the resource was ever seen."""
MOST_PENDING: Final = 2_000
MOST_AT_ONCE: Final = 20
"""Writes whose wait is over that one review may end: after a burst thousands are, and answers
wait for the event loop meanwhile. Each takes some 0.1 ms."""


@dataclass(slots=True)
class _Pending:
    time: float
    intent: AdmissionRequest | None = None
    ambiguous: bool = False
    mutates: list[Reviewed] = field(default_factory=list)

    def told(self) -> tuple[AdmissionRequest | None, list[AdmissionRequest]]:
        """Intent and mutate calls; of writes that cannot be told apart neither."""
        if self.ambiguous:
            return None, []
        return self.intent, [one.request for one in self.mutates]


class Correlator:
    """Takes reviews in the order of arrival, gives writes. Bounded in entries and in time."""

    def __init__(self, suspects: Suspects | None = None) -> None:
        """`suspects` are asked while contents are at hand: a Write has none."""
        self._suspects: Final = suspects or Suspects()
        self._pending: OrderedDict[JoinKey, _Pending] = OrderedDict()
        self._with_outcomes: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        return len(self._pending)

    def see(self, phase: Phase, reviewed: Reviewed, now: float) -> Iterator[Write]:
        """The writes that this review completes, oldest first.

        Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
        """
        yield from self._overdue(now, MOST_AT_ONCE)
        request = reviewed.request
        key = join_key(request)
        if key is None or not _is_joined(request):
            return
        if phase is Phase.OUTCOME and len(self._with_outcomes) < MOST_PENDING:
            self._with_outcomes.add(_registered(key))
        if phase is Phase.INTENT:
            self._see_intent(key, request, now)
        elif phase is Phase.MUTATE:
            self._pending.setdefault(key, _Pending(now)).mutates.append(reviewed)
        else:
            pending = self._pending.pop(key, None) or _Pending(now)
            yield self._write(pending, reviewed, now, has_outcome=True)

    def finish(self) -> Iterator[Write]:
        """What is still waiting, at the end of a recording."""
        yield from self._overdue(float("inf"), len(self._pending))

    def _see_intent(self, key: JoinKey, request: AdmissionRequest, now: float) -> None:
        before, entry = self._pending.pop(key, None), _Pending(now, request)
        if before is not None and before.intent is not None and not before.mutates:
            entry.ambiguous = before.ambiguous or stored_fields_differ(before.intent, request)
        self._pending[key] = entry

    def _overdue(self, now: float, most: int) -> Iterator[Write]:
        ended: list[tuple[JoinKey, bool]] = []
        for position, (key, one) in enumerate(self._pending.items()):
            is_early = one.time > now - SECONDS_WITHOUT_OUTCOMES and not self._too_many(position)
            if is_early or len(ended) == most:
                break
            waits = _registered(key) in self._with_outcomes
            seconds = SECONDS_WAITED if waits else SECONDS_WITHOUT_OUTCOMES
            if one.time <= now - seconds or self._too_many(position):
                ended.append((key, waits))
        for key, waits in ended:
            one = self._pending.pop(key)
            # Where no outcome is registered the last mutate call is all there will be.
            if one.mutates and not waits:
                yield self._write(one, one.mutates[-1], one.time, has_outcome=False)

    def _write(self, pending: _Pending, last: Reviewed, now: float, *, has_outcome: bool) -> Write:
        intent, mutates = pending.told()
        write = assemble(intent, mutates, last, now, has_outcome=has_outcome)
        first = [] if intent is None else [intent]
        return self._suspects.narrow(write, [*first, *mutates] or [last.request])

    def _too_many(self, position: int) -> bool:
        return position < len(self._pending) - MOST_PENDING


def _registered(key: JoinKey) -> tuple[str, str]:
    return key.group, key.resource


def _is_joined(request: AdmissionRequest) -> bool:
    """Updates of the object itself that the server would take, and no dry runs."""
    if request.wire.dry_run or request.operation is not Operation.UPDATE:
        return False
    new, old = request.object, request.old_object
    if new is None or old is None:
        return False
    sent, stored = new.metadata.resource_version, old.metadata.resource_version
    # A PUT on an older version than is stored is refused after mutating admission.
    return not (sent and stored and sent != stored)
