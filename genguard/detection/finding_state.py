"""The state of one finding: a table of states, how many signs it has, and who may have made them.

state    | a sign | at rest, damage left | at rest, none left | damage gone
open     | open   | quiet                | resolved           | open
quiet    | open   | quiet                | resolved           | resolved
resolved | open   | resolved             | resolved           | resolved
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeVar

import msgspec

from genguard.detection.damage import Damage
from genguard.detection.fact import Seconds
from genguard.detection.finding import Actor, Confidence, Severity
from genguard.detection.questions.question import Blame, Signal
from genguard.detection.sample import is_complete, sample_of
from genguard.detection.suspects import Suspects
from genguard.detection.write import ObjectKey, Requester, Write

State = Literal["open", "quiet", "resolved"]
Event = Literal["a sign", "at rest, damage left", "at rest, none left", "damage gone"]
_NEXT: Final[dict[tuple[State, Event], State]] = {
    ("open", "at rest, damage left"): "quiet",
    ("open", "at rest, none left"): "resolved",
    ("quiet", "a sign"): "open",
    ("quiet", "at rest, none left"): "resolved",
    ("quiet", "damage gone"): "resolved",
    ("resolved", "a sign"): "open",
}
"""The table above; what is not named changes nothing."""
LOOP_COUNT: Final = 3
CRITICAL_COUNT: Final = 20
CRITICAL_SECONDS: Final = 30.0
WINDOW_SECONDS: Final = 600.0
"""Signals further apart than this are not the same loop."""
QUIET_SECONDS: Final = 60.0
"""The shortest quiet after which a finding is resolved; longer for loops that turn slowly."""
MOST_PATHS: Final = 20
MOST_EVIDENCE: Final = 5
_MOST_FOLLOWED: Final = 4
SECONDS_BETWEEN_SAMPLES: Final = 60.0
"""A loop of a thousand writes shows the same in each: one a minute is kept."""
_MOST: Final = 4
_Name = TypeVar("_Name")

Accused = tuple[tuple[str, Confidence], ...]
"""Webhooks, the likeliest first."""


class Requesters(msgspec.Struct, gc=False):
    """The requesters of one finding, and the policies on their writes; bounded.

    writes     by user
    matched    by policy and user; `visible`: those in which the policy sets the field
    processes  by user and process
    """

    requesters: dict[Requester, int] = {}
    writes: dict[str, int] = {}
    matched: dict[tuple[str, str], int] = {}
    visible: dict[tuple[str, str], int] = {}
    processes: dict[tuple[str, str], int] = {}

    def blame(self, requesters: Iterable[Requester]) -> None:
        """Count the requesters whom a signal blames."""
        for each in requesters:
            _count(self.requesters, Requester(each.user, each.manager))
            if each.process:
                _count(self.processes, (each.user, each.process))

    def look(self, write: Write, paths: Iterable[str], suspects: Suspects) -> None:
        """Count the policies that acted on a write, for a signal about its intent."""
        user = write.requester.user
        if not _count(self.writes, user):
            return
        pointers = tuple(paths)
        for policy, is_sure in write.policies:
            if _count(self.matched, (policy, user), _MOST * _MOST):
                sets = is_sure and suspects.sets(policy, pointers)
                self.visible[policy, user] = self.visible.get((policy, user), 0) + sets

    def actors(
        self, *, is_sure: bool, in_order: Callable[[Iterable[str]], Sequence[str]] = sorted
    ) -> Iterator[Actor]:
        """Yield actors, the likeliest first.

        is_sure   the signals are about the intent
        in_order  orders policies that are equally likely
        """
        # Of too many users some are gone from `writes`.
        setters = {
            (policy, user)
            for (policy, user), count in self.visible.items()
            if is_sure and user in self.writes and 2 * count > self.writes[user]
        }
        likely = {policy for policy, _ in setters}
        often = sorted(self.requesters, key=lambda one: -self.requesters[one])

        def policies(names: set[str], confidence: Confidence) -> Iterator[Actor]:
            for name in in_order(names):
                yield Actor("policy", name, "", confidence)

        found = [
            *policies(likely, Confidence.LIKELY),
            *(self._user(one, setters, is_sure=is_sure) for one in often),
            *policies(self.policies - likely, Confidence.POSSIBLE),
        ]
        yield from sorted(found, key=lambda one: one.confidence.rank) if is_sure else found

    @property
    def are_managers(self) -> bool:
        """Whether users are not known, and field managers stand for them."""
        return any(one.is_manager for one in self.requesters)

    @property
    def users(self) -> set[str]:
        """Return the users who are blamed."""
        return {one.user for one in self.requesters}

    @property
    def policies(self) -> set[str]:
        """Return the policies that acted on any of the writes."""
        return {policy for policy, _ in self.matched}

    def _user(self, one: Requester, setters: set[tuple[str, str]], *, is_sure: bool) -> Actor:
        confidence = Confidence.CERTAIN
        if not is_sure or one.user in {user for _, user in setters}:
            confidence = Confidence.POSSIBLE
        elif one.user in {user for _, user in self.matched}:
            confidence = Confidence.LIKELY
        if one.is_manager:  # the entry of managedFields may be that of an earlier write
            surest = max(confidence, Confidence.LIKELY, key=lambda found: found.rank)
            return Actor("manager", one.manager, "", surest)
        processes = sorted(process for user, process in self.processes if user == one.user)
        several = tuple(processes) if len(processes) > 1 else ()
        return Actor("user", one.user, one.manager, confidence, several)


def _count(counts: dict[_Name, int], name: _Name, most: int = _MOST) -> bool:
    """Count a name, if it is known or there is room for it; return whether it was counted."""
    if name not in counts and len(counts) >= most:
        return False
    counts[name] = counts.get(name, 0) + 1
    return True


class FindingState(msgspec.Struct, gc=False):
    """One finding with the counts behind it, as it is saved. Mutable: only the ledger has it.

    averted       what would be damaged, had the last write with a signal not been restored
    repaired      the damage was there and is gone, and there was no signal since
    looked        when the stored object was last looked at and the damage was still there
    missed_since  since when reviews of the object have been missed, so that signs may be unseen
    missed        when one was last missed; 0 of these three: never
    heard         when its last sign was read, or it was restored: it is quiet from then on
    is_clear      who is blamed comes from writes that were seen whole alone
    sample        one of its writes, field by field (genguard/detection/sample.py); `sampled` is the
                  time of that write, `is_whole`: all its phases were seen
    is_brief      its examples gave way to other findings
    pace          seconds between two turns, of a loop that is slow; 0 of others
    follows       owners by uid, the nearest first, and how many signals came of their changes
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
    averted: Damage | None = None
    repaired: bool = False
    looked: Seconds = 0.0
    missed_since: Seconds = 0.0
    missed: Seconds = 0.0
    heard: Seconds = 0.0
    is_clear: bool = False
    reopened: int = 0
    message: str = ""
    paths: dict[str, None] = {}
    requesters: Requesters = msgspec.field(default_factory=Requesters)
    by_others: int = 0
    by_either: int = 0
    by_server: int = 0
    candidates: dict[str, int] = {}
    evidence: list[dict[str, Any]] = []
    sample: bytes = b""
    sampled: Seconds = 0.0
    is_whole: bool = False
    is_brief: bool = False
    pace: Seconds = 0.0
    follows: dict[str, int] = {}

    def next(self, event: Event) -> None:
        """Go to the next state."""
        self.state = _NEXT.get((self.state, event), self.state)
        if event == "damage gone" or self.state == "resolved":
            self.damage = None
        self.repaired = event == "damage gone" or (self.repaired and event != "a sign")

    def left(self, *, in_doubt: bool) -> Damage | None:
        """Return the damage of what is not resolved; `in_doubt`, also what was averted."""
        damage = self.damage or (self.averted if in_doubt else None)
        return None if self.state == "resolved" else damage

    def take(
        self, sign: Signal, write: Write, follows: Iterable[str], evidence: dict[str, Any]
    ) -> None:
        """Count a sign; whom it blames, `blame` counts."""
        # By the times of writes alone: when it was settled differs from replica to replica.
        self.reopened += write.time - self.last >= self.quiet_needed()
        self.next("a sign")
        self.count += 1
        # Of clocks that differ the latest counts.
        self.first, self.last = min(self.first, write.time), max(self.last, write.time)
        self.message = sign.message
        self.minor = self.minor and sign.minor
        # Where outcomes are not registered nobody knows what was stored: genguard may have
        # repaired the write itself.
        self.damage = sign.damage if write.has_outcome or write.missing else None
        self.averted = sign.averted
        self.pace = sign.pace
        for path in sign.paths[:MOST_PATHS]:
            if len(self.paths) < MOST_PATHS:
                self.paths[path] = None
        for owner in follows:
            _count(self.follows, owner, _MOST_FOLLOWED)
        most = 1 if self.is_brief else MOST_EVIDENCE
        self.evidence = [*self.evidence, evidence][-most:]

    def take_sample(self, write: Write, first: Sequence[str]) -> None:
        """Keep the values of a write, unless one that shows as much was kept a moment ago.

        first  the fields to be shown first; the write has the time of day
        """
        is_whole = is_complete(write)
        is_news = is_whole and write.time - self.sampled >= SECONDS_BETWEEN_SAMPLES
        if self.is_brief or (self.sample and not (is_news or is_whole > self.is_whole)):
            return
        sample = sample_of(write, first)
        if sample is not None:
            self.sample, self.sampled, self.is_whole = sample, write.time, is_whole

    def shorten(self) -> None:
        """Give up the examples: the values of a write, and all signs but the last."""
        self.is_brief, self.sample, self.evidence = True, b"", self.evidence[-1:]

    def blame(self, sign: Signal, write: Write, called: Iterable[str], suspects: Suspects) -> None:
        """Count who may have made a sign; `called` are webhooks.

        As soon as there is a write that was seen whole, only such writes count: what was not seen
        of others makes nobody less certain.
        """
        if write.is_seen_whole and not self.is_clear:
            self.is_clear, self.requesters, self.candidates = True, Requesters(), {}
            self.by_others = self.by_either = self.by_server = 0
        if self.is_clear and not write.is_seen_whole:
            return
        self.requesters.blame(sign.requesters)
        if sign.blame in (Blame.REQUESTER, Blame.EITHER):
            self.requesters.look(write, sign.paths, suspects)
        self.by_server += sign.blame is Blame.SERVER
        self.by_others += sign.blame is Blame.OTHERS
        self.by_either += sign.blame is Blame.EITHER
        if sign.blame in (Blame.OTHERS, Blame.EITHER):
            for name in called:
                self.candidates[name] = self.candidates.get(name, 0) + 1

    @property
    def only_requester(self) -> str | None:
        """Return the only user who can have done it; None where others may have."""
        users = self.requesters.users
        is_alone = len(users) == 1 and not (self.by_others or self.by_either or self.by_server)
        return next(iter(users)) if is_alone else None

    @property
    def webhooks(self) -> tuple[str, ...]:
        """Return the webhooks that may have done it, by name."""
        # A candidate that was not there for every sign cannot be the only one to blame.
        signs = self.by_others + self.by_either
        always = [name for name, count in self.candidates.items() if count == signs]
        return tuple(sorted(always or self.candidates))

    def actors(self, accused: Accused, suspects: Suspects, began: float) -> Iterator[Actor]:
        """Yield the actors, the likeliest first; `accused` are webhooks.

        began  when it did, as the time of day
        """
        webhooks = [
            Actor("webhook", name, "", confidence if self.by_others else Confidence.POSSIBLE)
            for name, confidence in accused
        ]
        requesters = self.requesters.actors(
            is_sure=not self.by_either and not self.by_server,
            in_order=partial(suspects.by_age, began=began),
        )
        yield from (*webhooks, *requesters) if self.by_others else (*requesters, *webhooks)

    @property
    def severity(self) -> Severity:
        """Return the severity, by count and duration; minor signals never make more than info.

        A lost observedGeneration that is still lost after few signs is a warning, once somebody
        has looked at the object: who waits for it waits for ever.
        """
        if self.minor:
            return Severity.INFO
        if self.count < LOOP_COUNT and not self.pace:
            lost = self.damage.lost if self.damage is not None else ()
            stays = self.state == "quiet" and self.looked > 0 and lost
            return Severity.WARNING if stays else Severity.INFO
        if self.count >= CRITICAL_COUNT and self.last - self.first >= CRITICAL_SECONDS:
            return Severity.CRITICAL
        return Severity.WARNING

    @property
    def resolves_after(self) -> float:
        """Return the seconds without a sign after which it is resolved; 0: time alone does not."""
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
        """Return it with times of another clock, which is ahead by so many seconds."""
        names = ("first", "last", "looked", "missed_since", "missed")
        times = {name: getattr(self, name) for name in names}
        moved = {name: max(at + seconds, 0.0) for name, at in times.items() if at}
        return msgspec.structs.replace(self, **moved)
