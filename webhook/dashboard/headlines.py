"""Sentences for findings: who does what to which object. Pure.

`mmm-old-operator clears observedGeneration of Deployment shop/web`. Only a certain actor does it;
a likely one "probably" does, and of several possible ones any may.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from genguard.detection.finding import Actor, Confidence, Finding, FoundObject
from genguard.generation import table

NOBODY: Final = "not known"
"""The culprit of a finding without an actor."""
_MOST_NAMES: Final = 2
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"

KindOf = Callable[[str, str], str]
"""Returns the kind of group and resource; "" where it is not known."""


class _Phrase(NamedTuple):
    """What one actor does, what several do, and to what; `{}` is the object."""

    one: str
    several: str
    what: str = "{}"


_PHRASES: Final = {
    "observed-generation-cleared": _Phrase("clears", "clear", "observedGeneration of {}"),
    "observed-generation-stalled": _Phrase("leaves", "leave", "observedGeneration of {} behind"),
    "observed-generation-ahead": _Phrase("sets", "set", "observedGeneration of {} too high"),
    "status-clobbered": _Phrase("overwrites", "overwrite", "the status of {}"),
    "status-oscillation": _Phrase(
        "turns the status of {} back and forth", "fight over the status of {}", ""
    ),
    "status-write-storm": _Phrase("writes", "write", "the status of {} again and again"),
    "terminating-replicas-dropped": _Phrase("drops", "drop", "terminatingReplicas of {}"),
    "generation-storm": _Phrase("changes", "change", "the spec of {} again and again"),
    "generation-mismatch": _Phrase("moves", "move", "the generation of {} unlike predicted"),
    "spec-fight": _Phrase("overwrites", "fight over", "the spec of {}"),
    "unstable-mutation": _Phrase("changes", "change", "{} at each call anew"),
    "metadata-fight": _Phrase("overwrites", "fight over", "the metadata of {}"),
    "metadata-clobbered": _Phrase("overwrites", "overwrite", "the metadata of {}"),
    "recreation": _Phrase("deletes and creates", "create and delete", "{} again and again"),
    "foreign-status-writer": _Phrase("writes", "write", "the kubelet's status of {}"),
    "condition-generation-missing": _Phrase(
        "sets", "set", "conditions of {} without observedGeneration"
    ),
    "refused-retry": _Phrase("repeats", "repeat", "a refused write of {}"),
    "cross-object-loop": _Phrase(
        "changes {} and others in a circle", "chase each other over {} and others", ""
    ),
}
"""By detector. A test says that each has one."""
_ANY: Final = _Phrase("disturbs", "disturb")
_BREAKS: Final = _Phrase("breaks", "break")
"""Of one who does several things."""


class Culprit(NamedTuple):
    """Whom a finding blames: `name` for people and as the key of a group."""

    name: str
    several: bool
    """Grammar: the verb takes the plural."""
    hint: str
    """How sure it is, as an adverb: "probably", "possibly" or ""."""
    full: str
    """The names as the API server has them."""

    @property
    def is_known(self) -> bool:
        """Whether anybody is blamed."""
        return self.name != NOBODY


def culprit(found: Finding) -> Culprit:
    """Return whom a finding blames: the actors of the highest confidence that it names."""
    actors = found.actors
    if not actors:
        return Culprit(NOBODY, several=False, hint="", full="")
    surest = min((one.confidence for one in actors), key=lambda one: one.rank)
    several = [one for one in actors if one.confidence is surest]
    names = sorted({short_name(one) for one in several})
    full = ", ".join(dict.fromkeys(one.name for one in several))
    is_one_of = surest is Confidence.POSSIBLE and len(names) > 1
    hint = "" if surest is Confidence.CERTAIN or is_one_of else _HINTS[surest]
    joined = _joined(names, "or" if is_one_of else "and")
    return Culprit(joined, several=len(names) > 1 and not is_one_of, hint=hint, full=full)


_HINTS: Final = {Confidence.LIKELY: "probably", Confidence.POSSIBLE: "possibly"}


def short_name(one: Actor) -> str:
    """Return a name without what all have: the configuration of a webhook, a service account."""
    if one.type == "webhook":
        return one.name.partition("/")[0]
    if one.name.startswith(_SERVICE_ACCOUNT):
        return one.name.rpartition(":")[2]
    return one.name


def _joined(names: Sequence[str], word: str) -> str:
    if len(names) <= _MOST_NAMES:
        return f" {word} ".join(names)
    return f"{', '.join(names[:_MOST_NAMES])} {word} {len(names) - _MOST_NAMES} more"


def object_name(where: FoundObject, kind_of: KindOf) -> str:
    """`Deployment shop/web`; the resource where the kind is not known."""
    kind = kind_of(where.group, where.resource) or where.resource
    name = where.name or where.uid
    return f"{kind} {where.namespace}/{name}" if where.namespace else f"{kind} {name}"


def headline(found: Finding, kind_of: KindOf) -> str:
    """Say in one sentence who does what to which object."""
    who = culprit(found)
    name = who.name if who.is_known else "Somebody"
    return f"{name} {_does(who, (found.detector,), object_name(found.object, kind_of))}"


def predicate(found: Finding, kind_of: KindOf) -> str:
    """Say what is done to which object, for a row beneath the name of the culprit."""
    return _does(culprit(found), (found.detector,), object_name(found.object, kind_of))


def group_headline(found: Sequence[Finding], kind_of: KindOf) -> str:
    """Say what one culprit does to several objects: `mmm-old-operator breaks 3 Deployments`."""
    who = culprit(found[0])
    name = who.name if who.is_known else "Somebody"
    detectors = tuple(dict.fromkeys(one.detector for one in found))
    return f"{name} {_does(who, detectors, count_objects(found, kind_of))}"


def count_objects(found: Iterable[Finding], kind_of: KindOf) -> str:
    """`3 Deployments`, `2 Deployments and 1 Pod`, `12 objects`; the name of a single one."""
    objects = {
        (one.object.group, one.object.resource, one.object.namespace, one.object.name): one.object
        for one in found
    }
    if len(objects) == 1:
        return object_name(next(iter(objects.values())), kind_of)
    kinds: dict[str, int] = {}
    for where in objects.values():
        kind = kind_of(where.group, where.resource) or where.resource
        kinds[kind] = kinds.get(kind, 0) + 1
    if len(kinds) > _MOST_NAMES:
        return f"{len(objects):,} objects"
    return " and ".join(f"{many:,} {_plural(kind, many)}" for kind, many in kinds.items())


def _does(who: Culprit, detectors: Sequence[str], what: str) -> str:
    phrase = _PHRASES.get(detectors[0], _ANY) if len(detectors) == 1 else _BREAKS
    verb = phrase.several if who.several else phrase.one
    return f"{who.hint} {verb} {phrase.what}".strip().format(what)


def _plural(kind: str, many: int) -> str:
    if many == 1 or kind.endswith("s"):
        return kind
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"


def kinds(known: Iterable[tuple[str, str, str]]) -> KindOf:
    """Return a KindOf for the built-in resources and those of `known`: group, resource, kind."""
    custom = {(group, resource): kind for group, resource, kind in known}

    def known_kind(group: str, resource: str) -> str:
        return table.kind_of(group, resource) or custom.get((group, resource), "")

    return known_kind
