"""Join the facts of one write: intent, mutate, reinvocation, outcome.

Several writes may have one key: a key changes only when something is stored, and a busy client
patches one Pod from several threads. So each write is joined by itself. A fact belongs to

- the open write of its key that shows the same; else
- the one that goes on (a call of it came within SECONDS_AT_ONCE) and of which it may have come: it
  has the same requester, and changes a field of those that were asked for. That write is in doubt,
  and nobody is blamed for what differs in it, where there are several such that ask for different
  things, and where the writer is busy: calls of several writes came between each other within
  SECONDS_BUSY, or a bound dropped a write within SECONDS_WAITED.

What is known of a live API server decides the rest:

- a mutate call is not a write: a stale PUT passes mutating admission and has no outcome. Where
  outcomes are seen at all, a write without one may have been refused, or its outcome went to
  another replica. It is given as incomplete if other webhooks changed it, and else forgotten;
- a storage conflict runs admission again with a newer oldObject: that is another key. The first
  pass has had its outcome, though nothing of it was stored (apiserver pkg/registry/generic/
  registry/store.go:Update validates in each try);
- reinvocation keeps the key: a second mutate without a new intent is round 1. Without any intent
  it may be another write;
- a dry run is no write;
- a creation has no stored object, and often no name: its key is its place, which later creations
  have as well. So the intent of the next one says that the one before it was refused.

A write waits for its next phase for SECONDS_WAITED after it began, whatever arrives meanwhile. A
phase is missing where this replica sees that phase of other writes of the same resource: it was
lost, or another replica was called. That lowers what is known of this write, and of no other.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from operator import eq
from typing import Final, NamedTuple

import msgspec

from genguard.admission.review import JoinKey, Operation, Phase
from genguard.detection.assemble import ROUNDS, assemble
from genguard.detection.fact import Fact
from genguard.detection.reduce import EarlierFacts
from genguard.detection.values import NO_DIGEST, Digest
from genguard.detection.write import Write, is_manager
from genguard.objects.fields import Path

SECONDS_WAITED: Final = 10.0
"""For the next phase of a write; genguard's registrations time out after 2 s each."""
SECONDS_WITHOUT_OUTCOMES: Final = 2.0
"""For a reinvocation, where no outcome of the resource was ever seen."""
SECONDS_AT_ONCE: Final = 2.0
"""Without a call for so long, a write is not taken to be going on beside a newer one of its key."""
SECONDS_BUSY: Final = 0.5
"""A writer counts as busy so long after calls of its writes came between each other."""
_SECONDS_BETWEEN_LOOKS: Final = 0.25
"""Between two looks for writes whose wait is over: hundreds wait, and each fact would look at all.
Counted from the epoch, so that every replica looks at the same facts."""
MOST_PENDING: Final = 2_000
MOST_RESOURCES: Final = 500
MOST_LEAVES_PENDING: Final = 12_500
MOST_OF_KEY: Final = 16
"""Open writes with one key: each fact is compared with all of them. Of more the oldest ends."""
MOST_BUSY: Final = 1_000
"""Busy writers. Of more everybody counts as one, as long as those would that are forgotten."""
MOST_AT_ONCE: Final = 20
"""One fact ends the wait of at most so many writes. After a burst thousands are due, and answers
wait for the event loop meanwhile: each takes some 0.05 ms. Writes over the bound in leaves end at
once."""


_FEW: Final = 4
"""So many writes that lack a phase say nothing."""
_MOST_OUTCOMES: Final = 1_000
_BEFORE_OUTCOME: Final = (Phase.INTENT, Phase.MUTATE)


class Unanswered(NamedTuple):
    """A write without an outcome; `asked` are digests of what was stored and of the request.

    Of a creation see Fact.attempt for the first of them; the other one says nothing.
    """

    write: Write
    asked: tuple[Digest, Digest]


_Registered = tuple[str, str, bool]
"""Group, resource, and whether it is created: registrations are for operations as well."""


class _OpenWrite(msgspec.Struct, gc=False, eq=False):
    """The calls of one write that has no outcome yet.

    since        when it began
    is_in_doubt  nobody knows whose calls these are
    is_given_up  it was noted as not answered
    leaves       those of its facts
    """

    key: JoinKey
    kind: _Registered
    since: float
    intent: Fact | None = None
    mutates: list[Fact] = []
    is_in_doubt: bool = False
    is_given_up: bool = False
    leaves: int = 0

    @property
    def last(self) -> Fact:
        """Return the fact of its last call."""
        found = self.mutates[-1] if self.mutates else self.intent
        assert found is not None  # noqa: S101 - a call has opened it
        return found

    @property
    def first(self) -> Fact:
        """Return the fact of its first call that was seen."""
        return self.intent or self.mutates[0]

    def shows(self, fact: Fact) -> bool:
        """Whether a call of it shows the same: one of its mutate calls, or its intent alone."""
        return any(_same(one, fact) for one in self.mutates or [self.last])

    def may_show(self, fact: Fact) -> bool:
        """Whether webhooks may have made this of it; who takes back all adds nothing else."""
        if self.last.requester != fact.requester:
            return False
        shown, asked = _leaves_of(fact), _leaves_of(self.first)
        # It may have replaced what a leaf is in.
        met = (all(map(eq, one, other)) for one in shown for other in asked)
        return not shown or not asked or any(met)

    def keeps(self, fact: Fact) -> bool:
        """Whether a call shows nothing but what was asked for, be it in part or not at all."""
        return _leaves_of(fact).items() <= _leaves_of(self.first).items()

    @property
    def seen(self) -> tuple[Phase, ...]:
        """Return the phases that were seen before the outcome."""
        intent = () if self.intent is None else (Phase.INTENT,)
        return (*intent, Phase.MUTATE) if self.mutates else intent

    def known(self) -> tuple[Fact | None, list[Fact]]:
        """Return intent and mutate calls; neither of a write in doubt."""
        return (None, []) if self.is_in_doubt else (self.intent, self.mutates)


class Correlator:
    """Joins facts, in order, to writes. Bounded in entries, leaves and time."""

    def __init__(self) -> None:
        self._open: Final[OrderedDict[int, _OpenWrite]] = OrderedDict()
        """By the number of the write, the oldest first."""
        self._of_key: Final[dict[JoinKey, dict[int, _OpenWrite]]] = {}
        self._number = 0
        self._called_for: dict[Phase, set[_Registered]] = {phase: set() for phase in Phase}
        self._creates_built_in = False
        """Whether an outcome was shown of a creation of a kind of Kubernetes itself."""
        self._outcomes: Final[OrderedDict[int, float]] = OrderedDict()
        """The latest outcomes, as hashes of what they show, with their times."""
        self._busy: Final[OrderedDict[JoinKey, float]] = OrderedDict()
        """Until when writers count as busy, by a key without a version; the latest last."""
        self._all_busy = 0.0
        """The same of those that were forgotten."""
        self._has_lost = False
        """Whether a call was ever lost, or a write dropped."""
        self.now = 0.0
        """The time of the latest fact."""
        self._looked = -1.0
        """The part of a second in which all writes that are overdue have been ended."""
        self._leaves = 0
        self.dropped = 0
        """How many writes were dropped to stay within the bound in leaves."""
        self.incomplete: Final[Counter[Phase]] = Counter()
        """How many writes lacked each phase; without an outcome some of them were refused."""
        self.joined = 0
        """Writes with an outcome."""
        self.incomplete_joined = 0
        """Those of them that lacked another phase."""
        self.unanswered: list[Unanswered] = []
        """Writes that ended without an outcome, though outcomes of their resource are seen."""
        self.unseen: list[Fact] = []
        """The last fact of each write whose wait for an outcome is over."""

    def known(self, key: JoinKey) -> EarlierFacts:
        """Return the facts of the newest open write of a key."""
        several = self._of_key.get(key)
        facts: tuple[Fact, ...] = ()
        if several:
            intent, mutates = next(reversed(several.values())).known()
            facts = (*mutates,) if intent is None else (intent, *mutates)
        return EarlierFacts(facts, awaits_outcome=self._waits(_kind(key)))

    def see(self, fact: Fact) -> list[Write]:
        """Take in a fact, and return the writes that it completes, oldest first."""
        # A clock of another replica may be behind: no time is running out there.
        self.now = max(self.now, fact.time)
        key = join_key(fact)
        found = self._overdue(self.now, MOST_AT_ONCE)
        if not is_manager(key.user):
            self._note_call(fact.phase, _kind_of(fact))
        if fact.operation is Operation.DELETE:
            found.append(assemble(None, (), fact, fact.time))
        elif fact.phase is Phase.INTENT:
            self._see_intent(key, fact)
        elif fact.phase is Phase.MUTATE:
            self._see_mutate(key, fact)
        else:
            found += self._see_outcome(key, fact)
        return found

    def _note_call(self, phase: Phase, kind: _Registered) -> None:
        called_for = self._called_for[phase]
        if len(called_for) < MOST_RESOURCES:
            called_for.add(kind)

    def expect_outcomes(self, group: str, resource: str) -> None:
        """Note that outcomes of a resource are shown, of updates and of creations."""
        self._creates_built_in |= _is_built_in(group)
        for is_creation in (False, True):
            self._note_call(Phase.OUTCOME, (group, resource, is_creation))

    def is_called_for(self, key: JoinKey) -> bool:
        """Return whether reviews of updates of a resource are seen, of any phase."""
        return any(_kind(key) in some for some in self._called_for.values())

    @property
    def is_whole(self) -> bool:
        """Return whether most writes are seen in all phases here, not by other replicas."""
        return is_mostly_whole(self.incomplete_joined, max(self.joined, 2 * _FEW))

    def finish(self) -> list[Write]:
        """Return the writes that still wait, at the end of a recording."""
        return self._overdue(float("inf"), len(self._open))

    def _see_intent(self, key: JoinKey, fact: Fact) -> None:
        for number, one in list(self._of_key.get(key, {}).items()):
            if not one.mutates:
                continue
            if not self._waits(one.kind):
                # Nobody knows whether its outcome is still to come or it was refused.
                self._remove(number)
            elif not one.is_given_up:
                self._give_up(one)
        one = self._begin(key, fact)
        one.intent = fact
        self._count(one, fact)

    def _see_mutate(self, key: JoinKey, fact: Fact) -> None:
        open_writes = self._of_key.get(key, {}).values()
        # A mutate call belongs to a write that waits for its first one; else it is a reinvocation.
        waiting = [one for one in open_writes if not one.mutates]
        again = [
            one for one in open_writes if one.mutates and self._goes_on(one) and not one.is_given_up
        ]
        if waiting:  # a request that was sent again is no reinvocation
            again = [
                one for one in again if all(not _same(one.first, each.first) for each in waiting)
            ]
        one = self._showing(fact, waiting) or self._showing(fact, again)
        if one is None:
            one = self._of_other_content(fact, waiting or again)
            one = one or self._begin(key, fact)
        # More than two calls are several writes, of which the last one counts.
        one.mutates = [*one.mutates[:ROUNDS], fact]
        self._count(one, fact)

    def _see_outcome(self, key: JoinKey, fact: Fact) -> Iterator[Write]:
        several = self._of_key.get(key, {})
        some = [*several.values()]
        one = self._showing(fact, some)
        if one is None:
            # Of an older one that has not come to /mutate the call and the outcome were lost.
            later = [each for each in some if each.mutates] if some and some[-1].mutates else some
            one = self._of_other_content(fact, later)
        elif one.mutates and _same(one.mutates[0], fact):
            one.mutates = one.mutates[:1]  # a call that changed nothing for good was of another
        if self._is_repeated(fact) and one is None:
            return
        missing = self._missing(_kind_of(fact), one)
        if one is None:
            yield assemble(None, (), fact, fact.time, missing)
            return
        self._remove(next(number for number, other in several.items() if other is one))
        yield assemble(*one.known(), fact, fact.time, missing)

    def _is_repeated(self, fact: Fact) -> bool:
        """Return whether the same outcome came a moment ago.

        An API server calls again after a broken connection. Where outcomes are all that is
        registered, it may be another write.
        """
        if not any(_kind_of(fact) in self._called_for[phase] for phase in _BEFORE_OUTCOME):
            return False
        what = hash((fact.key, *_shown(fact)))
        before = self._outcomes.pop(what, -SECONDS_AT_ONCE)
        self._outcomes[what] = fact.time
        if len(self._outcomes) > _MOST_OUTCOMES:
            self._outcomes.popitem(last=False)
        return fact.time - before < SECONDS_AT_ONCE

    def _showing(self, fact: Fact, some: Sequence[_OpenWrite]) -> _OpenWrite | None:
        """Return the open write that shows the same as a call, if there is one."""
        same = [one for one in some if one.shows(fact)]
        if not same:
            return None
        # One that has come to /mutate is nearer to its outcome.
        one = ([one for one in same if one.mutates] or same)[-1]
        newest = next(reversed(self._of_key[one.key].values()))
        if newest is not one and not newest.shows(fact):
            self._doubt(one.key, SECONDS_BUSY)
        return one

    def _of_other_content(self, fact: Fact, some: Sequence[_OpenWrite]) -> _OpenWrite | None:
        """Return the open write to which a call that shows something else belongs.

        It is in doubt where another may be it, too; None where none can be it.
        """
        going = [one for one in some if self._goes_on(one)] or some[-1:]
        found = [one for one in going if one.may_show(fact)]
        if not found:
            return None
        is_alone = all(_same(one.first, found[0].first) for one in found)
        key = found[0].key
        if self._busy.get(_writer(key), self._all_busy) > self.now:
            # Where nothing was ever lost, each call has its intent.
            is_alone = is_alone and not self._has_lost and found[-1].keeps(fact)
        elif not is_alone:
            self._doubt(key, SECONDS_BUSY)
        if is_alone:
            return found[-1]  # they ask for the same: any will do
        one = next((one for one in found if one.is_in_doubt), found[0])
        one.is_in_doubt = True
        return one

    def _doubt(self, key: JoinKey, seconds: float) -> None:
        """Note that for so long nobody knows to which write of a user a call belongs."""
        writer = _writer(key)
        self._busy[writer] = max(self._busy.pop(writer, 0.0), self.now + seconds)
        if len(self._busy) > MOST_BUSY:
            self._all_busy = max(self._all_busy, self._busy.popitem(last=False)[1])

    def _goes_on(self, one: _OpenWrite) -> bool:
        """Return whether a call of this write came a moment ago."""
        return one.last.time > self.now - SECONDS_AT_ONCE

    def _begin(self, key: JoinKey, fact: Fact) -> _OpenWrite:
        several = self._of_key.setdefault(key, {})
        if len(several) >= MOST_OF_KEY:
            self._has_lost = True
            self._doubt(key, SECONDS_WAITED)
            self._remove(next(iter(several)))
            several = self._of_key.setdefault(key, {})
        self._number += 1
        one = _OpenWrite(key, _kind_of(fact), self.now)
        self._open[self._number] = several[self._number] = one
        return one

    def _remove(self, number: int) -> None:
        one = self._open.pop(number)
        self._leaves -= one.leaves
        several = self._of_key[one.key]
        del several[number]
        if not several:
            del self._of_key[one.key]

    def _count(self, one: _OpenWrite, fact: Fact) -> None:
        one.leaves += fact.leaves
        self._leaves += fact.leaves

    def _overdue(self, now: float, most: int) -> list[Write]:
        """End the oldest writes: those whose wait is over, and those over the bounds."""
        too_many = len(self._open) - MOST_PENDING
        too_much = self._leaves - MOST_LEAVES_PENDING
        part_of_second = now // _SECONDS_BETWEEN_LOOKS
        if part_of_second == self._looked and too_many <= 0 and too_much <= 0:
            return []
        early = now - SECONDS_WITHOUT_OUTCOMES
        ended: list[int] = []
        for position, (number, one) in enumerate(self._open.items()):
            is_over = position < too_many or too_much > 0
            if one.since > early and not is_over:
                break
            waits = self._waits(one.kind)
            if one.mutates and waits and not one.is_given_up:
                self._give_up(one)
            if len(ended) >= most and too_much <= 0:
                return self._end(ended)  # the next fact ends more
            self.dropped += too_much > 0
            if is_over:
                self._has_lost = True
                self._doubt(one.key, SECONDS_WAITED)
            too_much -= one.leaves
            if is_over or not waits or one.since <= now - SECONDS_WAITED:
                ended.append(number)
        self._looked = part_of_second
        return self._end(ended)

    def _end(self, numbers: Iterable[int]) -> list[Write]:
        """End the wait of these writes, and return those that can be judged."""
        found: list[Write] = []
        for number in numbers:
            one = self._open[number]
            self._remove(number)
            found += self._without_outcome(one)
        return found

    def _without_outcome(self, one: _OpenWrite) -> Iterator[Write]:
        """Yield a write without an outcome, if it can be judged."""
        last, begun = one.last, (one.intent or one.last).time
        if not self._waits(one.kind):
            # Where no outcome is registered the last mutate call is all there will be.
            is_update = last.operation is Operation.UPDATE
            if one.mutates and last.states is not None and is_update:
                yield assemble(*one.known(), last, begun)
            return
        if last.operation is Operation.UPDATE:
            self.unseen.append(last)
        if not one.mutates:
            return
        self.incomplete[Phase.OUTCOME] += 1
        if not one.is_given_up:
            self._give_up(one)
        intent, mutates = one.known()
        # Of a write that nobody changed, and that may have been refused, there is nothing to tell.
        if intent is not None and not intent.shows_same_as(last):
            missing = (Phase.OUTCOME,)
            yield assemble(intent, mutates, last, begun, missing)

    def _give_up(self, one: _OpenWrite) -> None:
        """Note a write as one that was not answered.

        Its outcome is awaited for longer: webhooks that are called at once with genguard's do not
        delay that one, but a loaded machine does.
        """
        one.is_given_up = True
        is_intent_lost = one.intent is None and one.kind in self._called_for[Phase.INTENT]
        if one.is_in_doubt or is_intent_lost:
            return  # nobody knows what was asked for
        intent, last = one.intent, one.last
        write = assemble(intent, (last,), last, (intent or last).time, (Phase.OUTCOME,))
        asking = intent or last
        asked = (asking.compared.before, asking.compared.after)
        if asking.operation is Operation.CREATE:
            asked = (asking.attempt, NO_DIGEST)
        self.unanswered.append(Unanswered(write, asked))

    def _missing(self, kind: _Registered, one: _OpenWrite | None) -> tuple[Phase, ...]:
        """Return the phases of a write that were not seen, though they are seen of other writes."""
        seen = () if one is None else one.seen
        self.joined += 1
        if len(seen) == len(_BEFORE_OUTCOME) or (one is not None and one.is_in_doubt):
            return ()
        missing = tuple(
            phase
            for phase in _BEFORE_OUTCOME
            if phase not in seen and kind in self._called_for[phase]
        )
        if missing:
            self._has_lost = True
            self.incomplete.update(missing)
            self.incomplete_joined += 1
        return missing

    def _waits(self, kind: _Registered) -> bool:
        """Return whether a write waits for its outcome: outcomes of its resource are seen."""
        if kind in self._called_for[Phase.OUTCOME]:
            return True
        group, resource, is_creation = kind
        update = group, resource, False
        seen = self._called_for
        if not is_creation or (update in seen[Phase.MUTATE] and update not in seen[Phase.OUTCOME]):
            return False
        # One registration is for all kinds of Kubernetes itself; custom ones are added one by one.
        return self._creates_built_in and _is_built_in(group)


def is_mostly_whole(incomplete: int, seen: int) -> bool:
    """Return whether at most half of the writes that were seen lacked a phase.

    So few outcomes are lost then that four writes in a row without one were refused. With more of
    them another replica sees a part.
    """
    return 2 * incomplete <= seen


def join_key(fact: Fact) -> JoinKey:
    """Return what all phases of a write have in common: a creation has a uid at its end."""
    return without_uid(fact.key) if fact.operation is Operation.CREATE else fact.key


def without_uid(key: JoinKey) -> JoinKey:
    """Return the key of a place: of whatever object is created there."""
    return msgspec.structs.replace(key, uid="") if key.uid else key


def _kind(key: JoinKey) -> _Registered:
    return key.group, key.resource, False


def _kind_of(fact: Fact) -> _Registered:
    return fact.key.group, fact.key.resource, fact.operation is Operation.CREATE


def _is_built_in(group: str) -> bool:
    return "." not in group or group.endswith(".k8s.io")


def _writer(key: JoinKey) -> JoinKey:
    return msgspec.structs.replace(key, resource_version="")


def _shown(fact: Fact) -> tuple[Digest | None, ...]:
    """Return digests of what a call shows."""
    return tuple(None if one is None else one.after for one in fact.parts)


def _same(one: Fact, other: Fact) -> bool:
    """Whether two calls show the same."""
    return _shown(one) == _shown(other)


def _leaves_of(fact: Fact) -> dict[Path, Digest | None]:
    """Return what a call would make of the leaves that it changes."""
    return {one.key: one.after for part in fact.parts if part is not None for one in part}
