"""Restless: one writer, one object, again and again, and each write makes a reason for the next."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import ClassVar, Final

from genguard.detection.changes import Change
from genguard.detection.history import ObjectHistory
from genguard.detection.questions.question import (
    Answers,
    Blame,
    Declared,
    Event,
    Question,
    Seen,
    Signal,
    Stored,
)
from genguard.detection.questions.turned import (
    SECONDS,
    is_new_each_time,
    is_to_and_fro,
    own_turns,
)
from genguard.detection.sample import field_names
from genguard.detection.write import Write

STORM: Final = Declared(
    "generation-storm",
    "each write of an object causes the next, goes to and fro, or makes a rollout",
    "[changes|change] the spec of {} again and again",
    is_harm=True,
)
STATUS_STORM: Final = Declared(
    "status-write-storm",
    "a writer repeats the same status, or changes only its times",
    "[writes|write] the status of {} again and again",
    is_harm=True,
)


class Restless(Question):
    """See the module."""

    findings: ClassVar = (STORM, STATUS_STORM)

    def ask(self, event: Event) -> Answers:
        """Ask what keeps an object from coming to rest."""
        if isinstance(event, Seen):
            write, past = event
            if write.is_changed:
                yield from STORM.of(_changed_by_webhook_alone(write))
            if write.writes_status:
                yield from STATUS_STORM.of(_asked_once_more(write, past))
        elif isinstance(event, Stored) and event.write.counted:
            yield from STORM.of(_moved_again(*event))


_SECONDS_OF_STORM: Final = 60.0
_CHASES: Final = 4
_FEWEST: Final = 4
_ROLLOUTS: Final = 6
_ROLLOUT_SECONDS: Final = 300.0
_TEMPLATE: Final = ("spec", "template")


def _changed_by_webhook_alone(write: Write) -> Iterator[Signal]:
    """Generation moves because other webhooks change a spec that nobody asked to change."""
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


def _moved_again(write: Write, past: ObjectHistory) -> Iterator[Signal]:
    """Generation runs away: each write makes a reason for the next.

    Blames a writer that chases generation with observedGeneration where status counts (no status
    subresource); that walks a field of spec back and forth by itself, gives the pod template a new
    value in each of its writes, or puts a list in another order and changes nothing else. Status
    writes that count but do not chase are told as info: nobody is waiting for them
    (kubernetes/autoscaler#5675, actions/actions-runner-controller#1643: generation 50,597).
    """
    mine = [
        one
        for one in past.stored
        if one.counted
        and one.changed_something
        and one.requester.user == write.requester.user
        and one.time > write.time - _ROLLOUT_SECONDS
    ]
    if write.status_counts and not write.touches_more:
        mine = [one for one in mine if one.time > write.time - _SECONDS_OF_STORM]
        chases = [one for one in mine if _chases(one)]
        # What it observes is what it made itself, not what somebody else has asked for.
        made = {one.generation_after for one in chases}
        own = [one for one in chases if one.generation_before in made]
        if _chases(write) and write.generation_before in made and len(own) >= _CHASES - 1:
            yield _signal_of_storm(write, "chases generation: each status write moves it")
        elif not _chases(write) and sum(not one.touches_more for one in mine) >= _CHASES:
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


def _chases(write: Write) -> bool:
    """It writes the generation that was, and thereby makes the next one."""
    own = write.observed_asked.own
    return not write.touches_more and own is not None and str(own) == str(write.generation_before)


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


def _asked_once_more(write: Write, past: ObjectHistory) -> Iterator[Signal]:
    """The same status is asked for again and again, and is not kept (KEP-5067, first symptom).

    Blames other webhooks where they change what is asked; else the requester may be the one who
    asks for what the server drops. What another user undoes is status-oscillation or
    status-clobbered: then the one who asks again is the victim. A requester that writes nothing but
    times, many times a second, is fed by its own watch. A rate alone tells nothing: a controller
    that writes often writes something new each time, or walks a cycle of its own; a loop asks for
    what it did not get.
    """
    if write.requested_nothing:
        return
    same = _asked_again(write, past)
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
    churn = [
        one
        for one in _recent(write, past)
        if one.requester.user == write.requester.user
        and one.time > write.time - _TIMES_SECONDS
        and _only_times(one)
    ]
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


def _asked_again(write: Write, past: ObjectHistory) -> list[Write]:
    """Return the latest of its user that asked for the same, newest first; none if they are few.

    Writes of which it was not seen what they asked for are passed over. So are rivals: of several
    writes upon one resourceVersion all but one are refused, and tried again.
    """
    if len(past.writes) < _ASKED_AGAIN or write.content_hash is None:
        return []
    is_known = write.content.requested is not None
    own = (one for one in _recent(write, past) if one.requester.user == write.requester.user)
    seen = (one for one in own if one.content.requested is not None or not is_known)
    same = [*takewhile(lambda one: one.content_hash == write.content_hash, seen)]
    if len(same) < _ASKED_AGAIN:
        return []
    rivals = Counter(one.base for one in past.writes if one.changed_something)
    return [
        one
        for one in same
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
