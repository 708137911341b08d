"""Make findings of signals: repeated on one object they are a loop, and quiet resolves it.

All findings together have a bound in bytes. Over it, what is resolved goes first. Then who holds
most gives way: of the namespace that holds most, the object that holds most, of that info before a
warning, and the longest unchanged first. The examples of findings go before a finding does. One
with damage stays as long as there is one without, in each namespace up to half of the bound: else
who makes much damage would push out whatever others know.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from operator import is_
from typing import Any, Final, NamedTuple

import msgspec

from genguard.admission.matching import ResourceKind
from genguard.admission.review import JoinKey, ObjectName
from genguard.detection.causes import fold, root_causes
from genguard.detection.damage import Damage, repair_command
from genguard.detection.fact import Seconds
from genguard.detection.finding import Actor, Confidence, Finding, FoundObject, Severity
from genguard.detection.finding_state import Accused, FindingState
from genguard.detection.questions.question import Blame, Signal
from genguard.detection.suspects import Shared, Suspects, share
from genguard.detection.write import ObjectKey, Write, name_of

MOST_FINDINGS: Final = 10_000
MOST_BYTES: Final = 40 * 1024 * 1024
"""Of all findings: 10,000 with names and fields of usual length."""
_LEAST_BYTES: Final = MOST_BYTES // MOST_FINDINGS
"""What the smallest finding counts as, so that their number is bounded as well."""
_BYTES_OF_FINDING: Final = 2_500
"""What a finding takes in memory, more than its exported bytes."""
_FREED: Final = 16
"""Over the bound, a part of this size is freed at once: to find out who holds most takes long."""
SECONDS_UNSEEN: Final = 86_400.0
"""Damage that nobody has seen for so long is dropped: without a cluster genguard sees writes only,
and may have missed a deletion."""
_MOST_NOTES: Final = 3
"""About the age of actors, of one finding."""
_SEPARATOR: Final = "\0"
_NO_USERS: Final = "; users are not known from a watch"

Row = tuple[str, bytes]
"""The name of a finding, and all that is known of it."""
_Key = tuple[str, ...]
"""The detector; the group, resource and uid of an object, or namespace and name without one; the
subresource."""


_Choices = dict[tuple[str, ResourceKind, tuple[str, ...]], Accused]
"""Whom a choice between several webhooks accuses: equal for many findings, so it is made once."""


class Mark(NamedTuple):
    """Values of a finding; if they are equal, it has not changed.

    news   those that differ once it is opened, worse, better or over
    signs  those that each signal changes: the number of signals, and the time of the last
    """

    news: tuple[str, Severity, Damage | None]
    signs: tuple[int, float]


class Saved(NamedTuple):
    """A finding as it is saved: `content` makes the bytes, `content(is_brief=True)` the fewest."""

    name: str
    mark: Mark
    content: Callable[..., bytes]


class Damaged(NamedTuple):
    """A finding that left damage: its id, its object, the damage, and when it was last seen."""

    finding: str
    object: FoundObject
    subresource: str
    damage: Damage
    last: float


class Ledger:
    """All findings."""

    def __init__(self, suspects: Suspects) -> None:
        self._suspects: Final = suspects
        self._entries: dict[_Key, FindingState] = {}
        self._sizes: dict[_Key, int] = {}
        self._own: set[_Key] = set()
        """Findings that have had a signal here since they were restored."""
        self._of_name: dict[ObjectName, set[_Key]] = {}
        self.bytes = 0
        self.dropped = 0
        """How many findings were dropped before they were resolved."""
        self._shed: Seconds = 0.0
        """When a review of nobody knows which object was last not judged."""
        self._told: dict[str, tuple[Finding, Accused]] = {}
        """Each finding as it was told, and the webhooks that it names."""
        self._each: tuple[Finding, ...] = ()
        self._folded: tuple[Finding, ...] = ()
        self._is_told = True
        """Whether `_folded` is what all findings are now."""
        self._sharing: dict[str, Shared] | None = None
        self._causes: Mapping[str, str] | None = None
        self._now: Seconds = 0.0
        """The time, as far as it was told."""
        self._ahead = 0.0
        """By how many seconds the time of day is ahead of the times given here."""

    def tell_time(self, now: float, ahead: float) -> None:
        """Take in what time it is, and show and save times by a time of day that is ahead of it."""
        self._now = max(self._now, now)
        if ahead != self._ahead:
            self._ahead, self._is_told = ahead, False
            self._told.clear()

    def _changed(self, entry: FindingState) -> None:
        """Drop what was told of a finding, and computed from all."""
        self._told.pop(entry.id, None)
        self._is_told, self._sharing, self._causes = False, None, None

    def add(self, detector: str, sign: Signal, write: Write, follows: Iterable[str] = ()) -> None:
        """Enter a signal.

        follows  the uids of owners whose changes the write follows, the nearest first
        """
        at = write.time + self._ahead
        called: Sequence[str] = ()
        evidence = {"time": _rfc3339(at), "user": write.requester.user, **sign.evidence}
        if sign.blame in (Blame.OTHERS, Blame.EITHER):
            called, calls = write.called.about(sign.paths, again=sign.reinvoked)
            evidence |= calls
        if write.missing:
            evidence["missing"] = list(write.missing)
        where = write.object
        place = where.group, where.resource, name_of(where)
        key = (detector, *place, _subresource(write.subresource))
        entry = self._entries.get(key)
        if entry is None or (not entry.damage and write.time - entry.last > entry.window):
            identity = hashlib.blake2b(_SEPARATOR.join(key).encode(), digest_size=8).hexdigest()
            entry = FindingState(identity, detector, write.object, key[-1], write.time, write.time)
        entry.take(sign, write, follows, evidence)
        entry.take_sample(msgspec.structs.replace(write, time=at), sign.paths)
        entry.heard = max(entry.last, self._now)
        entry.blame(sign, write, called, self._suspects)
        self._own.add(key)
        self._put(key, entry)
        self._shrink()

    def miss(
        self,
        where: JoinKey | ObjectKey | ObjectName | None,
        subresource: str | None,
        now: float,
    ) -> None:
        """Note that a review of an object was not seen: its findings may go on unseen.

        where        None: nobody knows of which object
        subresource  None: nobody knows of which one
        """
        now = max(now, self._now)  # it is known since it was read
        if where is None:
            self._shed = max(self._shed, now)
            return
        for key in self._of_name.get(_name_of(where), ()):
            if subresource is None or key[-1] == _subresource(subresource):
                self._miss(self._entries[key], now)

    def _miss(self, entry: FindingState, now: float) -> None:
        if entry.state == "resolved":
            return
        if not entry.missed_since:
            entry.missed_since = now
            self._changed(entry)
        entry.missed = max(entry.missed, now)

    def settle(self, now: float) -> Iterator[Finding]:
        """Resolve findings that are quiet and left no damage, and yield them.

        With damage a finding becomes `quiet`, and resolves when the damage is gone. Nothing is
        resolved as long as reviews of its object are missed.

        now  may be no later than the oldest review that waits: what nobody has read is no silence
        """
        self._now = max(self._now, now)
        for entry in self._entries.values():
            if self._shed > max(entry.missed, entry.last):
                self._miss(entry, self._shed)
            needed, before = entry.quiet_needed(), entry.state
            if entry.missed_since and now - entry.missed >= needed:
                entry.missed_since = 0.0
                self._changed(entry)
            if before == "resolved" or entry.missed_since or now - entry.heard < needed:
                continue
            is_known = now - max(entry.last, entry.looked) < SECONDS_UNSEEN
            is_left = entry.damage and is_known
            entry.next("at rest, damage left" if is_left else "at rest, none left")
            if entry.state != before:
                self._changed(entry)
            if entry.state == "resolved":
                yield self._finding(entry, {})

    def damaged(self, *, in_doubt: bool = False) -> Iterator[Damaged]:
        """Yield findings that are not resolved and whose damage may still be there.

        in_doubt  those as well whose damage was averted: it may be there by now
        """
        for entry in list(self._entries.values()):
            if damage := entry.left(in_doubt=in_doubt):
                yield Damaged(entry.id, _found(entry), entry.subresource, damage, entry.last)

    def doubt(self) -> None:
        """Take averted damage for damage until somebody looks: writes were not restored lately."""
        for entry in self._entries.values():
            if damage := entry.left(in_doubt=True):
                entry.damage, entry.repaired = damage, False
                self._changed(entry)

    def look(
        self,
        where: JoinKey | ObjectKey | FoundObject,
        is_broken: Callable[[Damage], bool],
        now: float,
        *,
        in_doubt: bool = False,
    ) -> None:
        """Note whether a stored object still has its damage; one that is gone has none.

        in_doubt  what was averted may be there as well
        """
        for entry in self._about(where):
            damage = entry.left(in_doubt=in_doubt)
            if damage is None:
                continue
            if is_broken(damage):
                entry.damage, entry.repaired, entry.looked = damage, False, now
            elif entry.damage:
                entry.next("damage gone")
            self._changed(entry)

    def _about(self, where: JoinKey | ObjectKey | FoundObject) -> Iterator[FindingState]:
        for key in self._of_name.get(_name_of(where), ()):
            if self._entries[key].object.uid == where.uid:
                yield self._entries[key]

    def findings(self) -> tuple[Finding, ...]:
        """Return all findings, oldest first; the same tuple as before if nothing changed.

        Those of one culprit with many objects are parts of one finding: see causes.py.
        """
        if self._is_told:
            return self._folded
        known: _Choices = {}
        order = sorted(self._entries.values(), key=lambda one: (one.first, one.id))
        found = tuple(self._finding(one, known) for one in order)
        if len(found) != len(self._each) or not all(map(is_, found, self._each)):
            self._each, self._folded = found, fold(found)
        self._is_told = not known  # a choice may change with every write
        return self._folded

    def samples(self, ids: Collection[str]) -> dict[str, bytes]:
        """Return, by the id of the finding, the samples of those findings that have one."""
        entries = self._entries.values()
        return {one.id: one.sample for one in entries if one.sample and one.id in ids}

    def snapshot(self, room: int = MOST_BYTES) -> Iterator[Saved]:
        """Yield each finding that is not resolved, as it is saved.

        room  in bytes; where not all have room, the last ones are to be left out
        """
        order = self._in_order(room) if self.bytes > room else list(self._entries)
        for key in order:
            entry = self._entries.get(key)
            if entry is None or entry.state == "resolved":
                continue
            news = entry.state, entry.severity, entry.damage
            mark = Mark(news, (entry.count, entry.last))
            yield Saved(_SEPARATOR.join(key), mark, partial(_saved, entry, self._ahead))

    def restore(self, rows: Iterable[Row], *, keeps_own: bool = False) -> set[str]:
        """Replace all findings by saved ones; return the ids of those that were taken.

        keeps_own  keep what is known here alone. Of what is known in both places the saved one is
                   taken. But one that has had a signal here since it was restored stays as it is,
                   with the larger count
        Raises msgspec.MsgspecError or ValueError, and then nothing is changed.
        """
        found: dict[_Key, FindingState] = {}
        for name, content in rows:
            entry = _decoder.decode(content).moved(-self._ahead)
            entry.heard = max(entry.last, self._now)  # what nobody read was no silence
            found[tuple(name.split(_SEPARATOR))] = entry
        if not keeps_own:
            self._entries, self._sizes, self._of_name, self._told = {}, {}, {}, {}
            self.bytes = 0
            self._own.clear()
        for key in self._own & found.keys():
            known, saved = self._entries[key], found.pop(key)
            known.count = max(known.count, saved.count)
            self._changed(known)
        for key, entry in found.items():
            self._put(key, entry)
        self._is_told = False
        self._shrink()
        return {entry.id for entry in found.values()}

    def _put(self, key: _Key, entry: FindingState) -> None:
        """Keep a finding, and count again the bytes that it takes."""
        self._entries[key] = entry
        self._of_name.setdefault(_name_of(entry.object), set()).add(key)
        size = max(_BYTES_OF_FINDING + len(msgspec.msgpack.encode(entry)), _LEAST_BYTES)
        self.bytes += size - self._sizes.get(key, 0)
        self._sizes[key] = size
        self._changed(entry)

    def _drop(self, key: _Key) -> None:
        entry = self._entries.pop(key)
        self.dropped += entry.state != "resolved"
        self.bytes -= self._sizes.pop(key)
        self._own.discard(key)
        name = _name_of(entry.object)
        self._of_name[name].discard(key)
        if not self._of_name[name]:
            del self._of_name[name]
        self._changed(entry)

    def _shrink(self) -> None:
        """Over the bound, drop what is resolved, then examples, then findings."""
        if self.bytes <= MOST_BYTES:
            return
        last_first = self._in_order(MOST_BYTES)[::-1]
        resolved = [key for key in last_first if self._entries[key].state == "resolved"]
        going_on = [key for key in last_first if self._entries[key].state != "resolved"]
        for key, step in (
            *((key, self._drop) for key in resolved),
            *((key, self._shorten) for key in going_on),
            *((key, self._drop) for key in going_on),
        ):
            if self.bytes <= MOST_BYTES - MOST_BYTES // _FREED:
                return
            step(key)

    def _shorten(self, key: _Key) -> None:
        entry = self._entries[key]
        if not entry.is_brief:
            entry.shorten()
            self._put(key, entry)

    def _in_order(self, room: int) -> list[_Key]:
        """Return all findings, those first that are to be kept in a room of so many bytes.

        Each is placed by what its namespace holds up to it, so that the end of the list takes of
        whoever holds most.
        """
        order: list[tuple[int, float, _Key]] = []
        for key, one in self._entries.items():
            worth = one.severity.rank + (_DAMAGED if one.damage else 0)
            order.append((1 if one.state == "resolved" else -worth, -one.last, key))
        namespaces = {key: (one.object.namespace,) for key, one in self._entries.items()}
        for holders in ({key: key[1:4] for key in namespaces}, namespaces):
            taken = Counter[_Key]()
            for place, (rank, _, key) in enumerate(sorted(order)):
                taken[holders[key]] += self._sizes[key]
                order[place] = (rank, taken[holders[key]], key)
        spared = [(rank <= -_DAMAGED and taken <= room // 2) for rank, taken, _ in order]
        kept = [
            (1 if one[0] > 0 else -is_spared, *one[1:])
            for one, is_spared in zip(order, spared, strict=True)
        ]
        return [key for _, _, key in sorted(kept)]

    def _finding(self, entry: FindingState, known: _Choices) -> Finding:
        """Return a finding, the same one as long as nothing changed; `known` caches choices."""
        if self._causes is None:
            self._causes = root_causes(tuple(self._entries.values()))
        cause = self._causes.get(entry.id, "")
        told, named = self._told.get(entry.id, (None, ()))
        is_same = told is not None and told.caused_by == cause
        if told is not None and is_same and len(named) <= 1:
            return told  # nobody is to be chosen
        began, missed = entry.first + self._ahead, entry.missed_since
        accused = self._accused(entry, began, known)
        if told is not None and is_same and named == accused:
            return told
        where = _found(entry)
        actors = tuple(entry.actors(accused, self._suspects, began))
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
            first_seen=_rfc3339(began),
            last_seen=_rfc3339(entry.last + self._ahead),
            message=entry.message + (_NO_USERS if entry.requesters.are_managers else ""),
            evidence=(*entry.evidence, *self._notes(actors, began)),
            repair=repair_command(where, entry.subresource, entry.damage) if entry.damage else "",
            caused_by=cause,
            repaired=entry.repaired and entry.state != "resolved",
            resolves_after=entry.resolves_after,
            incomplete_since=_rfc3339(missed + self._ahead) if missed else "",
        )
        self._told[entry.id] = found, accused
        return found

    def _notes(self, actors: Iterable[Actor], began: float) -> Iterator[dict[str, Any]]:
        """Yield what is known of the age of actors."""
        for one in [one for one in actors if one.type != "user"][:_MOST_NOTES]:
            if age := self._suspects.age(one.name, began):
                note = f"{age[1]} {age[0]:.0f} s before the first sign"
                yield {"time": _rfc3339(began), "actor": one.name, "note": note}

    def _accused(self, entry: FindingState, began: float, known: _Choices) -> Accused:
        """Return the webhooks that are accused; every write may change a choice between several."""
        names = entry.webhooks
        if len(names) <= 1:
            return tuple((one, Confidence.CERTAIN) for one in names)
        where = ResourceKind(entry.object.group, entry.object.resource, entry.subresource)
        names = self._suspects.by_age(names, began)
        choice = entry.detector, where, names
        if choice not in known:
            if self._sharing is None:
                self._sharing = self._shared()
            shared = self._sharing.get(entry.detector, {})
            known[choice] = tuple(self._suspects.accused(names, shared, where))
        return known[choice]

    def _shared(self) -> dict[str, Shared]:
        """Return by detector what findings that blame other webhooks have in common."""
        candidates: dict[str, list[Collection[str]]] = {}
        for entry in self._entries.values():
            if entry.by_others and entry.candidates:
                candidates.setdefault(entry.detector, []).append(entry.candidates)
        return {detector: share(several) for detector, several in candidates.items()}


_DAMAGED: Final = 3
"""From this worth on a finding has damage."""


def _name_of(where: JoinKey | ObjectKey | FoundObject | ObjectName) -> ObjectName:
    return ObjectName(where.group, where.resource, where.namespace, where.name)


def _found(entry: FindingState) -> FoundObject:
    return FoundObject(*msgspec.structs.astuple(entry.object))


def _subresource(written: str) -> str:
    """Return the subresource of findings; a Scale is a view of the object itself."""
    return "" if written == "scale" else written


def _saved(entry: FindingState, ahead: float, *, is_brief: bool = False) -> bytes:
    copy = entry.moved(ahead)
    if is_brief:
        copy.shorten()
    return msgspec.msgpack.encode(copy)


_decoder: Final = msgspec.msgpack.Decoder(FindingState)


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
