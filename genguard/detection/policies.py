"""MutatingAdmissionPolicies: which of them can have acted on a write, and what they visibly set.

They act before any mutating webhook, so what they do is already there at intent, beside what the
requester asked for. A policy without a binding never acts.

Source: apiserver pkg/admission/plugin/policy (generic/policy_dispatcher.go, matching/matching.go);
v1, v1beta1 and v1alpha1 of admissionregistration.k8s.io have one shape.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from genguard.detection.matching import Matched, Writes, matches_rules, may_match, selects
from genguard.detection.young import UNKNOWN_AGE, Age, age_in_force, age_of
from genguard.objects.fields import from_pointer
from genguard.objects.selectors import Truth, every

POLICY: Final = "MutatingAdmissionPolicy"
BINDING: Final = "MutatingAdmissionPolicyBinding"

MatchResources = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a policy is in force; `has_params`: it depends on objects that no review shows."""

    resources: MatchResources
    has_params: bool


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy with its bindings; `text` is every expression that its mutations are made of."""

    name: str
    constraints: MatchResources
    bindings: tuple[Binding, ...]
    conditions: tuple[str, ...]
    text: str
    age: Age = UNKNOWN_AGE

    def covers(self, write: Matched) -> Truth:
        """Whether it acts on such a write, its matchConditions aside."""
        bound = [
            every((_matches(one.resources, write), _known(one.has_params))) for one in self.bindings
        ]
        of_bindings = next(
            (one for one in (Truth.TRUE, Truth.UNKNOWN) if one in bound), Truth.FALSE
        )
        return every((_matches(self.constraints, write), of_bindings))

    def may_match(self, writes: Writes) -> bool:
        """Whether its rules cover some of these writes; see Suspects.may_change."""
        rules = self.constraints.get("resourceRules") or ()
        return not rules or may_match(rules, writes)

    def is_exact(self, write: Matched) -> bool:
        """Whether its conditions see the object in the version of the review."""
        rules = self.constraints.get("resourceRules") or ()
        return not rules or matches_rules(rules, write, any_version=False)

    def sets(self, pointer: str) -> bool:
        """Whether its mutations name the field at a JSON Pointer, and the top of its path."""
        names = [token for token in from_pointer(pointer) if not token.isdigit()]
        return bool(names) and all(_is_set(name, self.text) for name in {names[0], names[-1]})


def read_policies(documents: Iterable[Any]) -> tuple[Policy, ...]:
    """The policies that are bound, by name; other documents are passed over."""
    policies: dict[str, Mapping[str, Any]] = {}
    bindings: dict[str, list[Mapping[str, Any]]] = {}
    for document in documents:
        kind = document.get("kind") if isinstance(document, Mapping) else None
        if kind == POLICY:
            policies[(document.get("metadata") or {}).get("name", "")] = document
        elif kind == BINDING:
            bindings.setdefault(_spec(document).get("policyName", ""), []).append(document)
    bound = sorted(policies.keys() & bindings.keys())
    return tuple(_read(name, policies[name], bindings[name]) for name in bound)


def _spec(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = document.get("spec") or {}
    return found


def _read(name: str, policy: Mapping[str, Any], bindings: Sequence[Mapping[str, Any]]) -> Policy:
    spec = _spec(policy)
    takes_params = bool(spec.get("paramKind"))
    mutations = spec.get("mutations") or ()
    forms = [
        one.get(form) or {} for one in mutations for form in ("applyConfiguration", "jsonPatch")
    ]
    parts = [one.get("expression", "") for one in (*(spec.get("variables") or ()), *forms)]
    return Policy(
        name=name,
        constraints=spec.get("matchConstraints") or {},
        bindings=tuple(
            # Without a paramKind the reference is ignored, without a reference params is null.
            Binding(one.get("matchResources") or {}, takes_params and bool(one.get("paramRef")))
            for one in map(_spec, bindings)
        ),
        conditions=tuple(one.get("expression", "") for one in spec.get("matchConditions") or ()),
        text="\n".join(parts),
        age=age_in_force(age_of(policy, "spec"), [age_of(one, "spec") for one in bindings]),
    )


def _known(is_unknown: bool) -> Truth:  # noqa: FBT001 - a converter of this one value
    return Truth.UNKNOWN if is_unknown else Truth.TRUE


def _matches(resources: MatchResources, write: Matched) -> Truth:
    any_version = (resources.get("matchPolicy") or "Equivalent") == "Equivalent"
    rules = resources.get("resourceRules") or ()
    excluded = resources.get("excludeResourceRules") or ()
    if matches_rules(excluded, write, any_version=any_version):
        return Truth.FALSE
    if rules and not matches_rules(rules, write, any_version=any_version):
        return Truth.FALSE
    return selects(resources.get("namespaceSelector"), resources.get("objectSelector"), write)


def _is_set(name: str, text: str) -> bool:
    """As a field of an ApplyConfiguration (`replicas:`), a key, or a step of a JSON Patch path."""
    plain = re.escape(name)
    step = re.escape(name.replace("~", "~0").replace("/", "~1"))
    return bool(re.search(rf"""(?<![\w.]){plain}\s*:|(["']){plain}\1|/{step}(?=["'/])""", text))
