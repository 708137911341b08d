"""Reversals: a value of one object goes back, A, B, A, B.

All who change it back are blamed, at any pace: two users, or two processes of one user. One
writer's own cycle is no fight, but for a condition that it flips faster than there can be a reason
for, and a mark by which it claims the object for two owners. Nor are these:
  what only grows (a counter that both raise, a log, a time), and fields of status that are dropped
  and set again (status-clobbered)
  a field that a PUT leaves out and a webhook defaults
  a shared annotation that a tool stamps with whatever it writes (kubernetes.io/change-cause)
  an annotation that one sets and another takes away: a question and its answer (as
  argocd.argoproj.io/refresh), unless it is asked again at once, or sooner than it is answered
  who comes hours after the other, by a timetable, and a switch that is on or off for days
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, ClassVar, Final, NamedTuple

from genguard.detection.changes import OFF, Change
from genguard.detection.diff import Diff
from genguard.detection.history import ObjectHistory
from genguard.detection.metadata import ANNOTATIONS, FINALIZERS, OWNERS
from genguard.detection.question import (
    DECLARED,
    Answers,
    ChangedBy,
    Declared,
    Question,
    Signal,
    own,
    signal,
)
from genguard.detection.questions.recreations import COLLECTOR
from genguard.detection.sample import field_names
from genguard.detection.values import NO_DIGEST, SECRETS, Digest, digest_of
from genguard.detection.write import NAMES, NODE_USER, Requester, Write
from genguard.objects.fields import Path, Token, to_field_path

OSCILLATION: Final = DECLARED["status-oscillation"]
SPEC: Final = DECLARED["spec-fight"]
METADATA: Final = DECLARED["metadata-fight"]
STORM: Final = DECLARED["generation-storm"]

_SECONDS: Final = 3_600.0
"""How long ago a reversal may be; tools that keep what git has look every three to ten minutes, and
a fight takes four writes."""
_SECONDS_OF_STATUS: Final = 600.0
_MOST_LEAVES: Final = 20
"""Of one write. A loop that changes more leaves changes these as well."""
_MOST_POINTS: Final = 20
_MOST_FOUGHT: Final = 8
"""Earlier values of a leaf are remembered against nobody."""
_ONE_SIDED: Final = 3
_UNLIKE: Final = 10.0
"""A writer that adds so many times what the other adds does not count the same thing."""
_CHANGES_OF_HANDS: Final = 3
"""A, B, A, B has as many: mine, yours, mine again, and yours again."""
_SLOW_POINTS: Final = 6
"""A fight of so many reversals is a loop at once, however far apart they are."""
_TIMETABLE_SECONDS: Final = 4 * 3_600.0
"""A writer that comes later than this after the other has a timetable: down in the evening, up
in the morning."""
_HASTE_SECONDS: Final = 600.0
_ITEMS: Final = 6
_SETS: Final = ((FINALIZERS,), (OWNERS,))
_PARTS: Final[dict[Token, Declared]] = {"status": OSCILLATION, "metadata": METADATA}


class ValueChange(NamedTuple):
    """What one write made of a leaf; None where it is absent."""

    before: Digest | None
    value: Digest | None
    requester: Requester
    time: float
    change: Change

    @property
    def is_progress(self) -> bool:
        """Whether the value only grows: a number, a text, or a time."""
        return self.change.is_progress or self.change.has_grown

    @property
    def step(self) -> float:
        """Return by how much a number has grown; 0 if it is no number, or is not shown."""
        shown = self.change.shown_before or "", self.change.shown_after or ""
        return float(shown[1]) - float(shown[0]) if all(x[:1].isdigit() for x in shown) else 0.0


WEBHOOK: Final = Requester("", "")
"""Stands for all other webhooks."""


def reversed_leaves(
    write: Write, keys: Collection[Path] | None = None
) -> Iterator[tuple[Change, Requester]]:
    """Yield each leaf that a write changed, with who changed it: the requester or webhooks.

    keys  only these leaves
    A leaf that a requester sets and webhooks rewrite is the requester's. The annotations of a
    Deployment count as spec does; here they are metadata.
    """
    for part in (write.content, write.metadata):
        found = [change for change in part.admitted.changes if keys is None or change.key in keys]
        made = (*(part.webhook or ()), *part.reinvocation) if found and part.is_mutated else ()
        theirs = {change.key for change in made}
        if theirs:
            theirs -= {change.key for change in part.sent if change.after is not None}
        for change in found:
            if part is write.metadata or change.key[0] != "metadata":
                yield change, WEBHOOK if change.key in theirs else write.requester


def changes_of(
    meant: Sequence[Change], writes: Sequence[Write], *, webhooks: bool = False
) -> dict[Path, list[ValueChange]]:
    """Return the latest values of each leaf with who made them, oldest first.

    webhooks  those as well that webhooks made
    """
    series: dict[Path, list[ValueChange]] = {change.key: [] for change in meant[:_MOST_LEAVES]}
    for write in reversed(writes) if series else ():
        for change, who in reversed_leaves(write, series):
            if len(series[change.key]) < _MOST_POINTS and (webhooks or who is not WEBHOOK):
                series[change.key].append(
                    ValueChange(change.before, change.after, who, write.time, change)
                )
    return {key: changes[::-1] for key, changes in series.items()}


def fighters(series: Sequence[ValueChange]) -> list[Requester]:
    """Return who changes a leaf back, each once, if two do and the newest change is part of it.

    A writer that makes its own value again over that of somebody else changes the leaf back. One
    that walks a cycle of its own, a correction, and a value that never comes back (a time, a
    counter) are no fight. Where one takes away what another sets, its values may be new; and so may
    those that are replaced by the same value three times (a number that an autoscaler finds). Two
    processes of one user are two writers, as long as nobody else has a part in it.
    """
    series = series[-_MOST_FOUGHT:]
    values = [point.value for point in series]
    if _is_set_and_removed(series):
        values = [None if value is None else NO_DIGEST for value in values]
    is_of_one = len({point.requester.user for point in series}) == 1
    whose = [point.requester.writer if is_of_one else point.requester.user for point in series]
    made = [*zip(whose, values, strict=True)]
    back = [
        at
        for at in range(2, len(series))  # mine, yours, mine again
        if whose[at] != whose[at - 1]
        if values[at] != values[at - 1] and made[at] in made[: at - 1]
    ]
    found = {whose[at]: series[at].requester for at in back}
    newest = len(series) - 1
    if len(found) == 1 and len(back) >= _ONE_SIDED:
        found |= {whose[at - 1]: series[at - 1].requester for at in back}
        newest -= whose[newest] in found and whose[newest] != whose[back[-1]]
    return list(found.values()) if len(found) > 1 and back[-1] >= newest else []


def _alternating(series: Sequence[ValueChange]) -> list[Requester]:
    """Return two users who write a leaf alternately, if what each writes is new every time.

    A value that only grows is no fight: a counter that both raise, a log, the time of a heartbeat.
    """
    series = series[-_MOST_FOUGHT:]
    sides = [{point.requester.user for point in series[side::2]} for side in (0, 1)]
    is_each_new = len(series) == _MOST_FOUGHT and _is_new_each_time(series)
    if not is_each_new or sides[0] == sides[1] or {*map(len, sides)} != {1} or _is_growth(series):
        return []
    return [series[-1].requester, series[-2].requester]


def _is_growth(series: Sequence[ValueChange]) -> bool:
    """Whether all only add: two who count make steps alike, others have numbers of their own."""
    less, more = sorted(([point.step for point in series[side::2]] for side in (0, 1)), key=max)
    return all(point.is_progress for point in series) and min(more) <= _UNLIKE * max(less)


def _is_set_and_removed(series: Sequence[ValueChange]) -> bool:
    """Whether a leaf is set by some, and taken away by others alone."""
    setters = {point.requester.user for point in series if point.value is not None}
    removers = {point.requester.user for point in series if point.value is None}
    return bool(removers) and not setters & removers


def _reversals(write: Write, past: ObjectHistory) -> Answers:
    """Yield a signal for each part of an object of which this write changed something back."""
    slow, known = past.slow, len(past.stored)
    if known < _TWO and not slow:
        return  # it is the first one
    meant: dict[Declared, list[Change]] = {}
    of_position = _of_position(write.content.admitted) if known > _CHANGES_OF_HANDS else None
    for change, who in reversed_leaves(write):
        part = _PARTS.get(change.key[0], SPEC)
        is_meant = not change.holds_time
        if part is OSCILLATION:
            is_meant = of_position is not None and change.key not in of_position
        if is_meant and who is not WEBHOOK:
            meant.setdefault(part, []).append(change)
    is_slow = len(slow) >= _SLOW_POINTS and write.time - slow[-_SLOW_POINTS].time > _HASTE_SECONDS
    for part, changes in meant.items():
        seconds = _SECONDS_OF_STATUS if part is OSCILLATION else _SECONDS
        recent = [kept for kept in past.stored if kept.time >= write.time - seconds]
        found = [*_fight(part, write, changes, slow, is_slow=True)] if is_slow else []
        found = found or [*_fight(part, write, changes, recent)]
        found = found or [*_alone(part, write, changes, recent, past)]
        if not (found or is_slow) and slow and write.time - slow[0].time > seconds:
            found = [*_fight(part, write, changes, slow, is_slow=True)]
        yield from found


def _of_position(changes: Diff) -> set[Path]:
    """Return leaves that came, went, or are at another position of a list that grew or shrank."""
    beside: defaultdict[tuple[Path, Path], list[Change]] = defaultdict(list)
    for change in changes:
        at = next(
            (n for n, part in enumerate(change.key) if isinstance(part, int)), len(change.key)
        )
        beside[change.key[:at], change.key[at + 1 :]].append(change)
    found = set()
    for leaves in beside.values():
        if any(leaf.added or leaf.removed for leaf in leaves):
            old, new = {None, *(x.before for x in leaves)}, {None, *(x.after for x in leaves)}
            found |= {x.key for x in leaves if x.before in new or x.after in old}
    return found


def _fight(
    part: Declared,
    write: Write,
    meant: Sequence[Change],
    writes: Sequence[Write],
    *,
    is_slow: bool = False,
) -> Answers:
    """Yield a signal for what this write changed back of somebody else's.

    is_slow  it goes on for hours or days; over status there is no such fight
    """
    writers = [write.requester.writer for write in writes]
    if sum(writer != other for writer, other in pairwise(writers)) < _CHANGES_OF_HANDS:
        return
    if is_slow:
        meant = [change for change in meant if not (part is OSCILLATION or change.is_switch)]
    series = changes_of(meant, writes)
    if is_slow:
        series = {key: changes for key, changes in series.items() if not _is_timetable(changes)}
    found = {key: fighters(changes) for key, changes in series.items()}
    is_back = any(found.values())
    if not (is_back or is_slow):
        found = {key: _alternating(changes) for key, changes in series.items()}
    fought = [change for change in meant if found.get(change.key)]
    if not fought:
        return
    newest = write.requester
    latest = [series[change.key][-_CHANGES_OF_HANDS - 1 :] for change in fought if is_slow]
    pauses = [b.time - a.time for changes in latest for a, b in pairwise(changes)]
    others = {who.writer: who for change in fought for who in found[change.key]}
    others.pop(newest.writer, None)
    requesters = (newest, *others.values())
    users = dict.fromkeys(requester.user for requester in requesters)
    as_managers = dict.fromkeys(
        f"{requester.user} as {requester.manager}" for requester in requesters if requester.manager
    )
    parties = users if len(users) > 1 else as_managers
    names = " and ".join(parties) if len(parties) > 1 else f"several processes of {newest.user}"
    said = f"{names} overwrite each other's {field_names(fought, write.object)}"
    changed_by = ChangedBy.of(write.metadata) if part is METADATA else ChangedBy.REQUESTER
    minor = part is METADATA and _is_beside(write, fought, series)
    minor = minor or (not (is_back or is_slow) and _is_new_text(fought, series))
    more = {"minor": minor, "pace": max(pauses, default=0.0)}
    yield signal(part, write, changed_by, fought, said, requesters=requesters, **more)


def _is_timetable(series: Sequence[ValueChange]) -> bool:
    """Whether each of the writers comes hours after the other."""
    waits = _waits(series, lambda change: change.requester.user)
    return all(median(seconds) > _TIMETABLE_SECONDS for seconds in waits.values())


def _waits(
    series: Sequence[ValueChange | Write], side: Callable[[Any], Any]
) -> defaultdict[Any, list[float]]:
    """Return how many seconds after the other side each side comes."""
    waits: defaultdict[Any, list[float]] = defaultdict(list)
    for before, after in pairwise(series):
        if side(before) != side(after):
            waits[side(after)].append(after.time - before.time)
    return waits


def _is_beside(
    write: Write, fought: Sequence[Change], series: dict[Path, list[ValueChange]]
) -> bool:
    """Whether the write is about something else as well, or answers a question.

    A leaf that one alone sets may be what its writes are about. An annotation beside a label that
    is fought over is a stamp.
    """
    users = {key: {change.requester.user for change in series[key]} for key in series}
    own = [key for key, names in users.items() if len(names) == 1]
    of_labels = any(change.key[1] != ANNOTATIONS for change in fought)
    return (
        any(change.key[0] != "metadata" for change in write.content.admitted)
        or any(key[1] != ANNOTATIONS or not of_labels for key in own)
        or all(_is_answered(change.key, series[change.key]) for change in fought)
    )


def _is_new_text(fought: Sequence[Change], series: dict[Path, list[ValueChange]]) -> bool:
    """Whether values that are new each time may be news of both.

    Values of a status, of annotations, and numbers that grow may be. Two people or pipelines who
    write alternately are slow.
    """
    latest = {change.key: series[change.key][-_MOST_FOUGHT:] for change in fought}
    return all(
        changes[-1].time - changes[0].time > _HASTE_SECONDS
        or key[0] == "status"
        or key[:2] == ("metadata", ANNOTATIONS)
        or all(change.is_progress for change in changes)
        for key, changes in latest.items()
    )


_AT_ONCE_SECONDS: Final = 5.0
_AT_ONCE: Final = 8
"""If an annotation is set again so many times in a row, so soon after it was taken away, it is no
question: none is asked so often."""
_NO_SOONER: Final = 3
_AS_SOON: Final = 1.25
"""Questions are asked at leisure, and answered at once. So the last pauses before a question are
longer, in the median, than those before an answer, by more than this factor: two who hurry alike
differ by chance. This holds at any pace, and one long pause changes nothing."""


def _is_answered(key: Path, series: Sequence[ValueChange]) -> bool:
    """Whether an annotation is set by some and taken away by others, at the pace of questions."""
    if key[1] != ANNOTATIONS or not _is_set_and_removed(series):
        return False
    waits = _waits(series, lambda change: change.value is None)
    asked, answered = waits[False], waits[True]
    if len(asked) >= _AT_ONCE and max(asked[-_AT_ONCE:]) <= _AT_ONCE_SECONDS:
        return False
    return min(len(asked), len(answered)) < _NO_SOONER or (
        median(asked[-_NO_SOONER:]) > _AS_SOON * median(answered[-_NO_SOONER:])
    )


_SWITCH_SECONDS: Final = 2.0
_SWITCH_RETURNS: Final = 9
_WALK_SECONDS: Final = 10.0
_RETURNS_OF_TWO: Final = 5
_RETURNS: Final = 6
_VISITS: Final = 2
"""A rollout that is undone at once passes each of its states twice, and no more."""
_TWO: Final = 2
_LONG: Final = 10
_RENEWALS: Final = 15
_ROLLOUTS: Final = 6
_ROLLOUT_SECONDS: Final = 300.0
_ENDLESS_SECONDS: Final[dict[Token, float]] = {"spec": _SECONDS, "status": 60.0}
_TEMPLATE: Final = ("spec", "template")
_UNKNOWN: Final = digest_of(b'"Unknown"')
_TRUTHS: Final = {digest_of(b"true"), digest_of(b"false")}


def _alone(
    part: Declared,
    write: Write,
    meant: Sequence[Change],
    recent: Sequence[Write],
    past: ObjectHistory,
) -> Answers:
    """Yield a signal for what one writer changes back by itself.

    A condition or phase that it flips, too fast to be true. A mark of the owner to which it gives
    two values alternately; an object with an owner in the cluster is marked as the owner is. A
    field of spec that it walks back and forth, and a template that gets a new value in each of its
    writes. A switch beside spec may show what happens to others: endpoints come and go.
    """
    user = write.requester.user
    if part is OSCILLATION:
        same = [kept for kept in recent if kept.generation_before == write.generation_before]
        is_kubelet = user.startswith(NODE_USER)  # it tells what probes say
        own_words = [
            change
            for change in meant
            if _is_state(change) and not (is_kubelet and change.is_switch)
        ]
        states = [*_own_series(own_words, same)]
        fast = [leaf for leaf, series in states if _is_switched(series)]
        if flipped := fast or [leaf for leaf, series in states if _is_flipping(series)]:
            what = f"flips {field_names(flipped, write.object)} again and again, "
            what += "for no change of the spec"
            changed_by, minor = ChangedBy.of(write.content), not fast
            yield signal(part, write, changed_by, flipped, f"{user} {what}", minor=minor)
    elif part is METADATA:
        marks = [change for change in meant if change.key[-1] in NAMES["marks"] and not past.owner]
        if claimed := [mark for mark, series in _own_series(marks, recent) if _is_claimed(series)]:
            said = f"{user} writes it for two owners alternately, each with a "
            said += f"{field_names(claimed, write.object)} of its own"
            yield signal(part, write, ChangedBy.of(write.metadata), claimed, said)
        elif len(recent) >= _MOST_POINTS:
            ways = _own_series(meant, recent)
            if long := [leaf for leaf, series in ways if _is_endless(series)]:
                said = f"{user} changes {field_names(long, write.object)} to and fro"
                yield signal(part, write, ChangedBy.of(write.metadata), long, said, minor=True)
    elif _counts(write) and not write.content.webhook:
        yield from _wanted_alone(write, meant, recent)


def _wanted_alone(write: Write, meant: Sequence[Change], recent: Sequence[Write]) -> Answers:
    """Yield a signal for what one writer changes back of what is wanted."""
    mine = [*filter(_counts, own(write, recent))]
    if len(mine) < _ROLLOUTS or write.object.resource in NAMES["records"]:
        return
    since = max(mine[_ROLLOUTS - 1].time, write.time - _ROLLOUT_SECONDS)
    ways = [*_own_series(meant, recent)]
    new = [leaf for leaf, series in ways if _is_renewed(write, series, since)]
    walked = [leaf for leaf, series in ways if _is_to_and_fro(series)]
    long = [leaf for leaf, series in ways if _is_endless(series)]
    if found := new or walked or long:
        what = "changes {} and changes it back, again and again"
        what = "gives {} a new value in each of its writes" if new else what
        yield storm(
            write, what.format(field_names(found, write.object)), found, minor=found is long
        )


def _counts(write: Write) -> bool:
    """Whether it moves generation, or its kind keeps none."""
    return write.counted or not (write.generation_after or write.generation_before)


def _taken_out(write: Write, past: ObjectHistory) -> Answers:
    """Yield a signal for an item that is taken out of a list, as others of its sort were before.

    Each has a name of its own (a new Secret, finalizer or owner each time), so that no leaf ever
    changes back. The garbage collector takes out owners that are gone, as their life ends. Over
    days it is told as info, and only where items come sooner than they go: else they may be tasks.
    """
    user, slow = write.requester.user, past.slow
    changes = (*write.content.admitted, *write.metadata.admitted)
    taken = [(change, at) for change in changes if change.removed and (at := _list_of(change))]
    if not taken or user == COLLECTOR:
        return
    hour = [kept for kept in past.stored if kept.time >= write.time - _SECONDS]
    waits = _waits(slow, lambda kept: kept.requester.user == user)
    is_slow = len(waits) == _TWO and median(waits[False]) < median(waits[True])
    for gone, at in taken:
        found = [_adders(at, writes, user) for writes in (hour, slow if is_slow else ())]
        if not any(found):
            continue
        others = found[0] or found[1]
        users = " and ".join(sorted({other.user for other in others}))
        said = f"{user} takes what {users} adds out of {to_field_path(at)}, another item each time"
        part = METADATA if at[0] == "metadata" else SPEC
        more = {"minor": not found[0], "pace": 0.0 if found[0] else max(waits[True])}
        who = write.requester, *others
        yield signal(part, write, ChangedBy.REQUESTER, [gone], said, requesters=who, **more)
        return


def _adders(at: Path, writes: Sequence[Write], user: str) -> Collection[Requester]:
    """Return the others whose items a user has taken out of a list, if often enough."""
    changed = [
        (write.requester, change)
        for write in writes
        for change in (write.metadata if at[0] == "metadata" else write.content).admitted
        if _list_of(change) == at
    ]
    added = {leaf.key: who for who, leaf in changed if leaf.added and who.user != user}
    out = {leaf.key for who, leaf in changed if leaf.removed and who.user == user} & added.keys()
    if len(out) < _ITEMS:
        return {}
    return dict.fromkeys(who for key, who in added.items() if key in out)


def _list_of(name: Change) -> Path:
    """Return the list of the item that a leaf names, outside status; () for other leaves."""
    if name.key[0] == "metadata":
        return name.key[:2] if name.key[1:2] in _SETS else ()
    *at, item, field = ("", *name.key)
    is_name = field == "name" and str(item).startswith("name#") and at[1:2] != ["status"]
    return tuple(at[1:]) if is_name else ()


def storm(
    write: Write, what: str, changed: Sequence[Change] = (), **more: Any
) -> tuple[Declared, Signal]:
    """Return the signal of a requester whose writes move generation."""
    said, evidence = f"{write.requester.user} {what}", {"generation": write.generation_after}
    return signal(STORM, write, ChangedBy.REQUESTER, changed, said, evidence=evidence, **more)


def _own_series(
    meant: Sequence[Change], writes: Sequence[Write]
) -> Iterator[tuple[Change, list[ValueChange]]]:
    """Yield leaves with the latest changes of one writer, back to somebody else's.

    Each change begins where the one before it ended: what is between them was not seen.
    """
    for change, series in zip(meant, changes_of(meant, writes).values(), strict=False):
        found = series[-1:]
        for point in series[-2::-1]:
            if (
                point.requester.writer != found[0].requester.writer
                or found[0].before != point.value
            ):
                break
            found.insert(0, point)
        yield change, found


def _is_to_and_fro(series: Sequence[ValueChange]) -> bool:
    """Whether the latest value is one of few that come again and again."""
    (part, *_), is_switch = series[-1].change.key, series[-1].change.is_switch
    came, often = _latest(series, _WALK_SECONDS)
    if len(often) == _TWO and not OFF.isdisjoint(often):
        return part == "spec" and _is_switched(series)
    if is_switch and part != "spec":
        return False
    needed = _RETURNS_OF_TWO if len(often) == _TWO else _RETURNS
    is_fast = len(came) - len({*came}) >= needed and came[:-1].count(came[-1]) >= _VISITS
    is_endless = part == "spec" and not is_switch and len(series) == _MOST_POINTS
    return is_fast or (is_endless and _is_endless(series))


def _is_endless(series: Sequence[ValueChange]) -> bool:
    """Whether all changes are between two values, those of spec at any pace.

    There may be a reason for fewer, where one of the values stands for off, or beside spec.
    """
    made, part = {point.value for point in series}, series[-1].change.key[0]
    least = _LONG if part == "spec" and OFF.isdisjoint(made) else _MOST_POINTS
    seconds = series[-1].time - series[0].time
    is_soon = seconds < _ENDLESS_SECONDS.get(part, _ROLLOUT_SECONDS)
    return len(made) == _TWO and len(series) >= least and is_soon


def _is_flipping(series: Sequence[ValueChange]) -> bool:
    """Whether a state has gone to and fro so often within seconds: it may be a bad probe."""
    is_fast = len(series) == _MOST_POINTS and series[-1].time - series[0].time < _WALK_SECONDS
    return is_fast or (series[-1].change.is_switch and _is_endless(series))


def _is_switched(series: Sequence[ValueChange]) -> bool:
    """Whether two values come alternately, faster than there can be a reason for."""
    came, often = _latest(series, _SWITCH_SECONDS)
    return len(often) == _TWO and len(came) - len({*came}) >= _SWITCH_RETURNS


def _latest(
    series: Sequence[ValueChange], seconds: float
) -> tuple[list[Digest | None], set[Digest | None]]:
    """Return the values of the last seconds with the one before, and which came more than once."""
    recent = [point for point in series if point.time > series[-1].time - seconds]
    came = [recent[0].before, *(change.value for change in recent)]
    return came, {value for value in came if came.count(value) > 1}


def _is_new_each_time(series: Sequence[ValueChange]) -> bool:
    """Whether no value came twice, and none was taken away."""
    made = [point.value for point in series]
    return len({series[0].before, *made}) > len(made) and None not in made


def _is_renewed(write: Write, series: Sequence[ValueChange], since: float) -> bool:
    """Whether a template is new in each write since then, or a secret or a certificate always.

    Nobody has to renew one each four minutes for an hour.
    """
    key, about = series[-1].change.key, (write.object.group, write.object.resource)
    is_secret = key[-1] == "caBundle" or (about == SECRETS and key[0] == "data")
    least = _RENEWALS if is_secret else _ROLLOUTS
    latest = series[-least:]
    is_rolled = key[:2] == _TEMPLATE and latest[0].time >= since
    return len(latest) == least and (is_secret or is_rolled) and _is_new_each_time(latest)


def _is_claimed(series: Sequence[ValueChange]) -> bool:
    """Whether a value was set again over another one."""
    values = [point.value for point in series[-3:]]
    return None not in values and len({*values}) < len(values)


def _is_state(change: Change) -> bool:
    """Whether a field of status says in which of few states an object is, and is sure of it.

    A controller that looks at regular times is not sure while it looks: True, Unknown, True.
    """
    is_condition = change.key[1:2] == ("conditions",) and change.key[-1] == "status"
    is_sure = _UNKNOWN not in (change.before, change.after)
    is_truth = {change.before, change.after} == _TRUTHS
    return change.key == ("status", "phase") or (is_condition and is_sure) or is_truth


def _put_back(write: Write, _: ObjectHistory) -> Answers:
    """Yield a signal for an explicit value of spec that a webhook put back to what was stored.

    That leaves no trace in generation: each such write is a no-op.
    """
    back = [
        asked
        for asked, made in write.content.rewritten
        if asked.key[0] not in ("status", "metadata") and made.after == asked.before
    ]
    if back and write.subresource in ("", "scale"):
        what = (
            f"put {field_names(back, write.object)} back, which {write.requester.user} had changed"
        )
        yield signal(SPEC, write, ChangedBy.OTHERS, back, f"another webhook {what}")


class Reversals(Question):
    """See the module."""

    findings: ClassVar = (OSCILLATION, SPEC, METADATA, STORM)
    seen = (_put_back,)
    stored = (_reversals, _taken_out)
