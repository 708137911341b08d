"""Rules and selectors of registrations against a write, as the API server does it; and policies.

Policies act before any mutating webhook, so what they do is already there at intent, beside what
the requester asked for. A policy without a binding never acts.

Registrations that were created or changed shortly before a loop began are young. Youth is no proof:
it decides between suspects who are equal in everything else, and it is shown with the evidence.

Source: apiserver pkg/admission/plugin/webhook/predicates, which webhooks and policies share;
pkg/admission/plugin/policy (generic/policy_dispatcher.go, matching/matching.go). v1, v1beta1 and
v1alpha1 of admissionregistration.k8s.io have one shape.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from genguard.admission.review import AdmissionRequest, ReviewedObject
from genguard.objects.fields import from_pointer
from genguard.objects.metadata import parse_time
from genguard.objects.selectors import Truth, every, matches_labels, some

NAME_LABEL: Final = "kubernetes.io/metadata.name"
EVERYTHING: Final = "*"
_STATUS: Final = "status"
_MOST_REMEMBERED: Final = 2_048
"""Bytes of names and labels of one request."""
Rule = Mapping[str, Any]
Selector = Mapping[str, Any] | None
_labels_decoder: Final = msgspec.json.Decoder(dict[str, str] | None)


class ResourceKind(NamedTuple):
    """A resource and subresource, for which webhooks are called alike."""

    group: str
    resource: str
    subresource: str

    @property
    def is_status(self) -> bool:
        """Return whether it is the status."""
        return self.subresource == _STATUS


class Writes(NamedTuple):
    """Writes of one resource or subresource by one operation; each may be `*`, as in rules."""

    group: str
    resource: str
    operation: str

    @classmethod
    def named(cls, group: str, resource: str, subresource: str, operation: str) -> "Writes":
        """Return the writes of a resource, or of a subresource of it where one is given."""
        return cls(group, f"{resource}/{subresource}" if subresource else resource, operation)


class Matched(msgspec.Struct, frozen=True):
    """What rules and selectors read of a write; equal for writes that they cannot tell apart.

    Version and name may be `*`: any of them.

    namespace         "" of what is in none, `*` of what is in some
    labels            as JSON; None where they are not known
    namespace_labels  None where only the name of the namespace is known
    """

    group: str
    version: str
    resource: str
    subresource: str
    operation: str
    namespace: str
    name: str
    labels: bytes | None = None
    old_labels: bytes | None = None
    namespace_labels: Mapping[str, str] | None = None

    @property
    def writes(self) -> Writes:
        """Return the writes that it is one of."""
        return Writes.named(self.group, self.resource, self.subresource, self.operation)

    @property
    def is_short(self) -> bool:
        """Whether many of its kind may be remembered."""
        labels = len(self.labels or b"") + len(self.old_labels or b"")
        return len(self.namespace) + len(self.name) + labels <= _MOST_REMEMBERED


def matched(request: AdmissionRequest, *, with_name: bool = True) -> Matched:
    """Return what rules and selectors read of a request; `with_name`: some rule names objects."""
    wire = request.wire
    return Matched(
        wire.resource.group,
        wire.resource.version,
        wire.resource.resource,
        wire.sub_resource,
        wire.operation.value,
        wire.namespace,
        wire.name if with_name else "",
        _labels_of(request.object),
        _labels_of(request.old_object),
    )


def _labels_of(one: ReviewedObject | None) -> bytes:
    raw = msgspec.UNSET if one is None else one.metadata.labels
    return b"" if isinstance(raw, msgspec.UnsetType) else bytes(raw)


def may_match(rules: Iterable[Rule], writes: Writes) -> bool:
    """Whether any rule covers some of these writes; version, scope and names are not read."""
    return any(
        _has(rule.get("apiGroups"), writes.group)
        and _has(rule.get("operations"), writes.operation)
        and any(_meet(name, writes.resource) for name in rule.get("resources") or ())
        for rule in rules
    )


def _has(allowed: Any, value: str) -> bool:
    return value == EVERYTHING or EVERYTHING in (allowed or ()) or value in (allowed or ())


def _meet(one: str, other: str) -> bool:
    """Whether two names of rules have something in common: `pods/*` and `*/status` do.

    `pods` is no subresource, `pods/*` all of them and the Pods themselves.
    """
    (resource, _, sub), (other_resource, _, other_sub) = one.partition("/"), other.partition("/")
    pairs = {resource, other_resource}, {sub, other_sub}
    return all(EVERYTHING in pair or len(pair) == 1 for pair in pairs)


_ANY_WRITE: Final[Rule] = {
    "apiGroups": [EVERYTHING],
    "apiVersions": [EVERYTHING],
    "operations": [EVERYTHING],
    "resources": ["*/*"],
}


@dataclass(frozen=True, slots=True)
class Match:
    """The writes that a webhook, a policy or a binding is for.

    any_version  matchPolicy is Equivalent
    has_params   it depends on objects that no review shows as well
    """

    rules: Sequence[Rule]
    excluded: Sequence[Rule] = ()
    any_version: bool = True
    namespaces: Selector = None
    objects: Selector = None
    has_params: bool = False

    @classmethod
    def read(cls, found: Mapping[str, Any], rules: Any, *, has_params: bool = False) -> "Match":
        """Read a webhook, or the matchResources of a policy or binding, which may have no rules."""
        return cls(
            tuple(rules or ()),
            tuple(found.get("excludeResourceRules") or ()),
            (found.get("matchPolicy") or "Equivalent") == "Equivalent",
            found.get("namespaceSelector"),
            found.get("objectSelector"),
            has_params,
        )

    def covers(self, write: Matched) -> Truth:
        """Whether it is for such a write; what parameters say of it nobody knows."""
        if self._names(self.excluded, write) or not self._names(self.rules, write):
            return Truth.FALSE
        inside = Truth.UNKNOWN if self.has_params else Truth.TRUE
        if write.namespace:
            # The API server sets this one label of a namespace to its name.
            is_named = write.namespace != EVERYTHING
            known = {NAME_LABEL: write.namespace} if is_named else {}
            is_whole = write.namespace_labels is not None
            known |= write.namespace_labels or {}
            inside = every((inside, matches_labels(self.namespaces, known, complete=is_whole)))
        either = some(_selects(self.objects, one) for one in (write.labels, write.old_labels))
        return every((inside, either))

    def is_exact(self, write: Matched) -> bool:
        """Whether conditions see the object in the version of the review."""
        return any(_names(rule, write, any_version=False) for rule in self.rules)

    def _names(self, rules: Iterable[Rule], write: Matched) -> bool:
        return any(_names(rule, write, any_version=self.any_version) for rule in rules)


def _selects(objects: Selector, raw: bytes | None) -> Truth:
    labels = read_labels(raw)
    return matches_labels(objects, labels or {}, complete=labels is not None)


def read_labels(raw: bytes | None) -> dict[str, str] | None:
    """Return labels of JSON; None where they are not known, or are no labels."""
    try:
        return None if raw is None else (raw and _labels_decoder.decode(raw)) or {}
    except msgspec.MsgspecError:
        return None


def _names(rule: Rule, write: Matched, *, any_version: bool) -> bool:
    names = rule.get("resourceNames")
    return (
        may_match((rule,), write.writes)
        and (any_version or _has(rule.get("apiVersions"), write.version))
        and rule.get("scope") != ("Cluster" if write.namespace else "Namespaced")
        and (not names or write.name in (EVERYTHING, *names))
    )


class Conditions(Protocol):
    """Evaluates the CEL expressions of matchConditions."""

    def evaluate(
        self, expressions: Iterable[str], request: AdmissionRequest
    ) -> Mapping[str, Truth]:
        """Return the value of each expression for a request, or unknown."""


_READS_OBJECT: Final = re.compile(r"(?<![\w.])object\b")
YOUNG_SECONDS: Final = 600.0
"""Between a change and the first sign. As long as signs may be apart and still be of one loop."""
_NO_CHANGE: Final = frozenset({"f:caBundle", "f:name", "."})
"""All that a manager owns who only renews certificates: the webhook does the same as before. The
other two are the webhook's place in its list."""


class Age(NamedTuple):
    """When a registration was created, and when what it does was last changed."""

    created: float = 0.0
    changed: float = 0.0

    @classmethod
    def read(cls, document: Mapping[str, Any], part: str) -> "Age":
        """Return the age of a registration; `part` is the field that says what it does.

        A new certificate in `caBundle`, a label or an annotation is no change.
        """
        metadata = _mapping(document.get("metadata"))
        managers = metadata.get("managedFields")
        changed = [
            _seconds(one.get("time"))
            for one in map(_mapping, managers if isinstance(managers, list) else ())
            if _changes(_mapping(one.get("fieldsV1")).get(f"f:{part}"))
        ]
        return cls(_seconds(metadata.get("creationTimestamp")), max(changed, default=0.0))

    def before(self, began: float) -> tuple[float, str] | None:
        """Return how many seconds before a loop it was last "created" or "changed".

        None where that was too long ago, or is not known.
        """
        # Creating sets both times: of two that are equal the first counts.
        known = {self.changed: "changed", self.created: "created"}
        found = [(began - at, what) for at, what in known.items() if 0.0 < at <= began]
        last = min(found, default=None)
        return last if last is not None and last[0] <= YOUNG_SECONDS else None


def _changes(owned: Any) -> bool:
    """Whether a manager who owns this changes what a registration does, or only renews it."""
    if not isinstance(owned, Mapping):
        return False
    return not owned or any(
        _changes(inner) if isinstance(inner, Mapping) and inner else key not in _NO_CHANGE
        for key, inner in owned.items()
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _seconds(text: Any) -> float:
    found = parse_time(text) if isinstance(text, str) else None
    return 0.0 if found is None else found.timestamp()


@dataclass(frozen=True, slots=True)
class Registration:
    """Who may change a write: a webhook or a policy, with its matchConditions.

    name  as findings name it: of a webhook that of its configuration, a slash, and its own
    """

    name: str
    match: Match
    conditions: tuple[str, ...]
    age: Age

    def covers(self, write: Matched) -> Truth:
        """Whether it may act on such a write, its matchConditions aside."""
        return self.match.covers(write)

    @property
    def reads_object(self) -> bool:
        """Whether any of its conditions may depend on the new object."""
        return any(_READS_OBJECT.search(one) for one in self.conditions)


POLICY: Final = "MutatingAdmissionPolicy"
BINDING: Final = "MutatingAdmissionPolicyBinding"
_FORMS: Final = ("applyConfiguration", "jsonPatch")


@dataclass(frozen=True, slots=True)
class Policy(Registration):
    """One policy, and where it is in force; `text` is all that its mutations are made of."""

    bindings: Collection[Match]
    text: str

    def covers(self, write: Matched) -> Truth:
        """See Registration.covers: one of its bindings is enough."""
        return every((self.match.covers(write), some(one.covers(write) for one in self.bindings)))

    def sets(self, pointer: str) -> bool:
        """Whether its mutations name the field at a JSON Pointer, and the top of its path."""
        names = [token for token in from_pointer(pointer) if not token.isdigit()]
        return bool(names) and all(_is_set(name, self.text) for name in {names[0], names[-1]})


def read_policies(documents: Iterable[Any]) -> tuple[Policy, ...]:
    """The policies that are bound, by name; other documents are passed over."""
    policies: dict[str, Mapping[str, Any]] = {}
    bindings: dict[str, list[Mapping[str, Any]]] = {}
    for document in map(_mapping, documents):
        if document.get("kind") == POLICY:
            policies[(document.get("metadata") or {}).get("name", "")] = document
        elif document.get("kind") == BINDING:
            bindings.setdefault(_spec(document).get("policyName", ""), []).append(document)
    bound = sorted(policies.keys() & bindings.keys())
    return tuple(_read(name, policies[name], bindings[name]) for name in bound)


def expressions_of(parts: Iterable[Mapping[str, Any]] | None) -> tuple[str, ...]:
    """Return the CEL expressions of conditions, variables or mutations."""
    return tuple(one.get("expression", "") for one in parts or ())


def _spec(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return document.get("spec") or {}


def _read(name: str, policy: Mapping[str, Any], bindings: Sequence[Mapping[str, Any]]) -> Policy:
    spec = _spec(policy)
    parts = [*(spec.get("variables") or ())]
    parts += [one.get(form) or {} for one in spec.get("mutations") or () for form in _FORMS]
    made, bound = Age.read(policy, "spec"), [Age.read(one, "spec") for one in bindings]
    return Policy(
        name,
        _resources(spec.get("matchConstraints")),
        expressions_of(spec.get("matchConditions")),
        # It acts once it is bound; one more binding changes it.
        Age(
            max(made.created, min(one.created for one in bound)),
            max(made.changed, *(at for one in bound for at in one)),
        ),
        tuple(
            # Without a paramKind the reference is ignored, without a reference params is null.
            _resources(
                one.get("matchResources"),
                has_params=bool(spec.get("paramKind")) and bool(one.get("paramRef")),
            )
            for one in map(_spec, bindings)
        ),
        "\n".join(expressions_of(parts)),
    )


def _resources(found: Mapping[str, Any] | None, *, has_params: bool = False) -> Match:
    found = found or {}
    return Match.read(found, found.get("resourceRules") or [_ANY_WRITE], has_params=has_params)


def _is_set(name: str, text: str) -> bool:
    """As a field of an ApplyConfiguration (`replicas:`), a key, or a step of a JSON Patch path."""
    plain = re.escape(name)
    step = re.escape(name.replace("~", "~0").replace("/", "~1"))
    return bool(re.search(rf"""(?<![\w.]){plain}\s*:|(["']){plain}\1|/{step}(?=["'/])""", text))
