"""Joins the facts of one write: intent, mutate, its reinvocation, outcome.

What is known of a live API server decides the cases:

- a mutate call is not a write: a stale PUT passes mutating admission and has no outcome. Where
  outcomes are seen at all, a write without one may have been refused, or its outcome went to
  another replica. It is given as incomplete if other webhooks changed it, and else forgotten;
- a storage conflict runs admission again with a newer oldObject: that is another key. The first
  pass has had its outcome, though nothing of it was stored (apiserver pkg/registry/generic/
  registry/store.go:Update validates in each try);
- reinvocation keeps the key: a second mutate without a new intent is round 1;
- two intents with one key that differ cannot be told apart: neither is joined, nor is a third write
  that begins while the calls of the first two may still come (a busy client patches one Pod from
  several threads);
- a dry run is no write.

A phase is missing where this replica sees that phase of other writes of the same resource: during
a rolling update the API server calls two replicas, and each sees a part.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Final

import msgspec

from webhook.admission.join import JoinKey
from webhook.admission.review import Phase
from webhook.detection.assemble import assemble
from webhook.detection.fact import SECONDS_APART, Fact
from webhook.detection.reduce import Known
from webhook.detection.write import Write

SECONDS_WAITED: Final = 10.0
"""For the next phase of a write; genguard's registrations time out after 2 s each."""
SECONDS_WITHOUT_OUTCOMES: Final = 2.0
"""For a reinvocation, where no outcome of the resource was ever seen."""
_ROUNDS: Final = 2
MOST_PENDING: Final = 2_000
MOST_BYTES_PENDING: Final = 16 * 1024 * 1024
MOST_AT_ONCE: Final = 20
"""Writes whose wait is over that one fact may end: after a burst thousands are, and answers
wait for the event loop meanwhile. Each takes some 0.05 ms. What is over the bound in bytes is
ended at once."""


class _Pending(msgspec.Struct, gc=False):
    since: float
    intent: Fact | None = None
    ambiguous: bool = False
    mutates: list[Fact] = []
    size: int = 0
    """Of its facts, in bytes, as counted."""

    @property
    def seen(self) -> tuple[Phase, ...]:
        """The phases that were seen, the outcome aside."""
        intent = () if self.intent is None else (Phase.INTENT,)
        return (*intent, Phase.MUTATE) if self.mutates else intent

    def told(self) -> tuple[Fact | None, list[Fact]]:
        """Intent and mutate calls; of writes that cannot be told apart neither."""
        if self.ambiguous:
            return None, []
        return self.intent, self.mutates


class Correlator:
    """Takes facts in the order of arrival, gives writes. Bounded in entries and in time."""

    def __init__(self) -> None:
        self._pending: OrderedDict[JoinKey, _Pending] = OrderedDict()
        self._called_for: dict[Phase, set[tuple[str, str]]] = {phase: set() for phase in Phase}
        self._now = 0.0
        self.bytes = 0
        self.dropped = 0
        """Writes that made room for others because of what they took."""
        self.incomplete: Final[Counter[Phase]] = Counter()
        """How many writes lacked each phase; without an outcome some of them were refused."""
        self.joined = 0
        """Writes with an outcome."""
        self.incomplete_joined = 0
        """Those of them that lacked another phase."""

    def known(self, key: JoinKey) -> Known:
        """Of the write that a review belongs to, what its earlier phases have told."""
        pending = self._pending.get(key)
        intent, mutates = (None, []) if pending is None else pending.told()
        facts = (*mutates,) if intent is None else (intent, *mutates)
        return Known(facts, self._waits(key))

    def see(self, fact: Fact) -> list[Write]:
        """The writes that this fact completes, oldest first."""
        if fact.time < self._now - SECONDS_APART:
            self._put_back(fact.time)
        # A clock of another replica may be behind: no time is running out there.
        self._now = max(self._now, fact.time)
        key = fact.key
        found = self._overdue(self._now, MOST_AT_ONCE)
        called_for = self._called_for[fact.phase]
        if len(called_for) < MOST_PENDING:
            called_for.add(_registered(key))
        if fact.phase is Phase.INTENT:
            self._see_intent(key, fact)
        elif fact.phase is Phase.MUTATE:
            pending = self._pending.get(key)
            if pending is None:
                pending = self._pending[key] = _Pending(self._now)
            # More than two calls are several writes, of which the last one counts.
            pending.mutates[_ROUNDS:] = [fact]
            self._count(pending)
        else:
            pending = self._pending.get(key)
            # Of writes that cannot be told apart others are still on their way.
            if pending is not None and not pending.ambiguous:
                del self._pending[key]
                self.bytes -= pending.size
            intent, mutates = (None, []) if pending is None else pending.told()
            missing = self._missing(key, pending)
            found.append(assemble(intent, mutates, fact, fact.time, missing))
        return found

    def finish(self) -> list[Write]:
        """What is still waiting, at the end of a recording."""
        return self._overdue(float("inf"), len(self._pending))

    def _put_back(self, now: float) -> None:
        """Go by an earlier time: what waits would wait until the later one has come."""
        self._now = now
        for one in self._pending.values():
            one.since = min(one.since, now)

    def _see_intent(self, key: JoinKey, fact: Fact) -> None:
        before, entry = self._pending.pop(key, None), _Pending(self._now, fact)
        if before is not None:
            self.bytes -= before.size
            entry.ambiguous = before.ambiguous or self._may_overlap(key, before, fact)
        self._pending[key] = entry
        self._count(entry)

    def _may_overlap(self, key: JoinKey, before: _Pending, intent: Fact) -> bool:
        """Whether an earlier write with this key, which asks for something else, is still going on.

        After its mutate call nobody knows whether its outcome is still to come or it was refused.
        """
        if before.intent is None or (before.mutates and not self._waits(key)):
            return False
        return _stored_fields_differ(before.intent, intent)

    def _count(self, pending: _Pending) -> None:
        facts = pending.mutates if pending.intent is None else (pending.intent, *pending.mutates)
        size = sum([one.size for one in facts])
        self.bytes += size - pending.size
        pending.size = size

    def _overdue(self, now: float, most: int) -> list[Write]:
        early = now - SECONDS_WITHOUT_OUTCOMES
        too_many = len(self._pending) - MOST_PENDING
        too_much = self.bytes - MOST_BYTES_PENDING
        ended: list[JoinKey] = []
        for position, (key, one) in enumerate(self._pending.items()):
            is_over = position < too_many or too_much > 0
            if (one.since > early and not is_over) or (len(ended) >= most and too_much <= 0):
                break
            self.dropped += too_much > 0
            too_much -= one.size
            if is_over or not self._waits(key) or one.since <= now - SECONDS_WAITED:
                ended.append(key)
        found: list[Write] = []
        for key in ended:
            one = self._pending.pop(key)
            self.bytes -= one.size
            if one.mutates:
                found += self._without_outcome(key, one)
        return found

    def _without_outcome(self, key: JoinKey, one: _Pending) -> Iterator[Write]:
        """The write whose last mutate call is all that was seen of it, if it can be judged."""
        last, begun = one.mutates[-1], (one.intent or one.mutates[0]).time
        if not self._waits(key):
            # Where no outcome is registered the last mutate call is all there will be.
            if last.states is not None:
                yield assemble(*one.told(), last, begun)
            return
        self.incomplete[Phase.OUTCOME] += 1
        intent, mutates = one.told()
        # Of a write that nobody changed, and that may have been refused, there is nothing to tell.
        if intent is not None and not intent.compared.same_as(last.compared):
            yield assemble(intent, mutates, last, begun, (Phase.OUTCOME,))

    def _missing(self, key: JoinKey, pending: _Pending | None) -> tuple[Phase, ...]:
        """The phases before its outcome that were not seen of a write, and are of others."""
        resource, seen = _registered(key), () if pending is None else pending.seen
        missing = tuple(
            phase
            for phase in (Phase.INTENT, Phase.MUTATE)
            if phase not in seen and resource in self._called_for[phase]
        )
        self.joined += 1
        self.incomplete.update(missing)
        self.incomplete_joined += bool(missing)
        return missing

    def _waits(self, key: JoinKey) -> bool:
        """For an outcome: those of its resource are seen."""
        return _registered(key) in self._called_for[Phase.OUTCOME]


def _registered(key: JoinKey) -> tuple[str, str]:
    return key.group, key.resource


def _stored_fields_differ(one: Fact, other: Fact) -> bool:
    """Whether two requests would store something else."""
    return (one.compared, one.compared_status) != (other.compared, other.compared_status)
