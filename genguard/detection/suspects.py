"""Who besides the requester can have acted on a write: other webhooks, and policies.

Webhooks act between genguard's two mutating registrations, policies before them. Rules, scope,
selectors, operations and matchConditions are matched as the API server does it; what cannot be told
from a review (labels of a namespace, an authorizer) leaves a suspect possible.
The webhooks of genguard, also of another one in the cluster, are never suspects. What depends on
contents is asked while a review is at hand, see Fact.

Of several webhooks that may have changed a write, a write that came through unchanged speaks for
each that was called for it: most for writes of the same place in the API, less for other writes of
the same sort (of status, or not), since a webhook with an old type knows but some kinds. A finding
in which a webhook stands alone speaks against it everywhere.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple

from genguard.admission.matching import (
    EVERYTHING,
    NAME_LABEL,
    Age,
    Conditions,
    Match,
    Matched,
    Policy,
    Registration,
    ResourceKind,
    Writes,
    expressions_of,
    matched,
    may_match,
)
from genguard.admission.review import AdmissionRequest, Phase, own_phase
from genguard.detection.finding import Actor, Confidence
from genguard.detection.write import NOBODY, Acted, Called
from genguard.objects.selectors import Truth, every

TRACE_LABEL: Final = "genguard.io/trace"
"""On the observers that `genguard trace` registers for a while."""
_DEFAULT_TIMEOUT: Final = 10
"""Seconds (admissionregistration/v1/types.go:MutatingWebhook.TimeoutSeconds)."""
MOST_PLACES: Final = 2_000
_MOST_POLICIES: Final = 8
"""Of one write."""
_MOST_CALLED: Final = 1_000
"""Writes with the webhooks called; those of one owner are alike."""
_MUTATING: Final = ((Phase.INTENT, "/intent"), (Phase.MUTATE, "/mutate"))
"""The phases that a MutatingWebhookConfiguration registers, in order, with their paths."""
_MOST_NOTES: Final = 3
"""About the age of actors, of one finding."""
_FEW: Final = 2
_TIMES: Final = 3


@dataclass(frozen=True, slots=True)
class Registered(Registration):
    """One webhook of a MutatingWebhookConfiguration."""

    phase: str
    reinvoked: bool = False
    failure_policy: str = "Fail"
    timeout_seconds: int = _DEFAULT_TIMEOUT

    @property
    def configuration(self) -> str:
        """The name of its configuration."""
        return self.name.partition("/")[0]

    @property
    def webhook(self) -> str:
        """Its own name."""
        return self.name.partition("/")[2]

    @property
    def doubtful(self) -> int:
        """How much of it a review does not show; a rule for everything is meant for nothing."""
        selector = self.match.namespaces or {}
        keys = {*(selector.get("matchLabels") or {})}
        keys |= {one.get("key", "") for one in selector.get("matchExpressions") or ()}
        wide = all(EVERYTHING in "".join(one.get("resources") or ()) for one in self.match.rules)
        return 2 * bool(self.conditions or keys - {NAME_LABEL}) + wide


def read_configurations(documents: Iterable[Any]) -> tuple[Registered, ...]:
    """The webhooks of every MutatingWebhookConfiguration, in the order in which they are called."""
    kind = "MutatingWebhookConfiguration"
    found = [
        _read(one, hook)
        for one in documents
        if isinstance(one, Mapping) and one.get("kind") == kind and not _only_observes(one)
        for hook in one.get("webhooks") or ()
    ]
    return tuple(sorted(found, key=lambda one: one.configuration.encode()))


def _only_observes(configuration: Mapping[str, Any]) -> bool:
    return TRACE_LABEL in ((configuration.get("metadata") or {}).get("labels") or {})


def _read(configuration: Mapping[str, Any], hook: Mapping[str, Any]) -> Registered:
    return Registered(
        f"{(configuration.get('metadata') or {}).get('name', '')}/{hook.get('name', '')}",
        Match.read(hook, hook.get("rules")),
        expressions_of(hook.get("matchConditions")),
        Age.read(configuration, "webhooks"),
        own_phase(configuration, hook),
        hook.get("reinvocationPolicy") == "IfNeeded",
        hook.get("failurePolicy") or "Fail",
        hook.get("timeoutSeconds") or _DEFAULT_TIMEOUT,
    )


class Score(NamedTuple):
    """How little speaks against a webhook; the lowest score is the most suspicious one."""

    unproved: bool
    unharmed_here: int
    unharmed_elsewhere: int
    doubtful: int
    alone_in: int

    def stands_out_from(self, other: "Score") -> bool:
        """Whether it is lower by more than chance would make."""
        if self.unproved != other.unproved:
            return True
        for mine, theirs in zip(self[1:3], other[1:3], strict=True):
            if mine != theirs:
                return theirs >= _TIMES * mine + _FEW
        return self.doubtful == other.doubtful and self.alone_in < other.alone_in


class Shared(NamedTuple):
    """What the findings of one kind have in common: who stood alone, and how often each stood."""

    alone: Collection[str]
    support: Mapping[str, int]


NOTHING_SHARED: Final = Shared((), Counter())


def share(candidates: Collection[Collection[str]]) -> Shared:
    """Return what the candidates of all findings of one detector have in common."""
    alone = {name for names in candidates if len(names) == 1 for name in names}
    return Shared(alone, Counter(name for names in candidates for name in {*names}))


def rank_of(name: str, young: Sequence[str]) -> tuple[int, str]:
    """Return what to sort a name by: the young ones come first, the youngest before all."""
    return young.index(name) if name in young else len(young), name


class Suspects:
    """The present registrations, and how often each left a write unchanged."""

    each_of_several: ClassVar = Confidence.POSSIBLE
    """How sure it is of each that was there, where nothing more is known of them."""

    def __init__(
        self,
        registered: Iterable[Registered] = (),
        policies: Iterable[Policy] = (),
        conditions: Conditions | None = None,
    ) -> None:
        """Start with what is registered.

        conditions  evaluates matchConditions; without it each of them may hold
        """
        self.policies: tuple[Policy, ...] = tuple(policies)
        """Those that are bound, by name."""
        self.conditions = conditions
        self._unchanged: Final[Counter[tuple[ResourceKind | bool, str]]] = Counter()
        """Writes that each webhook left unchanged, in a place, and of status or of all else."""
        self._changed: Final[set[ResourceKind]] = set()
        self.learn(registered)

    def learn(self, registered: Iterable[Registered]) -> None:
        """Replace the registrations of webhooks."""
        self.registered: tuple[Registered, ...] = tuple(registered)
        self.others: tuple[Registered, ...] = tuple(_between(self.registered))
        """Those that are called between genguard's intent and its mutate."""
        self._have_conditions = any(one.conditions for one in self.others)
        self._names_matter = any(
            rule.get("resourceNames") for one in self.others for rule in one.match.rules
        )
        self._own_rules = {
            phase: [x for one in self.registered if one.phase == path for x in one.match.rules]
            for phase, path in _MUTATING
            if any(one.phase == path for one in self.registered)
        }
        self._called = lru_cache(_MOST_CALLED)(self.called)
        self.learn_policies(self.policies)

    def learn_policies(self, policies: Iterable[Policy]) -> None:
        """Replace the bound policies."""
        self.policies = tuple(policies)
        self._known = {one.name: one for one in self._all()}
        self._implied = lru_cache(_MOST_CALLED)(self._not_needed)

    def anew(self) -> "Suspects":
        """Return the same registrations, and no evidence yet."""
        return Suspects(self.registered, self.policies, self.conditions)

    def may_change(self, writes: Writes) -> tuple[str, ...]:
        """Return the webhooks and policies whose rules cover some of these writes.

        Selectors and conditions are not read: it may name too many, and never too few.
        """
        found = [one for one in self._all() if may_match(one.match.rules, writes)]
        return tuple(dict.fromkeys(one.name for one in found))

    def _all(self) -> Sequence[Registration]:
        return [*(one for one in self.registered if not one.phase), *self.policies]

    def implied_before(self, phase: Phase, request: AdmissionRequest) -> tuple[Phase, ...]:
        """Return the phases before this one that would show the same, and are not registered.

        Only where genguard's own registrations are known, and nobody else may change such a write.
        """
        if phase is Phase.INTENT or not self._own_rules:
            return ()
        wire, at = request.wire, request.wire.resource
        writes = Writes.named(at.group, at.resource, wire.sub_resource, wire.operation.value)
        return tuple(one for one in self._implied(writes) if one is not phase)

    def _not_needed(self, writes: Writes) -> tuple[Phase, ...]:
        if self.may_change(writes):
            return ()
        return tuple(one for one, rules in self._own_rules.items() if not may_match(rules, writes))

    def called_in(self, request: AdmissionRequest) -> Called:
        """Return the webhooks that rules and selectors call for a request."""
        if not self.others:
            return NOBODY
        write = matched(request, with_name=self._names_matter)
        return self._called(write) if write.is_short else self.called(write)

    def called(self, write: Matched) -> Called:
        """The webhooks that rules and selectors call for such a write."""
        found = [one for one in self.others if one.covers(write) is not Truth.FALSE]
        again = [one for one in found if one.reinvoked]
        return Called(tuple(one.name for one in found), tuple(one.name for one in again))

    def changed(self, where: ResourceKind) -> None:
        """Note that writes here are changed: from now on conditions are evaluated for them."""
        if len(self._changed) < MOST_PLACES:
            self._changed.add(where)

    def unmet_in(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Return the called webhooks whose matchConditions the request does not meet.

        Conditions take ten times what the rest of a review takes. So they are asked only where
        somebody has changed a write before: of the first one nobody is ruled out.
        """
        if not self._asks_webhooks(request):
            return ()
        asked = [one for one in self.others if one.conditions]
        return tuple(
            one.name for one, _, holds in self._held(asked, request) if holds is Truth.FALSE
        )

    def asks_conditions(self, request: AdmissionRequest) -> bool:
        """Whether `unmet_in` or `policies_in` may have conditions evaluated, which takes long."""
        return self._asks_webhooks(request) or any(one.conditions for one in self.policies)

    def _asks_webhooks(self, request: AdmissionRequest) -> bool:
        wire = request.wire
        place = ResourceKind(wire.resource.group, wire.resource.resource, wire.sub_resource)
        return self._have_conditions and place in self._changed

    def policies_in(self, request: AdmissionRequest) -> tuple[Acted, ...]:
        """Return the policies that may have acted on a request."""
        found = [
            Acted(one.name, every((covers, holds)) is Truth.TRUE)
            for one, covers, holds in self._held(self.policies, request)
            # What the object was before it acted is not seen.
            if holds is not Truth.FALSE or one.reads_object
        ]
        return tuple(found[:_MOST_POLICIES])

    def _held(
        self, some: Sequence[Registration], request: AdmissionRequest
    ) -> Iterator[tuple[Registration, Truth, Truth]]:
        """Yield those that cover a request, whether they do, and whether all conditions are met.

        One that is false decides. Conditions see the object in the version that a rule names: in
        another nobody knows. Source: apiserver pkg/admission/plugin/webhook/matchconditions.
        """
        if not some:
            return
        write = matched(request)
        asked = [
            (one, covers, one.match.is_exact(write))
            for one in some
            if (covers := one.covers(write)) is not Truth.FALSE
        ]
        read = [text for one, _, is_exact in asked if is_exact for text in one.conditions]
        truths = self.conditions.evaluate(read, request) if self.conditions else {}
        for one, covers, is_exact in asked:
            holds = every(truths.get(text, Truth.UNKNOWN) for text in one.conditions)
            yield one, covers, holds if is_exact else Truth.UNKNOWN

    def sets(self, name: str, pointers: Iterable[str]) -> bool:
        """Whether a policy visibly sets a field at any of these JSON Pointers."""
        found = self._known.get(name)
        return isinstance(found, Policy) and any(found.sets(one) for one in pointers)

    def unchanged_calls(self, name: str) -> int:
        """Return how many writes came through unchanged for which this webhook was called."""
        return self._unchanged[True, name] + self._unchanged[False, name]

    def record_unchanged(self, names: Iterable[str], where: ResourceKind) -> None:
        """Count a write that the called webhooks left unchanged."""
        for key in [(at, name) for name in names for at in (where, where.is_status)]:
            if key in self._unchanged or len(self._unchanged) < 2 * MOST_PLACES:
                self._unchanged[key] += 1

    def young(self, names: Iterable[str], began: float) -> tuple[str, ...]:
        """The webhooks and policies created or changed shortly before this time, youngest first."""
        found = [(age[0], name) for name in names if (age := self._age(name, began))]
        return tuple(name for _, name in sorted(found))

    def notes(self, actors: Iterable[Actor], began: float) -> Iterator[tuple[str, str]]:
        """Yield names of actors of a finding, and in words what is known about them besides.

        began  the time of the first signal, in seconds since the epoch
        """
        for one in [one for one in actors if one.type != "user"][:_MOST_NOTES]:
            if age := self._age(one.name, began):
                yield one.name, f"{age[1]} {age[0]:.0f} s before the first sign"

    def _age(self, name: str, began: float) -> tuple[float, str] | None:
        return self._known[name].age.before(began) if name in self._known else None

    def calls_about(
        self, called: Called, pointers: Sequence[str], *, again: bool
    ) -> tuple[Called, dict[str, object]]:
        """Return the webhooks that may have changed fields of a write, and evidence of that.

        called    those that were called for the write: here nobody knows more
        pointers  JSON Pointers of the fields; `again`: when they were reinvoked
        """
        del pointers, again
        return called, {}

    def accused(
        self,
        names: Iterable[str],
        shared: Shared,
        where: ResourceKind,
        young: Sequence[str] = (),
    ) -> Iterator[tuple[str, Confidence]]:
        """The candidates of a finding, the likeliest first: one alone is certain.

        Of those who are equal, the young ones come first, in their order.
        """
        order = sorted(names)
        if len(order) < 2 or not self.others:  # noqa: PLR2004 - nothing to choose between
            sure = Confidence.CERTAIN if len(order) == 1 else self.each_of_several
            yield from ((name, sure) for name in order)
            return
        doubts = {one.name: one.doubtful for one in self.others}
        scores = {
            name: Score(
                name not in shared.alone,
                self._unchanged[where, name],
                self._unchanged[where.is_status, name],
                doubts.get(name, 0),
                -shared.support.get(name, 0),
            )
            for name in order
        }
        first, *others = sorted(order, key=lambda one: (scores[one], *rank_of(one, young)))
        stands_out = scores[first].stands_out_from(scores[others[0]])
        yield first, Confidence.LIKELY if stands_out else Confidence.POSSIBLE
        yield from ((one, Confidence.POSSIBLE) for one in others)


def _between(registered: tuple[Registered, ...]) -> Iterator[Registered]:
    """The webhooks called after genguard's intent and before its mutate."""
    intents = [one.configuration for one in registered if one.phase == "/intent"]
    mutates = [one.configuration for one in registered if one.phase == "/mutate"]
    for one in registered:
        after = not intents or one.configuration.encode() > min(intents).encode()
        before = not mutates or one.configuration.encode() < max(mutates).encode()
        if not one.phase and after and before:
            yield one
