"""Rules and selectors of registrations, and policies, against a write, as the API server does it.

Policies act before any mutating webhook, so what they do is already there at intent, beside what
the requester asked for. A policy without a binding never acts.

Source: apiserver pkg/admission/plugin/webhook/predicates, which webhooks and policies share;
pkg/admission/plugin/policy (generic/policy_dispatcher.go, matching/matching.go). v1, v1beta1 and
v1alpha1 of admissionregistration.k8s.io have one shape.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from genguard.admission.review import AdmissionRequest, GroupVersionResource
from genguard.detection.evidence import UNKNOWN_AGE, Age, age_in_force, age_of
from genguard.objects.fields import from_pointer
from genguard.objects.selectors import Truth, every, matches_labels

NAME_LABEL: Final = "kubernetes.io/metadata.name"
EVERYTHING: Final = "*"

_MOST_REMEMBERED: Final = 2_048
"""Bytes of names and labels of one request."""
Rule = Mapping[str, Any]
Selector = Mapping[str, Any] | None
_labels_decoder: Final = msgspec.json.Decoder(dict[str, str] | None)


class Matched(msgspec.Struct, frozen=True):
    """What the rules and selectors of a registration are matched against."""

    group: str
    version: str
    resource: str
    subresource: str
    operation: str
    namespace: str
    name: str
    labels: dict[str, str]
    old_labels: dict[str, str]
    namespace_labels: dict[str, str] | None = None  # None where they are not known


class Likeness(NamedTuple):
    """What rules and selectors read of a request, undecoded; equal for requests matched alike."""

    resource: GroupVersionResource
    subresource: str
    operation: str
    namespace: str
    name: str
    labels: bytes
    old_labels: bytes

    @property
    def is_short(self) -> bool:
        """Whether many of its kind may be remembered."""
        return sum(map(len, self[3:])) <= _MOST_REMEMBERED

    def matched(self) -> Matched:
        """Decode the labels. Raises msgspec.MsgspecError for bad ones."""
        labels = _labels(self.labels)
        return Matched(
            self.resource.group,
            self.resource.version,
            self.resource.resource,
            *self[1:5],
            labels=labels,
            old_labels=labels if self.old_labels == self.labels else _labels(self.old_labels),
        )


def shown_to_rules(request: AdmissionRequest, *, with_name: bool = True) -> Likeness:
    """Return the likeness of a request; `with_name`: some rule names objects."""
    wire = request.wire
    labels, old_labels = (
        b"" if one is None or one.metadata.labels is msgspec.UNSET else bytes(one.metadata.labels)
        for one in (request.object, request.old_object)
    )
    name = wire.name if with_name else ""
    return Likeness(
        wire.resource,
        wire.sub_resource,
        wire.operation.value,
        wire.namespace,
        name,
        labels,
        old_labels,
    )


def matched(request: AdmissionRequest) -> Matched:
    """Return what rules and selectors read. Raises msgspec.MsgspecError for bad labels."""
    return shown_to_rules(request).matched()


def matches_rules(rules: Iterable[Rule], write: Matched, *, any_version: bool) -> bool:
    """Whether any rule covers the write; `any_version`: matchPolicy is Equivalent."""
    return any(_matches_rule(rule, write, any_version=any_version) for rule in rules)


def selects(namespaces: Selector, objects: Selector, write: Matched) -> Truth:
    """Whether both selectors take the write; a review shows only the name of a namespace."""
    # The API server sets this one label of a namespace to its name.
    known = {NAME_LABEL: write.namespace} | (write.namespace_labels or {})
    complete = write.namespace_labels is not None
    inside = matches_labels(namespaces, known, complete=complete) if write.namespace else Truth.TRUE
    either = [
        matches_labels(objects, labels, complete=True)
        for labels in (write.labels, write.old_labels)
    ]
    return every((inside, Truth.TRUE if Truth.TRUE in either else Truth.FALSE))


def _labels(raw: bytes) -> dict[str, str]:
    return (_labels_decoder.decode(raw) or {}) if raw else {}


def _matches_rule(rule: Rule, write: Matched, *, any_version: bool) -> bool:
    names = rule.get("resourceNames")
    return (
        _has(rule.get("apiGroups"), write.group)
        and (any_version or _has(rule.get("apiVersions"), write.version))
        and _has(rule.get("operations"), write.operation)
        and rule.get("scope") != ("Cluster" if write.namespace else "Namespaced")
        and any(_matches_resource(name, write) for name in rule.get("resources") or ())
        and (not names or write.name in names)
    )


def _has(allowed: Any, value: str) -> bool:
    return EVERYTHING in (allowed or ()) or value in (allowed or ())


def _matches_resource(name: str, write: Matched) -> bool:
    """`pods` matches no subresource, `*/status` every status, `pods/*` all of pods and itself."""
    resource, _, subresource = name.partition("/")
    pairs = (resource, write.resource), (subresource, write.subresource)
    return all(allowed in (EVERYTHING, value) for allowed, value in pairs)


class Writes(NamedTuple):
    """Writes of one resource or subresource by one operation; each may be `*`, as in rules."""

    group: str
    resource: str
    operation: str

    @classmethod
    def named(cls, group: str, resource: str, subresource: str, operation: str) -> "Writes":
        """Return the writes of a resource, or of a subresource of it where one is given."""
        return cls(group, f"{resource}/{subresource}" if subresource else resource, operation)

    @classmethod
    def of(cls, request: AdmissionRequest) -> "Writes":
        """Return the writes that a request is one of."""
        wire = request.wire
        resource = wire.resource
        return cls.named(resource.group, resource.resource, wire.sub_resource, wire.operation.value)


def may_match(rules: Iterable[Rule], writes: Writes) -> bool:
    """Whether any rule covers some of these writes; version, scope and names are not read."""
    return any(
        (writes.group == EVERYTHING or _has(rule.get("apiGroups"), writes.group))
        and (writes.operation == EVERYTHING or _has(rule.get("operations"), writes.operation))
        and any(_meet(name, writes.resource) for name in rule.get("resources") or ())
        for rule in rules
    )


def _meet(one: str, other: str) -> bool:
    """Whether two names of rules have something in common: `pods/*` and `*/status` do."""
    (resource, _, sub), (other_resource, _, other_sub) = one.partition("/"), other.partition("/")
    pairs = {resource, other_resource}, {sub, other_sub}
    return all(EVERYTHING in pair or len(pair) == 1 for pair in pairs)


_READS_OBJECT: Final = re.compile(r"(?<![\w.])object\b")


class Conditions(Protocol):
    """Evaluates the CEL expressions of matchConditions."""

    def evaluate(
        self, expressions: Iterable[str], request: AdmissionRequest
    ) -> Mapping[str, Truth]:
        """Return the value of each expression for a request, or unknown."""


def reads_object(expressions: Iterable[str]) -> bool:
    """Whether any of them may depend on the new object."""
    return any(_READS_OBJECT.search(one) for one in expressions)


POLICY: Final = "MutatingAdmissionPolicy"
BINDING: Final = "MutatingAdmissionPolicyBinding"
_FORMS: Final = ("applyConfiguration", "jsonPatch")

MatchResources = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a policy is in force; `has_params`: it depends on objects that no review shows."""

    resources: MatchResources
    has_params: bool

    def covers(self, write: Matched) -> Truth:
        """Whether it is in force for such a write; what parameters say of it nobody knows."""
        known = Truth.UNKNOWN if self.has_params else Truth.TRUE
        return every((_matches(self.resources, write), known))


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
        bound = {one.covers(write) for one in self.bindings}
        inside = [one for one in (Truth.TRUE, Truth.UNKNOWN, Truth.FALSE) if one in bound]
        return every((_matches(self.constraints, write), inside[0]))

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


def expressions_of(parts: Iterable[Mapping[str, Any]] | None) -> tuple[str, ...]:
    """Return the CEL expressions of conditions, variables or mutations."""
    return tuple(one.get("expression", "") for one in parts or ())


def _spec(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = document.get("spec") or {}
    return found


def _read(name: str, policy: Mapping[str, Any], bindings: Sequence[Mapping[str, Any]]) -> Policy:
    spec = _spec(policy)
    takes_params = bool(spec.get("paramKind"))
    mutations = spec.get("mutations") or ()
    parts = [*(spec.get("variables") or ())]
    parts += [one.get(form) or {} for one in mutations for form in _FORMS]
    return Policy(
        name=name,
        constraints=spec.get("matchConstraints") or {},
        bindings=tuple(
            # Without a paramKind the reference is ignored, without a reference params is null.
            Binding(one.get("matchResources") or {}, takes_params and bool(one.get("paramRef")))
            for one in map(_spec, bindings)
        ),
        conditions=expressions_of(spec.get("matchConditions")),
        text="\n".join(expressions_of(parts)),
        age=age_in_force(age_of(policy, "spec"), [age_of(one, "spec") for one in bindings]),
    )


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
