"""The state of one finding: how many signals it has, their paths, and who may have caused them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Self, TypeVar

import msgspec

from genguard.detection.damage import Damage
from genguard.detection.detectors.detector import Blame, Signal
from genguard.detection.evidence import ResourceKind, rank_of
from genguard.detection.fact import Seconds
from genguard.detection.finding import Actor, Confidence, Finding, Severity
from genguard.detection.sample import is_complete, sample_of
from genguard.detection.suspects import Suspects
from genguard.detection.write import ObjectKey, Requester, Write

LOOP_COUNT: Final = 3
CRITICAL_COUNT: Final = 20
CRITICAL_SECONDS: Final = 30.0
WINDOW_SECONDS: Final = 600.0
"""Signals further apart than this are not the same loop."""
QUIET_SECONDS: Final = 60.0
"""The shortest quiet after which a finding is resolved; longer for loops that turn slowly."""
MOST_PATHS: Final = 20
MOST_EVIDENCE: Final = 5
MOST_FOLLOWED: Final = 4
SECONDS_BETWEEN_SAMPLES: Final = 60.0
"""A loop of a thousand writes shows the same in each: one a minute is kept."""

Accused = tuple[tuple[str, Confidence], ...]
"""Webhooks, the likeliest first."""


class Doubt(NamedTuple):
    """A choice between several webhooks; equal for many findings, so it is made once.

    young  those that were created or changed shortly before this finding began, youngest first
    """

    detector: str
    where: ResourceKind
    names: tuple[str, ...]
    young: tuple[str, ...] = ()


_MOST: Final = 4
_NO_USERS: Final = "; users are not known from a watch"
_ORDER: Final = tuple(Confidence)
_Name = TypeVar("_Name")


class Requesters(msgspec.Struct, gc=False):
    """The requesters of one finding, and the policies on their writes; bounded."""

    requesters: dict[Requester, int] = {}
    writes: dict[str, int] = {}
    """By user."""
    matched: dict[tuple[str, str], int] = {}
    """By policy and user."""
    visible: dict[tuple[str, str], int] = {}
    processes: dict[tuple[str, str], int] = {}
    """By user and process."""

    def blame(self, requesters: Iterable[Requester]) -> None:
        """Count the requesters whom a signal blames."""
        for each in requesters:
            one = Requester(each.user, each.manager)
            if one in self.requesters or len(self.requesters) < _MOST:
                _add(self.requesters, one)
            process = each.user, each.process
            if each.process and (process in self.processes or len(self.processes) < _MOST):
                _add(self.processes, process)

    def look(self, write: Write, paths: Iterable[str], suspects: Suspects) -> None:
        """Count the policies that acted on a write, for a signal about its intent."""
        user = write.requester.user
        if user not in self.writes and len(self.writes) >= _MOST:
            return
        _add(self.writes, user)
        pointers = tuple(paths)
        for policy, is_sure in write.policies:
            if (policy, user) in self.matched or len(self.matched) < _MOST * _MOST:
                _add(self.matched, (policy, user))
                _add(self.visible, (policy, user), is_sure and suspects.sets(policy, pointers))

    def actors(self, *, is_sure: bool, young: Sequence[str] = ()) -> Iterator[Actor]:
        """Yield actors, the likeliest first.

        is_sure  the signals are about the intent
        young    policies that come before others as likely as they, in this order
        """
        writes = self.writes
        setters = {
            (policy, user)
            for (policy, user), count in self.visible.items()
            if user in writes and 2 * count > writes[user]  # of too many users some are gone
        }
        if not is_sure:
            yield from (self._user(one, Confidence.POSSIBLE) for one in self._often())
            names = _youngest(self.policies, young)
            yield from (_policy(name, Confidence.POSSIBLE) for name in names)
            return
        likely = {policy for policy, _ in setters}
        found = [_policy(name, Confidence.LIKELY) for name in _youngest(likely, young)]
        found += [self._user(one, self._confidence(one.user, setters)) for one in self._often()]
        others = _youngest(self.policies - likely, young)
        found += [_policy(name, Confidence.POSSIBLE) for name in others]
        yield from sorted(found, key=lambda one: _ORDER.index(one.confidence))

    @property
    def are_managers(self) -> bool:
        """Whether users are not known, and field managers stand for them."""
        return any(one.is_manager for one in self.requesters)

    @property
    def users(self) -> tuple[str, ...]:
        """Return the users who are blamed, each once."""
        return tuple(dict.fromkeys(one.user for one in self.requesters))

    def _user(self, one: Requester, confidence: Confidence) -> Actor:
        processes = sorted(process for user, process in self.processes if user == one.user)
        several = tuple(processes) if len(processes) > 1 else ()
        if one.is_manager:  # the entry of managedFields may be that of an earlier write
            surest = max(confidence, Confidence.LIKELY, key=lambda found: found.rank)
            return Actor("manager", one.manager, "", surest)
        return Actor("user", one.user, one.manager, confidence, several)

    def _often(self) -> list[Requester]:
        return sorted(self.requesters, key=lambda one: -self.requesters[one])

    @property
    def policies(self) -> set[str]:
        """Return the policies that acted on any of the writes."""
        return {policy for policy, _ in self.matched}

    def _confidence(self, user: str, setters: set[tuple[str, str]]) -> Confidence:
        if any(one == user for _, one in setters):
            return Confidence.POSSIBLE
        matched = any(one == user for _, one in self.matched)
        return Confidence.LIKELY if matched else Confidence.CERTAIN


def _add(counts: dict[_Name, int], name: _Name, more: int = 1) -> None:
    counts[name] = counts.get(name, 0) + more


def _policy(name: str, confidence: Confidence) -> Actor:
    return Actor("policy", name, "", confidence)


def _youngest(names: Iterable[str], young: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda one: rank_of(one, young))


class FindingState(msgspec.Struct, gc=False):
    """One finding with the counts behind it. Mutable: only the ledger has it."""

    id: str
    detector: str
    object: ObjectKey
    subresource: str
    first: Seconds
    last: Seconds
    count: int = 0
    minor: bool = True
    resolved: bool = False
    quiet: bool = False
    """There was no signal for a while, but the damage is still there."""
    damage: Damage | None = None
    averted: Damage | None = None
    """What would be damaged, had the last write with a signal not been restored."""
    repaired: bool = False
    """The damage was there and is gone, and there was no signal since."""
    looked: Seconds = 0.0
    """When the stored object was last looked at and the damage was still there; 0: never."""
    missed_since: Seconds = 0.0
    """Since when reviews of the object have been missed, so that signs may be unseen; 0: none."""
    missed: Seconds = 0.0
    """When a review of the object was last missed."""
    is_clear: bool = False
    """Who is blamed comes from writes that were seen whole alone."""
    reopened: int = 0
    message: str = ""
    paths: dict[str, None] = {}
    requesters: Requesters = msgspec.field(default_factory=Requesters)
    by_others: int = 0
    by_either: int = 0
    by_server: int = 0
    candidates: dict[str, int] = {}
    evidence: list[dict[str, Any]] = []
    cached: Finding | None = None
    doubt: Doubt | None = None
    """The choice behind `cached`; None where there was none between webhooks."""
    accused: Accused = ()
    """The webhooks that `cached` names: when these change, `cached` is made again."""
    sample: bytes = b""
    """One of its writes, field by field: see genguard/detection/sample.py."""
    sampled: Seconds = 0.0
    """The time of that write."""
    is_whole: bool = False
    """All phases of that write were seen."""
    pace: Seconds = 0.0
    """Seconds between two turns, of a loop that is slow; 0 of others."""
    follows: dict[str, int] = {}
    """Owners by uid, the nearest first, and how many signals came of their changes."""

    @property
    def only_requester(self) -> str | None:
        """Return the only user who can have done it; None where others may have."""
        users = self.requesters.users
        is_alone = len(users) == 1 and not (self.by_others or self.by_either or self.by_server)
        return users[0] if is_alone else None

    def blames(self, user: str) -> bool:
        """Whether a user is among those who are blamed."""
        return user in self.requesters.users

    @property
    def webhooks(self) -> tuple[str, ...]:
        """Return the webhooks that may have done it, by name."""
        # A candidate that was not there for every sign cannot be the only one to blame.
        signs = self.by_others + self.by_either
        always = [name for name, count in self.candidates.items() if count == signs]
        return tuple(sorted(always or self.candidates))

    def choice(self, suspects: Suspects) -> Doubt | None:
        """Return the choice between webhooks; None where at most one may have done it."""
        names = self.webhooks
        if len(names) <= 1:
            return None
        return Doubt(self.detector, self.place, names, suspects.young(names, self.first))

    @property
    def full_message(self) -> str:
        """The message, and that users are not known where they are not."""
        return self.message + (_NO_USERS if self.requesters.are_managers else "")

    def untold(self) -> Self:
        """Return a copy without the cached finding."""
        return msgspec.structs.replace(self, cached=None, doubt=None, accused=())

    @property
    def severity(self) -> Severity:
        """Return the severity, by count and duration; minor signals never make more than info.

        A lost observedGeneration that is still lost after few signs is a warning, once somebody
        has looked at the object: who waits for it waits for ever.
        """
        if self.minor or (self.count < LOOP_COUNT and not self.pace):
            stays = self.quiet and self.looked > 0 and self.damage is not None and self.damage.lost
            return Severity.WARNING if stays and not self.minor else Severity.INFO
        if self.count >= CRITICAL_COUNT and self.last - self.first >= CRITICAL_SECONDS:
            return Severity.CRITICAL
        return Severity.WARNING

    @property
    def state(self) -> str:
        """Return open, quiet or resolved."""
        if self.resolved:
            return "resolved"
        return "quiet" if self.quiet else "open"

    def blame(self, sign: Signal, write: Write, suspects: Suspects) -> None:
        """Count who may have made a sign.

        As soon as there is a write that was seen whole, only such writes count: what was not seen
        of others makes nobody less certain.
        """
        if write.is_seen_whole and not self.is_clear:
            self._begin_clear()
        if self.is_clear and not write.is_seen_whole:
            return
        self.requesters.blame(sign.requesters)
        if sign.blame in (Blame.REQUESTER, Blame.EITHER):
            self.requesters.look(write, sign.paths, suspects)
        self.by_server += sign.blame is Blame.SERVER
        if sign.blame in (Blame.OTHERS, Blame.EITHER):
            self.by_others += sign.blame is Blame.OTHERS
            self.by_either += sign.blame is Blame.EITHER
            for name in write.called.again if sign.reinvoked else write.called.first:
                self.candidates[name] = self.candidates.get(name, 0) + 1

    def take_sample(self, write: Write, first: Sequence[str]) -> None:
        """Keep the values of a write, unless a write that shows as much was kept a moment ago.

        first  JSON Pointers of the fields that the signal is about
        """
        is_whole = is_complete(write)
        is_news = is_whole and write.time - self.sampled >= SECONDS_BETWEEN_SAMPLES
        if self.sample and not (is_news or is_whole > self.is_whole):
            return
        sample = sample_of(write, first)
        if sample is not None:
            self.sample, self.sampled, self.is_whole = sample, write.time, is_whole

    def shift(self, seconds: float, now: float) -> None:
        """Move all times by so many seconds, and none beyond `now`; 0 stays: there is no time."""
        self.first = min(self.first + seconds, now)
        self.last = min(self.last + seconds, now)
        self.looked = self.looked and min(self.looked + seconds, now)
        self.missed_since = self.missed_since and min(self.missed_since + seconds, now)
        self.missed = self.missed and min(self.missed + seconds, now)
        self.cached = None

    def _begin_clear(self) -> None:
        """Forget who was blamed for writes that were not seen whole."""
        self.is_clear, self.requesters, self.candidates = True, Requesters(), {}
        self.by_others = self.by_either = self.by_server = 0

    @property
    def resolves_after(self) -> float:
        """Return the seconds without a sign after which it is resolved; 0: time alone does not."""
        waits = self.resolved or self.damage or self.missed_since
        return 0.0 if waits else self.quiet_needed()

    def quiet_needed(self) -> float:
        """Return the seconds without a signal after which it is resolved.

        Longer for slow loops, and twice as long each time that the finding came back.
        """
        pace = (self.last - self.first) / max(self.count - 1, 1)
        pace = max(pace, self.pace)
        return min(max(QUIET_SECONDS, 4 * pace) * 2.0 ** min(self.reopened, 8), self.window)

    @property
    def window(self) -> float:
        """Return the seconds after which another signal is another loop."""
        return max(WINDOW_SECONDS, 4 * self.pace)

    @property
    def place(self) -> ResourceKind:
        """Return the kind of resource, by which evidence about webhooks is kept."""
        return ResourceKind(self.object.group, self.object.resource, self.subresource)

    def actors(self, accused: Accused, suspects: Suspects) -> Iterator[Actor]:
        """Yield the actors, the likeliest first; `accused` are webhooks."""
        webhooks = [
            Actor("webhook", name, "", confidence if self.by_others else Confidence.POSSIBLE)
            for name, confidence in accused
        ]
        requesters = self.requesters.actors(
            is_sure=not self.by_either and not self.by_server,
            young=suspects.young(self.requesters.policies, self.first),
        )
        yield from (*webhooks, *requesters) if self.by_others else (*requesters, *webhooks)
