"""Detection: reviews in, findings out. Pure.

`observe` makes a small record of a review, compared with what is stored. `take` joins those of
one write; `detect` remembers the write and asks the questions. The server calls them after the
answer; replay calls `see`, which is both. Where replicas share a store, each of them observes, and
the leader alone takes what they observed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from genguard.admission.matching import ResourceKind
from genguard.admission.review import AdmissionRequest, JoinKey, ObjectName, Operation, Phase
from genguard.detection.causes import causing_owners
from genguard.detection.correlate import MOST_RESOURCES, Completeness, Correlator, Joined
from genguard.detection.damage import survives
from genguard.detection.finding import Finding
from genguard.detection.history import History
from genguard.detection.ledger import Ledger
from genguard.detection.mutators import Mutators
from genguard.detection.observation import Observation
from genguard.detection.question import Found, all_of, ask, examine
from genguard.detection.questions import ALL
from genguard.detection.questions.chases import Chases
from genguard.detection.questions.children import Children
from genguard.detection.questions.numbers import Numbers
from genguard.detection.questions.recreations import Recreations
from genguard.detection.questions.refused import Refusal, Refused
from genguard.detection.questions.restless import AtRest
from genguard.detection.reduce import Reviewed, reduce
from genguard.detection.values import Shows, shows_of
from genguard.detection.write import Outcome, Write

_NEVER_STORED: Final = Outcome.REFUSED, Outcome.STALE
_MOST_COMPARED: Final = 20
_SECONDS_COMPARED: Final = 10.0
"""So many creations of one kind are compared in so long."""


class Detection:
    """Finds loops among the writes of a cluster."""

    def __init__(
        self,
        mutators: Mutators | None = None,
        history: History | None = None,
        *,
        own_user: str = "",
        shows: Shows = Shows.PLAIN,
        at_rest: bool = False,
    ) -> None:
        """Start without any memory.

        own_user  writes of this user are genguard's own
        shows     which values of objects are kept and shown
        at_rest   nobody should write any more: who writes an object again and again is found
        """
        self._own_user: Final = own_user
        self._mutators: Final = mutators or Mutators()
        self._correlator: Final = Correlator()
        self.history: Final = History() if history is None else history
        self.ledger: Final = Ledger(self._mutators)
        self._refused: Final = Refused(self.history)
        self.reporting: Final = Numbers()
        with_history = Recreations(self.history), Chases(self.history)
        children = Children(self.history, self._mutators)
        mine = self.reporting, self._refused, children, *with_history
        asked = (*ALL, AtRest) if at_rest else ALL
        others = [question() for question in asked if question not in set(map(type, mine))]
        self._questions: Final = all_of((*others, *mine))
        self._completed: list[Joined | Observation] = []
        self._shows: Final = shows
        self._compared: Final[dict[ResourceKind, tuple[float, int]]] = {}
        """By kind that webhooks change: since when, and how often, creations were compared."""
        self.unreadable = 0
        """How many objects could not be decoded, or a part of them."""
        self.unchanged_status_writes: Final[Counter[ResourceKind]] = Counter()
        """How many updates of a status changed nothing, by resource; MOST_RESOURCES of them."""

    @property
    def completeness(self) -> Completeness:
        """Return how many writes were seen in all phases, and which phases the others lacked."""
        return self._correlator.completeness

    @property
    def dropped(self) -> int:
        """Return how many writes and findings were dropped to stay within bounds."""
        return self._correlator.dropped + self.ledger.dropped

    def observe(self, phase: Phase, reviewed: Reviewed, now: float) -> Observation | None:
        """Return the observation of one review; `now` is seconds since the epoch. Never raises.

        None for a request that neither creates, updates nor deletes an object. None, and counted,
        for an object that cannot be decoded.
        """
        request = reviewed.request
        try:
            key = request.write_key(phase)
            if key is None or key.user == self._own_user:
                return None  # values that genguard puts back are nobody's loop
            is_creation = request.operation is Operation.CREATE
            known = self._correlator.known(key.location if is_creation else key)
            was_refused = is_creation and self._refused.was_refused(key)
            return reduce(
                phase,
                reviewed,
                now,
                known,
                self._mutators,
                key=key,
                shows=shows_of(key.group, key.resource, self._shows),
                is_last=self._correlator.is_last(phase, key),
                compares=is_creation
                and self._compares(phase, key, request, known, now, was_refused=was_refused),
                was_refused=was_refused,
            )
        except (msgspec.MsgspecError, RecursionError):
            self.unreadable += 1
            return None

    def _compares(
        self,
        phase: Phase,
        key: JoinKey,
        request: AdmissionRequest,
        known: Sequence[Observation],
        now: float,
        *,
        was_refused: bool,
    ) -> bool:
        """Whether leaves of a creation are compared, in all of its phases.

        They are many. So a creation is compared if it was refused before, and a few creations of
        each kind if webhooks may change something in them.
        """
        if known and phase is not Phase.INTENT:
            return any(observation.compared_fields.changes for observation in known)
        if phase is Phase.OUTCOME:
            return False
        if was_refused:
            return True
        kind = _kind_of(key)
        if not self._mutators.may_act(request, kind):
            return False
        if self._mutators.named is not None:
            return True  # who changed it is known, and no answer waits
        since, count = self._compared.get(kind, (now, 0))
        if now - since > _SECONDS_COMPARED:
            since, count = now, 0
        if kind in self._compared or len(self._compared) < MOST_RESOURCES:
            self._compared[kind] = since, count + 1
        return count < _MOST_COMPARED

    def expect_outcomes(self, request: AdmissionRequest, refusal: Refusal | None = None) -> None:
        """Note that outcomes of a resource are shown: a write without one was refused.

        refusal  of this one; None where it was not refused
        """
        resource = request.wire.resource
        self._correlator.expect_outcomes(resource.group, resource.resource)
        self._refused.see_outcome()
        if refusal is not None:
            self._refused.tell(request.wire, refusal)

    def is_slow(self, request: AdmissionRequest) -> bool:
        """Return whether `observe` may take long for any size: it may evaluate matchConditions."""
        return self._mutators.asks_conditions(request)

    def see(self, observation: Observation) -> None:
        """Take in what this process observed, in order, and examine writes that it completes."""
        self.take(observation)
        self.detect()

    def see_version(self, reviewed: Reviewed, now: float) -> None:
        """Take in and examine a write that a watch shows; `now` is seconds since the epoch.

        It ignores a resource whose reviews are seen: they show the same, and the user.
        """
        key = reviewed.request.join_key
        if key is None or self._correlator.is_called_for(key):
            return
        observation = self.observe(Phase.OUTCOME, reviewed, now)
        if observation is not None:
            self.see(observation)

    def take(self, observation: Observation) -> None:
        """Take it in without examining: many writes in a row are examined faster, by `detect`."""
        for phase in self._unseen_phases(observation) if observation.equal_unregistered else ():
            self._take(msgspec.structs.replace(observation, phase=phase))
        self._take(observation)

    def _unseen_phases(self, observation: Observation) -> Iterator[Phase]:
        """Yield the implied phases of an observation that were not seen of its write."""
        known = self._correlator.known(observation.join_key)
        equal_unregistered = observation.equal_unregistered
        if any(
            call.phase in equal_unregistered and call.phase not in call.equal_unregistered
            for call in known
        ):
            return  # one came by itself: it is registered by now
        seen = {call.phase for call in known}
        if observation.phase in seen:
            seen = set()  # of an earlier write, which was refused
        yield from (phase for phase in equal_unregistered if phase not in seen)

    def _take(self, observation: Observation) -> None:
        correlator = self._correlator
        self._refused.call(observation)
        if observation.phase is Phase.MUTATE:
            self._note(observation)
        elif observation.phase is Phase.OUTCOME and observation.operation is not Operation.UPDATE:
            correlator.expect_outcomes(observation.key.group, observation.key.resource)
        self._completed += correlator.see(observation)

    def miss(self, name: ObjectName | None, now: float) -> None:
        """Note that a review was answered and not examined; None: nobody knows of which object."""
        self.ledger.miss(name, None, now)

    @property
    def unexamined(self) -> int:
        """Return how many writes wait for `detect`."""
        return len(self._completed)

    def detect(self) -> None:
        """Examine the writes that are complete.

        What examining a write raises is raised here; the next call examines the writes behind it.
        """
        completed, self._completed = iter(self._completed), []
        try:
            for joined in completed:
                self._detect(joined)
        finally:
            self._completed = [*completed, *self._completed]

    def finish(self, now: float, *, is_complete: bool = False) -> None:
        """End a recording: examine writes that wait for a phase, resolve findings that are quiet.

        is_complete  each outcome was shown, so that a creation which still waits was refused
        """
        self._completed += self._correlator.finish(is_complete=is_complete)
        self.detect()
        self.resolve_quiet(now)

    def resolve_quiet(self, now: float) -> None:
        """Resolve findings without a signal for long enough."""
        self.ledger.resolve_quiet(now)

    def findings(self) -> tuple[Finding, ...]:
        """Return every finding, oldest first."""
        return self.ledger.findings()

    def _note(self, observation: Observation) -> None:
        """Note where webhooks change writes, before these writes are examined: loops are fast."""
        known = self._correlator.known(observation.join_key)
        is_creation = observation.operation is Operation.CREATE
        if is_creation and known and known[0].phase is not Phase.INTENT:
            return  # of another one in its place
        if known and not known[-1].shows_same_as(observation):
            self._mutators.changed(_kind_of(observation.key))

    def _detect(self, joined: Joined | Observation) -> None:
        if isinstance(joined, Observation):
            self.ledger.miss(joined.key, joined.key.subresource, joined.time)
            return
        write, observation = joined
        if write.outcome is not Outcome.UNSEEN:
            self._mutators.tally.note(write)
        if write.operation is Operation.UPDATE and write.outcome not in _NEVER_STORED:
            self._examine_update(write)
        elif write.outcome is not Outcome.REFUSED or self.completeness.is_complete:
            if write.operation is Operation.DELETE:
                # What was wrong with the object is gone with it.
                self.ledger.look(observation.key, lambda _: False, observation.time)
            self._enter(ask([(self._questions.joined, write, observation)]))

    def _examine_update(self, write: Write) -> None:
        past = self.history.find(write.object) if write.missing else None
        if past is not None and past.shows(write):
            return  # an API server calls again after a broken connection
        if write.is_mutated:
            self._mutators.changed(write.kind)
        elif write.content.requested and write.content.webhook is not None:
            self._mutators.record_unchanged(write.called.first, write.kind)
        if write.missing:
            self.ledger.miss(write.object, write.subresource, write.time)
        is_of_status = write.has_outcome and write.subresource == "status"
        if is_of_status and not write.changed_anything:
            counts = self.unchanged_status_writes
            if write.kind in counts or len(counts) < MOST_RESOURCES:
                counts[write.kind] += 1
        if write.has_outcome and write.writes_status:
            self.ledger.look(write.object, lambda damage: survives(damage, write), write.time)
        self._enter(examine(self._questions, write, self.history))

    def _enter(self, found: Found) -> None:
        for detector, signal, write in found:
            self.ledger.add(detector, signal, write, causing_owners(signal, write, self.history))


def _kind_of(key: JoinKey) -> ResourceKind:
    return ResourceKind(key.group, key.resource, key.subresource)
