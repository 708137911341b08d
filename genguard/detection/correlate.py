"""Join the observations of one write: intent, mutate, reinvocation, outcome.

Several writes may have one key: a key changes only when something is stored, and a busy client
patches one Pod from several threads. So each write is joined by itself. An observation belongs to

- the open write of its key that shows the same; else
- the open write that goes on (a call of it came within SECONDS_AT_ONCE) and may have made it: the
  requester is the same, and it changes a field that was asked for. That write is ambiguous where
  several such writes ask for different things, and where the writer is busy: calls of several
  writes came between each other within SECONDS_BUSY, or a bound dropped a write within
  SECONDS_WAITED. Nobody is blamed for what differs in an ambiguous write.

Facts about a live API server decide the rest:

- a mutate call is not a write. Where outcomes are seen at all, a write without one may have been
  refused, or its outcome went to another replica. It is told as refused when the next write upon
  the same version begins, else when its wait is over;
- a storage conflict runs admission again with a newer oldObject: that is another key. The first
  pass has had its outcome, though nothing of it was stored (apiserver pkg/registry/generic/
  registry/store.go:Update validates in each try);
- reinvocation keeps the key: a second mutate without a new intent is round 1. Without any intent
  it may be another write;
- a dry run is no write;
- a creation has no stored object, and often no name: its key is its location, which later
  creations have as well. So the intent of the next one says that the one before it was refused.

A write waits for its next phase for SECONDS_WAITED after it began, whatever arrives meanwhile. A
phase is missing where this replica sees that phase of other writes of the same resource: it was
lost, or another replica was called. That lowers what is known of this write, and of no other.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from operator import eq
from typing import Final, NamedTuple

import msgspec

from genguard.admission.review import JoinKey, Operation, Phase
from genguard.detection.assemble import ROUNDS, assemble
from genguard.detection.observation import Observation
from genguard.detection.values import Digest
from genguard.detection.write import Outcome, Write, is_manager
from genguard.objects.fields import Path

SECONDS_WAITED: Final = 10.0
"""For the next phase of a write; genguard's registrations time out after 2 s each."""
SECONDS_WITHOUT_OUTCOMES: Final = 2.0
"""For a reinvocation, of a write that began before any outcome of its resource was seen."""
SECONDS_AT_ONCE: Final = 2.0
"""A write without a call for so long does not go on beside a newer write of its key."""
SECONDS_BUSY: Final = 0.5
"""A writer counts as busy so long after calls of its writes came between each other."""
MOST_PENDING: Final = 2_000
MOST_RESOURCES: Final = 500
MOST_LEAVES_PENDING: Final = 12_500
MOST_OF_KEY: Final = 16
"""Open writes with one key: a call is compared with all of them. One more ends the oldest."""
MOST_BUSY: Final = 1_000
"""Busy writers. With more, everybody counts as busy for as long as a forgotten writer would."""
MOST_AT_ONCE: Final = 20
"""One call ends the wait of at most so many writes. After a burst thousands are due, and answers
wait for the event loop meanwhile: each takes some 0.05 ms. Writes over a bound end at once."""


class Joined(NamedTuple):
    """A write, and the observation of its outcome; without an outcome that of its first call."""

    write: Write
    observation: Observation


_Registered = tuple[str, str, bool]
"""Group, resource, and whether it is created: registrations are for operations as well."""


class _OpenWrite(msgspec.Struct, gc=False, eq=False):
    """The calls of one write that has no outcome yet.

    since        when it began
    waits        outcomes of its resource had been seen by then
    is_ambiguous  nobody knows whose calls these are
    is_told      as one that was refused
    leaves       those of its observations
    """

    key: JoinKey
    since: float
    waits: bool
    intent: Observation | None = None
    mutates: list[Observation] = []
    is_ambiguous: bool = False
    is_told: bool = False
    leaves: int = 0

    @property
    def last(self) -> Observation:
        """Return the observation of its last call."""
        found = self.mutates[-1] if self.mutates else self.intent
        assert found is not None  # noqa: S101 - a call has opened it
        return found

    @property
    def first(self) -> Observation:
        """Return the observation of its first call that was seen."""
        return self.intent or self.mutates[0]

    def shows(self, seen: Observation) -> bool:
        """Whether a call of it shows the same: one of its mutate calls, or its intent alone."""
        return any(mutate.shows_same_as(seen) for mutate in self.mutates or [self.last])

    def may_show(self, seen: Observation) -> bool:
        """Whether webhooks may have made this of it; one that takes back all adds no leaf."""
        if self.last.requester != seen.requester:
            return False
        shown, asked = _leaves_of(seen), _leaves_of(self.first)
        # It may have replaced what a leaf is in.
        met = (all(map(eq, path, other)) for path in shown for other in asked)
        return not shown or not asked or any(met)

    def keeps(self, seen: Observation) -> bool:
        """Whether a call shows nothing but what was asked for, be it in part or not at all."""
        return _leaves_of(seen).items() <= _leaves_of(self.first).items()

    def known(self) -> tuple[Observation | None, list[Observation]]:
        """Return intent and mutate calls; neither of an ambiguous write."""
        return (None, []) if self.is_ambiguous else (self.intent, self.mutates)


class Completeness(msgspec.Struct):
    """How many writes were seen, and how completely.

    joined      writes with an outcome
    incomplete  those of them that lacked an earlier phase
    missing     how many writes lacked each phase; some of those without an outcome were refused
    """

    joined: int = 0
    incomplete: int = 0
    missing: Counter[Phase] = msgspec.field(default_factory=Counter)

    @property
    def is_complete(self) -> bool:
        """Return whether at least half of the writes are seen in all phases here.

        Then few outcomes are lost, and four writes in a row without one were refused. If more are
        lost, another replica sees a part.
        """
        return 2 * self.incomplete <= self.joined


class Correlator:
    """Joins observations, in order, to writes. Bounded in entries, leaves and time."""

    def __init__(self) -> None:
        self._open: Final[dict[bool, dict[_OpenWrite, None]]] = {False: {}, True: {}}
        """By whether they wait for an outcome; the oldest first."""
        self._of_key: Final[dict[JoinKey, list[_OpenWrite]]] = {}
        self._called_for: dict[Phase, set[_Registered]] = {phase: set() for phase in Phase}
        self._creates_built_in = False
        """Whether a creation of a kind of Kubernetes itself was seen to its outcome."""
        self._busy: Final[dict[JoinKey, float]] = {}
        """Until when writers count as busy, by a key without a version."""
        self._all_busy = 0.0
        """Until when everybody does."""
        self._has_lost = False
        """Whether a call was ever lost, or a write dropped."""
        self.now = 0.0
        """The time of the latest observation."""
        self._leaves = 0
        self.dropped = 0
        """How many writes were dropped to stay within the bound in leaves."""
        self.completeness: Final = Completeness()

    def known(self, key: JoinKey) -> tuple[Observation, ...]:
        """Return the observations of the newest open write of a key, oldest first."""
        several = self._of_key.get(key)
        intent, mutates = several[-1].known() if several else (None, [])
        return (*mutates,) if intent is None else (intent, *mutates)

    def is_last(self, phase: Phase, key: JoinKey) -> bool:
        """Return whether no later phase of an update is awaited."""
        return phase is Phase.OUTCOME or (phase is Phase.MUTATE and not self._waits(_kind(key)))

    def see(self, seen: Observation) -> Iterator[Joined | Observation]:
        """Take in an observation, and yield the writes that it completes, oldest first.

        Where nobody knows what came of a write, its last observation is yielded.
        """
        if seen.is_stale:
            yield Joined(assemble(None, (), seen, seen.time, (Phase.OUTCOME,)), seen)
            return
        # A clock of another replica may be behind: no time is running out there.
        self.now = max(self.now, seen.time)
        key = seen.join_key
        yield from self._overdue(self.now, MOST_AT_ONCE)
        if not is_manager(key.user):
            self._note_call(seen.phase, _kind_of(seen))
        if seen.operation is Operation.DELETE:
            yield Joined(assemble(None, (), seen, seen.time), seen)
        elif seen.phase is Phase.INTENT:
            yield from self._see_intent(key, seen)
        elif seen.phase is Phase.MUTATE:
            self._see_mutate(key, seen)
        else:
            yield self._see_outcome(key, seen)

    def _note_call(self, phase: Phase, kind: _Registered) -> None:
        called_for = self._called_for[phase]
        if len(called_for) < MOST_RESOURCES:
            called_for.add(kind)

    def expect_outcomes(self, group: str, resource: str) -> None:
        """Note that outcomes of a resource are shown, of updates and of creations."""
        for is_creation in (False, True):
            self._note_call(Phase.OUTCOME, (group, resource, is_creation))

    def is_called_for(self, key: JoinKey) -> bool:
        """Return whether reviews of updates of a resource are seen, of any phase."""
        return any(_kind(key) in kinds for kinds in self._called_for.values())

    def finish(self, *, is_complete: bool = False) -> Iterator[Joined | Observation]:
        """Yield the writes that still wait, at the end of a recording.

        is_complete  each outcome was shown, so that a creation which still waits was refused
        """
        for write in [*self._open[True]]:
            if not is_complete and write.last.operation is Operation.CREATE:
                self._remove(write)
        yield from self._overdue(inf, MOST_PENDING)

    def _see_intent(self, key: JoinKey, seen: Observation) -> Iterator[Joined | Observation]:
        for write in [write for write in self._of_key.get(key, ()) if write.mutates]:
            if write.waits:
                yield from self._refused(write)
            else:
                # Nobody knows whether its outcome is still to come or it was refused.
                self._remove(write)
        begun = self._begin(key, seen)
        begun.intent = seen
        self._count(begun, seen)

    def _see_mutate(self, key: JoinKey, seen: Observation) -> None:
        open_writes = self._of_key.get(key, ())
        # A mutate call belongs to a write that waits for its first one; else it is a reinvocation.
        waiting = [write for write in open_writes if not write.mutates]
        again = [
            write
            for write in open_writes
            if write.mutates and self._goes_on(write) and not write.is_told
            # A request that was sent again is no reinvocation.
            if not any(write.first.shows_same_as(each.first) for each in waiting)
        ]
        write = self._showing(seen, waiting) or self._showing(seen, again)
        if write is None:
            write = self._of_other_content(seen, waiting or again)
            write = write or self._begin(key, seen)
        # More than two calls are several writes, of which the last one counts.
        write.mutates = [*write.mutates[:ROUNDS], seen]
        self._count(write, seen)

    def _see_outcome(self, key: JoinKey, seen: Observation) -> Joined:
        several = self._of_key.get(key, [])
        write = self._showing(seen, several)
        if write is None:
            # An older write that has not come to /mutate has lost that call, and its outcome.
            later = [each for each in several if each.mutates or not several[-1].mutates]
            write = self._of_other_content(seen, later)
        elif write.mutates and write.mutates[0].shows_same_as(seen):
            write.mutates = write.mutates[:1]  # a call that changed nothing for good was of another
        missing = self._missing(_kind_of(seen), write)
        if write is not None:
            is_creation = seen.operation is Operation.CREATE
            self._creates_built_in |= is_creation and _is_built_in(key.group)
            self._remove(write)
        intent, mutates = (None, []) if write is None else write.known()
        return Joined(assemble(intent, mutates, seen, seen.time, missing), seen)

    def _showing(self, seen: Observation, writes: Sequence[_OpenWrite]) -> _OpenWrite | None:
        """Return the open write that shows the same as a call, if there is one."""
        same = [write for write in writes if write.shows(seen)]
        if not same:
            return None
        # One that has come to /mutate is nearer to its outcome.
        write = ([write for write in same if write.mutates] or same)[-1]
        newest = self._of_key[write.key][-1]
        if newest is not write and not newest.shows(seen):
            self._mark_ambiguous(write.key, SECONDS_BUSY)
        return write

    def _of_other_content(
        self, seen: Observation, writes: Sequence[_OpenWrite]
    ) -> _OpenWrite | None:
        """Return the open write to which a call that shows something else belongs.

        It is ambiguous where the call may belong to another one too. None where there is none.
        """
        going = [write for write in writes if self._goes_on(write)] or writes[-1:]
        found = [write for write in going if write.may_show(seen)]
        if not found:
            return None
        is_alone = all(write.first.shows_same_as(found[0].first) for write in found)
        key = found[0].key
        if self._busy.get(_writer(key), self._all_busy) > self.now:
            # Where nothing was ever lost, each call has its intent.
            is_alone = is_alone and not self._has_lost and found[-1].keeps(seen)
        elif not is_alone:
            self._mark_ambiguous(key, SECONDS_BUSY)
        if is_alone:
            return found[-1]  # they ask for the same: any will do
        write = next((write for write in found if write.is_ambiguous), found[0])
        write.is_ambiguous = True
        return write

    def _mark_ambiguous(self, key: JoinKey, seconds: float) -> None:
        """Note that for so long nobody knows to which write of a user a call belongs."""
        writer = _writer(key)
        self._busy[writer] = max(self._busy.get(writer, 0.0), self.now + seconds)
        if len(self._busy) > MOST_BUSY:
            self._all_busy = max(self._busy.values())
            self._busy.clear()

    def _goes_on(self, write: _OpenWrite) -> bool:
        """Return whether a call of this write came a moment ago."""
        return write.last.time > self.now - SECONDS_AT_ONCE

    def _begin(self, key: JoinKey, seen: Observation) -> _OpenWrite:
        several = self._of_key.setdefault(key, [])
        if len(several) >= MOST_OF_KEY:
            self._drop(several[0])
        write = _OpenWrite(key, self.now, self._waits(_kind_of(seen)))
        several.append(write)
        self._open[write.waits][write] = None
        return write

    def _drop(self, write: _OpenWrite) -> None:
        self._has_lost = True
        self._mark_ambiguous(write.key, SECONDS_WAITED)
        self._remove(write)

    def _remove(self, write: _OpenWrite) -> None:
        del self._open[write.waits][write]
        self._leaves -= write.leaves
        several = self._of_key[write.key]
        several.remove(write)
        if not several:
            del self._of_key[write.key]

    def _count(self, write: _OpenWrite, seen: Observation) -> None:
        write.leaves += seen.leaves
        self._leaves += seen.leaves

    def _overdue(self, now: float, most: int) -> Iterator[Joined | Observation]:
        """End the oldest writes: those whose wait is over, and those over the bounds."""
        for waits, seconds in ((False, SECONDS_WITHOUT_OUTCOMES), (True, SECONDS_WAITED)):
            open_writes = self._open[waits]
            while open_writes:
                write = next(iter(open_writes))
                number = sum(map(len, self._open.values()))
                is_over = number > MOST_PENDING or self._leaves > MOST_LEAVES_PENDING
                if not is_over and (most <= 0 or write.since > now - seconds):
                    break
                most -= 1
                if is_over:
                    self.dropped += 1
                    self._drop(write)
                else:
                    self._remove(write)
                yield from self._without_outcome(write)

    def _without_outcome(self, write: _OpenWrite) -> Iterator[Joined | Observation]:
        """Yield what is known of a write whose wait for an outcome is over."""
        last, is_update = write.last, write.last.operation is Operation.UPDATE
        if write.waits:
            if write.mutates:
                self.completeness.missing[Phase.OUTCOME] += 1
                yield from self._refused(write)
                intent, mutates = write.known()
                # A write that nobody changed, and that may have been refused, is not told.
                if intent is not None and not intent.shows_same_as(last):
                    lost = assemble(intent, mutates, last, write.first.time, (Phase.OUTCOME,))
                    yield Joined(msgspec.structs.replace(lost, outcome=Outcome.UNSEEN), last)
            if is_update:
                yield last
        elif (
            is_update and write.mutates and not (last.state is None or self._waits(_kind_of(last)))
        ):
            # Where no outcome is registered the last mutate call is all there will be.
            yield Joined(assemble(*write.known(), last, write.first.time), write.first)

    def _refused(self, write: _OpenWrite) -> Iterator[Joined | Observation]:
        """Yield a write as one that was refused, once.

        Its outcome is awaited all the same: webhooks that are called together with genguard's do
        not delay it, but a loaded machine does.
        """
        last = write.last
        is_intent_lost = write.intent is None and _kind_of(last) in self._called_for[Phase.INTENT]
        # Else nobody knows what was asked for.
        if not (write.is_told or write.is_ambiguous or is_intent_lost):
            refused = assemble(write.intent, (last,), last, write.first.time, (Phase.OUTCOME,))
            yield Joined(refused, write.first)
        write.is_told = True

    def _missing(self, kind: _Registered, write: _OpenWrite | None) -> tuple[Phase, ...]:
        """Return the phases of a write that were not seen, though they are seen of other writes."""
        self.completeness.joined += 1
        if write is not None and write.is_ambiguous:
            return ()
        seen = (Phase.INTENT, write and write.intent), (Phase.MUTATE, write and write.mutates)
        missing = tuple(
            phase for phase, calls in seen if not calls and kind in self._called_for[phase]
        )
        if missing:
            self._has_lost = True
            self.completeness.missing.update(missing)
            self.completeness.incomplete += 1
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


def _kind(key: JoinKey) -> _Registered:
    return key.group, key.resource, False


def _kind_of(seen: Observation) -> _Registered:
    return (seen.key.group, seen.key.resource, seen.operation is Operation.CREATE)


def _is_built_in(group: str) -> bool:
    return "." not in group or group.endswith(".k8s.io")


def _writer(key: JoinKey) -> JoinKey:
    return msgspec.structs.replace(key, resource_version="")


def _leaves_of(seen: Observation) -> dict[Path, Digest | None]:
    """Return what a call would make of the leaves that it changes."""
    return {change.key: change.after for part in seen.parts if part is not None for change in part}
