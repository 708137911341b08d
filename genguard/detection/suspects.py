"""Who besides the requester can have acted on a write: other webhooks, and policies.

Webhooks act between genguard's two mutating registrations, policies before them. Rules, scope,
selectors, operations and matchConditions are matched as the API server does it; what cannot be told
from a review (labels of a namespace, an authorizer) leaves a suspect possible.
The webhooks of genguard, also of another one in the cluster, are never suspects. What depends on
contents is asked while a review is at hand, see Fact.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import Any, Final

from genguard.admission.review import AdmissionRequest, Phase, own_phase
from genguard.detection.evidence import (
    MOST_PLACES,
    UNKNOWN_AGE,
    Age,
    BlameScore,
    ResourceKind,
    Shared,
    age_of,
    rank_of,
)
from genguard.detection.finding import Actor, Confidence
from genguard.detection.matching import (
    EVERYTHING,
    NAME_LABEL,
    Conditions,
    Likeness,
    Matched,
    Policy,
    Writes,
    expressions_of,
    matched,
    matches_rules,
    may_match,
    reads_object,
    selects,
    shown_to_rules,
)
from genguard.detection.write import NOBODY, Acted, Called
from genguard.objects.selectors import Truth, every

TRACE_LABEL: Final = "genguard.io/trace"
"""On the observers that `genguard trace` registers for a while."""
_STATUS: Final = "/status"
_DEFAULT_TIMEOUT: Final = 10
"""Seconds (admissionregistration/v1/types.go:MutatingWebhook.TimeoutSeconds)."""
_MOST_POLICIES: Final = 8
"""Of one write."""
_MOST_CALLED: Final = 1_000
"""Likenesses of writes with the webhooks called; writes of one owner are alike."""
_MUTATING: Final = ((Phase.INTENT, "/intent"), (Phase.MUTATE, "/mutate"))
"""The phases that a MutatingWebhookConfiguration registers, in order, with their paths."""
_MOST_NOTES: Final = 3
"""About the age of actors, of one finding."""


@dataclass(frozen=True, slots=True)
class Registered:
    """One webhook of a MutatingWebhookConfiguration."""

    configuration: str
    webhook: str
    rules: tuple[Mapping[str, Any], ...]
    namespace_selector: Mapping[str, Any] | None
    object_selector: Mapping[str, Any] | None
    any_version: bool
    conditions: tuple[str, ...]
    phase: str
    reinvoked: bool = False
    age: Age = UNKNOWN_AGE
    failure_policy: str = "Fail"
    timeout_seconds: int = _DEFAULT_TIMEOUT

    @property
    def name(self) -> str:
        """As findings name it; many records have the same text."""
        return intern(f"{self.configuration}/{self.webhook}")

    @property
    def doubtful(self) -> int:
        """How much of it a review does not show; a rule for everything is meant for nothing."""
        selector = self.namespace_selector or {}
        keys = {*(selector.get("matchLabels") or {})}
        keys |= {one.get("key", "") for one in selector.get("matchExpressions") or ()}
        wide = all(EVERYTHING in "".join(rule.get("resources") or ()) for rule in self.rules)
        return 2 * bool(self.conditions or keys - {NAME_LABEL}) + wide

    def covers(self, write: Matched) -> Truth:
        """Whether the API server calls it for such a write, its matchConditions aside."""
        if not matches_rules(self.rules, write, any_version=self.any_version):
            return Truth.FALSE
        return selects(self.namespace_selector, self.object_selector, write)

    def is_exact(self, write: Matched) -> bool:
        """Whether its conditions see the object in the version of the review."""
        return matches_rules(self.rules, write, any_version=False)

    def sets(self, pointer: str) -> bool:
        """Whether it is registered to change the field at a JSON Pointer.

        A webhook that asks for a status subresource can change nothing but status there: the API
        server takes nothing else (apps/deployment/strategy.go:deploymentStatusStrategy). Of any
        other webhook the rules do not say what it changes.
        """
        names = [name for rule in self.rules for name in rule.get("resources") or ()]
        is_status = f"{pointer}/".startswith(f"{_STATUS}/")
        return is_status and any(name.endswith(_STATUS) for name in names)


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
        configuration=(configuration.get("metadata") or {}).get("name", ""),
        webhook=hook.get("name", ""),
        rules=tuple(hook.get("rules") or ()),
        namespace_selector=hook.get("namespaceSelector"),
        object_selector=hook.get("objectSelector"),
        any_version=hook.get("matchPolicy", "Equivalent") == "Equivalent",
        conditions=expressions_of(hook.get("matchConditions")),
        phase=own_phase(configuration, hook),
        reinvoked=hook.get("reinvocationPolicy") == "IfNeeded",
        age=age_of(configuration, "webhooks"),
        failure_policy=hook.get("failurePolicy") or "Fail",
        timeout_seconds=hook.get("timeoutSeconds") or _DEFAULT_TIMEOUT,
    )


class Suspects:
    """The present registrations, and how often each left a write unchanged."""

    def __init__(
        self,
        registered: Iterable[Registered] = (),
        policies: Iterable[Policy] = (),
        conditions: Conditions | None = None,
    ) -> None:
        """Start with what is registered.

        conditions  evaluates matchConditions; without it each of them may hold
        """
        self.policies: tuple[Policy, ...] = ()
        """Those that are bound, by name."""
        self.learn(registered)
        self.learn_policies(policies)
        self.conditions = conditions
        self._unchanged: Final[Counter[tuple[ResourceKind | bool, str]]] = Counter()
        """Writes that each webhook left unchanged, in a place, and of status or of all else."""
        self._changed: Final[set[ResourceKind]] = set()

    def learn(self, registered: Iterable[Registered]) -> None:
        """Replace the registrations of webhooks."""
        self.registered: tuple[Registered, ...] = tuple(registered)
        self._ages = {one.name: one.age for one in self.registered}
        self.others: tuple[Registered, ...] = tuple(_between(self.registered))
        """Those that are called between genguard's intent and its mutate."""
        self._have_conditions = any(one.conditions for one in self.others)
        self._names_matter = any(
            rule.get("resourceNames") for one in self.others for rule in one.rules
        )
        self._own_rules = {
            phase: [rule for one in self.registered if one.phase == path for rule in one.rules]
            for phase, path in _MUTATING
            if any(one.phase == path for one in self.registered)
        }
        self._called = lru_cache(_MOST_CALLED)(self._called_for)
        self._forget_implied()

    def anew(self) -> "Suspects":
        """Return the same registrations, and no evidence yet."""
        return Suspects(self.registered, self.policies, self.conditions)

    def learn_policies(self, policies: Iterable[Policy]) -> None:
        """Replace the bound policies."""
        self.policies = tuple(sorted(policies, key=lambda one: one.name))
        self._policies = {one.name: one for one in self.policies}
        self._forget_implied()

    def _forget_implied(self) -> None:
        self._implied = lru_cache(_MOST_CALLED)(self._not_needed)

    def may_change(self, writes: Writes) -> tuple[str, ...]:
        """Return the webhooks and policies whose rules cover some of these writes.

        Selectors and conditions are not read: it may name too many, and never too few.
        """
        hooks = [one for one in self.registered if not one.phase]
        found = [one.name for one in hooks if may_match(one.rules, writes)]
        found += [one.name for one in self.policies if one.may_match(writes)]
        return tuple(dict.fromkeys(found))

    def implied_before(self, phase: Phase, request: AdmissionRequest) -> tuple[Phase, ...]:
        """Return the phases before this one that would show the same, and are not registered.

        Only where genguard's own registrations are known, and nobody else may change such a write.
        """
        if phase is Phase.INTENT or not self._own_rules:
            return ()
        found = self._implied(Writes.of(request))
        return found if phase is Phase.OUTCOME else tuple(x for x in found if x is Phase.INTENT)

    def _not_needed(self, writes: Writes) -> tuple[Phase, ...]:
        if self.may_change(writes):
            return ()
        return tuple(one for one, rules in self._own_rules.items() if not may_match(rules, writes))

    def called_in(self, request: AdmissionRequest) -> Called:
        """Return the webhooks that rules and selectors call for a request.

        Raises msgspec.MsgspecError for labels that are none, as the other two do.
        """
        if not self.others:
            return NOBODY
        likeness = shown_to_rules(request, with_name=self._names_matter)
        return self._called(likeness) if likeness.is_short else self._called_for(likeness)

    def _called_for(self, likeness: Likeness) -> Called:
        return self.called(likeness.matched())

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
        write = matched(request)
        asked = [one for one in self.others if one.conditions and matches(one, write)]
        held = self._held(asked, write, request)
        return tuple(name for name, holds in held.items() if holds is Truth.FALSE)

    def asks_conditions(self, request: AdmissionRequest) -> bool:
        """Whether `unmet_in` or `policies_in` may have conditions evaluated, which takes long."""
        return self._asks_webhooks(request) or any(one.conditions for one in self.policies)

    def _asks_webhooks(self, request: AdmissionRequest) -> bool:
        wire = request.wire
        place = ResourceKind(wire.resource.group, wire.resource.resource, wire.sub_resource)
        return self._have_conditions and place in self._changed

    def policies_in(self, request: AdmissionRequest) -> tuple[Acted, ...]:
        """Return the policies that may have acted on a request."""
        return tuple(self._acted(request))[:_MOST_POLICIES] if self.policies else ()

    def sets(self, name: str, pointers: Iterable[str]) -> bool:
        """Whether a policy visibly sets a field at any of these JSON Pointers."""
        found = self._policies.get(name)
        return found is not None and any(found.sets(one) for one in pointers)

    def called(self, write: Matched) -> Called:
        """The webhooks that rules and selectors call for such a write."""
        found = [one for one in self.others if matches(one, write)]
        again = [one for one in found if one.reinvoked]
        return Called(tuple(one.name for one in found), tuple(one.name for one in again))

    def _acted(self, request: AdmissionRequest) -> Iterator[Acted]:
        write = matched(request)
        covered = {one.name: one.covers(write) for one in self.policies}
        asked = [one for one in self.policies if covered[one.name] is not Truth.FALSE]
        for name, holds in self._held(asked, write, request).items():
            if holds is not Truth.FALSE:
                yield Acted(name, every((covered[name], holds)) is Truth.TRUE)
            elif reads_object(self._policies[name].conditions):
                yield Acted(name, is_sure=False)  # what the object was before is not seen

    def _held(
        self, asked: Sequence[Registered | Policy], write: Matched, request: AdmissionRequest
    ) -> dict[str, Truth]:
        """Return by name whether all conditions are met: one that is false decides.

        Conditions see the object in the version that a rule names: in another nobody knows.
        Source: apiserver pkg/admission/plugin/webhook/matchconditions.
        """
        truths: Mapping[str, Truth] = {}
        exact = [one for one in asked if one.is_exact(write)]
        if self.conditions is not None:
            read = [text for one in exact for text in one.conditions]
            truths = self.conditions.evaluate(read, request)
        found = {one.name: Truth.UNKNOWN for one in asked}
        for one in exact:
            found[one.name] = every(truths.get(text, Truth.UNKNOWN) for text in one.conditions)
        return found

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
        ages = [(self._age(name).before(began), name) for name in names]
        return tuple(name for _, name in sorted((one[0], name) for one, name in ages if one))

    def notes(self, actors: Iterable[Actor], began: float) -> Iterator[tuple[str, str]]:
        """Yield names of actors of a finding, and in words what is known about them besides.

        began  the time of the first signal, in seconds since the epoch
        """
        for one in [one for one in actors if one.type != "user"][:_MOST_NOTES]:
            event = self._age(one.name).before(began)
            if event is not None:
                yield one.name, f"{event[1]} {event[0]:.0f} s before the first sign"

    def _age(self, name: str) -> Age:
        policy = self._policies.get(name)
        return self._ages.get(name, UNKNOWN_AGE) if policy is None else policy.age

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
        """The candidates of a finding as `ranked`, several narrowed by what is known of each.

        Of those who are equal, the young ones come first, in their order.
        """
        order = list(self.ranked(names))
        if len(order) < 2 or not self.others:  # noqa: PLR2004 - nothing to choose between
            yield from order
            return
        doubts = {one.name: one.doubtful for one in self.others}
        weighed = {
            name: BlameScore(
                name not in shared.alone,
                self._unchanged[where, name],
                self._unchanged[where.is_status, name],
                doubts.get(name, 0),
                -shared.support.get(name, 0),
            )
            for name, _ in order
        }
        likeliest, second, *_ = sorted(weighed.values())
        stands_out = likeliest.stands_out_from(second)
        for name in sorted(weighed, key=lambda one: (weighed[one], *rank_of(one, young))):
            sure = stands_out and weighed[name] is likeliest
            yield name, Confidence.LIKELY if sure else Confidence.POSSIBLE

    def ranked(self, names: Iterable[str]) -> Iterator[tuple[str, Confidence]]:
        """By nothing but who was there: one alone is certain."""
        candidates = sorted(names)
        for name in candidates:
            yield name, Confidence.POSSIBLE if len(candidates) > 1 else Confidence.CERTAIN


def _between(registered: tuple[Registered, ...]) -> Iterator[Registered]:
    """The webhooks called after genguard's intent and before its mutate."""
    intents = [one.configuration for one in registered if one.phase == "/intent"]
    mutates = [one.configuration for one in registered if one.phase == "/mutate"]
    for one in registered:
        after = not intents or one.configuration.encode() > min(intents).encode()
        before = not mutates or one.configuration.encode() < max(mutates).encode()
        if not one.phase and after and before:
            yield one


def matches(one: Registered, write: Matched) -> bool:
    """Whether the API server may call the webhook for such a write, its matchConditions aside."""
    return one.covers(write) is not Truth.FALSE
