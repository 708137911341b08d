"""Make findings of signals: repeated on one object they are a loop, and quiet resolves it.

All findings together have a bound in bytes. Over it, what is resolved goes first. Then the object
that holds most, in the namespace that holds most, gives way: info before a warning, and the longest
unchanged first. The examples of findings go before a finding does. One with damage stays as long as
there is one without, in each namespace up to half of the bound: else who makes much damage would
push out whatever others know.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from heapq import nlargest
from operator import attrgetter
from typing import Final

import msgspec

from genguard.admission.matching import ResourceKind
from genguard.admission.review import JoinKey, ObjectName
from genguard.detection.causes import fold, root_causes
from genguard.detection.damage import Damage
from genguard.detection.finding import Confidence, Finding, FoundObject, Severity
from genguard.detection.finding_state import Candidates, FindingState
from genguard.detection.fix import repair_command
from genguard.detection.mutators import Mutators, Shared
from genguard.detection.observation import Seconds
from genguard.detection.question import ChangedBy, Signal
from genguard.detection.write import ObjectKey, Write, is_manager, name_of
from genguard.objects.metadata import rfc3339

MOST_FINDINGS: Final = 10_000
MOST_BYTES: Final = 40 * 1024 * 1024
"""For all findings: 10,000 with names and fields of usual length."""
_LEAST_BYTES: Final = MOST_BYTES // MOST_FINDINGS
"""The smallest finding counts as so many, so that their number is bounded as well."""
_BYTES_OF_FINDING: Final = 2_500
"""A finding takes so many in memory, beside its exported bytes."""
_FREED: Final = 16
"""Over the bound, a part of this size is freed at once: to find out who holds most takes long."""
_MOST_NOTES: Final = 3
"""Notes in one finding, about the age of its actors."""
_RESOLVED_SECONDS: Final = 86_400.0
_MOST_RESOLVED: Final = 200
"""So many resolved findings of the last day are saved, the latest of them."""
_NO_USERS: Final = "; a watch shows field managers, and no users"

Row = tuple[str, bytes]
"""The id of a finding, and all that is known of it."""


class Ledger:
    """All findings."""

    def __init__(self, mutators: Mutators) -> None:
        self._mutators: Final = mutators
        self._about: dict[ObjectName, dict[str, FindingState]] = {}
        """By object and id."""
        self.bytes = 0
        self.dropped = 0
        """How many findings were dropped before they were resolved."""
        self._shed: Seconds = 0.0
        """When a review of an unknown object was last not examined."""
        self._told: dict[str, tuple[str, Candidates, Finding]] = {}
        """Each finding as it was told, with its cause and the webhooks that it names."""
        self._each: list[Finding] = []
        self._folded: tuple[Finding, ...] = ()
        self._is_told = True
        """Whether `_folded` is what all findings are now."""
        self._now: Seconds = 0.0
        """The time, as far as it was told."""
        self._ahead = 0.0
        """By how many seconds the time of day is ahead of the times given here."""

    def _all(self) -> Iterator[FindingState]:
        return (entry for entries in self._about.values() for entry in entries.values())

    def tell_time(self, now: float, ahead: float) -> None:
        """Take in what time it is, and show and save times by a time of day that is ahead of it."""
        self._now = max(self._now, now)
        if ahead != self._ahead:
            self._ahead, self._is_told = ahead, False
            self._told.clear()

    def _changed(self, entry: FindingState) -> None:
        self._told.pop(entry.id, None)
        self._is_told = False

    def add(self, detector: str, signal: Signal, write: Write, owners: Iterable[str] = ()) -> None:
        """Enter a signal.

        owners   the uids of owners whose changes caused the write, the nearest first
        """
        where, subresource = write.object, _subresource(write.subresource)
        key = detector, where.group, where.resource, name_of(where), subresource
        identity = hashlib.blake2b("\0".join(key).encode(), digest_size=8).hexdigest()
        fresh = FindingState(identity, detector, where, subresource, write.time, write.time)
        entry = self._about.get(_name_of(where), {}).get(identity, fresh)
        if not entry.damage and write.time - entry.last > entry.window:
            entry = fresh
        entry.take(signal, write, owners, self._mutators, self._ahead)
        entry.heard, entry.is_own = max(entry.last, self._now), True
        self._put(entry)
        self._shrink()

    def miss(
        self, where: JoinKey | ObjectKey | ObjectName | None, subresource: str | None, now: float
    ) -> None:
        """Note that a review of an object was not seen: its findings may go on unseen.

        where        None: nobody knows of which object
        subresource  None: nobody knows of which one
        """
        now = max(now, self._now)  # it is known since it was read
        if where is None:
            self._shed = max(self._shed, now)
            return
        for entry in self._about.get(_name_of(where), {}).values():
            if subresource is None or entry.subresource == _subresource(subresource):
                entry.miss(now)
                self._changed(entry)

    def resolve_quiet(self, now: float) -> None:
        """Resolve findings that are quiet and left no damage.

        With damage a finding becomes `quiet`, and resolves when the damage is gone. Nothing is
        resolved as long as reviews of its object are missed.

        now  may be no later than the oldest review that waits: what nobody has read is no silence
        """
        self._now = max(self._now, now)
        for entry in self._all():
            before = entry.state, entry.missed_since
            if self._shed > max(entry.missed, entry.last):
                entry.miss(self._shed)
            entry.resolve_quiet(now)
            if before != (entry.state, entry.missed_since):
                self._changed(entry)

    def damaged(self) -> list[FindingState]:
        """Return findings that are not resolved and whose damage is there, or may be."""
        return [state for state in self._all() if state.possible_damage]

    def look(
        self, where: JoinKey | ObjectKey, is_broken: Callable[[Damage], bool], now: float
    ) -> None:
        """Note whether a stored object has the damage of findings; one that is gone has none."""
        for entry in self._about.get(_name_of(where), {}).values():
            damage = entry.possible_damage
            if damage is None or entry.object.uid != where.uid:
                continue
            if is_broken(damage):
                entry.damage, entry.repaired, entry.looked = damage, False, now
            elif entry.damage:
                entry.next("damage gone")
            self._changed(entry)

    def findings(self) -> tuple[Finding, ...]:
        """Return all findings, oldest first; the same tuple as before if nothing changed.

        Those of one culprit with many objects are parts of one finding: see causes.py.
        """
        if self._is_told:
            return self._folded
        self._is_told = True  # but every write may change a choice between several webhooks
        entries = sorted(self._all(), key=lambda state: (state.first, state.id))
        causes, known, found = root_causes(entries), {entry.id: entry for entry in entries}, []
        shared: defaultdict[str, Shared] = defaultdict(Counter)
        for entry in entries:
            if ChangedBy.OTHERS in entry.changed_by:
                names = entry.webhooks
                shared[entry.detector].update((name, len(names) == 1) for name in names)

        @cache
        def choose(detector: str, where: ResourceKind, names: tuple[str, ...]) -> Candidates:
            return self._mutators.candidates(names, shared[detector], where)

        for entry in entries:
            candidates: Candidates = ()
            if names := entry.webhooks:
                where = entry.object
                kind = ResourceKind(where.group, where.resource, entry.subresource)
                names = self._mutators.by_age(names, entry.first + self._ahead)
                candidates = choose(entry.detector, kind, names)
                self._is_told = self._is_told and len(names) <= 1
            told, cause = self._told.get(entry.id), causes.get(entry.id, "")
            if told is None or told[:2] != (cause, candidates):
                made = self._finding(entry, known.get(cause), candidates)
                told = self._told[entry.id] = cause, candidates, made
            found.append(told[2])
        if found != self._each:
            self._each, self._folded = found, fold(tuple(found))
        return self._folded

    def samples(self, ids: Collection[str]) -> dict[str, bytes]:
        """Return, by the id of the finding, the samples of those findings that have one."""
        return {state.id: state.sample for state in self._all() if state.sample and state.id in ids}

    def kept(self, room: int = MOST_BYTES) -> list[FindingState]:
        """Return each finding that is to be saved; those that were resolved lately come last.

        room  in bytes; where not all have room, the last ones are to be left out
        """
        order = self._in_order(room) if self.bytes > room else self._all()
        oldest, over = self._now - _RESOLVED_SECONDS, list[FindingState]()
        over += (
            state for state in self._all() if state.state == "resolved" and state.last > oldest
        )
        latest = nlargest(_MOST_RESOLVED, over, key=attrgetter("last"))
        return [*(entry for entry in order if entry.state != "resolved"), *latest]

    def content(self, entry: FindingState, *, is_brief: bool = False) -> bytes:
        """Return a finding as it is saved, by the time of day; if brief, without its examples."""
        copy = entry.moved(self._ahead)
        if is_brief:
            copy.shorten()
        return msgspec.msgpack.encode(copy)

    def restore(self, rows: Iterable[Row], *, keeps_own: bool = False) -> set[str]:
        """Replace all findings by saved ones; return the ids of those that were taken.

        keeps_own  keep findings that are known here alone. A saved finding replaces the known one,
                   unless that has had a signal here since it was restored: then the known one
                   stays as it is, with the larger count
        Raises msgspec.MsgspecError or ValueError, and then nothing is changed.
        """
        found = [_decoder.decode(content).moved(-self._ahead) for _, content in rows]
        if not keeps_own:
            self._about, self.bytes, self._is_told = {}, 0, False
            self._told.clear()
        taken = set()
        for saved in found:
            known = self._about.get(_name_of(saved.object), {}).get(saved.id)
            if known is not None and known.is_own:
                known.count = max(known.count, saved.count)
                self._changed(known)
                continue
            saved.heard = max(saved.last, self._now)  # what nobody read was no silence
            self._put(saved)
            taken.add(saved.id)
        self._shrink()
        return taken

    def _put(self, entry: FindingState) -> None:
        """Keep a finding, and count again the bytes that it takes."""
        about = self._about.setdefault(_name_of(entry.object), {})
        self.bytes -= about[entry.id].size if entry.id in about else 0
        entry.size = max(_BYTES_OF_FINDING + len(msgspec.msgpack.encode(entry)), _LEAST_BYTES)
        self.bytes += entry.size
        about[entry.id] = entry
        self._changed(entry)

    def _drop(self, entry: FindingState) -> None:
        name = _name_of(entry.object)
        del self._about[name][entry.id]
        if not self._about[name]:
            del self._about[name]
        self.dropped += entry.state != "resolved"
        self.bytes -= entry.size
        self._changed(entry)

    def _shorten(self, entry: FindingState) -> None:
        if entry.sample or len(entry.evidence) > 1:
            entry.shorten()
            self._put(entry)

    def _shrink(self) -> None:
        """Over the bound, drop what is resolved, then examples, then findings."""
        if self.bytes <= MOST_BYTES:
            return
        last_first = self._in_order(MOST_BYTES)[::-1]
        for is_over, gives_way in ((True, self._drop), (False, self._shorten), (False, self._drop)):
            for entry in last_first:
                if self.bytes <= MOST_BYTES - MOST_BYTES // _FREED:
                    return
                if (entry.state == "resolved") is is_over:
                    gives_way(entry)

    def _in_order(self, room: int) -> list[FindingState]:
        """Return all findings, those first that are to be kept in a room of so many bytes.

        Each is placed by what its namespace holds up to it: the end of the list is of those who
        hold most.
        """
        held: dict[str, int] = {}

        def rank(state: FindingState) -> tuple[float, ...]:
            is_over, taken = state.state == "resolved", held.get(state.id, 0)
            return is_over, not state.damage, -state.severity.rank, taken, -state.last

        for is_of in (_name_of, attrgetter("namespace")):
            taken: Counter[object] = Counter()
            for state in sorted(self._all(), key=rank):
                taken[is_of(state.object)] += state.size
                held[state.id] = taken[is_of(state.object)]

        def order(state: FindingState) -> tuple[float, ...]:
            is_spared = state.damage and held[state.id] <= room // 2
            return state.state == "resolved", not is_spared, held[state.id], *rank(state)

        return sorted(self._all(), key=order)

    def _finding(
        self, entry: FindingState, why: FindingState | None, candidates: Candidates
    ) -> Finding:
        """Return a finding as it is told; an actor who only reacts to another is not certain."""
        where = FoundObject(*msgspec.structs.astuple(entry.object))
        began, missed = entry.first + self._ahead, entry.missed_since
        actors, at = entry.actors(candidates, self._mutators, began), rfc3339(began)
        message = entry.message + (_NO_USERS if any(map(is_manager, entry.users)) else "")
        if why:
            unsure = {"confidence": Confidence.POSSIBLE}
            actors = tuple(msgspec.structs.replace(actor, **unsure) for actor in actors)
            message += f"; {why.detector} of {why.object.resource} makes it do so"
        aged = [actor.name for actor in actors if actor.type != "user"][:_MOST_NOTES]
        notes = [
            {"time": at, "actor": name, "note": f"{age[1]} {age[0]:.0f} s before the first signal"}
            for name in aged
            if (age := self._mutators.age(name, began))
        ]
        return Finding(
            id=entry.id,
            detector=entry.detector,
            severity=Severity.INFO if why else entry.severity,
            state=entry.state,
            object=where,
            subresource=entry.subresource,
            paths=tuple(entry.paths),
            actors=actors,
            count=entry.count,
            first_seen=at,
            last_seen=rfc3339(entry.last + self._ahead),
            message=message,
            evidence=(*entry.evidence, *notes),
            repair=repair_command(where, entry.subresource, entry.damage) if entry.damage else "",
            caused_by=why.id if why else "",
            repaired=entry.repaired and entry.state != "resolved",
            restored=entry.restored and entry.state == "open" and not entry.damage,
            resolves_after=entry.resolves_after,
            incomplete_since=rfc3339(missed + self._ahead) if missed else "",
        )


def _name_of(where: JoinKey | ObjectKey | FoundObject | ObjectName) -> ObjectName:
    return ObjectName(where.group, where.resource, where.namespace, where.name)


def _subresource(written: str) -> str:
    """Return the subresource of findings; a Scale is a view of the object itself."""
    return "" if written == "scale" else written


_decoder: Final = msgspec.msgpack.Decoder(FindingState)
