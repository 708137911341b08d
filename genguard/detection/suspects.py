"""Who besides the requester can have acted on a write: other webhooks, and policies.

Webhooks act between genguard's two mutating registrations, policies before them. Rules, scope,
selectors, operations and matchConditions are matched as the API server does it; what cannot be told
from a review (labels of a namespace, an authorizer) leaves a suspect possible.
The webhooks of genguard, also of another one in the cluster, are never suspects. What depends on
contents is asked while a review is at hand, see Fact.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from genguard.admission.review import AdmissionRequest, Phase, own_phase
from genguard.detection.evidence import (
    MOST_PLACES,
    UNKNOWN_AGE,
    Age,
    Evidence,
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
    NotEvaluated,
    Policy,
    Writes,
    matched,
    matches_rules,
    may_match,
    reads_object,
    selects,
    shown_to_rules,
)
from genguard.detection.write import NOBODY, Acted, Called
from genguard.objects.bounded import Bounded
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
_MOST_BYTES_CALLED: Final = 4 * 1024 * 1024
_BYTES_OF_NAME: Final = 150
"""Of a webhook that is called."""
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
        """As findings name it."""
        return f"{self.configuration}/{self.webhook}"

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


class Note(NamedTuple):
    """What is known about one actor of a finding, in words."""

    actor: str
    text: str


def read_configurations(documents: Iterable[Any]) -> tuple[Registered, ...]:
    """The webhooks of every MutatingWebhookConfiguration, in the order in which they are called."""
    found = []
    for document in documents:
        if not isinstance(document, Mapping):
            continue
        if document.get("kind") != "MutatingWebhookConfiguration":
            continue
        metadata = document.get("metadata") or {}
        if TRACE_LABEL in (metadata.get("labels") or {}):
            continue  # an observer of `genguard trace`: it changes nothing
        name = metadata.get("name", "")
        hooks, age = document.get("webhooks") or (), age_of(document, "webhooks")
        found += [_read(name, own_phase(document, hook), hook, age) for hook in hooks]
    return tuple(sorted(found, key=lambda one: one.configuration.encode()))


def _read(configuration: str, phase: str, hook: Mapping[str, Any], age: Age) -> Registered:
    return Registered(
        configuration=configuration,
        webhook=hook.get("name", ""),
        rules=tuple(hook.get("rules") or ()),
        namespace_selector=hook.get("namespaceSelector"),
        object_selector=hook.get("objectSelector"),
        any_version=hook.get("matchPolicy", "Equivalent") == "Equivalent",
        conditions=tuple(one.get("expression", "") for one in hook.get("matchConditions") or ()),
        phase=phase,
        reinvoked=hook.get("reinvocationPolicy") == "IfNeeded",
        age=age,
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
        self.learn(registered)
        self.learn_policies(policies)
        self._conditions: Final = conditions or NotEvaluated()
        self._evidence: Final = Evidence()
        self._changed: Final[set[ResourceKind]] = set()

    def learn(self, registered: Iterable[Registered]) -> None:
        """Replace the registrations of webhooks."""
        self.registered: tuple[Registered, ...] = tuple(registered)
        self._ages = {one.name: one.age for one in self.registered}
        self._others: tuple[Registered, ...] = tuple(_between(self.registered))
        self._have_conditions = any(one.conditions for one in self._others)
        self._names_matter = any(
            rule.get("resourceNames") for one in self._others for rule in one.rules
        )
        self._called: Bounded[Likeness, Called] = Bounded(_MOST_CALLED, _MOST_BYTES_CALLED)
        self._own_rules = {
            phase: [rule for one in self.registered if one.phase == path for rule in one.rules]
            for phase, path in _MUTATING
            if any(one.phase == path for one in self.registered)
        }
        self._implied: dict[Writes, tuple[Phase, ...]] = {}

    def anew(self) -> "Suspects":
        """Return the same registrations, and no evidence yet."""
        return Suspects(self.registered, self._policies.values(), self._conditions)

    @property
    def others(self) -> tuple[Registered, ...]:
        """Those that are called between genguard's intent and its mutate."""
        return self._others

    @property
    def conditions(self) -> Conditions:
        """What evaluates matchConditions."""
        return self._conditions

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Every policy that is bound, by name."""
        return tuple(self._policies[name] for name in sorted(self._policies))

    def learn_policies(self, policies: Iterable[Policy]) -> None:
        """Replace the bound policies."""
        self._policies = {one.name: one for one in policies}
        self._implied = {}

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
        writes = Writes.of(request)
        found = self._implied.get(writes)
        if found is None:
            found = ()
            if not self.may_change(writes):
                rules = self._own_rules.items()
                found = tuple(one for one, asked in rules if not may_match(asked, writes))
            if len(self._implied) < _MOST_CALLED:
                self._implied[writes] = found
        return found if phase is Phase.OUTCOME else tuple(x for x in found if x is Phase.INTENT)

    def called_in(self, request: AdmissionRequest) -> Called:
        """Return the webhooks that rules and selectors call for a request.

        Raises msgspec.MsgspecError for labels that are none, as the other two do.
        """
        if not self._others:
            return NOBODY
        likeness = shown_to_rules(request, with_name=self._names_matter)
        found = self._called.get(likeness)
        if found is None:
            found = self.called(matched(request))
            self._called.put(likeness, found, likeness.size + _BYTES_OF_NAME * len(found.first))
        return found

    def changed(self, where: ResourceKind) -> None:
        """Note that writes here are changed: from now on conditions are evaluated for them."""
        if len(self._changed) < MOST_PLACES:
            self._changed.add(where)

    def has_changed(self, where: ResourceKind) -> bool:
        """Return whether webhooks were seen to change writes here."""
        return where in self._changed

    def unmet_in(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Return the called webhooks whose matchConditions the request does not meet.

        Conditions take ten times what the rest of a review takes. So they are asked only where
        somebody has changed a write before: of the first one nobody is ruled out.
        """
        if not self._asks_webhooks(request):
            return ()
        write = matched(request)
        asked = [
            one
            for one in self._others
            # Conditions see the object in the version that a rule names.
            if one.conditions and matches(replace(one, any_version=False), write)
        ]
        truths = self._conditions.evaluate(_expressions(asked), request)
        return tuple(one.name for one in asked if _hold(one, truths) is Truth.FALSE)

    def asks_conditions(self, request: AdmissionRequest) -> bool:
        """Whether `unmet_in` or `policies_in` may have conditions evaluated, which takes long."""
        return self._asks_webhooks(request) or any(
            one.conditions for one in self._policies.values()
        )

    def _asks_webhooks(self, request: AdmissionRequest) -> bool:
        return self._have_conditions and self.has_changed(_place(request))

    def policies_in(self, request: AdmissionRequest) -> tuple[Acted, ...]:
        """Return the policies that may have acted on a request."""
        if not self._policies:
            return ()
        return tuple(self._acted(request))[:_MOST_POLICIES]

    def sets(self, name: str, pointers: Iterable[str]) -> bool:
        """Whether a policy visibly sets a field at any of these JSON Pointers."""
        found = self._policies.get(name)
        return found is not None and any(found.sets(one) for one in pointers)

    def called(self, write: Matched) -> Called:
        """The webhooks that rules and selectors call for such a write."""
        found = [one for one in self._others if matches(one, write)]
        again = [one for one in found if one.reinvoked]
        return Called(tuple(one.name for one in found), tuple(one.name for one in again))

    def _acted(self, request: AdmissionRequest) -> Iterator[Acted]:
        write = matched(request)
        covers = [(one, one.covers(write)) for one in self._policies.values()]
        asked = [(one, covered) for one, covered in covers if covered is not Truth.FALSE]
        truths = self._conditions.evaluate(_expressions(one for one, _ in asked), request)
        for one, covered in asked:
            holds = _hold(one, truths)
            # What the object was before it acted is not seen.
            if not one.is_exact(write) or (holds is Truth.FALSE and reads_object(one.conditions)):
                holds = Truth.UNKNOWN
            answer = every((covered, holds))
            if answer is not Truth.FALSE:
                yield Acted(one.name, answer is Truth.TRUE)

    def unchanged_calls(self, name: str) -> int:
        """Return how many writes came through unchanged for which this webhook was called."""
        return self._evidence.unchanged_calls(name)

    def record_unchanged(self, names: Iterable[str], where: ResourceKind) -> None:
        """Count a write that the called webhooks left unchanged."""
        self._evidence.record_unchanged(names, where)

    def young(self, names: Iterable[str], began: float) -> tuple[str, ...]:
        """The webhooks and policies created or changed shortly before this time, youngest first."""
        ages = [(self._age(name).before(began), name) for name in names]
        return tuple(name for _, name in sorted((one.seconds, name) for one, name in ages if one))

    def notes(self, actors: Iterable[Actor], began: float) -> Iterator[Note]:
        """Yield what is known about the actors of a finding, besides its signals.

        began  the time of the first signal, in seconds since the epoch
        """
        for one in [one for one in actors if one.type != "user"][:_MOST_NOTES]:
            event = self._age(one.name).before(began)
            if event is not None:
                yield Note(one.name, f"{event.what} {event.seconds:.0f} s before the first sign")

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
        if len(order) < 2 or not self._others:  # noqa: PLR2004 - nothing to choose between
            yield from order
            return
        doubts = {one.name: one.doubtful for one in self._others}
        weighed = self._evidence.weigh([name for name, _ in order], shared, where, doubts)
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


def _expressions(asked: Iterable[Registered | Policy]) -> list[str]:
    return [expression for one in asked for expression in one.conditions]


def _hold(one: Registered | Policy, truths: Mapping[str, Truth]) -> Truth:
    """False where one condition is, whatever the others say, and true where all are.

    Source: apiserver pkg/admission/plugin/webhook/matchconditions.
    """
    return every(truths[expression] for expression in one.conditions)


def _place(request: AdmissionRequest) -> ResourceKind:
    resource = request.wire.resource
    return ResourceKind(resource.group, resource.resource, request.wire.sub_resource)


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
