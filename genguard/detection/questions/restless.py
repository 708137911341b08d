"""Restless: one writer, one object, again and again, and each write makes a reason for the next."""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import takewhile
from typing import ClassVar, Final

from genguard.detection.changes import Change
from genguard.detection.history import ObjectHistory
from genguard.detection.questions.question import (
    Answers,
    Blame,
    Declared,
    Question,
    Signal,
    asks_nothing,
    own,
    signal,
    values,
)
from genguard.detection.questions.turned import alone, is_new_each_time, is_to_and_fro
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


_SECONDS_OF_STORM: Final = 60.0
_CHASES: Final = 4
_FEWEST: Final = 4
_ROLLOUTS: Final = 6
_ROLLOUT_SECONDS: Final = 300.0
_TEMPLATE: Final = ("spec", "template")


def _changed_by_webhook_alone(write: Write, _: ObjectHistory) -> Answers:
    """Generation moves because other webhooks change a spec that nobody asked to change."""
    made = write.content.webhook
    if not write.counted or not made or (write.writes_status and not write.status_counts):
        return
    if made.changes and asks_nothing(write.content.requested, made):
        user = write.requester.user
        said = f"another webhook changed what counts, for which {user} had not asked"
        evidence = {"generation": write.generation_after}
        yield signal(STORM, write, Blame.OTHERS, made, said, evidence=evidence)


def _moved_again(write: Write, past: ObjectHistory) -> Answers:
    """Generation runs away: each write makes a reason for the next.

    Blames a writer that chases generation with observedGeneration where status counts (no status
    subresource); that walks a field of spec back and forth by itself, gives the pod template a new
    value in each of its writes, or puts a list in another order and changes nothing else. Status
    writes that count but do not chase are told as info: nobody is waiting for them
    (kubernetes/autoscaler#5675, actions/actions-runner-controller#1643: generation 50,597).
    """
    if not write.counted:
        return
    is_status = write.status_counts and not write.touches_more
    seconds = _SECONDS_OF_STORM if is_status else _ROLLOUT_SECONDS
    mine = [
        one for one in own(write, past.stored, seconds) if one.counted and one.changed_something
    ][::-1]
    if is_status and not _chases(write):
        if sum(not one.touches_more for one in mine) >= _CHASES:
            what = "moves generation by writing status; there is no status subresource"
            yield _storm(write, what, minor=True)
    elif is_status:
        chases = [one for one in mine if _chases(one)]
        # What it observes is what it made itself, not what somebody else has asked for.
        made = {one.generation_after for one in chases}
        steps = [one for one in chases if one.generation_before in made]
        if write.generation_before in made and len(steps) >= _CHASES - 1:
            yield _storm(write, "chases generation: each status write moves it")
    elif write.touches_more and not write.content.webhook and len(mine) >= _FEWEST:
        if walked := _walked(write, past.stored):
            yield _storm(write, f"walks {field_names(walked)} back and forth", walked)
        elif churned := _churned(write, mine[-_ROLLOUTS:]):
            what = f"gives {field_names(churned)} a new value in each of its writes"
            if all(one.is_order for one in churned):
                what = f"puts {field_names(churned)} in another order in each of its writes"
            yield _storm(write, what, churned)


def _walked(write: Write, stored: Sequence[Write]) -> list[Change]:
    """Return the leaves that come back too often; metadata-fight judges those of metadata.

    What is switched on and off beside spec is what happens to others: endpoints come and go.
    """
    meant = [
        one
        for one in write.content.admitted
        if one.key[0] == "spec" or not (one.is_switch or one.key[0] == "metadata")
    ]
    return alone(meant, stored, is_to_and_fro)


def _churned(write: Write, latest: Sequence[Write]) -> list[Change]:
    """Return the leaves that each of the latest writes has changed, to a value that is new.

    Of a list that is put in order the values come back, as there are few orders.
    """
    if len(latest) < _ROLLOUTS:
        return []
    changed = alone(write.content.admitted.changes, latest, lambda one: len(one) >= _ROLLOUTS)
    new = alone(changed, latest, is_new_each_time)
    is_order = all(change.is_order for one in latest for change in one.content.admitted)
    return [
        one
        for one in changed
        if (one.is_order and is_order)
        or (one.key[:2] == _TEMPLATE and (one.is_order or one in new))
    ]


def _chases(write: Write) -> bool:
    """It writes the generation that was, and thereby makes the next one."""
    return not write.touches_more and str(write.observed_asked.own) == str(write.generation_before)


def _storm(
    write: Write, what: str, changed: Collection[Change] = (), *, minor: bool = False
) -> tuple[Declared, Signal]:
    said, evidence = f"{write.requester.user} {what}", {"generation": write.generation_after}
    return signal(STORM, write, Blame.REQUESTER, changed, said, minor=minor, evidence=evidence)


_SECONDS_ASKED: Final = 60.0
_ASKED_AGAIN: Final = 5
_TIMES_SECONDS: Final = 10.0
_TIMES_ONLY: Final = 35


def _asked_once_more(write: Write, past: ObjectHistory) -> Answers:
    """The same status is asked for again and again, and is not kept (KEP-5067, first symptom).

    Blames other webhooks where they change what is asked; else the requester may be the one who
    asks for what the server drops. Who is undone by another user is the victim (status-oscillation,
    status-clobbered). A requester that writes nothing but times, many times a second, is fed by its
    own watch. A rate alone tells nothing: a busy controller writes something new each time.
    """
    if not _asks(write):
        return
    user, webhook = write.requester.user, write.content.webhook
    same = _asked_again(write, past)
    if len(same) >= _ASKED_AGAIN:
        if webhook or not _is_undone(write, same[-1].time, past):
            said = f"{user} has asked for the same status {len(same)} times, and it is not kept"
            blame = Blame.OTHERS if webhook else Blame.SERVER
            yield signal(STATUS_STORM, write, blame, webhook or write.content.sent, said)
    elif _only_times(write):
        lately = own(write, past.writes, _TIMES_SECONDS)
        count = sum(_asks(one) and _only_times(one) for one in lately)
        if count >= _TIMES_ONLY:
            said = (
                f"{user} wrote {count} times in {_TIMES_SECONDS:g} s and changed nothing but times"
            )
            yield signal(STATUS_STORM, write, Blame.REQUESTER, write.content.admitted, said)


def _asks(write: Write) -> bool:
    """Whether it is a status write that asked for something."""
    return write.writes_status and not write.requested_nothing


def _asked_again(write: Write, past: ObjectHistory) -> list[Write]:
    """Return the latest of its user that asked for the same, newest first; none if they are few.

    Writes of which it was not seen what they asked for are passed over. So are rivals: of several
    writes upon one resourceVersion all but one are refused, and tried again.
    """
    if len(past.writes) < _ASKED_AGAIN or write.content_hash is None:
        return []
    is_known = write.content.requested is not None
    mine = (one for one in own(write, past.writes, _SECONDS_ASKED) if _asks(one))
    seen = (one for one in mine if one.content.requested is not None or not is_known)
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
    keys = values(write.content.sent).keys()
    return any(
        one.time >= since
        and one.requester.user != write.requester.user
        and _asks(one)
        and not keys.isdisjoint(values(one.content.admitted))
        for one in past.writes
    )


def _only_times(write: Write) -> bool:
    changes = write.content.admitted.changes
    return bool(changes) and all(one.holds_time for one in changes)


class Restless(Question):
    """See the module."""

    findings: ClassVar = (STORM, STATUS_STORM)
    seen: ClassVar = (_changed_by_webhook_alone, _asked_once_more)
    stored: ClassVar = (_moved_again,)
