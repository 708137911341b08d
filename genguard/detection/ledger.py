"""Make findings of signals: repeated on one object they are a loop, and quiet resolves it."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from operator import is_
from typing import Any, Final, NamedTuple

import msgspec

from genguard.admission.review import JoinKey
from genguard.detection.causes import root_causes
from genguard.detection.culprits import fold
from genguard.detection.damage import Damage, repair_command
from genguard.detection.detectors.detector import Blame, Signal
from genguard.detection.evidence import NOTHING_SHARED, Shared, share
from genguard.detection.fact import SECONDS_APART, Seconds
from genguard.detection.finding import Actor, Finding, FoundObject, Severity
from genguard.detection.finding_state import (
    MOST_EVIDENCE,
    MOST_FOLLOWED,
    MOST_PATHS,
    Accused,
    Doubt,
    FindingState,
)
from genguard.detection.suspects import Suspects
from genguard.detection.write import ObjectKey, Write, name_of

MOST_FINDINGS: Final = 10_000
MOST_BYTES: Final = 40 * 1024 * 1024
"""Of all findings: 10,000 with names and fields of usual length."""
_BYTES_OF_FINDING: Final = 2_500
"""What a finding takes in memory, more than its exported bytes."""
SECONDS_UNSEEN: Final = 86_400.0
"""Damage that nobody has seen for so long is dropped: without a cluster genguard sees writes only,
and may have missed a deletion."""
_SEPARATOR: Final = "\0"

Row = tuple[str, bytes]
"""The name of a finding, and all that is known of it."""


Signs = tuple[int, float]
"""The number of signals, and the time of the last."""


class Mark(NamedTuple):
    """Values of a finding; if they are equal, it has not changed.

    news   those that differ once it is opened, worse, better or over
    signs  those that each signal changes
    """

    news: tuple[str, Severity, Damage | None]
    signs: Signs


class Saved(NamedTuple):
    """A finding as it is saved; `content` makes the bytes."""

    name: str
    mark: Mark
    is_over: bool
    content: Callable[[], bytes]


_Key = tuple[str, ...]


class Damaged(NamedTuple):
    """A finding that left damage: its id, its object, the damage, and when it was last seen."""

    finding: str
    object: FoundObject
    subresource: str
    damage: Damage
    last: float


class Ledger:
    """All findings. Over the bounds, those unchanged for longest are dropped first."""

    def __init__(self, suspects: Suspects) -> None:
        self._suspects: Final = suspects
        self._entries: OrderedDict[_Key, FindingState] = OrderedDict()
        self._sizes: dict[_Key, int] = {}
        self.bytes = 0
        self.dropped = 0
        """How many findings were dropped before they were resolved."""
        self._of_object: dict[str, set[_Key]] = {}
        """Objects by `name_of`, and their findings."""
        self._shed: Seconds = 0.0
        """When a review of nobody knows which object was last not judged."""
        self._last: tuple[Finding, ...] = ()
        self._given: tuple[Finding, ...] = ()
        self._folded: tuple[Finding, ...] = ()
        self._restored: dict[_Key, Signs] = {}
        """The signals of each finding when it was restored."""
        self._changed()

    def _changed(self) -> None:
        """Drop what was computed from all entries together."""
        self._cached: tuple[Finding, ...] | None = None
        self._sharing: dict[str, Shared] | None = None
        self._causes: Mapping[str, str] | None = None

    def add(
        self, detector: str, sign: Signal, write: Write, follows: Iterable[str] = ()
    ) -> Severity:
        """Enter a signal, and return the severity that its finding has by itself now.

        follows  the uids of owners whose changes the write follows, the nearest first
        """
        evidence = {"time": _rfc3339(write.time), "user": write.requester.user, **sign.evidence}
        if sign.blame in (Blame.OTHERS, Blame.EITHER):
            called, calls = self._suspects.calls_about(
                write.called, sign.paths, again=sign.reinvoked
            )
            if called is not write.called:
                write = msgspec.structs.replace(write, called=called)
                evidence |= calls
        entry = self._entry(detector, write)
        self._changed()
        entry.cached = None
        entry.count += 1
        # Of clocks that differ the latest counts.
        entry.first, entry.last = min(entry.first, write.time), max(entry.last, write.time)
        entry.message = sign.message
        entry.minor = entry.minor and sign.minor
        # Where outcomes are not registered nobody knows what was stored: genguard may have
        # repaired the write itself.
        entry.damage = sign.damage if write.has_outcome or write.missing else None
        entry.averted = sign.averted
        entry.pace = sign.pace
        entry.quiet = entry.repaired = False
        for path in sign.paths[:MOST_PATHS]:
            if len(entry.paths) < MOST_PATHS:
                entry.paths[path] = None
        entry.take_sample(write, sign.paths)
        for owner in follows:
            if owner in entry.follows or len(entry.follows) < MOST_FOLLOWED:
                entry.follows[owner] = entry.follows.get(owner, 0) + 1
        entry.blame(sign, write, self._suspects)
        if write.missing:
            evidence["missing"] = list(write.missing)
        entry.evidence = [*entry.evidence[-(MOST_EVIDENCE - 1) :], evidence]
        self._weigh(_key_of(entry), entry)
        self._shrink()
        return entry.severity

    def miss(self, where: JoinKey | ObjectKey, subresource: str, now: float) -> None:
        """Note that a review of an object was not seen: its findings may go on unseen."""
        for key in self._of_object.get(name_of(where), ()):
            entry = self._entries[key]
            if entry.subresource == _subresource(subresource):
                self._miss(entry, now)

    def miss_any(self, now: float) -> None:
        """Note that a review was not judged, of nobody knows which object."""
        self._shed = max(self._shed, now)

    def _miss(self, entry: FindingState, now: float) -> None:
        if entry.resolved:
            return
        if not entry.missed_since:
            entry.missed_since, entry.cached, self._cached = now, None, None
        entry.missed = max(entry.missed, now)

    def settle(self, now: float) -> Iterator[Finding]:
        """Resolve findings that are quiet and left no damage, and yield them.

        With damage a finding becomes `quiet`, and resolves when the damage is gone. Nothing is
        resolved as long as reviews of its object are missed.
        """
        for entry in self._entries.values():
            if max(entry.last, entry.looked, entry.missed) > now + SECONDS_APART:
                self._put_back(entry, now)
            if self._shed > max(entry.missed, entry.last):
                self._miss(entry, self._shed)
            needed = entry.quiet_needed()
            if entry.missed_since and now - entry.missed >= needed:
                entry.missed_since, entry.cached, self._cached = 0.0, None, None
            if entry.resolved or entry.missed_since or now - entry.last < needed:
                continue
            is_known = now - max(entry.last, entry.looked) < SECONDS_UNSEEN
            if entry.damage and is_known:
                if not entry.quiet:
                    entry.quiet, entry.cached, self._cached = True, None, None
                continue
            yield self._resolve(entry)

    def shift(self, seconds: float, now: float) -> None:
        """Move the times of unresolved findings: the clock was put forth so many seconds.

        now  what it says; no time is later
        """
        if self._shed:
            self._shed = min(self._shed + seconds, now)
        for entry in self._entries.values():
            if not entry.resolved:
                entry.shift(seconds, now)
        self._changed()

    def damaged(self, *, in_doubt: bool = False) -> Iterator[Damaged]:
        """Yield findings that are not resolved and whose damage may still be there.

        in_doubt  those as well whose damage was averted: it may be there by now
        """
        for entry in list(self._entries.values()):
            damage = entry.damage or (entry.averted if in_doubt else None)
            if damage and not entry.resolved:
                where = FoundObject(*msgspec.structs.astuple(entry.object))
                yield Damaged(entry.id, where, entry.subresource, damage, entry.last)

    def doubt(self) -> None:
        """Take averted damage for damage until somebody looks: writes were not restored lately."""
        for entry in self._entries.values():
            if entry.averted and not entry.damage and not entry.resolved:
                entry.damage, entry.repaired, entry.cached = entry.averted, False, None
        self._cached = None

    def see_damage(self, damaged: Damaged, *, is_broken: bool, now: float) -> None:
        """Note whether the stored object of a finding still has its damage.

        An object that is gone counts as not broken.
        """
        where = ObjectKey(*msgspec.structs.astuple(damaged.object))
        for entry in (self._entries[key] for key in self._of_object.get(name_of(where), ())):
            if entry.id != damaged.finding or entry.resolved:
                continue
            if is_broken and not entry.damage:  # it was averted, as far as anybody knew
                entry.damage, entry.repaired = damaged.damage, False
            if entry.damage:
                self._see(entry, is_broken=is_broken, now=now)

    def see_object(self, name: str, is_broken: Callable[[Damage], bool], now: float) -> None:
        """As `see_damage`, for every finding about the object of this name (`name_of`)."""
        for entry in (self._entries[key] for key in self._of_object.get(name, ())):
            if entry.damage and not entry.resolved:
                self._see(entry, is_broken=is_broken(entry.damage), now=now)

    def _see(self, entry: FindingState, *, is_broken: bool, now: float) -> None:
        entry.cached = self._cached = None
        if is_broken:
            entry.looked = now
            return
        entry.damage, entry.repaired = None, True
        if entry.quiet:
            entry.quiet, entry.resolved = False, True

    def _put_back(self, entry: FindingState, now: float) -> None:
        """The clock was put back: a finding is quiet from now on, and not from a time to come."""
        entry.first, entry.last = min(entry.first, now), min(entry.last, now)
        entry.looked, entry.missed = min(entry.looked, now), min(entry.missed, now)
        entry.missed_since = min(entry.missed_since, now)
        entry.cached = self._cached = self._causes = None

    def _resolve(self, entry: FindingState) -> Finding:
        entry.resolved, entry.quiet, entry.damage = True, False, None
        entry.cached = self._cached = None
        return self._finding(entry, {})

    def _index(self, key: _Key, entry: FindingState) -> None:
        self._of_object.setdefault(name_of(entry.object), set()).add(key)

    def findings(self) -> tuple[Finding, ...]:
        """Return all findings, oldest first; the same tuple as before if nothing changed.

        Those of one culprit with many objects are parts of one finding: see culprits.py.
        """
        found = self._each()
        if found is not self._given:
            self._given, self._folded = found, fold(found)
        return self._folded

    def _each(self) -> tuple[Finding, ...]:
        """Return the findings of single objects, oldest first."""
        if self._cached is not None:
            return self._cached
        known: dict[Doubt, Accused] = {}
        order = sorted(self._entries.values(), key=lambda one: (one.first, one.id))
        found = tuple(self._finding(entry, known) for entry in order)
        if len(found) == len(self._last) and all(map(is_, found, self._last)):
            found = self._last
        self._last = found
        if not known:
            self._cached = found
        return found

    def samples(self, ids: Collection[str]) -> dict[str, bytes]:
        """Return, by the id of the finding, the samples of those findings that have one."""
        entries = self._entries.values()
        return {one.id: one.sample for one in entries if one.sample and one.id in ids}

    def snapshot(self) -> Iterator[Saved]:
        """Yield each finding as it is saved, the worst and latest first."""
        entries = list(self._entries.items())
        for key, entry in sorted(entries, key=_place_in_line, reverse=True):
            news = entry.state, entry.severity, entry.damage
            mark = Mark(news, (entry.count, entry.last))
            yield Saved(_SEPARATOR.join(key), mark, entry.resolved, partial(_exported, entry))

    def restore(self, rows: Iterable[Row], *, keeps_own: bool = False) -> set[str]:
        """Replace all findings by saved ones; return the ids of those that were not known so.

        keeps_own  keep what is known here alone. Of what is known in both places the saved one is
                   taken. But one that has had a signal here since it was restored stays as it is,
                   with the larger count
        Raises msgspec.MsgspecError or ValueError, and then nothing is changed.
        """
        found = sorted(_decoded(rows), key=lambda one: one[1].last)
        if keeps_own:
            found = [one for one in found if self._is_behind(*one)]
        else:
            self._entries, self._of_object = OrderedDict(), {}
            self._sizes, self.bytes, self._restored = {}, 0, {}
        for key, entry in found:
            self._drop(key)
            self._entries[key] = entry
            self._restored[key] = (entry.count, entry.last)
            self._index(key, entry)
            self._weigh(key, entry)
        self._shrink()
        self._changed()
        return {entry.id for _, entry in found}

    def _is_behind(self, key: _Key, saved: FindingState) -> bool:
        """Whether the saved finding is to replace the one that is known here."""
        known = self._entries.get(key)
        signs = None if known is None else (known.count, known.last)
        if known is not None and signs != self._restored.get(key):
            known.count, known.cached = max(known.count, saved.count), None
            return False
        return signs != (saved.count, saved.last)

    def _entry(self, detector: str, write: Write) -> FindingState:
        subresource = _subresource(write.subresource)
        key = _key(detector, write.object, subresource)
        entry = self._entries.get(key)
        is_other = entry is not None and write.time - entry.last > entry.window
        if entry is not None and is_other and not entry.damage:
            self._drop(key)
            entry = None
        if entry is None:
            identity = hashlib.blake2b(_SEPARATOR.join(key).encode(), digest_size=8).hexdigest()
            entry = self._entries[key] = FindingState(
                identity, detector, write.object, subresource, write.time, write.time
            )
            self._index(key, entry)
        else:
            # By the times of writes alone: when it was settled differs from replica to replica.
            entry.reopened += write.time - entry.last >= entry.quiet_needed()
            entry.resolved = False
        self._entries.move_to_end(key)
        return entry

    def _weigh(self, key: _Key, entry: FindingState) -> None:
        """Count again the bytes that a finding takes."""
        size = _BYTES_OF_FINDING + len(_exported(entry))
        self.bytes += size - self._sizes.get(key, 0)
        self._sizes[key] = size

    def _drop(self, key: _Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self.bytes -= self._sizes.pop(key, 0)
        self._restored.pop(key, None)
        name = name_of(entry.object)
        keys = self._of_object.get(name, set())
        keys.discard(key)
        if not keys:
            self._of_object.pop(name, None)

    def _shrink(self) -> None:
        while len(self._entries) > MOST_FINDINGS or self.bytes > MOST_BYTES:
            key, oldest = next(iter(self._entries.items()))
            self.dropped += not oldest.resolved
            self._drop(key)

    def _finding(self, entry: FindingState, known: dict[Doubt, Accused]) -> Finding:
        """Return a finding, the same one as long as nothing changed; `known` caches choices."""
        if self._causes is None:
            self._causes = root_causes(tuple(self._entries.values()))
        cause = self._causes.get(entry.id, "")
        if entry.cached is not None and entry.cached.caused_by != cause:
            entry.cached = None
        if entry.cached is None:
            entry.doubt = entry.choice(self._suspects)
        elif entry.doubt is None:
            return entry.cached
        accused = self._accused(entry, known)
        if entry.cached is not None and entry.accused == accused:
            return entry.cached
        where = FoundObject(*msgspec.structs.astuple(entry.object))
        actors = tuple(entry.actors(accused, self._suspects))
        found = Finding(
            id=entry.id,
            detector=entry.detector,
            severity=Severity.INFO if cause else entry.severity,
            state=entry.state,
            object=where,
            subresource=entry.subresource,
            paths=tuple(entry.paths),
            actors=actors,
            count=entry.count,
            first_seen=_rfc3339(entry.first),
            last_seen=_rfc3339(entry.last),
            message=entry.full_message,
            evidence=(*entry.evidence, *self._notes(actors, entry.first)),
            repair=repair_command(where, entry.subresource, entry.damage) if entry.damage else "",
            caused_by=cause,
            repaired=entry.repaired and not entry.resolved,
            resolves_after=entry.resolves_after,
            incomplete_since=_rfc3339(entry.missed_since) if entry.missed_since else "",
        )
        entry.cached, entry.accused = found, accused
        return found

    def _notes(self, actors: Iterable[Actor], began: float) -> Iterator[dict[str, Any]]:
        for one in self._suspects.notes(actors, began):
            yield {"time": _rfc3339(began), "actor": one.actor, "note": one.text}

    def _accused(self, entry: FindingState, known: dict[Doubt, Accused]) -> Accused:
        """Return the webhooks that are accused; every write may change a choice between several."""
        doubt = entry.doubt
        if doubt is None:
            return tuple(self._suspects.ranked(entry.webhooks))
        accused = known.get(doubt)
        if accused is None:
            if self._sharing is None:
                self._sharing = self._shared()
            shared = self._sharing.get(doubt.detector, NOTHING_SHARED)
            found = self._suspects.accused(doubt.names, shared, doubt.where, doubt.young)
            accused = tuple(found)
            known[doubt] = accused
        return accused

    def _shared(self) -> dict[str, Shared]:
        """Return by detector what findings that blame other webhooks have in common."""
        candidates: dict[str, list[Collection[str]]] = {}
        for entry in self._entries.values():
            if entry.by_others and entry.candidates:
                candidates.setdefault(entry.detector, []).append(entry.candidates)
        return {detector: share(several) for detector, several in candidates.items()}


def _key(detector: str, where: ObjectKey, subresource: str) -> _Key:
    return (detector, where.group, where.resource, name_of(where), subresource)


def _key_of(entry: FindingState) -> _Key:
    return _key(entry.detector, entry.object, entry.subresource)


_RANKS: Final = {severity: rank for rank, severity in enumerate(Severity)}


def _place_in_line(item: tuple[_Key, FindingState]) -> tuple[int, float]:
    """Return what the worst and latest finding has the greatest of."""
    _, entry = item
    return _RANKS[entry.severity], entry.last


def _subresource(written: str) -> str:
    """Return the subresource of findings; a Scale is a view of the object itself."""
    return "" if written == "scale" else written


def _exported(entry: FindingState) -> bytes:
    return msgspec.msgpack.encode(entry.untold())


def _decoded(rows: Iterable[Row]) -> list[tuple[_Key, FindingState]]:
    return [(tuple(name.split(_SEPARATOR)), _decoder.decode(content)) for name, content in rows]


_decoder: Final = msgspec.msgpack.Decoder(FindingState)


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
