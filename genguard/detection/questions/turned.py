"""Turned: a value of one object goes back, A, B, A, B.

All who turn it back are blamed, at any pace: two users, or two processes of one user. One writer's
own cycle is no fight, but for a condition that it flips faster than there can be a reason for, and
a mark by which it claims the object for two owners. Nor is what follows:
  values that never return, and fields of status that are dropped and set again (status-clobbered)
  a field that a PUT leaves out and a webhook defaults
  a shared annotation that a tool stamps with whatever it writes (kubernetes.io/change-cause)
  an annotation that one sets and another takes away: a question and its answer (as
  argocd.argoproj.io/refresh), unless it is asked again at once, or sooner than it is answered
  who comes hours after the other, by a timetable, and a switch that is turned for days
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from math import inf
from statistics import median
from typing import ClassVar, Final, NamedTuple

from genguard.detection.changes import OFF, Change
from genguard.detection.history import ObjectHistory
from genguard.detection.metadata import ANNOTATIONS
from genguard.detection.questions.question import (
    Answers,
    Blame,
    Declared,
    Question,
    blame_of,
    rewritten,
    signal,
    values,
)
from genguard.detection.sample import field_names
from genguard.detection.values import NO_DIGEST, Digest, digest_of
from genguard.detection.write import Requester, Write
from genguard.objects.fields import Path

OSCILLATION: Final = Declared(
    "status-oscillation",
    "two writers, or one that is too fast, change a field of status back and forth",
    "[turns {field} of {} back and forth|fight over {field} of {}]",
    "the status",
)
SPEC: Final = Declared(
    "spec-fight",
    "two writers, two processes of one user, or a writer and a webhook fight over a field of spec, "
    "or over the order of a list",
    "[overwrites|fight over] {field} of {}",
    "the spec",
)
METADATA: Final = Declared(
    "metadata-fight",
    "two writers fight over a label, an annotation, a finalizer or an owner, or one marks an "
    "object for two owners by turns",
    "[overwrites|fight over] {field} of {}",
    "the metadata",
)


_TWO: Final = 2
_SECONDS: Final = 10.0
_RETURNS_OF_TWO: Final = 5
_RETURNS: Final = 6
_VISITS: Final = 2
"""A rollout that is undone at once passes each of its states twice, and no more."""
_SWITCH_SECONDS: Final = 2.0
_SWITCH_RETURNS: Final = 9


class Turn(NamedTuple):
    """What one write made of a leaf; None where it is absent."""

    before: Digest | None
    value: Digest | None
    requester: Requester
    time: float


_MOST_OF_METADATA: Final = 20
_MOST_LEAVES: Final = 20
"""Of a write. A loop that changes more changes these."""


def _made(write: Write) -> Sequence[Change]:
    return write.content.admitted.changes


def turns_of(
    meant: Iterable[Change],
    writes: Sequence[Write],
    made: Callable[[Write], Iterable[Change]] = _made,
    most: float = inf,
) -> dict[Path, list[Turn]]:
    """Return the latest values of each leaf with who made them, oldest first."""
    turns: dict[Path, list[Turn]] = {one.key: [] for one in meant}
    for one in reversed(writes):
        for change in made(one) if turns else ():
            some = turns.get(change.key)
            if some is not None and len(some) < most:
                some.append(Turn(change.before, change.after, one.requester, one.time))
    return {key: some[::-1] for key, some in turns.items()}


def alone(
    meant: Sequence[Change], writes: Sequence[Write], is_so: Callable[[Sequence[Turn]], bool]
) -> list[Change]:
    """Return the leaves whose latest turns by one writer, back to somebody else's, are so.

    Each turn begins where the one before it ended: what is between them was not seen.
    """
    meant = meant[:_MOST_LEAVES]
    turns = turns_of(meant, writes)
    return [one for one in meant if is_so(_own(turns[one.key]))]


def _own(turns: Sequence[Turn]) -> list[Turn]:
    found = list[Turn]()
    for one in reversed(turns):
        is_own = one.requester.writer == turns[-1].requester.writer
        if not is_own or (found and found[-1].before != one.value):
            break
        found.append(one)
    return found[::-1]


def is_to_and_fro(turns: Sequence[Turn]) -> bool:
    """Whether the latest value is one of few that come again and again."""
    came = _latest(turns, _SECONDS)
    often = _often(came)
    if len(often) == _TWO and not OFF.isdisjoint(often):
        return is_switched(turns)
    needed = _RETURNS_OF_TWO if len(often) == _TWO else _RETURNS
    return _returns(came) >= needed and came[:-1].count(came[-1]) >= _VISITS


def is_switched(turns: Sequence[Turn]) -> bool:
    """Whether two values come by turns, faster than there can be a reason for."""
    came = _latest(turns, _SWITCH_SECONDS)
    return len(_often(came)) == _TWO and _returns(came) >= _SWITCH_RETURNS


def is_new_each_time(turns: Sequence[Turn]) -> bool:
    """Whether no value came twice, and none was taken away."""
    came = _latest(turns, inf)
    return None not in came[1:] and not _returns(came)


def _latest(turns: Sequence[Turn], seconds: float) -> list[Digest | None]:
    """Return the values of the last seconds, with the one before them."""
    recent = [one for one in turns if one.time > turns[-1].time - seconds]
    return [recent[0].before, *(one.value for one in recent)]


def _often(came: Sequence[Digest | None]) -> set[Digest | None]:
    """Return the values that came more than once."""
    return {one for one in came if came.count(one) > 1}


def _returns(came: Sequence[Digest | None]) -> int:
    """Return how many of the values were there before."""
    return len(came) - len({*came})


_NOT_SPEC: Final = ("status", "metadata")
"""A Deployment's annotations count as spec does; metadata-fight finds fights about them, and
metadata-clobbered what webhooks put back."""
_CHANGES_OF_HANDS: Final = 3
"""Of A, B, A, B: mine, yours, mine again, and yours again."""
_AT_ONCE_SECONDS: Final = 5.0
_AT_ONCE: Final = 8
"""So many times in a row an annotation is set again so soon after it was taken away: no question is
asked so often."""
_NO_SOONER: Final = 3
_AS_SOON: Final = 1.25
"""So many times in a row, in the median, who asks is not slower than who answers, within so much.
Questions are asked at leisure, and answered at once. This holds at any pace, and one long pause
changes nothing."""


_MARKS: Final = frozenset(
    {
        "app.kubernetes.io/instance",
        "app.kubernetes.io/managed-by",
        "applyset.kubernetes.io/part-of",
        "argocd.argoproj.io/instance",
        "argocd.argoproj.io/tracking-id",
        "config.k8s.io/owning-inventory",
        "helm.toolkit.fluxcd.io/name",
        "helm.toolkit.fluxcd.io/namespace",
        "kustomize.toolkit.fluxcd.io/name",
        "kustomize.toolkit.fluxcd.io/namespace",
        "meta.helm.sh/release-name",
        "meta.helm.sh/release-namespace",
    }
)
"""Labels and annotations by which a tool knows whose an object is. Where one writer gives them two
values by turns, two owners claim the object, at any pace."""
_UNKNOWN: Final = digest_of(b'"Unknown"')
_TIMETABLE_SECONDS: Final = 4 * 3_600.0
"""Who writes later than this after the other follows a timetable: down in the evening, up in the
morning."""


class _Part(NamedTuple):
    """A part of an object that writers may turn back.

    seconds   how long ago a turn may be; tools that keep what git has look every three to ten
              minutes, and a fight takes four writes
    most      so many of the latest values of a leaf are looked at
    made      what a requester made of the leaves
    is_meant  whether such a leaf may be turned back
    alone     what one writer turns to and fro by itself
    """

    found: Declared
    seconds: float
    most: int
    made: Callable[[Write], Iterable[Change]]
    is_meant: Callable[[Change], bool]
    alone: Callable[[Write, Sequence[Write], ObjectHistory], Answers]


def _turned_back(part: _Part, write: Write, past: ObjectHistory) -> Answers:
    """Yield one signal for a write that turned something back."""
    meant = [one for one in part.made(write) if part.is_meant(one)]
    if not meant:
        return
    recent = [one for one in past.stored if one.time >= write.time - part.seconds]
    writers, found = [one.requester.writer for one in recent], None
    if sum(one != other for one, other in pairwise(writers)) >= _CHANGES_OF_HANDS:
        found = next(_fight(part, write, meant, recent), None)
    found = found or next(part.alone(write, recent, past), None)
    slow = past.slow.writes
    if found:
        yield found
    elif slow and slow[-1] is write and write.time - slow[0].time > part.seconds:
        yield from _fight(part, write, meant, slow, is_slow=True)


def _fight(
    part: _Part,
    write: Write,
    meant: Sequence[Change],
    writes: Sequence[Write],
    *,
    is_slow: bool = False,
) -> Answers:
    """Yield a signal for what this write turned back of somebody else's.

    is_slow  it goes on for hours or days; over status there is no such fight
    """
    of_metadata, turns = part.found is METADATA, turns_of(meant, writes, part.made, part.most)
    if is_slow:
        slow = {one.key for one in meant if not (part.found is OSCILLATION or one.is_switch)}
        turns = {key: turns[key] for key in slow if not _is_timetable(turns[key])}
    pauses = [b.time - a.time for some in turns.values() for a, b in pairwise(some) if is_slow]
    fighters = {key: _fighters(some, of_metadata=of_metadata) for key, some in turns.items()}
    fought = [change for change in meant if fighters.get(change.key)]
    if not fought:
        return
    newest = write.requester
    others = {one.writer: one for change in fought for one in fighters[change.key]}
    others.pop(newest.writer, None)
    users = dict.fromkeys((newest.user, *(one.user for one in others.values())))
    names = " and ".join(users) if len(users) > 1 else f"several processes of {newest.user}"
    said = f"{names} overwrite each other's {field_names(fought)}"
    blame = blame_of(write.metadata) if of_metadata else Blame.REQUESTER
    minor = of_metadata and _is_beside(write, fought, turns)
    more = {"requesters": (newest, *others.values()), "minor": minor}
    yield signal(part.found, write, blame, fought, said, pace=max(pauses, default=0.0), **more)


def _fighters(turns: Sequence[Turn], *, of_metadata: bool) -> list[Requester]:
    """Return who turns a leaf back, each writer once, if two do and the newest turn does.

    A requester turns a leaf back when it writes a value of its own again over what somebody else
    has made of it. One that walks a cycle of its own, a correction, and a value that never comes
    back (a time, a counter) are no fight. Two processes of one user are two writers, as long as
    nobody else has a part in it. Where one takes away what another sets in metadata, its values
    may be new.
    """
    back = [at for at in range(len(turns)) if _turns_back(turns, at)]
    if back[-1:] == [len(turns) - 1]:
        is_of_one = len({one.requester.user for one in turns}) == 1
        whose = [turns[at].requester for at in back]
        found = {one.writer if is_of_one else one.user: one for one in whose}
        if len(found) > 1:
            return list(found.values())
    if not of_metadata or not _is_set_and_removed(turns):
        return []
    alike = [one if one.value is None else one._replace(value=NO_DIGEST) for one in turns]
    return _fighters(alike, of_metadata=False)


def _put_back(write: Write, _: ObjectHistory) -> Answers:
    """Yield a signal for an explicit value of spec that a webhook put back to what was stored.

    That leaves no trace in generation: each such write is a no-op.
    """
    back = [
        asked
        for asked, made in rewritten(write.content)
        if asked.key[0] not in _NOT_SPEC and made.after == asked.before
    ]
    if back and write.subresource in ("", "scale"):
        what = f"put {field_names(back)} back, which {write.requester.user} had changed"
        yield signal(SPEC, write, Blame.OTHERS, back, f"another webhook {what}")


def _flipped(write: Write, recent: Sequence[Write], _: ObjectHistory) -> Answers:
    """Yield a signal for a condition or phase that one writer flips, too fast to be true."""
    meant = [one for one in _made(write) if _is_set(one) and _is_state(one)]
    same = [one for one in recent if one.generation_before == write.generation_before]
    flipped = alone(meant, same, is_switched)
    if flipped:
        what = f"flips {field_names(flipped)} again and again, for no change of the spec"
        said = f"{write.requester.user} {what}"
        yield signal(OSCILLATION, write, blame_of(write.content), flipped, said)


def _claimed(write: Write, recent: Sequence[Write], past: ObjectHistory) -> Answers:
    """Yield a signal for a mark of the owner that one writer gives two values by turns.

    What has an owner in the cluster is marked as that one is.
    """
    marks = [one for one in _made_of_metadata(write) if one.key[-1] in _MARKS and not past.owner]
    turns = turns_of(marks, recent, _made_of_metadata, _MOST_OF_METADATA)
    claimed = [one for one in marks if _is_claimed(turns[one.key])]
    if claimed:
        what = f"writes it for two owners by turns, each with a {field_names(claimed)} of its own"
        said = f"{write.requester.user} {what}"
        yield signal(METADATA, write, blame_of(write.metadata), claimed, said)


def _made_of_metadata(write: Write) -> Sequence[Change]:
    """Return what the requester made of the stored metadata, and no webhook has changed."""
    made = [one for one in write.metadata.admitted if not one.holds_time]
    asked = values(write.metadata.sent)
    return [one for one in made if one.key in asked and asked[one.key] == one.after]


def _is_beside(write: Write, fought: Sequence[Change], turns: dict[Path, list[Turn]]) -> bool:
    """Whether the write is about something else as well, or answers a question.

    A leaf that one alone sets may be what its writes are about. An annotation beside a label that
    is fought over is a stamp.
    """
    own = [key for key, some in turns.items() if len({one.requester.user for one in some}) == 1]
    of_labels = any(one.key[1] != ANNOTATIONS for one in fought)
    return (
        any(one.key[0] != "metadata" for one in _made(write))
        or any(key[1] != ANNOTATIONS or not of_labels for key in own)
        or all(_is_answered(one.key, turns[one.key]) for one in fought)
    )


def _turns_back(turns: Sequence[Turn], at: int) -> bool:
    if at < 2:  # noqa: PLR2004 - mine, yours, mine again
        return False
    mine, before = turns[at], turns[at - 1]
    who, other = mine.requester, before.requester
    if other.writer == who.writer or before.value == mine.value:
        return False
    # Of one user each process has its own will; a process that is replaced has no earlier turn.
    before_that = [one.requester for one in turns[: at - 1] if one.value == mine.value]
    if other.user == who.user:
        return who.writer in [one.writer for one in before_that]
    return who.user in [one.user for one in before_that]


def _is_timetable(turns: Sequence[Turn]) -> bool:
    """Whether each of the writers comes hours after the other."""
    waits: dict[str, list[float]] = {}
    for before, one in pairwise(turns):
        if before.requester.user != one.requester.user:
            waits.setdefault(one.requester.user, []).append(one.time - before.time)
    return all(median(some) > _TIMETABLE_SECONDS for some in waits.values())


def _is_claimed(turns: Sequence[Turn]) -> bool:
    """Whether one user has set a value again over another one of its own."""
    *_, first, second, third = (None, None, None, *(one.value for one in turns))
    is_of_one = len({one.requester.user for one in turns}) == 1
    return is_of_one and None not in (first, second, third) and first == third != second


def _is_set(change: Change) -> bool:
    """Whether a field of status has two values; who takes one away is found by status-clobbered."""
    return change.key[0] == "status" and not (change.added or change.removed)


def _is_state(change: Change) -> bool:
    """Whether a field of status says in which of few states an object is, and is sure of it.

    A controller that looks at regular times is not sure while it looks: True, Unknown, True.
    """
    is_condition = change.key[1] == "conditions" and change.key[-1] == "status"
    is_sure = _UNKNOWN not in (change.before, change.after)
    return change.key == ("status", "phase") or (is_condition and is_sure)


def _is_set_and_removed(turns: Sequence[Turn]) -> bool:
    """Whether a leaf is set by some, and taken away by others alone."""
    setters = {one.requester.user for one in turns if one.value is not None}
    removers = {one.requester.user for one in turns if one.value is None}
    return bool(removers) and not setters & removers


def _is_answered(key: Path, turns: Sequence[Turn]) -> bool:
    """Whether an annotation is set by some and taken away by others, at the pace of questions."""
    if key[1] != ANNOTATIONS or not _is_set_and_removed(turns):
        return False
    asked, answered = (
        [
            one.time - before.time
            for before, one in pairwise(turns)
            if (before.value is None, one.value is None) == (is_asked, not is_asked)
        ]
        for is_asked in (True, False)
    )
    if len(asked) >= _AT_ONCE and max(asked[-_AT_ONCE:]) <= _AT_ONCE_SECONDS:
        return False
    return min(len(asked), len(answered)) < _NO_SOONER or (
        median(asked[-_NO_SOONER:]) > _AS_SOON * median(answered[-_NO_SOONER:])
    )


_PARTS: Final = (
    _Part(OSCILLATION, 600.0, 8, _made, _is_set, _flipped),
    _Part(SPEC, 3_600.0, 8, _made, lambda one: one.key[0] not in _NOT_SPEC, lambda *_: iter(())),
    _Part(METADATA, 3_600.0, _MOST_OF_METADATA, _made_of_metadata, lambda _: True, _claimed),
)


class Turned(Question):
    """See the module."""

    findings: ClassVar = (OSCILLATION, SPEC, METADATA)
    seen: ClassVar = (_put_back,)
    stored: ClassVar = tuple(partial(_turned_back, part) for part in _PARTS)
