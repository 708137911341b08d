"""Turned: a value of one object goes back, A, B, A, B.

Reads   the stored values of each leaf and who wrote them; of metadata what each writer asked for;
        of spec what other webhooks made of it as well
Result  blames all who turn it back, at any pace: two users, or two processes of one user. Values
        that never return, and fields of status that are dropped and set again (see
        status-clobbered) are not meant. Nor is one writer's own cycle, but for a condition that it
        flips faster than there can be a reason for, and a mark by which it claims the object for
        two owners by turns. Of spec also blames the webhook that puts an explicit value back to
        what was stored, which leaves no trace in generation: each such write is a no-op
Relies  on conditions being matched by type (openshift/cluster-authentication-operator#269). On an
        explicit value: a field that a PUT leaves out and a webhook defaults is no fight. On writes
        of metadata that are about nothing else: a tool that also stamps a shared annotation
        whenever it has something of its own to write fights nobody (kubernetes.io/change-cause).
        Beside a label that is fought over, an annotation of its own is the stamp. An annotation
        that one sets and another takes away is a question and its answer (as
        argocd.argoproj.io/refresh), unless it is asked again at once, many times, or sooner than
        it is answered. On who answers within hours: two who each come later follow a timetable,
        and a switch is turned on and off for days by those whose task it is
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import ClassVar, Final, NamedTuple

from genguard.detection.changes import OFF, Change
from genguard.detection.history import ObjectHistory
from genguard.detection.metadata import ANNOTATIONS
from genguard.detection.questions.question import (
    Answers,
    Blame,
    Declared,
    Event,
    Question,
    Seen,
    Signal,
    Stored,
    blame_of,
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


class Turned(Question):
    """See the module."""

    findings: ClassVar = (OSCILLATION, SPEC, METADATA)

    def ask(self, event: Event) -> Answers:
        """Ask who turned something back in a write that was stored, or on its way there."""
        if isinstance(event, Seen) and event.write.is_changed:
            yield from SPEC.of(_put_back(event.write))
        elif isinstance(event, Stored):
            for part in _PARTS:
                yield from part.found.of(_turned_back(part, *event))


_MOST_LEAVES: Final = 20
"""Of a write. A loop that changes more changes these."""
_TWO: Final = 2
SECONDS: Final = 10.0
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


def own_turns(
    meant: Iterable[Change], write: Write, stored: Sequence[Write], since: float
) -> dict[Path, list[Turn]]:
    """Return the latest turns of each leaf, oldest first, back to `since` or to somebody else's.

    Each turn begins where the one before it ended: what is between them was not seen.
    """
    turns: dict[Path, list[Turn]] = {one.key: [] for one in [*meant][:_MOST_LEAVES]}
    going_on = {*turns}
    for one in reversed(stored):
        if one.time <= since or not going_on:
            break
        is_own = one.requester.writer == write.requester.writer
        for change in one.content.admitted:
            if change.key not in going_on:
                continue
            some = turns[change.key]
            if not is_own or (some and some[-1].before != change.after):
                going_on.discard(change.key)
            else:
                some.append(Turn(change.before, change.after, one.requester, one.time))
    return {key: some[::-1] for key, some in turns.items() if some}


def is_to_and_fro(turns: Sequence[Turn]) -> bool:
    """Whether the latest value is one of few that come again and again."""
    values = _values(turns, SECONDS)
    often = _often(values)
    if len(often) == _TWO and not OFF.isdisjoint(often):
        return is_switched(turns)
    needed = _RETURNS_OF_TWO if len(often) == _TWO else _RETURNS
    return _returns(values) >= needed and values[:-1].count(values[-1]) >= _VISITS


def is_switched(turns: Sequence[Turn]) -> bool:
    """Whether two values come by turns, faster than there can be a reason for."""
    values = _values(turns, _SWITCH_SECONDS)
    return len(_often(values)) == _TWO and _returns(values) >= _SWITCH_RETURNS


def _values(turns: Sequence[Turn], seconds: float) -> list[Digest | None]:
    """Return the values of the last seconds, with the one before them."""
    recent = [one for one in turns if one.time > turns[-1].time - seconds]
    return [recent[0].before, *(one.value for one in recent)] if recent else []


def _often(values: Sequence[Digest | None]) -> set[Digest | None]:
    """Return the values that came more than once."""
    return {one for one in values if values.count(one) > 1}


def _returns(values: Sequence[Digest | None]) -> int:
    """Return how many of the values were there before."""
    return sum(value in values[:at] for at, value in enumerate(values))


def is_new_each_time(turns: Sequence[Turn]) -> bool:
    """Whether no value came twice, and none was taken away."""
    values = _values(turns, float("inf"))
    return None not in values[1:] and len({*values}) == len(values)


_STATUS: Final = "status"
_METADATA: Final = "metadata"
_NOT_SPEC: Final = frozenset({_STATUS, _METADATA})
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
    made: Callable[[Write], Sequence[Change]]
    is_meant: Callable[[Change], bool]
    alone: Callable[[Write, Sequence[Write], ObjectHistory], Signal | None]

    def meant(self, write: Write) -> list[Change]:
        """Return what a write made, as far as it may be turned back."""
        return [one for one in self.made(write) if self.is_meant(one)]


def _turned_back(part: _Part, write: Write, past: ObjectHistory) -> Iterator[Signal]:
    """Yield one signal for a write that turned something back."""
    meant = part.meant(write)
    if not meant:
        return
    since = write.time - part.seconds
    recent = [one for one in past.stored if one.time >= since]
    found = None
    if _change_hands(recent):
        found = _fight(part, write, meant, _turns(part, meant, recent))
    found = found or part.alone(write, recent, past) or _slow_fight(part, write, meant, past)
    if found is not None:
        yield found


def _slow_fight(
    part: _Part, write: Write, meant: Sequence[Change], past: ObjectHistory
) -> Signal | None:
    """Return a signal for a fight that goes on for hours or days; over status there is none."""
    writes = () if part.found is OSCILLATION else past.slow.writes
    if not writes or writes[-1] is not write or write.time - writes[0].time <= part.seconds:
        return None
    meant = [one for one in meant if not one.is_switch]
    turns = _turns(part, meant, writes)
    turns = {key: some for key, some in turns.items() if not _is_timetable(some)}
    found = _fight(part, write, [one for one in meant if one.key in turns], turns)
    pauses = (b.time - a.time for some in turns.values() for a, b in pairwise(some))
    return found and replace(found, pace=max(pauses))


def _fight(
    part: _Part, write: Write, meant: Sequence[Change], turns: dict[Path, list[Turn]]
) -> Signal | None:
    """Return a signal for what this write turned back of somebody else's."""
    of_metadata = part.found is METADATA
    fighters = {key: _fighters(some, of_metadata=of_metadata) for key, some in turns.items()}
    fought = [change for change in meant if fighters[change.key]]
    if not fought:
        return None
    newest = write.requester
    all_of_them = {one.writer: one for change in fought for one in fighters[change.key]}
    others = [one for one in all_of_them.values() if one.writer != newest.writer]
    users = dict.fromkeys((newest.user, *(one.user for one in others)))
    names = " and ".join(users) if len(users) > 1 else f"several processes of {newest.user}"
    return Signal(
        blame_of(write.metadata) if of_metadata else Blame.REQUESTER,
        tuple(dict.fromkeys(change.pointer for change in fought)),
        f"{names} overwrite each other's {field_names(fought)}",
        (newest, *others),
        minor=of_metadata and _is_beside(write, fought, turns),
    )


def _turns(part: _Part, meant: Iterable[Change], recent: Sequence[Write]) -> dict[Path, list[Turn]]:
    """Return the latest values of each leaf with who made them, oldest first."""
    turns: dict[Path, list[Turn]] = {one.key: [] for one in meant}
    wanted = len(turns) * part.most
    for one in reversed(recent):
        if not wanted:
            break
        for change in part.made(one):
            some = turns.get(change.key)
            if some is not None and len(some) < part.most:
                some.append(Turn(change.before, change.after, one.requester, one.time))
                wanted -= 1
    return {key: some[::-1] for key, some in turns.items()}


def _fighters(turns: Sequence[Turn], *, of_metadata: bool) -> list[Requester]:
    """Return who turns a leaf back, each writer once, if two do and the newest turn does.

    A requester turns a leaf back when it writes a value of its own again over what somebody else
    has made of it. One that walks a cycle of its own, a correction, and a value that never comes
    back (a time, a counter) are no fight. Two processes of one user are two writers, as long as
    nobody else has a part in it. Where one takes away what another sets in metadata, its values
    may be new.
    """
    found = list[Requester]()
    if _turns_back(turns, len(turns) - 1):
        back = [turns[at].requester for at in range(len(turns)) if _turns_back(turns, at)]
        found = list({one.user: one for one in back}.values())
        if len(found) < _TWO and len({one.requester.user for one in turns}) == 1:
            found = list({one.writer: one for one in back}.values())
    if len(found) >= _TWO:
        return found
    if not of_metadata or not _is_set_and_removed(turns):
        return []
    alike = [one if one.value is None else one._replace(value=NO_DIGEST) for one in turns]
    return _fighters(alike, of_metadata=False)


def _put_back(write: Write) -> Iterator[Signal]:
    """Yield one signal for a write of spec that a webhook turned back."""
    requested, made = write.content.requested, write.content.webhook
    if write.subresource not in ("", "scale") or not requested or not made:
        return
    made_of = {change.key: change for change in made}
    turned_back = [
        change
        for change in requested
        if change.key[0] not in _NOT_SPEC
        and change.after is not None
        and (other := made_of.get(change.key)) is not None
        and other.after == change.before
    ]
    if turned_back:
        yield Signal(
            Blame.OTHERS,
            tuple(change.pointer for change in turned_back),
            f"another webhook put {field_names(turned_back)} back, which "
            f"{write.requester.user} had changed",
        )


def _flipped(write: Write, recent: Sequence[Write], past: ObjectHistory) -> Signal | None:
    """Return a signal for a condition or phase that one writer flips, too fast to be true."""
    del past
    meant = [one for one in write.content.admitted if _is_set(one) and _is_state(one)]
    same = [one for one in recent if one.generation_before == write.generation_before]
    turns = own_turns(meant, write, same, write.time - SECONDS)
    flipped = [one for one in meant if is_switched(turns.get(one.key, ()))]
    if not flipped:
        return None
    user = write.requester.user
    return Signal(
        blame_of(write.content),
        tuple(one.pointer for one in flipped),
        f"{user} flips {field_names(flipped)} again and again, for no change of the spec",
        (write.requester,),
    )


def _claimed(write: Write, recent: Sequence[Write], past: ObjectHistory) -> Signal | None:
    """Return a signal for a mark of the owner that one writer gives two values by turns.

    What has an owner in the cluster is marked as that one is.
    """
    part = _PARTS[-1]
    marks = [one for one in part.made(write) if one.key[-1] in _MARKS and not past.owner]
    turns = _turns(part, marks, recent)
    claimed = [one for one in marks if _is_claimed(turns[one.key])]
    if not claimed:
        return None
    user = write.requester.user
    return Signal(
        blame_of(write.metadata),
        tuple(one.pointer for one in claimed),
        f"{user} writes it for two owners by turns, each with a {field_names(claimed)} of its own",
        (write.requester,),
    )


def _made_of_metadata(write: Write) -> Sequence[Change]:
    """Return what the requester made of the stored metadata, and no webhook has changed."""
    made = [one for one in write.metadata.admitted if not one.holds_time]
    if write.metadata.requested is None:
        return made
    asked = {one.key: one.after for one in write.metadata.requested}
    return [one for one in made if one.key in asked and asked[one.key] == one.after]


def _is_beside(write: Write, fought: Sequence[Change], turns: dict[Path, list[Turn]]) -> bool:
    """Whether the write is about something else as well, or answers a question."""
    own = [key for key, some in turns.items() if len({one.requester.user for one in some}) == 1]
    is_beside = _changes_more(write) or any(_is_work(key, fought) for key in own)
    return is_beside or all(_is_answered(one.key, turns[one.key]) for one in fought)


def _change_hands(writes: Iterable[Write]) -> bool:
    """Whether so many take turns that two may each have turned something back."""
    writers = (one.requester.writer for one in writes)
    return sum(one != other for one, other in pairwise(writers)) >= _CHANGES_OF_HANDS


def _turns_back(turns: Sequence[Turn], at: int) -> bool:
    if at < 2:  # noqa: PLR2004 - mine, yours, mine again
        return False
    mine, before = turns[at], turns[at - 1]
    who, other = mine.requester, before.requester
    if other.writer == who.writer or before.value == mine.value:
        return False
    # Of one user each process has its own will; a process that is replaced has no earlier turn.
    is_of_one = other.user == who.user
    return any(
        one.value == mine.value
        and (one.requester.writer == who.writer if is_of_one else one.requester.user == who.user)
        for one in turns[: at - 1]
    )


def _is_timetable(turns: Sequence[Turn]) -> bool:
    """Whether each of the writers comes hours after the other."""
    waits: dict[str, list[float]] = {}
    for before, one in pairwise(turns):
        if before.requester.user != one.requester.user:
            waits.setdefault(one.requester.user, []).append(one.time - before.time)
    return all(median(some) > _TIMETABLE_SECONDS for some in waits.values())


def _changes_more(write: Write) -> bool:
    """Whether it changed anything but metadata."""
    return any(one.key[0] != _METADATA for one in write.content.admitted)


def _is_claimed(turns: Sequence[Turn]) -> bool:
    """Whether one user has set a value again over another one of its own."""
    *_, first, second, third = (None, None, None, *(one.value for one in turns))
    is_of_one = len({one.requester.user for one in turns}) == 1
    return is_of_one and None not in (first, second, third) and first == third != second


def _is_set(change: Change) -> bool:
    """Whether a field of status has two values; who takes one away is found by status-clobbered."""
    return change.key[0] == _STATUS and not (change.added or change.removed)


def _is_state(change: Change) -> bool:
    """Whether a field of status says in which of few states an object is, and is sure of it.

    A controller that looks at regular times is not sure while it looks: True, Unknown, True.
    """
    key = change.key
    if key == (_STATUS, "phase"):
        return True
    is_condition = key[1] == "conditions" and key[-1] == _STATUS
    return is_condition and _UNKNOWN not in (change.before, change.after)


def _is_work(own: Path, fought: Iterable[Change]) -> bool:
    """Whether a leaf that one alone sets may be what its writes are about, and not a stamp."""
    return own[1] != ANNOTATIONS or all(one.key[1] == ANNOTATIONS for one in fought)


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
    _Part(
        OSCILLATION,
        600.0,
        8,
        lambda write: write.content.admitted.changes,
        _is_set,
        _flipped,
    ),
    _Part(
        SPEC,
        3_600.0,
        8,
        lambda write: write.content.admitted.changes,
        lambda one: one.key[0] not in _NOT_SPEC,
        lambda *_: None,
    ),
    _Part(
        METADATA,
        3_600.0,
        20,
        _made_of_metadata,
        lambda _: True,
        _claimed,
    ),
)
