"""Who is behind what was already there at intent: the requester, or a policy that acted before.

The requester stays the likely actor. A policy comes before it when it certainly acted on most of
the requester's writes and its mutations visibly set what is told of; one that only matches makes
the requester likely instead of certain.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, Self, TypeVar

import msgspec

from webhook.detection.finding import Actor, Confidence
from webhook.detection.suspects import Suspects
from webhook.detection.write import Requester, Write

_MOST: Final = 4
_ORDER: Final = tuple(Confidence)
_Name = TypeVar("_Name")


class _Plain(NamedTuple):
    requesters: list[tuple[Requester, int]]
    writes: list[tuple[str, int]]
    matched: list[tuple[tuple[str, str], int]]
    visible: list[tuple[tuple[str, str], int]]


class Askers:
    """The requesters of one finding, and the policies on their writes; bounded."""

    __slots__ = ("_matched", "_requesters", "_visible", "_writes")

    def __init__(self) -> None:
        # No Counter: there are 10,000 findings, and the garbage collector looks at each of those.
        self._requesters: dict[Requester, int] = {}
        self._writes: dict[str, int] = {}  # by user
        self._matched: dict[tuple[str, str], int] = {}  # by policy and user
        self._visible: dict[tuple[str, str], int] = {}

    def blame(self, requesters: Iterable[Requester]) -> None:
        """These are behind a sign."""
        for one in requesters:
            if one in self._requesters or len(self._requesters) < _MOST:
                _add(self._requesters, one)

    def look(self, write: Write, paths: Iterable[str], suspects: Suspects) -> None:
        """A sign about what was there at intent: which policies acted on its write."""
        user = write.requester.user
        if user not in self._writes and len(self._writes) >= _MOST:
            return
        _add(self._writes, user)
        pointers = tuple(paths)
        for policy, is_sure in write.policies:
            if (policy, user) in self._matched or len(self._matched) < _MOST * _MOST:
                _add(self._matched, (policy, user))
                _add(self._visible, (policy, user), is_sure and suspects.sets(policy, pointers))

    def absorb(self, other: Self) -> None:
        """Add what was seen of the same finding elsewhere; of too many those seen least go."""
        _absorb(self._requesters, other._requesters, _MOST)
        _absorb(self._writes, other._writes, _MOST)
        _absorb(self._matched, other._matched, _MOST * _MOST)
        for name, count in other._visible.items():
            _add(self._visible, name, count)
        for name in self._visible.keys() - self._matched.keys():
            del self._visible[name]

    def actors(self, *, is_sure: bool) -> Iterator[Actor]:
        """The likeliest first; all are only possible where it may have come after intent."""
        writes = self._writes
        setters = {
            (policy, user)
            for (policy, user), count in self._visible.items()
            if user in writes and 2 * count > writes[user]  # of too many users some are gone
        }
        if not is_sure:
            yield from (_user(one, Confidence.POSSIBLE) for one in self._often())
            names = dict.fromkeys(policy for policy, _ in sorted(self._matched))
            yield from (_policy(name, Confidence.POSSIBLE) for name in names)
            return
        likely = {policy for policy, _ in setters}
        found = [_policy(name, Confidence.LIKELY) for name in sorted(likely)]
        found += [_user(one, self._confidence(one.user, setters)) for one in self._often()]
        others = {policy for policy, _ in self._matched} - likely
        found += [_policy(name, Confidence.POSSIBLE) for name in sorted(others)]
        yield from sorted(found, key=lambda one: _ORDER.index(one.confidence))

    def plain(self) -> tuple[list[Any], ...]:
        """All of it, for `from_plain`."""
        counters = self._requesters, self._writes, self._matched, self._visible
        return tuple(list(one.items()) for one in counters)

    @classmethod
    def from_plain(cls, value: Any) -> Self:
        """What was `plain`. Raises msgspec.MsgspecError."""
        found = cls()
        plain = msgspec.convert(value, _Plain)
        found._requesters.update(plain.requesters)
        found._writes.update(plain.writes)
        found._matched.update(plain.matched)
        found._visible.update(plain.visible)
        return found

    def _often(self) -> list[Requester]:
        return sorted(self._requesters, key=lambda one: -self._requesters[one])

    def _confidence(self, user: str, setters: set[tuple[str, str]]) -> Confidence:
        if any(one == user for _, one in setters):
            return Confidence.POSSIBLE
        matched = any(one == user for _, one in self._matched)
        return Confidence.LIKELY if matched else Confidence.CERTAIN


def _add(counts: dict[_Name, int], name: _Name, more: int = 1) -> None:
    counts[name] = counts.get(name, 0) + more


def _absorb(mine: dict[Any, int], theirs: dict[Any, int], most: int) -> None:
    for name, count in theirs.items():
        _add(mine, name, count)
    for name, _ in sorted(mine.items(), key=lambda one: (-one[1], one[0]))[most:]:
        del mine[name]


def _user(one: Requester, confidence: Confidence) -> Actor:
    return Actor("user", one.user, one.manager, confidence)


def _policy(name: str, confidence: Confidence) -> Actor:
    return Actor("policy", name, "", confidence)
