"""Join the facts of one write: intent, mutate, reinvocation, outcome. Order facts of replicas.

What is known of a live API server decides the cases:

- a mutate call is not a write: a stale PUT passes mutating admission and has no outcome. Where
  outcomes are seen at all, a write without one may have been refused, or its outcome went to
  another replica. It is given as incomplete if other webhooks changed it, and else forgotten;
- a storage conflict runs admission again with a newer oldObject: that is another key. The first
  pass has had its outcome, though nothing of it was stored (apiserver pkg/registry/generic/
  registry/store.go:Update validates in each try);
- reinvocation keeps the key: a second mutate without a new intent is round 1;
- a busy client patches one Pod from several threads: several of its writes have one key at once.
  If they request different content, no call can be told to be part of one of them: none is joined.
  If they request the same, any call will do, but two mutate calls need not be two rounds;
- a dry run is no write.

A phase is missing where this replica sees that phase of other writes of the same resource: during
a rolling update the API server calls two replicas, and each sees a part.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from typing import Final, NamedTuple

import msgspec

from webhook.admission.join import JoinKey
from webhook.admission.review import Phase
from webhook.detection.changes import Change
from webhook.detection.diff import NO_DIFF, NOT_COMPARED, Diff, between, diff_of, together
from webhook.detection.fact import BYTES_OF_FACT, SECONDS_APART, Fact
from webhook.detection.life_fact import AnyFact
from webhook.detection.metadata import SAME_METADATA, MetadataDiffs, join_metadata, unchanged
from webhook.detection.reduce import EarlierFacts
from webhook.detection.write import NOBODY, Acted, Called, Write
from webhook.generation.custom import StatusSubresource
from webhook.objects.observed import Observed

SECONDS_WAITED: Final = 10.0
"""For the next phase of a write; genguard's registrations time out after 2 s each."""
SECONDS_WITHOUT_OUTCOMES: Final = 2.0
"""For a reinvocation, where no outcome of the resource was ever seen."""
_SECONDS_BETWEEN_LOOKS: Final = 0.25
"""Between two looks for writes whose wait is over: hundreds wait, and each fact would look at all.
Counted from the epoch, so that every replica looks at the same facts."""
_ROUNDS: Final = 2
MOST_PENDING: Final = 2_000
MOST_BYTES_PENDING: Final = 16 * 1024 * 1024
MOST_AT_ONCE: Final = 20
"""One fact ends the wait of at most so many writes. After a burst thousands are due, and answers
wait for the event loop meanwhile: each takes some 0.05 ms. Writes over the bound in bytes end at
once."""


_WHOLE: Final = 10
"""One write in so many may lack a phase. With more of them another replica sees a part."""
_MOST_POINTERS: Final = 1_000
_BEFORE_OUTCOME: Final = (Phase.INTENT, Phase.MUTATE)


class Unanswered(NamedTuple):
    """A write without an outcome; `asked` are digests of what was stored and of the request."""

    write: Write
    asked: tuple[int, int]


class _Pending(msgspec.Struct, gc=False):
    """The calls that were seen with one key, and have no outcome yet.

    open       how many writes have begun and have had no outcome
    several    whether more than one was open at once
    ambiguous  whether those requested different content
    ambiguous_metadata  whether they requested different metadata
    given_up   whether the last one was noted as not answered
    size       bytes of the facts, as counted
    """

    since: float
    intent: Fact | None = None
    mutates: list[Fact] = []
    open: int = 1
    several: bool = False
    ambiguous: bool = False
    ambiguous_metadata: bool = False
    given_up: bool = False
    size: int = 0

    @property
    def seen(self) -> tuple[Phase, ...]:
        """Return the phases that were seen before the outcome."""
        intent = () if self.intent is None else (Phase.INTENT,)
        return (*intent, Phase.MUTATE) if self.mutates else intent

    def size_of(self, mutate: Fact) -> int:
        """Return the bytes of a mutate call; it shares with the intent what shows the same."""
        intent = self.intent
        is_shared = (
            intent is not None
            and intent.compared is mutate.compared
            and intent.compared_metadata is mutate.compared_metadata
        )
        return BYTES_OF_FACT if is_shared else mutate.size

    def told(self) -> tuple[Fact | None, list[Fact]]:
        """Return intent and mutate calls; neither for writes that cannot be told apart."""
        if self.ambiguous:
            return None, []
        return self.intent, self.mutates[-1:] if self.several else self.mutates


class Correlator:
    """Joins facts, in order, to writes. Bounded in entries, bytes and time."""

    def __init__(self) -> None:
        self._pending: OrderedDict[JoinKey, _Pending] = OrderedDict()
        self._called_for: dict[Phase, set[tuple[str, str]]] = {phase: set() for phase in Phase}
        self._with_outcomes: Final = self._called_for[Phase.OUTCOME]
        self._now = 0.0
        self._looked = -1.0
        """The part of a second in which all writes that are overdue have been ended."""
        self.bytes = 0
        self.dropped = 0
        """How many writes were dropped to stay within the bound in bytes."""
        self.incomplete: Final[Counter[Phase]] = Counter()
        """How many writes lacked each phase; without an outcome some of them were refused."""
        self.joined = 0
        """Writes with an outcome."""
        self.incomplete_joined = 0
        """Those of them that lacked another phase."""
        self.unanswered: list[Unanswered] = []
        """Writes that ended without an outcome, though outcomes of their resource are seen."""

    def known(self, key: JoinKey) -> EarlierFacts:
        """Return the facts of the earlier phases of a write."""
        pending = self._pending.get(key)
        intent, mutates = (None, []) if pending is None else pending.told()
        facts = (*mutates,) if intent is None else (intent, *mutates)
        return EarlierFacts(facts, self._waits(key))

    def see(self, fact: Fact) -> list[Write]:
        """Take in a fact, and return the writes that it completes, oldest first."""
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
            for former in pending.mutates[_ROUNDS:]:
                self._count(pending, -pending.size_of(former))
            pending.mutates[_ROUNDS:] = [fact]
            self._count(pending, pending.size_of(fact))
        else:
            pending = self._pending.get(key)
            if pending is not None:
                self._end_one(key, pending)
            intent, mutates = (None, []) if pending is None else pending.told()
            missing = self._missing(key, pending)
            is_told = pending is None or not pending.ambiguous_metadata
            found.append(
                assemble(intent, mutates, fact, fact.time, missing, tells_metadata=is_told)
            )
        return found

    def expect_outcomes(self, key: JoinKey) -> None:
        """Note that outcomes of a resource are seen: here that of a creation or deletion."""
        if len(self._with_outcomes) < MOST_PENDING:
            self._with_outcomes.add(_registered(key))

    def lacks_outcomes(self, key: JoinKey) -> bool:
        """Return whether updates of a resource are seen, and never one of their outcomes."""
        resource = _registered(key)
        return resource in self._called_for[Phase.MUTATE] and resource not in self._with_outcomes

    @property
    def is_whole(self) -> bool:
        """Return whether nearly all writes are seen in all phases here, not by other replicas."""
        return self.incomplete_joined * _WHOLE <= self.joined

    def finish(self) -> list[Write]:
        """Return the writes that still wait, at the end of a recording."""
        return self._overdue(float("inf"), len(self._pending))

    def _put_back(self, now: float) -> None:
        """Set an earlier time: otherwise writes would wait until the later time has come."""
        self._now = now
        for one in self._pending.values():
            one.since = min(one.since, now)

    def _see_intent(self, key: JoinKey, fact: Fact) -> None:
        before, entry = self._pending.pop(key, None), _Pending(self._now, fact)
        self._pending[key] = entry
        self._count(entry, fact.size)
        if before is None:
            return
        self.bytes -= before.size
        # After its mutate call nobody knows whether its outcome is still to come or it was refused.
        if before.mutates and not self._waits(key):
            return
        if before.mutates and not before.given_up:
            self._give_up(before)
        entry.open += before.open
        entry.several = True
        earlier = before.intent or before.mutates[-1]
        entry.ambiguous = before.ambiguous or _stored_fields_differ(earlier, fact)
        entry.ambiguous_metadata = before.ambiguous_metadata or not earlier.has_metadata_of(fact)
        for mutate in before.mutates[-1:]:
            entry.mutates = [mutate]
            self._count(entry, entry.size_of(mutate))

    def _end_one(self, key: JoinKey, pending: _Pending) -> None:
        """Count the outcome of a write; the last one ends what is pending."""
        pending.open -= 1
        # An intent may have been lost: of writes that cannot be told apart others may still go on.
        if pending.open <= 0 and not pending.ambiguous:
            del self._pending[key]
            self.bytes -= pending.size

    def _count(self, pending: _Pending, size: int) -> None:
        pending.size += size
        self.bytes += size

    def _overdue(self, now: float, most: int) -> list[Write]:
        """End the oldest writes: those whose wait is over, and those over the bounds."""
        too_many = len(self._pending) - MOST_PENDING
        too_much = self.bytes - MOST_BYTES_PENDING
        part_of_second = now // _SECONDS_BETWEEN_LOOKS
        if part_of_second == self._looked and too_many <= 0 and too_much <= 0:
            return []
        early = now - SECONDS_WITHOUT_OUTCOMES
        ended: list[JoinKey] = []
        for position, (key, one) in enumerate(self._pending.items()):
            is_over = position < too_many or too_much > 0
            if one.since > early and not is_over:
                break
            if one.mutates and not one.given_up and self._waits(key):
                self._give_up(one)
            if len(ended) >= most and too_much <= 0:
                return self._end(ended)  # the next fact ends more
            self.dropped += too_much > 0
            too_much -= one.size
            if is_over or not self._waits(key) or one.since <= now - SECONDS_WAITED:
                ended.append(key)
        self._looked = part_of_second
        return self._end(ended)

    def _end(self, keys: Iterable[JoinKey]) -> list[Write]:
        """End the wait of these writes, and return those that can be judged."""
        found: list[Write] = []
        for key in keys:
            one = self._pending.pop(key)
            self.bytes -= one.size
            if one.mutates:
                found += self._without_outcome(key, one)
        return found

    def _without_outcome(self, key: JoinKey, one: _Pending) -> Iterator[Write]:
        """Yield a write without an outcome, if it can be judged."""
        last, begun = one.mutates[-1], (one.intent or one.mutates[0]).time
        if not self._waits(key):
            # Where no outcome is registered the last mutate call is all there will be.
            if last.states is not None:
                is_told = not one.ambiguous_metadata
                yield assemble(*one.told(), last, begun, tells_metadata=is_told)
            return
        if one.open <= 0:
            return  # every write that began has had its outcome
        self.incomplete[Phase.OUTCOME] += 1
        if not one.given_up:
            self._give_up(one)
        intent, mutates = one.told()
        # Of a write that nobody changed, and that may have been refused, there is nothing to tell.
        if intent is not None and not intent.shows_same_as(last):
            is_told = not one.ambiguous_metadata
            missing = (Phase.OUTCOME,)
            yield assemble(intent, mutates, last, begun, missing, tells_metadata=is_told)

    def _give_up(self, one: _Pending) -> None:
        """Note the last write of these as one that was not answered.

        Its outcome is awaited for longer: webhooks that are called at once with genguard's do not
        delay that one, but a loaded machine does.
        """
        one.given_up = True
        intent, last = one.intent, one.mutates[-1]
        write = assemble(intent, (last,), last, (intent or last).time, (Phase.OUTCOME,))
        asked = (intent or last).compared
        self.unanswered.append(Unanswered(write, (asked.before, asked.after)))

    def _missing(self, key: JoinKey, pending: _Pending | None) -> tuple[Phase, ...]:
        """Return the phases of a write that were not seen, though they are seen of other writes."""
        resource, seen = _registered(key), () if pending is None else pending.seen
        self.joined += 1
        if len(seen) == len(_BEFORE_OUTCOME):
            return ()
        missing = tuple(
            phase
            for phase in _BEFORE_OUTCOME
            if phase not in seen and resource in self._called_for[phase]
        )
        if missing:
            self.incomplete.update(missing)
            self.incomplete_joined += 1
        return missing

    def _waits(self, key: JoinKey) -> bool:
        """Return whether a write waits for its outcome: outcomes of its resource are seen."""
        return _registered(key) in self._with_outcomes


def _registered(key: JoinKey) -> tuple[str, str]:
    return key.group, key.resource


def _stored_fields_differ(one: Fact, other: Fact) -> bool:
    """Return whether two requests would store different content."""
    if not one.compared.same_as(other.compared):
        return True
    left, right = one.compared_status, other.compared_status
    if left is None or right is None:
        return left is not right
    return not left.same_as(right)


def assemble(
    intent: Fact | None,
    mutates: Sequence[Fact],
    last: Fact,
    now: float,
    missing: tuple[str, ...] = (),
    *,
    tells_metadata: bool = True,
) -> Write:
    """Make a Write of its phases; `last` is the outcome, or the last mutate call without one.

    `missing` names the phases of it that were not seen. `tells_metadata`: the phases before the
    last are known to be about the same metadata.
    """
    has_outcome = last.phase is Phase.OUTCOME
    takes_status = has_outcome and _is_status_taken(last)
    phases = [one for one in (intent, *mutates, last) if one is not None]
    if takes_status:
        phases = [_with_status(one) for one in phases]
    last = phases[-1]
    mutates = phases[intent is not None : -1]
    intent = phases[0] if intent is not None else None
    if intent is not None and not _is_comparable(intent, last):
        intent = None  # as if it had not been seen
    first = mutates[0] if mutates else None
    sent, admitted = first or last, _constant(last.compared.diff)
    requested_diff = webhook_diff = None
    if intent is not None:
        requested_diff = _constant(intent.compared.diff)
        if first is not None and first.status is last.status:
            webhook_diff = between(intent.compared, first.compared)
        elif Phase.MUTATE in missing and last.writes_status and last.key.subresource:
            # The mutate call went elsewhere. On a status subresource the server itself changes
            # next to nothing, so what differs at the end was done by other webhooks.
            webhook_diff = between(intent.compared, last.compared)
        if intent.compared.same_as(last.compared):
            requested_diff = admitted  # one value in memory too
    # Where an intent is missing, so may be the one that told two writes of one user apart.
    are_rounds = has_outcome and Phase.INTENT not in missing
    asking, states = intent or sent, last.states
    return Write(
        time=now,
        object=last.object,
        subresource=last.key.subresource,
        requester=last.requester,
        base=last.key.resource_version,
        writes_status=last.writes_status or takes_status,
        status_counts=not last.key.subresource
        and (takes_status or last.status is StatusSubresource.ABSENT),
        requested_diff=requested_diff,
        webhook_diff=webhook_diff,
        reinvocation_diff=_reinvocation(mutates) if intent is not None or are_rounds else NO_DIFF,
        admitted_diff=admitted,
        content_hash=(admitted if requested_diff is None else requested_diff).content_hash,
        state_before=states.before if states else 0,
        state_after=states.after if states else 0,
        has_outcome=has_outcome,
        generation_before=last.generation_before,
        # Before the strategy has run an object still shows the generation that it comes from.
        generation_after=last.generation
        if has_outcome or last.predicted is None
        else last.predicted,
        generation_predicted=last.predicted if has_outcome else None,
        observed_before=last.observed_before,
        observed_asked=_shared(asking.observed, sent.observed),
        observed_sent=sent.observed,
        observed_after=_shared(last.observed, sent.observed),
        touches_status=(last.writes_status or takes_status)
        and any(one.touches_status for one in phases),
        touches_more=last.touches_more,
        observes=asking.observes or sent.observes or last.observes,
        policies=_policies(asking, mutates, last),
        called=_called(intent, mutates, last),
        missing=missing,
        metadata=_metadata(intent, mutates, last) if tells_metadata else _metadata(None, (), last),
        owner=last.owner,
        foreign=_pointers(asking.foreign),
        unobserved=_pointers(asking.unobserved),
    )


def _metadata(intent: Fact | None, mutates: Sequence[Fact], last: Fact) -> MetadataDiffs:
    """Return what differs in metadata."""
    phases = [one for one in (intent, *mutates, last) if one is not None]
    shown = [one.compared_metadata for one in phases]
    if not any(shown):
        return SAME_METADATA
    before, *others = {one.before for one in shown if one is not None}
    if others:
        return SAME_METADATA  # nobody knows from what they differ
    told = [unchanged(before) if one is None else one for one in shown]
    asked = told[0] if intent is not None else None
    return join_metadata(asked, told[intent is not None : -1], told[-1])


def _constant(diff: Diff) -> Diff:
    """Return an equal difference; without leaves it is one constant for all writes."""
    if diff.changes:
        return diff
    if not diff.differs:
        return NO_DIFF
    return diff if diff.is_compared else NOT_COMPARED


def _is_status_taken(outcome: Fact) -> bool:
    """Return whether the server takes status from this write of an unknown custom resource."""
    found = outcome.compared_status
    # With a subresource the strategy would have put the stored status back by now.
    return found is not None and found.before != found.after


def _with_status(fact: Fact) -> Fact:
    if fact.compared_status is None:
        return fact
    return msgspec.structs.replace(fact, compared=together(fact.compared, fact.compared_status))


def _is_comparable(one: Fact, last: Fact) -> bool:
    """Return whether both compare the same fields with the same stored object."""
    # Another status: a definition was learnt in between.
    return one.status is last.status and one.compared.before == last.compared.before


def _reinvocation(mutates: Sequence[Fact]) -> Diff:
    """Return what round 1 changed on top of round 0, genguard's own repairs left out.

    More than two calls are several writes of one user, for there is no round 2. Nor can writes
    of one user be told from rounds where mutate calls are all that is seen: a PATCH that begins
    with a stale copy of the object is run again.
    """
    if len(mutates) != 2 or mutates[0].status is not mutates[1].status:  # noqa: PLR2004 - rounds
        return NO_DIFF
    found = between(mutates[0].compared, mutates[1].compared)
    if not found:
        return NO_DIFF
    if not found.is_compared:
        return NOT_COMPARED
    return diff_of(tuple(change for change in found if not _is_repair(change)))


def _is_repair(change: Change) -> bool:
    return change.key[-1] == "observedGeneration" and change.before is None


def _shared(one: Observed, other: Observed) -> Observed:
    """Return `other` for an equal value, so that one of them is kept in memory."""
    return other if one == other else one


@lru_cache(_MOST_POINTERS)
def _pointers(pointers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same tuple for equal pointers: writes of a kind of object repeat them."""
    return pointers


def _policies(asking: Fact, mutates: Sequence[Fact], last: Fact) -> tuple[Acted, ...]:
    """Return the policies of the earliest phase that knows them."""
    for one in (asking, *mutates, last):
        if one.policies is not None:
            return one.policies
    return ()


def _called(intent: Fact | None, mutates: Sequence[Fact], last: Fact) -> Called:
    """Return the called webhooks; without those whose conditions no phase of the write meets."""
    if not last.called or not last.called.first:
        return NOBODY
    shown = [one.unmet for one in (intent, *mutates) if one is not None and one.unmet is not None]
    unmet = set(shown[0]).intersection(*shown) if shown else ()
    if not unmet:
        return last.called
    return Called(*(tuple(name for name in names if name not in unmet) for names in last.called))


SECONDS_ON_THE_WAY: Final = 0.3
"""What a fact takes from one replica to another, and the difference between their clocks."""
MOST_WAITING: Final = 10_000
MOST_BYTES_WAITING: Final = 8 * 1024 * 1024
"""With more the earliest do not wait longer."""
_ORDER: Final = {phase: place for place, phase in enumerate(Phase)}


class FactQueue:
    """Holds facts of replicas for a moment, and gives them in the order of their times.

    Each waits until the latest fact is SECONDS_ON_THE_WAY later: then none before it is still on
    its way. What is found depends on the times of facts alone, and is equal in all replicas.
    """

    def __init__(self) -> None:
        self._facts: Final[list[tuple[float, int, int, int, AnyFact]]] = []
        self._by_key: Final[dict[JoinKey, list[AnyFact]]] = {}
        self._latest = 0.0
        self._count = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._facts)

    def __iter__(self) -> Iterator[AnyFact]:
        """The earliest first."""
        return (one[-1] for one in sorted(self._facts))

    def put(self, fact: AnyFact) -> None:
        """Add a fact; afterwards `due` gives the facts that are due."""
        self._count += 1
        self._latest = max(self._latest, fact.time)
        size = fact.size
        self.bytes += size
        heappush(self._facts, (fact.time, _ORDER[fact.phase], self._count, size, fact))
        self._by_key.setdefault(fact.key, []).append(fact)

    def due(self) -> Iterator[AnyFact]:
        """Remove and yield the facts that have waited for long enough, the earliest first."""
        yield from self.until(self._latest - SECONDS_ON_THE_WAY)

    def until(self, time: float) -> Iterator[AnyFact]:
        """Remove and yield the facts of this time and before, the earliest first."""
        while self._facts and (self._facts[0][0] <= time or self._is_full):
            *_, size, fact = heappop(self._facts)
            self.bytes -= size
            key = fact.key
            waiting = self._by_key[key]
            waiting.remove(fact)
            if not waiting:
                del self._by_key[key]
            yield fact

    @property
    def _is_full(self) -> bool:
        return len(self._facts) > MOST_WAITING or self.bytes > MOST_BYTES_WAITING

    def of(self, key: JoinKey) -> list[Fact]:
        """Return the facts of one update, the earliest first."""
        found = [one for one in self._by_key.get(key, ()) if isinstance(one, Fact)]
        return sorted(found, key=lambda fact: (fact.time, _ORDER[fact.phase]))
