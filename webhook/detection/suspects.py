"""Who besides the requester can have acted on a write: other webhooks, and policies.

Webhooks act between genguard's two mutating registrations, policies before them. Rules, scope,
selectors, operations and matchConditions are matched as the API server does it; what cannot be
told from a review (labels of a namespace, an authorizer) leaves a suspect possible. The webhooks of
genguard, also of another one in the cluster, are never suspects. What depends on contents is asked
while a review is at hand, see Fact.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from webhook.admission.review import AdmissionRequest
from webhook.detection.evidence import MOST_PLACES, Evidence, ResourceKind, Shared
from webhook.detection.finding import Confidence
from webhook.detection.matching import (
    EVERYTHING,
    NAME_LABEL,
    Conditions,
    Likeness,
    Matched,
    NotEvaluated,
    matched,
    matches_rules,
    reads_object,
    selects,
    shown_to_rules,
)
from webhook.detection.policies import Policy
from webhook.detection.write import NOBODY, Acted, Called
from webhook.objects.bounded import Bounded
from webhook.objects.own_webhooks import own_phase
from webhook.objects.selectors import Truth, every

TRACE_LABEL: Final = "genguard.io/trace"
"""On the observers that `genguard trace` registers for a while."""
_MOST_POLICIES: Final = 8
"""Of one write."""
_MOST_CALLED: Final = 1_000
"""Likenesses of writes with the webhooks called; writes of one owner are alike."""
_MOST_BYTES_CALLED: Final = 4 * 1024 * 1024
_BYTES_OF_NAME: Final = 150
"""Of a webhook that is called."""


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
        hooks = document.get("webhooks") or ()
        found += [_read(name, own_phase(document, hook), hook) for hook in hooks]
    return tuple(sorted(found, key=lambda one: one.configuration.encode()))


def _read(configuration: str, phase: str, hook: Mapping[str, Any]) -> Registered:
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
    )


class Suspects:
    """The present registrations, and how often each left a write unchanged."""

    def __init__(
        self,
        registered: Iterable[Registered] = (),
        policies: Iterable[Policy] = (),
        conditions: Conditions | None = None,
    ) -> None:
        """`conditions` evaluates matchConditions; without it each of them may hold."""
        self.learn(registered)
        self._policies = {one.name: one for one in policies}
        self._conditions: Final = conditions or NotEvaluated()
        self._evidence: Final = Evidence()
        self._changed: Final[set[ResourceKind]] = set()

    def learn(self, registered: Iterable[Registered]) -> None:
        """Replace the registrations of webhooks."""
        self.registered: tuple[Registered, ...] = tuple(registered)
        self._others: tuple[Registered, ...] = tuple(_between(self.registered))
        self._have_conditions = any(one.conditions for one in self._others)
        self._names_matter = any(
            rule.get("resourceNames") for one in self._others for rule in one.rules
        )
        self._called: Bounded[Likeness, Called] = Bounded(_MOST_CALLED, _MOST_BYTES_CALLED)

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
        return self._asks_webhooks(request) or any(one.conditions for one in self.policies)

    def _asks_webhooks(self, request: AdmissionRequest) -> bool:
        return self._have_conditions and self.has_changed(_place(request))

    def policies_in(self, request: AdmissionRequest) -> tuple[Acted, ...]:
        """Return the policies that may have acted on a request."""
        if not self._policies:
            return ()
        return tuple(self._acted(request))[:_MOST_POLICIES]

    def sets(self, policy: str, pointers: Iterable[str]) -> bool:
        """Whether the mutations of a policy visibly set a field at any of these JSON Pointers."""
        found = self._policies.get(policy)
        return found is not None and any(found.sets(one) for one in pointers)

    def called(self, write: Matched) -> Called:
        """The webhooks that rules and selectors call for such a write."""
        found = [one for one in self._others if matches(one, write)]
        return Called(
            tuple(one.name for one in found), tuple(one.name for one in found if one.reinvoked)
        )

    def _acted(self, request: AdmissionRequest) -> Iterator[Acted]:
        write = matched(request)
        covers = [(one, one.covers(write)) for one in self._policies.values()]
        asked = [(one, covered) for one, covered in covers if covered is not Truth.FALSE]
        truths = self._conditions.evaluate(_expressions(one for one, _ in asked), request)
        for one, covered in asked:
            holds = _hold(one, truths)
            # What the object was before the policy acted is not seen.
            if not one.is_exact(write) or (holds is Truth.FALSE and reads_object(one.conditions)):
                holds = Truth.UNKNOWN
            answer = every((covered, holds))
            if answer is not Truth.FALSE:
                yield Acted(one.name, answer is Truth.TRUE)

    def acquit(self, names: Iterable[str], where: ResourceKind) -> None:
        """Count a write that the called webhooks left unchanged."""
        self._evidence.acquit(names, where)

    def accused(
        self, names: Iterable[str], shared: Shared, where: ResourceKind
    ) -> Iterator[tuple[str, Confidence]]:
        """The candidates of a finding as `ranked`, several narrowed by what is known of each."""
        order = list(self.ranked(names))
        if len(order) < 2 or not self._others:  # noqa: PLR2004 - nothing to choose between
            yield from order
            return
        doubts = {one.name: one.doubtful for one in self._others}
        weighed = self._evidence.weigh([name for name, _ in order], shared, where, doubts)
        likeliest, second, *_ = sorted(weighed.values())
        stands_out = likeliest.stands_out_from(second)
        for name in sorted(weighed, key=lambda one: (weighed[one], one)):
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
    """Whether the API server calls the webhook for such a write, its matchConditions aside."""
    return (
        matches_rules(one.rules, write, any_version=one.any_version)
        and selects(one.namespace_selector, one.object_selector, write) is not Truth.FALSE
    )
