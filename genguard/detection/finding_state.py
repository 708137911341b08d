"""The state of one finding: a table of states, its signals, and who may have made them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from genguard.detection.damage import Damage
from genguard.detection.finding import STATES, Actor, Confidence, Severity, State
from genguard.detection.mutators import Mutators
from genguard.detection.observation import Seconds
from genguard.detection.question import ChangedBy, Signal
from genguard.detection.questions import FINDINGS
from genguard.detection.sample import has_all_diffs, sample_of
from genguard.detection.write import ObjectKey, Requester, Write, is_manager
from genguard.objects.bounded import count_often
from genguard.objects.metadata import rfc3339

Event = Literal["a signal", "at rest, damage left", "at rest, none left", "damage gone"]
_NEXT: Final[dict[Event, tuple[State, State, State]]] = {
    # where it was:          open        quiet       resolved
    "a signal":             ("open",     "open",     "open"),
    "at rest, damage left": ("quiet",    "quiet",    "resolved"),
    "at rest, none left":   ("resolved", "resolved", "resolved"),
    "damage gone":          ("open",     "resolved", "resolved"),
}  # fmt: skip
LOOP_COUNT: Final = 3
CRITICAL_COUNT: Final = 20
CRITICAL_SECONDS: Final = 30.0
LASTING_COUNT: Final = 50
LASTING_SECONDS: Final = 900.0
"""So many signals, or CRITICAL_COUNT in so long, are no accident, though each may be ordinary."""
WINDOW_SECONDS: Final = 600.0
"""Signals further apart than this are not the same loop."""
QUIET_SECONDS: Final = 60.0
"""The shortest quiet after which a finding is resolved; longer for slow loops."""
MOST_PATHS: Final = 20
MOST_EVIDENCE: Final = 5
SECONDS_UNSEEN: Final = 86_400.0
"""Damage that nobody has seen for so long is dropped: without a cluster genguard sees writes only,
and may have missed a deletion."""
SECONDS_BETWEEN_SAMPLES: Final = 60.0
"""A loop of a thousand writes shows the same in each: one a minute is kept."""
_MOST_COUNTED: Final = 16
_MOST_NAMED: Final = 4
"""Users of one finding, and processes of one of them."""
_ASKED: Final = (ChangedBy.REQUESTER, ChangedBy.EITHER)
_MADE: Final = (ChangedBy.OTHERS, ChangedBy.EITHER)

Candidates = tuple[tuple[str, Confidence], ...]
"""Webhooks, the likeliest first."""


class Account(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who may have made a signal, as its write shows: many signals of a loop have the same account.

    requesters  who are blamed; the first one wrote
    policies    that acted on what was asked, and whether each visibly sets one of the fields
    webhooks    that were called, of a signal about what they made
    is_complete  all phases of the write were seen
    """

    changed_by: ChangedBy
    requesters: tuple[Requester, ...]
    policies: tuple[tuple[str, bool], ...]
    webhooks: tuple[str, ...]
    is_complete: bool


class FindingState(msgspec.Struct, gc=False):
    """One finding with the counts behind it, as it is saved. Mutable: only the ledger has it.

    prevented     what would be damaged, had the last write with a signal not been restored;
                  `restored`: nothing was damaged, as its outcome shows
    repaired      the damage was there and is gone, and there was no signal since
    looked        when the stored object was last looked at and the damage was still there
    missed_since  since when reviews of the object have been missed, so that signals may be unseen
    missed        when one was last missed; 0 of these three: never
    heard         when its last signal was read, or it was restored: it is quiet from then on
    accounts      who may have made its signals, and how many; only those of writes of
                  which all phases were seen, once there is one
    sample        one of its writes, field by field (genguard/detection/sample.py); `sampled` is the
                  time of that write, 0 where not all its phases were seen
    pace          seconds between two signals, of a loop that is slow; 0 of others
    owners        owners by uid, the nearest first, and how many signals came of their changes
    size          its bytes in the ledger; `is_own`: it has had a signal since it was restored
    """

    id: str
    detector: str
    object: ObjectKey
    subresource: str
    first: Seconds
    last: Seconds
    count: int = 0
    minor: bool = True
    state: State = "open"
    damage: Damage | None = None
    prevented: Damage | None = None
    repaired: bool = False
    looked: Seconds = 0.0
    missed_since: Seconds = 0.0
    missed: Seconds = 0.0
    heard: Seconds = 0.0
    reopened: int = 0
    message: str = ""
    paths: dict[str, None] = {}
    accounts: dict[Account, int] = {}
    evidence: list[dict[str, Any]] = []
    sample: bytes = b""
    sampled: Seconds = 0.0
    pace: Seconds = 0.0
    owners: dict[str, int] = {}
    size: int = 0
    is_own: bool = False
    restored: bool = False

    def next(self, event: Event) -> None:
        """Go to the next state."""
        self.state = _NEXT[event][STATES.index(self.state)]
        if event == "damage gone" or self.state == "resolved":
            self.damage = None
        self.repaired = event == "damage gone" or (self.repaired and event != "a signal")

    @property
    def possible_damage(self) -> Damage | None:
        """The damage of what is not resolved, or what was prevented: a write may pass unseen."""
        return None if self.state == "resolved" else self.damage or self.prevented

    def miss(self, now: Seconds) -> None:
        """Note that a review of its object was not seen: it may go on unseen."""
        if self.state != "resolved":
            self.missed_since = self.missed_since or now
            self.missed = max(self.missed, now)

    def resolve_quiet(self, now: Seconds) -> None:
        """Go on to the state at rest, once there was no signal for long enough, nor one missed."""
        needed = self.quiet_needed()
        if now - self.missed >= needed:
            self.missed_since = 0.0
        if not self.missed_since and now - self.heard >= needed:
            is_known = now - max(self.last, self.looked) < SECONDS_UNSEEN
            is_left = self.damage and is_known
            self.next("at rest, damage left" if is_left else "at rest, none left")

    def take(
        self, signal: Signal, write: Write, owners: Iterable[str], mutators: Mutators, ahead: float
    ) -> None:
        """Count a signal of a write, and who may have made it.

        ahead  by how many seconds the time of day is ahead of the times of writes
        """
        # By the times of writes alone: when it was settled differs from replica to replica.
        self.reopened += write.time - self.last >= self.quiet_needed()
        self.next("a signal")
        self.count += 1
        # Clocks differ: the latest time counts.
        self.first, self.last = min(self.first, write.time), max(self.last, write.time)
        self.message = signal.message
        self.minor = self.minor and signal.minor
        # Where outcomes are not registered nobody knows what was stored: genguard may have
        # repaired the write itself.
        self.damage = signal.damage if write.has_outcome or write.missing else None
        self.prevented = signal.prevented
        self.restored = bool(signal.prevented and not signal.damage and write.has_outcome)
        self.pace = signal.pace
        paths = self.paths | dict.fromkeys(map(write.object.owned, signal.paths[:MOST_PATHS]))
        self.paths = dict.fromkeys([*paths][:MOST_PATHS])
        for owner in owners:
            count_often(self.owners, owner, _MOST_COUNTED)
        asked = write.policies if signal.changed_by in _ASKED else ()
        policies = ((x.name, x.is_sure and mutators.sets(x.name, signal.paths)) for x in asked)
        webhooks: tuple[str, ...] = ()
        about: dict[str, Any] = {}
        if signal.changed_by in _MADE:
            webhooks, about = write.called.about(signal.paths, again=signal.reinvoked)
        is_complete = write.is_fully_seen
        is_clear = any(account.is_complete for account in self.accounts)
        if is_complete and not is_clear:
            # Writes that were seen in part make nobody less certain.
            self.accounts = {}
        if is_complete or not is_clear:
            account = Account(
                signal.changed_by, signal.requesters, tuple(policies), webhooks, is_complete
            )
            count_often(self.accounts, account, _MOST_COUNTED)
        write = msgspec.structs.replace(write, time=write.time + ahead)
        shown: dict[str, Any] = {"time": rfc3339(write.time), "user": write.requester.user}
        shown |= signal.evidence | about
        if write.missing:
            shown["missing"] = list(write.missing)
        self.evidence = [*self.evidence, shown][-MOST_EVIDENCE:]
        self._take_sample(write, signal.paths)

    def _take_sample(self, write: Write, first: Sequence[str]) -> None:
        """Keep the values of a write, unless one that shows as much was kept a moment ago."""
        is_complete = has_all_diffs(write)
        is_due = is_complete and write.time - self.sampled >= SECONDS_BETWEEN_SAMPLES
        if (is_due or not self.sample) and (sample := sample_of(write, first)):
            self.sample, self.sampled = sample, write.time if is_complete else 0.0

    def shorten(self) -> None:
        """Give up the examples: the values of a write, and all signals but the last."""
        self.sample, self.evidence = b"", self.evidence[-1:]

    @property
    def changed_by(self) -> set[ChangedBy]:
        """Return between which phases the signals happened."""
        return {account.changed_by for account in self.accounts}

    @property
    def users(self) -> set[str]:
        """Return the users who are blamed."""
        return {each.user for account in self.accounts for each in account.requesters}

    @property
    def webhooks(self) -> tuple[str, ...]:
        """Return the webhooks that may have done it, by name."""
        called = [{*account.webhooks} for account in self.accounts if account.changed_by in _MADE]
        names = set().union(*called)
        # A candidate that was not there for every signal cannot be the only one to blame.
        return tuple(sorted(names.intersection(*called) or names))

    def actors(self, candidates: Candidates, mutators: Mutators, began: float) -> tuple[Actor, ...]:
        """Return the actors, the likeliest first; `candidates` are webhooks.

        began  when it did, as the time of day
        """
        often, writes, sets = Counter[Requester](), Counter[str](), Counter[tuple[str, str]]()
        for account, count in self.accounts.items():
            writer = account.requesters[0].user if account.requesters else ""
            writes[writer] += count * (account.changed_by in _ASKED)
            for policy, is_set in account.policies:
                sets[policy, writer] += count * is_set
            for each in account.requesters:
                often[Requester(each.user, each.manager)] += count
        blamed = [x for account in self.accounts for x in account.requesters]
        is_sure = self.changed_by.isdisjoint((ChangedBy.EITHER, ChangedBy.SERVER))
        is_by_others = ChangedBy.OTHERS in self.changed_by
        setters = {pair for pair, n in sets.items() if is_sure and 2 * n > writes[pair[1]]}
        likely = {policy for policy, _ in setters}
        names = mutators.by_age({policy for policy, _ in sets}, began)
        users = []
        for requester, _ in often.most_common(_MOST_NAMED):
            confidence = Confidence.CERTAIN
            if not is_sure or requester.user in {user for _, user in setters}:
                confidence = Confidence.POSSIBLE
            elif is_manager(requester.user) or requester.user in {user for _, user in sets}:
                # The entry of managedFields may be that of an earlier write.
                confidence = Confidence.LIKELY
            processes = {x.process for x in blamed if x.user == requester.user} - {""}
            several = sorted(processes)[:_MOST_NAMED] if len(processes) > 1 else ()
            by_user = "user", requester.user, requester.manager
            who = ("manager", requester.manager, "") if is_manager(requester.user) else by_user
            users.append(Actor(*who, confidence, tuple(several)))
        found = [
            *(Actor("policy", name, "", Confidence.LIKELY) for name in names if name in likely),
            *users,
            *(
                Actor("policy", name, "", Confidence.POSSIBLE)
                for name in names
                if name not in likely
            ),
        ]
        requesters = sorted(found, key=lambda actor: actor.confidence.rank)
        webhooks = [
            Actor("webhook", name, "", sure if is_by_others else Confidence.POSSIBLE)
            for name, sure in candidates
        ]
        return (*webhooks, *requesters) if is_by_others else (*requesters, *webhooks)

    @property
    def severity(self) -> Severity:
        """Return the severity, by count and duration; minor signals make a warning if they last.

        A lost observedGeneration that is still lost after few signals is a warning, once somebody
        has looked at the object: a client that waits for it waits for ever.
        """
        if self.minor:
            is_long = self.last - self.first >= LASTING_SECONDS
            lasts = self.count >= (CRITICAL_COUNT if is_long else LASTING_COUNT)
            is_told = FINDINGS[self.detector].worst is not Severity.INFO
            return Severity.WARNING if lasts and is_told else Severity.INFO
        if self.count < LOOP_COUNT and not self.pace:
            stays = self.state == "quiet" and self.looked and self.damage and self.damage.lost
            return Severity.WARNING if stays else Severity.INFO
        if self.count >= CRITICAL_COUNT and self.last - self.first >= CRITICAL_SECONDS:
            return FINDINGS[self.detector].worst
        return Severity.WARNING

    @property
    def resolves_after(self) -> float:
        """Seconds without a signal after which it is resolved; 0: time alone does not."""
        waits = self.state == "resolved" or self.damage or self.missed_since
        return 0.0 if waits else self.quiet_needed()

    def quiet_needed(self) -> float:
        """Return the seconds without a signal after which it is resolved.

        Longer for slow loops, and twice as long each time that the finding came back.
        """
        pace = max((self.last - self.first) / max(self.count - 1, 1), self.pace)
        return min(max(QUIET_SECONDS, 4 * pace) * 2.0 ** min(self.reopened, 8), self.window)

    @property
    def window(self) -> float:
        """Return the seconds after which another signal is another loop."""
        return max(WINDOW_SECONDS, 4 * self.pace)

    def moved(self, seconds: float) -> "FindingState":
        """Return it for another ledger, whose clock is ahead by so many seconds."""
        names = ("first", "last", "looked", "missed_since", "missed")
        times = {name: at for name in names if (at := getattr(self, name))}
        moved = {name: max(at + seconds, 0.0) for name, at in times.items()}
        return msgspec.structs.replace(self, is_own=False, **moved)
