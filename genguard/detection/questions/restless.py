"""Restless: one writer, one object, again and again, and each write makes a reason for the next."""

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from typing import ClassVar, Final

from genguard.detection.changes import ORDER, Change
from genguard.detection.diff import NO_DIFF, asks_nothing, diff_of, values
from genguard.detection.history import ObjectHistory
from genguard.detection.question import DECLARED, Answers, ChangedBy, Question, own, signal
from genguard.detection.questions.reversals import STORM, storm
from genguard.detection.sample import field_names
from genguard.detection.values import Digest
from genguard.detection.write import Write

STATUS_STORM: Final = DECLARED["status-write-storm"]
RESTLESS: Final = DECLARED["restless-writer"]

_SECONDS: Final = 60.0
_HOUR_SECONDS: Final = 3_600.0
_CHASES: Final = 4
_ASKED_AGAIN: Final = 5
_ROW: Final = 8
_STAMPS: Final = 15
_IDLE: Final = 30
_IDLE_AN_HOUR: Final = 100
_TRANSITION: Final = "lastTransitionTime"


def _changed_by_webhook_alone(write: Write, _: ObjectHistory) -> Answers:
    """Generation moves because other webhooks change a spec that nobody asked to change.

    Where status counts, a status that is asked for excuses no change of anything else.
    """
    made: Sequence[Change] = (write.content.webhook or NO_DIFF).changes
    if not write.counted or not made or (write.writes_status and not write.status_counts):
        return
    asked = write.content.requested
    if asked and write.status_counts and any(change.key[0] == "status" for change in asked):
        net = values(write.content.admitted)
        made = [change for change in made if change.key[0] != "status" and change.key in net]
        asked = diff_of(change for change in asked if change.key[0] != "status")
    if asked and any(change.key[0] == "metadata" for change in asked):
        # The annotations of a Deployment count, and ask for nothing else; they may be copied.
        copies = {change.after for change in asked}
        others = [
            change for change in made if change.key[0] != "metadata" and change.after not in copies
        ]
        made = others or made
        asked = diff_of(change for change in asked if not others or change.key[0] != "metadata")
    if made and asks_nothing(asked, made):
        user = write.requester.user
        said = f"another webhook changed what counts, for which {user} had not asked"
        evidence = {"generation": write.generation_after}
        yield signal(STORM, write, ChangedBy.OTHERS, made, said, evidence=evidence)


def _chased(write: Write, past: ObjectHistory) -> Answers:
    """Status writes move generation, for there is no status subresource.

    A writer that follows generation with observedGeneration chases it: it observes what it made
    itself, not what somebody else has asked for. Others are told as info: nobody is waiting for
    them (kubernetes/autoscaler#5675, actions/actions-runner-controller#1643: generation 50,597).
    Progress of a job is told at first, and no more: it ends (vmware-tanzu/velero: itemsRestored).
    """
    if not (write.counted and write.status_counts) or write.touches_more:
        return
    before = [kept for kept in own(write, past.stored, _SECONDS) if kept.counted]
    mine = [kept for kept in before if not kept.touches_more]
    made = {kept.generation_after for kept in mine if _chases(kept)}
    is_long = len([*own(write, past.stored, _HOUR_SECONDS)]) > _STAMPS
    is_progress = all(change.is_progress for change in write.content.admitted)
    if _chases(write):
        steps = [kept for kept in mine if _chases(kept) and kept.generation_before in made]
        if len(steps) >= _CHASES - 1:
            yield storm(write, "chases generation: each status write moves it")
    elif len(mine) >= _CHASES and not (is_long and is_progress):
        what = "moves generation by writing status; there is no status subresource"
        yield storm(write, what, minor=True)


def _chases(write: Write) -> bool:
    """It writes the generation that was, and thereby makes the next one."""
    return str(write.observed_asked.own) == str(write.generation_before)


def _stamped(write: Write, past: ObjectHistory) -> Answers:
    """Generation moves again and again because of annotations and times, which change nothing else.

    The annotations of a Deployment count as its spec does, and each is a rollout's worth of work.
    """
    mine = filter(_is_stamp, own(write, past.stored, _HOUR_SECONDS)) if _is_stamp(write) else ()
    if len([*mine]) >= _STAMPS:
        what = "moves generation again and again, and changes only annotations and times"
        yield storm(write, what, write.content.admitted.changes)


def _is_stamp(write: Write) -> bool:
    changes = write.content.admitted.changes if write.counted else ()
    told = values(write.metadata.admitted)
    # Bookkeeping is not among them, unless it is taken away: its component would keep it.
    told |= {
        change.key: None for change in changes if change.removed and change.key[0] == "metadata"
    }
    return bool(changes) and all(change.holds_time or change.key in told for change in changes)


def _added_again(write: Write, past: ObjectHistory) -> Answers:
    """The same item is added to a list again and again, which grows without end.

    Items that differ are news: a slice of endpoints grows with a Deployment. A writer that adds
    again what somebody has taken out fights with that one.
    """
    made = _added(write)
    if not made:
        return
    lately = (kept for kept in reversed(past.stored) if kept.time > write.time - _HOUR_SECONDS)
    lists = (kept for kept in lately if any(map(_has_number, kept.content.admitted)))
    same = takewhile(lambda kept: _added(kept) == made, lists)
    if len([kept for kept in same if kept.requester.user == write.requester.user]) >= _ROW:
        what = "adds the same item to a list again and again"
        yield storm(write, what, write.content.admitted.changes)


def _added(write: Write) -> list[Digest | None]:
    """Return the values of a new item of a list, where nothing else changes."""
    changes = write.content.admitted.changes
    is_item = all(
        change.added and change.key[0] != "status" and _has_number(change) for change in changes
    )
    return [change.after for change in changes] if is_item else []


def _has_number(change: Change) -> bool:
    """Whether a leaf is in an item of a list that nothing else tells apart: its position does."""
    return any(isinstance(part, int) for part in change.key)


def _asked_once_more(write: Write, past: ObjectHistory) -> Answers:
    """The same status is asked for again and again, and is not kept (KEP-5067, first symptom).

    Blames other webhooks where they change what is asked; else the requester may be the one who
    asks for what the server drops. A requester whom another user undoes is the victim
    (status-oscillation, status-clobbered). A rate alone tells nothing: a busy controller writes
    something new each time.
    """
    if not _asks(write):
        return
    user, webhook = write.requester.user, write.content.webhook
    asking = filter(_asks, own(write, past.writes, _SECONDS))
    same = [*takewhile(lambda other: other.content_hash == write.content_hash is not None, asking)]
    if len(same) >= _ASKED_AGAIN:
        # All but one of several writes upon one version are refused, and tried again.
        rivals = Counter(write.base for write in past.writes if write.content.admitted)
        same = [
            other
            for other in same
            if other.content.webhook or not other.content.admitted or rivals[other.base] == 1
        ]
    if len(same) >= _ASKED_AGAIN and (webhook or not _is_undone(write, same[-1].time, past)):
        said = f"{user} has asked for the same status {len(same)} times, and it is not kept"
        changed_by = ChangedBy.OTHERS if webhook else ChangedBy.SERVER
        yield signal(STATUS_STORM, write, changed_by, webhook or write.content.sent, said)


def _says_the_same(write: Write, past: ObjectHistory) -> Answers:
    """Each of its writes in a row changes nothing but the order, or nothing but times of status.

    The order alone is a loop at any pace. Times alone may be a heartbeat, unless they come every
    few seconds, or one is a lastTransitionTime, which may not move while its condition stays
    (k8s.io/apimachinery pkg/apis/meta/v1/types.go:Condition).
    """
    is_same = next((rule for rule in (_only_order, _only_times) if rule(write)), None)
    if is_same is None:
        return
    user, about, since = write.requester.user, write.subresource, write.time - _HOUR_SECONDS
    lately = [x for x in past.stored[::-1] if x.time > since and x.subresource == about]
    # Somebody else who does so has a part in it.
    mine = (kept for kept in lately if kept.requester.user == user or is_same(kept))
    row = [*takewhile(lambda kept: kept.requester.user == user and is_same(kept), mine)]
    if is_same is _only_order:
        count, what = len(row), "the order"
    else:
        moved = [kept for kept in row if _TRANSITION in {x.key[-1] for x in kept.content.admitted}]
        fast = [kept for kept in row if kept.time > write.time - _SECONDS]
        count, what = len(fast if len(fast) >= _STAMPS else moved), "times"
    if count >= _ROW:
        found = STATUS_STORM if write.writes_status else STORM
        said = f"{user} wrote {count} times in a row and changed nothing but {what}"
        paths = ("/status",) if write.writes_status and is_same is _only_order else ()
        yield signal(found, write, ChangedBy.REQUESTER, paths, said)


def _changes_nothing(write: Write, past: ObjectHistory) -> Answers:
    """The object is written as it is stored: nothing is stored, but each write is admitted."""
    if not _is_idle(write):
        return
    idle = [earlier.time for earlier in own(write, past.writes, _HOUR_SECONDS) if _is_idle(earlier)]
    if len(idle) >= _IDLE:
        pace = round((len(idle) - 1) * _HOUR_SECONDS / max(idle[0] - idle[-1], 1.0))
        if pace >= _IDLE_AN_HOUR:
            said = f"{write.requester.user} writes it {pace} times an hour and changes nothing"
            evidence = {"writesAnHour": pace}
            yield signal(RESTLESS, write, ChangedBy.REQUESTER, (), said, evidence=evidence)


def _left_out(write: Write, past: ObjectHistory) -> Answers:
    """The same fields are left out again and again, and webhooks add them: nothing is stored."""
    if not _is_refilled(write):
        return
    mine = own(write, past.writes, _HOUR_SECONDS * _IDLE / _IDLE_AN_HOUR)
    if sum(map(_is_refilled, mine)) >= _IDLE:
        made, user = write.content.webhook or (), write.requester.user
        said = f"{user} leaves out {field_names(made, write.object)} again and again"
        said += ", which another webhook adds"
        yield signal(RESTLESS, write, ChangedBy.EITHER, made, said)


def _is_refilled(write: Write) -> bool:
    """Whether webhooks have added all that a PUT left out, so that nothing is stored."""
    made = write.content.webhook
    if not made or not write.has_outcome or write.changed_anything or write.subresource:
        return False
    return asks_nothing(write.content.requested, made)


def _is_idle(write: Write) -> bool:
    """Whether it asks for nothing but another notation, and nothing came of it."""
    asks = write.content.sent.changes or write.content_hash is not None
    return write.has_outcome and not (write.changed_anything or asks)


def _asks(write: Write) -> bool:
    """Whether it is a status write that asked for something."""
    return write.writes_status and bool(write.content.sent)


def _is_undone(write: Write, since: float, past: ObjectHistory) -> bool:
    """Somebody else has meanwhile written the same leaves."""
    keys, user = values(write.content.sent).keys(), write.requester.user
    theirs = (
        write for write in past.writes if write.requester.user != user and write.time >= since
    )
    return any(keys & values(other.content.admitted) for other in filter(_asks, theirs))


def _only_times(write: Write) -> bool:
    changes = write.content.admitted.changes if write.writes_status else ()
    return bool(changes) and all(change.holds_time for change in changes)


def _only_order(write: Write) -> bool:
    """Whether it changes the order of a list, of lines or of fields, and no value."""
    sent = write.content.sent
    if not sent.changes:
        return write.writes_status and bool(sent) and write.content_hash is None
    moved = [change for change in sent if change.key[-1] != ORDER]
    if not all(map(_has_number, moved)):
        return False
    return Counter(change.before for change in moved) == Counter(change.after for change in moved)


def _is_not_at_rest(write: Write, _: ObjectHistory) -> Answers:
    """It changes what should be at rest, whatever it changes; a ledger tells one from many."""
    if write.has_outcome and write.changed_anything:
        changes = write.content.admitted or write.metadata.admitted
        found = STATUS_STORM if write.writes_status else STORM
        said = f"writes {field_names(changes, write.object)} again and again"
        said = f"{write.requester.user} {said}, though all should be at rest"
        yield signal(found, write, ChangedBy.REQUESTER, changes, said)


class AtRest(Question):
    """Asked beside all others where nobody should write any more."""

    findings: ClassVar = (STATUS_STORM, STORM)
    seen = (_is_not_at_rest,)


class Restless(Question):
    """See the module."""

    findings: ClassVar = (STATUS_STORM, RESTLESS)
    seen = (_changed_by_webhook_alone, _asked_once_more, _changes_nothing, _left_out)
    stored = (_chased, _stamped, _added_again, _says_the_same)
