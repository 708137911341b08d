"""Sentences for findings: who does what to which object, and from which value to which. Pure.

`mmm-old-operator clears observedGeneration of Deployment shop/web`, `5 → absent`. Only a certain
actor does it; a likely one "probably" does, and any of several possible ones may.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from genguard.detection.finding import Actor, Confidence, Finding, FoundObject, names_of
from genguard.detection.questions import FINDINGS
from genguard.detection.questions.reversals import Reversals
from genguard.detection.sample import ShownField, ShownValue, WriteDiff, field_name
from genguard.generation import table
from genguard.objects.fields import from_pointer
from genguard.objects.shown import listed

NOBODY: Final = "not known"
"""The culprit of a finding without an actor."""
_MOST_NAMES: Final = 2
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"

KindOf = Callable[[str, str], str]
"""Returns the kind of group and resource; "" where it is not known."""


_ANY: Final = "[disturbs|disturb] {}"
_BREAKS: Final = "[breaks|break] {}"
"""What is said of a culprit who does several things."""
_NUMBER: Final = re.compile(r"\[(.*?)\|(.*?)\]")
"""The verb for one culprit, and for several: see Declared.headline."""


class Culprit(NamedTuple):
    """Whom a finding blames: `name` for people and as the key of a group."""

    name: str
    several: bool
    """Grammar: the verb takes the plural."""
    hint: str
    """How sure it is, as an adverb: "probably", "possibly" or ""."""


def culprit(found: Finding) -> Culprit:
    """Return whom a finding blames: the actors of the highest confidence that it names."""
    actors = found.actors
    if not actors:
        return Culprit(NOBODY, several=False, hint="")
    surest = min((actor.confidence for actor in actors), key=lambda confidence: confidence.rank)
    several = [actor for actor in actors if actor.confidence is surest]
    names = sorted({*names_of(several, short_name)})
    is_one_of = surest is Confidence.POSSIBLE and len(names) > 1
    hint = "" if surest is Confidence.CERTAIN or is_one_of else _HINTS[surest]
    joined = listed(names, _MOST_NAMES, "or" if is_one_of else "and")
    return Culprit(joined, several=len(names) > 1 and not is_one_of, hint=hint)


_HINTS: Final = {Confidence.LIKELY: "probably", Confidence.POSSIBLE: "possibly"}


_RANK: Final = {name: rank for rank, name in enumerate(FINDINGS)}
"""A loss comes before what follows from it."""


def above_of(findings: Iterable[Finding]) -> dict[str, str]:
    """Return, by the id of each finding that is shown beneath another, the id of that other.

    Findings of one culprit on one object are shown beneath the worst, or the first of equals.
    """
    findings, above = tuple(findings), dict[str, str]()
    about: defaultdict[tuple[str, str, bool], list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.actors and finding.objects is None and not finding.above:
            key = culprit(finding).name, finding.object.identity, finding.state == "resolved"
            about[key].append(finding)
    for alike in about.values():
        first, *others = sorted(alike, key=lambda found: (-found.severity.rank, _rank(found)))
        above.update((other.id, first.id) for other in others)
    return above | {
        finding.id: above.get(finding.above, finding.above) for finding in findings if finding.above
    }


def _rank(finding: Finding) -> tuple[int, str]:
    return _RANK.get(finding.detector, len(_RANK)), finding.first_seen


def short_name(actor: Actor) -> str:
    """Return a name without what all have: the configuration of a webhook, a service account."""
    return actor.name.partition("/")[0] if actor.type == "webhook" else _short_user(actor.name)


def _short_user(name: str) -> str:
    return name.rpartition(":")[2] if name.startswith(_SERVICE_ACCOUNT) else name


def object_name(where: FoundObject, kind_of: KindOf) -> str:
    """`Deployment shop/web`; the resource where the kind is not known."""
    kind = kind_of(where.group, where.resource) or where.resource
    name = where.name or where.uid
    return f"{kind} {where.namespace}/{name}" if where.namespace else f"{kind} {name}"


def headline(found: Finding, kind_of: KindOf) -> str:
    """Say in one sentence who does what to which object."""
    return group_headline((found,), kind_of)


def predicate(found: Finding, kind_of: KindOf) -> str:
    """Say what is done to which object, for a row beneath the name of the culprit."""
    return _does(culprit(found), (found,), count_objects((found,), kind_of))


def group_headline(found: Sequence[Finding], kind_of: KindOf) -> str:
    """Say what one culprit does to several objects: `mmm-old-operator breaks 3 Deployments`."""
    who = culprit(found[0])
    name = "Somebody" if who.name == NOBODY else who.name
    return f"{name} {_does(who, found, count_objects(found, kind_of))}"


def count_objects(found: Sequence[Finding], kind_of: KindOf) -> str:
    """`3 Deployments`, `2 Deployments and 1 Pod`, `12 objects`; the name of a single one."""
    objects = {
        (
            finding.object.group,
            finding.object.resource,
            finding.object.namespace,
            finding.object.name,
        ): finding.object
        for finding in found
        if finding.objects is None
    }
    many = [finding.objects for finding in found if finding.objects is not None]
    # The largest of each kind: findings of one culprit are often about the same objects.
    most: dict[tuple[str, str], int] = {}
    if len(objects) == 1 and not many:
        return object_name(next(iter(objects.values())), kind_of)
    kinds: Counter[str] = Counter()
    for where in objects.values():
        kinds[kind_of(where.group, where.resource) or where.resource] += 1
    for affected in many:
        for resource, count in affected.kinds.items():
            group = next(
                (example.group for example in affected.examples if example.resource == resource), ""
            )
            most[group, resource] = max(count, most.get((group, resource), 0))
    for (group, resource), count in most.items():
        kinds[kind_of(group, resource) or resource] += count
    if len(kinds) > _MOST_NAMES:
        return f"{sum(kinds.values()):,} objects"
    return " and ".join(f"{each:,} {_plural(kind, each)}" for kind, each in kinds.items())


def _does(who: Culprit, found: Sequence[Finding], what: str) -> str:
    detectors = {finding.detector for finding in found}
    known = FINDINGS.get(found[0].detector) if len(detectors) == 1 else None
    words = known.headline if known else _ANY if len(detectors) == 1 else _BREAKS
    said = _NUMBER.sub(r"\2" if who.several else r"\1", words)
    field = known and known.part and (_only_field(found) or known.part)
    return f"{who.hint} {said}".strip().format(what, field=field)


def _only_field(found: Iterable[Finding]) -> str:
    """Return the only field that findings are about, as people read it; "" for several."""
    paths = {path for finding in found for path in finding.paths}
    pointer = paths.pop() if len(paths) == 1 else ""
    return field_name(from_pointer(pointer), pointer) if pointer.startswith("/") else pointer


def _plural(kind: str, many: int) -> str:
    if many == 1 or kind.endswith("s"):
        return kind
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"


def kinds(known: Iterable[tuple[str, str, str]]) -> KindOf:
    """Return a KindOf for the built-in resources and those of `known`: group, resource, kind."""
    custom = {(group, resource): kind for group, resource, kind in known}
    return lambda group, resource: (
        table.kind_of(group, resource) or custom.get((group, resource), "")
    )


class Side(NamedTuple):
    """Who makes which value of a field; `actor` is None for one who is not to blame.

    value  None where it is not known which value this one makes
    """

    name: str
    actor: Actor | None
    does: str
    value: ShownValue | None


class Happening(NamedTuple):
    """The values of the first field that a finding is about, in one of its writes.

    values  `3 ⇄ 5` of a fight, `5 → absent → 5` of what is changed, and perhaps restored
    sides   who makes which of them, two at least; empty where that is not known
    """

    field: str
    values: str
    sides: tuple[Side, ...]


def happening(found: Finding) -> Happening | None:
    """Return what happens to the first field that a finding is about; None without a sample."""
    known = () if found.diff is None else found.diff.fields
    about = next((field for field in known if _is_about(field, found.paths)), None)
    if about is None or found.diff is None:
        return None
    stages = (about.asked, about.left, about.stored)
    if not about.is_changed_by_webhooks:
        stages = (about.before, about.asked, about.stored)
    seen = [stage for stage in stages if stage is not None]
    apart = [value.text for at, value in enumerate(seen) if not at or value != seen[at - 1]]
    is_fight = found.detector in _FIGHTS and len(apart) > 1
    values = " ⇄ ".join(apart[:2]) if is_fight else " → ".join(apart)
    return Happening(about.field, values, tuple(_sides(found, found.diff, about)))


_FIGHTS: Final = frozenset(finding.name for finding in Reversals.findings)
"""Findings of writers that set a field against each other."""


def _sides(found: Finding, diff: WriteDiff, about: ShownField) -> Iterator[Side]:
    """Yield the writer of the sample, then who undoes it or what it undoes."""
    writer = next((actor for actor in found.actors if actor.name == diff.user), None)
    others = [actor for actor in found.actors if actor is not writer]
    if not others or (writer is None and not about.is_changed_by_webhooks):
        return
    mine = about.asked or about.stored
    yield Side(_short_user(diff.user), writer, "asks for", mine)
    theirs = about.left if about.is_changed_by_webhooks else about.before
    does = "makes it" if about.is_changed_by_webhooks else "asks for"
    is_known = len(others) == 1 or about.is_changed_by_webhooks
    for other in others:
        yield Side(short_name(other), other, does, theirs if is_known else None)


def _is_about(field: ShownField, paths: Iterable[str]) -> bool:
    return any(field.path == path or field.path.startswith(f"{path}/") for path in paths)


def damaged(field: ShownField, paths: Iterable[str]) -> tuple[bool, ...]:
    """Return which of the four values of a field are damage; paths are those of the finding.

    What a controller changes in its own write is no damage, nor is what webhooks change elsewhere.
    """
    if not _is_about(field, paths):
        return False, False, False, False
    undone = field.is_changed_by_webhooks or (
        None not in (field.asked, field.stored) and field.asked != field.stored
    )
    right, begin = (field.asked, 2) if undone else (field.before, 1)
    return tuple(
        at >= begin and value is not None and value != right
        for at, value in enumerate(field.states)
    )
