"""The same again and again: writes that make a reason for the next, or never come out."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from typing import ClassVar, Final

from genguard.detection.changes import Change
from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.detectors.fight import SECONDS, is_new_each_time, is_to_and_fro, own_turns
from genguard.detection.diff import NO_DIFF
from genguard.detection.history import ObjectHistory
from genguard.detection.lives import Turns
from genguard.detection.refusals import Refusal
from genguard.detection.sample import field_names
from genguard.detection.write import Write
from genguard.objects.fields import Path

_SECONDS_OF_STORM: Final = 60.0
_CHASES: Final = 4
_FEWEST: Final = 4
_ROLLOUTS: Final = 6
_ROLLOUT_SECONDS: Final = 300.0
_TEMPLATE: Final = ("spec", "template")


class GenerationStorm(Detector):
    """Generation runs away: each write makes a reason for the next.

    Reads   what moved generation in each write, and what the writer observes
    Acts on writes that generation counted
    Result  blames other webhooks that change a spec nobody asked to change; a writer that chases
            generation with observedGeneration where status counts (no status subresource); a writer
            that walks a field of spec back and forth by itself, gives the pod template a new value
            in each of its writes, or puts a list in another order and changes nothing else. Status
            writes that count but do not chase are told as info: nobody is waiting for them
    Relies  on kubernetes/autoscaler#5675 and actions/actions-runner-controller#1643 (generation
            50,597)
    """

    name: ClassVar[str] = "generation-storm"
    only_if: ClassVar[Sort] = "is_changed"
    stored_only_if: ClassVar[Sort] = "counted"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for a spec that only a webhook changed."""
        del past
        requested, made = write.content.requested, write.content.webhook
        if not write.counted or requested is None or not made:
            return
        if write.writes_status and not write.status_counts:
            return
        # A PUT of a whole manifest leaves out what a webhook adds: that is no wish of its own.
        theirs = {change.key for change in made}
        if made.changes and all(change.key in theirs and change.removed for change in requested):
            yield Signal(
                Blame.OTHERS,
                tuple(change.pointer for change in made),
                f"another webhook changed what counts in a write of {write.requester.user} "
                "that asked for no such change",
                evidence={"generation": write.generation_after},
            )

    def judge_stored(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for each write of a chase or of a walk back and forth."""
        mine = [
            one
            for one in past.stored
            if one.counted
            and one.changed_something
            and one.requester.user == write.requester.user
            and one.time > write.time - _ROLLOUT_SECONDS
        ]
        if write.status_counts and _only_status(write):
            mine = [one for one in mine if one.time > write.time - _SECONDS_OF_STORM]
            chases = [one for one in mine if _chases(one)]
            # What it observes is what it made itself, not what somebody else has asked for.
            made = {one.generation_after for one in chases}
            own = [one for one in chases if one.generation_before in made]
            if _chases(write) and write.generation_before in made and len(own) >= _CHASES - 1:
                yield _signal_of_storm(write, "chases generation: each status write moves it")
            elif not _chases(write) and sum(1 for one in mine if _only_status(one)) >= _CHASES:
                message = "moves generation by writing status; there is no status subresource"
                yield _signal_of_storm(write, message, minor=True)
        elif write.touches_more and not write.content.webhook and len(mine) >= _FEWEST:
            walked = _walked(write, past.stored)
            if walked:
                yield _signal_of_storm(write, f"walks {field_names(walked)} back and forth", walked)
                return
            churned = _churned(write, mine)
            if churned:
                what = f"gives {field_names(churned)} a new value in each of its writes"
                if all(one.is_order for one in churned):
                    what = f"puts {field_names(churned)} in another order in each of its writes"
                yield _signal_of_storm(write, what, churned)


def _walked(write: Write, stored: Sequence[Write]) -> list[Change]:
    """Return the leaves that come back too often; metadata-fight judges those of metadata.

    What is switched on and off beside spec is what happens to others: endpoints come and go.
    """
    meant = [
        one
        for one in write.content.admitted
        if one.key[0] == "spec" or not (one.is_switch or one.key[0] == "metadata")
    ]
    turns = own_turns(meant, write, stored, write.time - SECONDS)
    return [one for one in meant if is_to_and_fro(turns.get(one.key, ()))]


def _churned(write: Write, mine: Sequence[Write]) -> list[Change]:
    """Return the leaves that each of the latest writes has changed, to a value that is new.

    Of a list that is put in order the values come back, as there are few orders.
    """
    latest = mine[-_ROLLOUTS:]
    if len(latest) < _ROLLOUTS:
        return []
    order_alone = all(change.is_order for one in latest for change in one.content.admitted)
    turns = own_turns(write.content.admitted, write, latest, since=0.0)
    return [
        one
        for one in write.content.admitted
        if len(turns.get(one.key, ())) >= _ROLLOUTS
        and (
            (one.is_order and order_alone)
            or (one.key[:2] == _TEMPLATE and (one.is_order or is_new_each_time(turns[one.key])))
        )
    ]


def _only_status(write: Write) -> bool:
    return not write.touches_more


def _chases(write: Write) -> bool:
    """It writes the generation that was, and thereby makes the next one."""
    own = write.observed_asked.own
    return _only_status(write) and own is not None and str(own) == str(write.generation_before)


def _signal_of_storm(
    write: Write, what: str, changed: Iterable[Change] = (), *, minor: bool = False
) -> Signal:
    return Signal(
        Blame.REQUESTER,
        tuple(one.pointer for one in changed) or write.pointers(),
        f"{write.requester.user} {what}",
        (write.requester,),
        minor=minor,
        evidence={"generation": write.generation_after},
    )


_SECONDS_ASKED: Final = 60.0
_ASKED_AGAIN: Final = 5
_TIMES_SECONDS: Final = 10.0
_TIMES_ONLY: Final = 35


class StatusWriteStorm(Detector):
    """The same status is asked for again and again, and is not kept.

    Reads   digests of what was asked, and what came of it
    Acts on writes of status
    Result  blames other webhooks where they change what is asked; else the requester may be the one
            who asks for what the server drops. What another user undoes is status-oscillation or
            status-clobbered: then the one who asks again is the victim. A requester that writes
            nothing but times, many times a second, is fed by its own watch
    Relies  on KEP-5067's first symptom, and not on rate: a controller that writes often writes
            something new each time, or walks a cycle of its own; a loop asks for what it did not
            get
    """

    name: ClassVar[str] = "status-write-storm"
    only_if: ClassVar[Sort] = "writes_status"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for each write from the fifth equal one on."""
        if write.requested_nothing:
            return
        same = _uncontended(_asked_again(write, past), past)
        if len(same) >= _ASKED_AGAIN:
            if write.content.webhook or not _is_undone(write, same[-1].time, past):
                changed = write.content.webhook or write.content.requested or ()
                yield Signal(
                    Blame.OTHERS if write.content.webhook else Blame.SERVER,
                    tuple(change.pointer for change in changed) or write.pointers(),
                    f"{write.requester.user} has asked for the same status {len(same)} times, "
                    "and it is not kept",
                    () if write.content.webhook else (write.requester,),
                )
            return
        if not _only_times(write):
            return
        hurried = [one for one in _own(write, past) if one.time > write.time - _TIMES_SECONDS]
        churn = [one for one in hurried if _only_times(one)]
        if len(churn) >= _TIMES_ONLY:
            yield Signal(
                Blame.REQUESTER,
                tuple(change.pointer for change in write.content.admitted),
                f"{write.requester.user} wrote {len(churn)} times in {_TIMES_SECONDS:g} s and "
                "changed nothing but times",
                (write.requester,),
            )


def _recent(write: Write, past: ObjectHistory) -> Iterator[Write]:
    """Status writes that asked for something, newest first; the write itself is among them."""
    for one in reversed(past.writes):
        if one.time <= write.time - _SECONDS_ASKED:
            return
        if one.writes_status and not one.requested_nothing:
            yield one


def _asked_again(write: Write, past: ObjectHistory) -> Iterable[Write]:
    """The latest that asked for the same, newest first; none where they are known to be few.

    Writes of which it was not seen what they asked for are passed over.
    """
    if len(past.writes) < _ASKED_AGAIN:
        return ()
    if write.content_hash is None:
        return ()
    is_asked_known = write.content.requested is not None
    own = _own(write, past)
    seen = (one for one in own if one.content.requested is not None or not is_asked_known)
    return takewhile(lambda one: one.content_hash == write.content_hash, seen)


def _own(write: Write, past: ObjectHistory) -> Iterator[Write]:
    """Those of the same user."""
    user = write.requester.user
    return (one for one in _recent(write, past) if one.requester.user == user)


def _uncontended(writes: Iterable[Write], past: ObjectHistory) -> list[Write]:
    """Return the writes without a rival upon the same resourceVersion.

    Of several writes upon one version all but one are refused, and tried again.
    """
    found = list(writes)
    if len(found) < _ASKED_AGAIN:
        return []
    rivals = Counter(one.base for one in past.writes if one.changed_something)
    return [
        one
        for one in found
        if one.content.webhook or not one.changed_something or rivals[one.base] == 1
    ]


def _is_undone(write: Write, since: float, past: ObjectHistory) -> bool:
    """Somebody else has meanwhile written the same leaves."""
    keys = {change.key for change in write.content.sent}
    return any(
        any(change.key in keys for change in one.content.admitted)
        for one in _recent(write, past)
        if one.time >= since and one.requester.user != write.requester.user
    )


def _only_times(write: Write) -> bool:
    changes = write.content.admitted.changes
    return bool(changes) and all(one.holds_time for one in changes)


_TIMES_NOT_KEPT: Final = 6
_SECONDS_NOT_KEPT: Final = 3_600.0
_MOST_LEAVES: Final = 20
_NOT_MEANT: Final = frozenset({"status", "metadata"})


class WriteNotKept(Detector):
    """The same change is asked for and stored again and again, and nobody takes it back.

    Reads   what each writer asked for, what was stored, and who moved generation in between
    Acts on writes of more than status
    Result  names the writer and the version of the API that it uses. The API server itself loses
            the value: a conversion between two versions of a custom resource that does not know the
            field, or a strategy that drops it
    Relies  on generation: between most of these writes it must not have moved unseen, else somebody
            whose reviews were lost may have taken the value back
    """

    name: ClassVar[str] = "write-not-kept"
    only_if: ClassVar[Sort] = "has_outcome"
    stored_only_if: ClassVar[Sort] = "counted"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for a change that the server drops before it is stored."""
        if write.subresource or write.changed_anything or write.content.webhook:
            return
        asked = _asked(write)
        if not asked:
            return
        same = [
            one
            for one in past.earlier
            if one.requester.user == write.requester.user
            and not one.subresource
            and one.time > write.time - _SECONDS_NOT_KEPT
        ]
        lost = _in_each(asked, [one for one in same if _asked(one)][-_TIMES_NOT_KEPT + 1 :])
        if lost:
            yield _signal_not_kept(write, lost, "and the API server drops it")

    def judge_stored(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for a change that was stored, and was not there any more."""
        if write.subresource or write.content.webhook:
            return
        stored = [
            one for one in past.stored if one.counted and one.time > write.time - _SECONDS_NOT_KEPT
        ]
        jumps = [one.generation_after != after.generation_before for one, after in pairwise(stored)]
        if 2 * sum(jumps) > len(jumps):
            return
        asked = [one for one in stored if one.content.requested is not None]
        own = [one for one in asked if one.requester.user == write.requester.user]
        lost = _in_each(_asked(write), own[-_TIMES_NOT_KEPT:-1])
        since = own[-_TIMES_NOT_KEPT].time if len(own) >= _TIMES_NOT_KEPT else 0.0
        lost = [one for one in lost if not _is_taken_back(one, stored, since)]
        if lost:
            yield _signal_not_kept(
                write, lost, "it is stored each time, and nobody is seen to take it back"
            )


def _asked(write: Write) -> list[Change]:
    """Return the fields that a write asks for and that are not stored as yet."""
    found = [one for one in write.content.requested or () if one.key[0] not in _NOT_MEANT]
    return [one for one in found if not (one.holds_time or one.removed)][:_MOST_LEAVES]


def _in_each(asked: Sequence[Change], writes: Sequence[Write]) -> list[Change]:
    """Return those that each of the other writes asks for as well, in place of the same value."""
    if len(writes) < _TIMES_NOT_KEPT - 1:
        return []
    each = [{(one.key, one.before, one.after) for one in _asked(it)} for it in writes]
    return [one for one in asked if all((one.key, one.before, one.after) in some for some in each)]


def _is_taken_back(change: Change, stored: Sequence[Write], since: float) -> bool:
    """Whether a stored write is seen to have undone the change."""
    back: tuple[Path, object, object] = change.key, change.after, change.before
    return any(
        (one.key, one.before, one.after) == back
        for write in stored
        if write.time >= since
        for one in write.content.admitted
    )


def _signal_not_kept(write: Write, lost: Sequence[Change], what: str) -> Signal:
    version = write.object.version
    return Signal(
        Blame.REQUESTER,
        tuple(one.pointer for one in lost),
        f"{write.requester.user} asks for the same {field_names(lost)} again and again, in version "
        f"{version}: {what}",
        (write.requester,),
        evidence={"version": version},
    )


_ATTEMPTS: Final = 4
"""A person who gets it wrong tries three times."""
_TRIES: Final = 10
"""Of one change after another, or of a version that is out of date: a person does not try so many,
and a cache is behind for less long (client-go util/workqueue/default_rate_limiters.go: the tenth
try comes 2.5 s after the first)."""
_SECONDS_REFUSED: Final = 0.5
_STALE_TRIES: Final = 5
_STALE_SECONDS: Final = 3.0
"""Of one old version: no cache is behind for so long after it was answered 409 so often."""
_WINDOW: Final = 600.0


class RefusedRetry(Detector):
    """A write that is asked for again and again, and never comes out.

    Reads   attempts at one change by one requester, how far each came, and what is stored
    Acts on updates and creations
    Result  blames the requester; other webhooks where they changed the write on its way, unless
            changes like these are admitted elsewhere
    Relies  on the stored fields staying as they are, which a lost outcome does not do; on a
            resource of which outcomes are seen; on a minimum of time: writes at once may share a
            version that is out of date
    """

    name: ClassVar[str] = "refused-retry"
    only_if: ClassVar[Sort] = "has_outcome"

    def judge_refusal(self, refusal: Refusal) -> Iterator[Signal]:
        """Yield one signal for an attempt that did not come out."""
        is_same = refusal.attempts >= _ATTEMPTS and refusal.seconds >= _SECONDS_REFUSED
        if not is_same and not _is_tried_long(refusal):
            return
        what = "creates" if refusal.is_creation else "writes"
        if not is_same:
            attempts, seconds = refusal.tries, refusal.tried_seconds
            refusal = refusal._replace(attempts=attempts, seconds=seconds)
        how = "it is admitted and never stored" if refusal.is_admitted else "it has no outcome"
        if refusal.is_stale:
            how = "it names a resourceVersion that is no longer stored"
        blame = Blame.OTHERS if refusal.made else Blame.REQUESTER
        if refusal.made and refusal.others_pass:
            blame = Blame.EITHER if refusal.is_creation else Blame.REQUESTER
        yield _signal_refused(refusal.write, blame, f"{what} it again and again: {how}", refusal)

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield one signal for an update that was admitted, and not stored after all."""
        if not _is_again(write, past):
            return
        tries = [
            one
            for one in past.earlier
            if one.base == write.base
            and one.requester.user == write.requester.user
            and one.subresource == write.subresource
            and one.state_after == write.state_after
            and one.time > write.time - _WINDOW
        ]
        if len(tries) < _ATTEMPTS or write.time - tries[0].time < _SECONDS_REFUSED:
            return
        refusal = Refusal(
            write,
            attempts=len(tries),
            seconds=write.time - tries[0].time,
            asked=write.content.sent,
            made=write.content.webhook or NO_DIFF,
        )
        blame = Blame.REQUESTER if write.content.requested is not None else Blame.EITHER
        blame = Blame.OTHERS if write.content.webhook else blame
        yield _signal_refused(
            write, blame, "writes it again and again: it is admitted and never stored", refusal
        )


def _is_tried_long(refusal: Refusal) -> bool:
    tries, seconds = refusal.tries, refusal.tried_seconds
    if refusal.is_stale and tries >= _STALE_TRIES and seconds >= _STALE_SECONDS:
        return True
    return tries >= _TRIES and seconds >= _SECONDS_REFUSED


def _is_again(write: Write, past: ObjectHistory) -> bool:
    """Return whether the write before it changed something, and the object is as it was."""
    earlier = past.earlier
    if not earlier or not write.base or earlier[-1].base != write.base:
        return False
    return bool(write.content.admitted.changes)


def _signal_refused(write: Write, blame: Blame, what: str, refusal: Refusal) -> Signal:
    user = write.requester.user
    changes = refusal.made if blame is Blame.OTHERS else refusal.asked
    paths = tuple(change.pointer for change in changes)
    if blame is Blame.OTHERS:
        what += ", since another webhook changed it"
    return Signal(
        blame,
        paths or (() if refusal.is_creation else write.pointers()),
        f"{user} {what}",
        () if blame is Blame.OTHERS else (write.requester,),
        evidence={"attempts": refusal.attempts, "seconds": round(refusal.seconds, 1)},
    )


_TURNS: Final = 4
"""A person who deletes a Pod so that it starts again does so two or three times."""
_TIMES_OF_TURNS: Final = 4.0
_SECONDS_OF_TURNS: Final = 10.0


class Recreation(Detector):
    """An object that one actor creates and another deletes, by turns.

    Reads   creations and deletions of one name, or of the generated names of one owner
    Acts on turns that follow one from another, each with an object of its own
    Result  blames who deletes, and who creates; the creator alone, where the garbage collector
            deletes: then the owner that the object names is not there. Two owners each of whom
            deletes and creates it are both blamed
    Relies  on the same creator, deleter, owners and labels in each turn, on lives that are alike,
            and on pauses that are alike. Whoever deletes what is done, or his own, makes no turn
    """

    name: ClassVar[str] = "recreation"

    def judge_turns(self, turns: Turns) -> Iterator[Signal]:
        """Yield one signal for an object that was deleted once more."""
        if turns.turns < _TURNS:
            return
        # The garbage collector comes when it has time. The same owner each time says enough.
        if not turns.is_collected and not _are_alike(turns.shortest_life, turns.longest_life):
            return
        if not _are_alike(turns.shortest_gap, turns.longest_gap):
            return
        creator, deleter = turns.creator, turns.deleter
        if turns.is_collected:
            message = (
                f"{creator.user} creates it again and again, and the garbage collector deletes it: "
                "the owner that it names is not there"
            )
        elif turns.likeness_of_other is not None:
            first, second = sorted((creator.user, deleter.user))
            message = f"{first} and {second} each delete it and create it as their own"
        else:
            message = f"{deleter.user} deletes what {creator.user} creates again"
        yield Signal(
            Blame.REQUESTER,
            (),
            message,
            (creator,) if turns.is_collected else (deleter, creator),
            evidence={"turns": turns.turns, "longestLifeSeconds": round(turns.longest_life, 1)},
        )


def _are_alike(shortest: float, longest: float) -> bool:
    """Return whether times in seconds are those of one cause; short ones always are."""
    return longest <= _TIMES_OF_TURNS * shortest + _SECONDS_OF_TURNS
