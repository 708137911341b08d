"""Registrations of webhooks and policies, and which writes they are for, as the API server has it.

Policies act before any mutating webhook, so what they do is already there at intent, beside what
the requester asked for. A policy without a binding never acts.

Registrations that were created or changed shortly before a loop began are young. Youth is no proof:
it decides between those who are equal in everything else, and it is shown with the evidence.

Source: apiserver pkg/admission/plugin/webhook/predicates, which webhooks and policies share;
pkg/admission/plugin/policy (generic/policy_dispatcher.go, matching/matching.go). v1, v1beta1 and
v1alpha1 of admissionregistration.k8s.io have one shape.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from genguard.admission.review import AdmissionRequest, ReviewedObject, own_phase
from genguard.objects.fields import from_pointer, mapping
from genguard.objects.metadata import parse_time
from genguard.objects.selectors import Truth, every, matches_labels, some

NAME_LABEL: Final = "kubernetes.io/metadata.name"
EVERYTHING: Final = "*"
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

    namespace         "" where there is none, `*` where there is any
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


def matched(
    request: AdmissionRequest, *, with_name: bool = True, with_labels: bool = True
) -> Matched:
    """Return what rules and selectors read of a request.

    with_name    some rule names objects; with_labels: something selects objects
    """
    wire = request.wire
    return Matched(
        wire.resource.group,
        wire.resource.version,
        wire.resource.resource,
        wire.sub_resource,
        wire.operation.value,
        wire.namespace,
        wire.name if with_name else "",
        _labels_of(request.object) if with_labels else None,
        _labels_of(request.old_object) if with_labels else None,
    )


def _labels_of(reviewed: ReviewedObject | None) -> bytes:
    raw = msgspec.UNSET if reviewed is None else reviewed.metadata.labels
    return b"" if isinstance(raw, msgspec.UnsetType) else bytes(raw)


def may_match(rules: Iterable[Rule], writes: Writes) -> bool:
    """Whether any rule covers some of these writes; version, scope and names are not read."""
    return any(matching_resource(rule, writes) is not None for rule in rules)


def matching_resource(rule: Rule, writes: Writes) -> int | None:
    """Return the index of the resource for which a rule covers some of these writes, or None."""
    if _has(rule.get("apiGroups"), writes.group) and _has(rule.get("operations"), writes.operation):
        for index, name in enumerate(rule.get("resources") or ()):
            if _meet(name, writes.resource):
                return index
    return None


def _has(allowed: Any, value: str) -> bool:
    return value == EVERYTHING or EVERYTHING in (allowed or ()) or value in (allowed or ())


def _meet(name: str, other: str) -> bool:
    """Whether two names of rules have something in common: `pods/*` and `*/status` do.

    `pods` is no subresource, `pods/*` all of them and the Pods themselves.
    """
    (resource, _, sub), (other_resource, _, other_sub) = name.partition("/"), other.partition("/")
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
    def read(cls, found: Any, rules: Any = None, *, has_params: bool = False) -> "Match":
        """Read a webhook with its rules, or matchResources: without any of its own for all."""
        found = found or {}
        return cls(
            tuple(found.get("resourceRules") or [_ANY_WRITE] if rules is None else rules),
            tuple(found.get("excludeResourceRules") or ()),
            (found.get("matchPolicy") or "Equivalent") == "Equivalent",
            found.get("namespaceSelector"),
            found.get("objectSelector"),
            has_params,
        )

    def covers(self, write: Matched) -> Truth:
        """Whether it is for such a write; nobody knows what parameters say of it."""
        is_out = _name(self.excluded, write, any_version=self.any_version)
        if is_out or not _name(self.rules, write, any_version=self.any_version):
            return Truth.FALSE
        inside = Truth.UNKNOWN if self.has_params else Truth.TRUE
        if write.namespace:
            # The API server sets this one label of a namespace to its name.
            is_named = write.namespace != EVERYTHING
            known = {NAME_LABEL: write.namespace} if is_named else {}
            is_complete = write.namespace_labels is not None
            known |= write.namespace_labels or {}
            inside = every((inside, matches_labels(self.namespaces, known, complete=is_complete)))
        both = map(read_labels, (write.labels, write.old_labels))
        either = (matches_labels(self.objects, x or {}, complete=x is not None) for x in both)
        return every((inside, some(either)))

    def is_exact(self, write: Matched) -> bool:
        """Whether conditions see the object in the version of the review."""
        return _name(self.rules, write, any_version=False)


def read_labels(raw: bytes | None) -> dict[str, str] | None:
    """Return labels of JSON; None where they are not known, or are no labels."""
    try:
        return None if raw is None else (raw and _labels_decoder.decode(raw)) or {}
    except msgspec.MsgspecError:
        return None


def _name(rules: Iterable[Rule], write: Matched, *, any_version: bool) -> bool:
    """Whether any of these rules covers a write."""
    writes, elsewhere = write.writes, "Cluster" if write.namespace else "Namespaced"
    return any(
        matching_resource(rule, writes) is not None
        and (any_version or _has(rule.get("apiVersions"), write.version))
        and rule.get("scope") != elsewhere
        and write.name in (EVERYTHING, *(rule.get("resourceNames") or (write.name,)))
        for rule in rules
    )


class Conditions(Protocol):
    """Evaluates the CEL expressions of matchConditions."""

    def evaluate(
        self, expressions: Iterable[str], request: AdmissionRequest
    ) -> Mapping[str, Truth]:
        """Return the value of each expression for a request, or unknown."""


_READS_OBJECT: Final = re.compile(r"(?<![\w.])object\b")
YOUNG_SECONDS: Final = 600.0
"""From a change to the first signal: two signals of one loop may be as far apart."""
_NO_CHANGE: Final = frozenset({"f:caBundle", "f:name", "."})
"""A manager that only renews certificates owns only these: the webhook does the same as before. The
other two are the webhook's index in its list."""
TRACE_LABEL: Final = "genguard.io/trace"
"""On the observers that `genguard trace` registers for a while."""
_DEFAULT_TIMEOUT: Final = 10
"""Seconds (admissionregistration/v1/types.go:MutatingWebhook.TimeoutSeconds)."""


@dataclass(frozen=True, slots=True)
class Registration:
    """Who may change a write: a webhook of a MutatingWebhookConfiguration, or a bound policy.

    name        as findings name it; for a webhook `CONFIGURATION/NAME`
    match       the writes that it is for
    conditions  expressions of its matchConditions
    events      when it was created, and when what it does was changed, in seconds since the epoch
    phase       of a genguard's webhook, see `own_phase`; "" of others
    bindings    where a policy is in force; () of a webhook
    text        all that the mutations of a policy are made of
    """

    name: str
    match: Match
    conditions: tuple[str, ...]
    events: Sequence[tuple[float, str]] = ()
    phase: str = ""
    reinvoked: bool = False
    failure_policy: str = "Fail"
    timeout_seconds: int = _DEFAULT_TIMEOUT
    bindings: Sequence[Match] = ()
    text: str = ""

    @property
    def configuration(self) -> str:
        """The name of the configuration of a webhook."""
        return self.name.partition("/")[0]

    @property
    def webhook(self) -> str:
        """The own name of a webhook."""
        return self.name.partition("/")[2]

    def covers(self, write: Matched) -> Truth:
        """Whether it may act on such a write, its matchConditions aside; one binding is enough."""
        bound = (
            some(binding.covers(write) for binding in self.bindings)
            if self.bindings
            else Truth.TRUE
        )
        return every((self.match.covers(write), bound))

    @property
    def reads_object(self) -> bool:
        """Whether any of its conditions may depend on the new object."""
        return any(_READS_OBJECT.search(condition) for condition in self.conditions)

    @property
    def doubtful(self) -> int:
        """How much of it a review does not show; a rule for everything is meant for nothing."""
        selector = self.match.namespaces or {}
        keys = {*(selector.get("matchLabels") or {})}
        keys |= {expression.get("key", "") for expression in selector.get("matchExpressions") or ()}
        wide = all(EVERYTHING in "".join(rule.get("resources") or ()) for rule in self.match.rules)
        return 2 * bool(self.conditions or keys - {NAME_LABEL}) + wide

    def sets(self, pointer: str) -> bool:
        """Whether its mutations name the field at a JSON Pointer, and the top of its path."""
        names = [token for token in from_pointer(pointer) if not token.isdigit()]
        return bool(names) and all(_is_set(name, self.text) for name in {names[0], names[-1]})

    def age(self, began: float) -> tuple[float, str] | None:
        """Return how many seconds before a loop it was last "created" or "changed".

        None where that was too long ago, or is not known.
        """
        # A creation is a change as well, and counts where both have the same time.
        last = max((event for event in self.events if event[0] <= began), default=None)
        return (
            None if last is None or began - last[0] > YOUNG_SECONDS else (began - last[0], last[1])
        )


def _events(document: Mapping[str, Any], part: str) -> Iterator[tuple[float, str]]:
    """Yield when a registration was created, and when `part` was changed, which says what it does.

    A new certificate in `caBundle`, a label or an annotation is no change.
    """
    metadata = mapping(document.get("metadata"))
    managers = metadata.get("managedFields")
    entries = map(mapping, managers if isinstance(managers, list) else ())
    changes = (
        entry for entry in entries if _changes(mapping(entry.get("fieldsV1")).get(f"f:{part}"))
    )
    found = [(change.get("time"), "changed") for change in changes]
    found.append((metadata.get("creationTimestamp"), "created"))
    for text, what in found:
        if isinstance(text, str) and (at := parse_time(text)):
            yield at.timestamp(), what


def _changes(owned: Any) -> bool:
    """Whether a manager who owns this changes what a registration does, or only renews it."""
    if not isinstance(owned, Mapping):
        return False
    return not owned or any(
        _changes(inner) if isinstance(inner, Mapping) and inner else key not in _NO_CHANGE
        for key, inner in owned.items()
    )


def read_configurations(documents: Iterable[Any]) -> tuple[Registration, ...]:
    """The webhooks of every MutatingWebhookConfiguration, in the order in which they are called."""
    found = [
        _read_webhook(configuration, hook)
        for configuration in map(mapping, documents)
        if configuration.get("kind") == "MutatingWebhookConfiguration"
        if TRACE_LABEL not in (mapping(configuration.get("metadata")).get("labels") or {})
        for hook in configuration.get("webhooks") or ()
    ]
    return tuple(sorted(found, key=lambda registration: registration.configuration.encode()))


def _read_webhook(configuration: Mapping[str, Any], hook: Mapping[str, Any]) -> Registration:
    return Registration(
        f"{mapping(configuration.get('metadata')).get('name', '')}/{hook.get('name', '')}",
        Match.read(hook, hook.get("rules") or ()),
        _expressions(hook.get("matchConditions")),
        tuple(_events(configuration, "webhooks")),
        own_phase(configuration, hook),
        hook.get("reinvocationPolicy") == "IfNeeded",
        hook.get("failurePolicy") or "Fail",
        hook.get("timeoutSeconds") or _DEFAULT_TIMEOUT,
    )


POLICY: Final = "MutatingAdmissionPolicy"
BINDING: Final = "MutatingAdmissionPolicyBinding"
_FORMS: Final = ("applyConfiguration", "jsonPatch")


def read_policies(documents: Iterable[Any]) -> tuple[Registration, ...]:
    """The policies that are bound, by name; other documents are passed over."""
    policies: dict[str, Mapping[str, Any]] = {}
    bindings: dict[str, list[Mapping[str, Any]]] = {}
    for document in map(mapping, documents):
        if document.get("kind") == POLICY:
            policies[mapping(document.get("metadata")).get("name", "")] = document
        elif document.get("kind") == BINDING:
            policy = mapping(document.get("spec")).get("policyName", "")
            bindings.setdefault(policy, []).append(document)
    bound = sorted(policies.keys() & bindings.keys())
    return tuple(_read_policy(name, policies[name], bindings[name]) for name in bound)


def _expressions(parts: Iterable[Mapping[str, Any]] | None) -> tuple[str, ...]:
    """Return the CEL expressions of conditions, variables or mutations."""
    return tuple(part.get("expression", "") for part in parts or ())


def _read_policy(
    name: str, policy: Mapping[str, Any], bindings: Sequence[Mapping[str, Any]]
) -> Registration:
    spec = mapping(policy.get("spec"))
    parts = [*(spec.get("variables") or ())]
    parts += [
        mutation.get(form) or {} for mutation in spec.get("mutations") or () for form in _FORMS
    ]
    return Registration(
        name,
        Match.read(spec.get("matchConstraints")),
        _expressions(spec.get("matchConditions")),
        # It acts once it is bound; one more binding changes it.
        tuple(event for document in (policy, *bindings) for event in _events(document, "spec")),
        bindings=tuple(
            # Without a paramKind the reference is ignored, without a reference params is null.
            Match.read(
                bound.get("matchResources"),
                has_params=bool(spec.get("paramKind")) and bool(bound.get("paramRef")),
            )
            for bound in (mapping(binding.get("spec")) for binding in bindings)
        ),
        text="\n".join(_expressions(parts)),
    )


def _is_set(name: str, text: str) -> bool:
    """As a field of an ApplyConfiguration (`replicas:`), a key, or a step of a JSON Patch path."""
    plain = re.escape(name)
    step = re.escape(name.replace("~", "~0").replace("/", "~1"))
    return bool(re.search(rf"""(?<![\w.]){plain}\s*:|(["']){plain}\1|/{step}(?=["'/])""", text))
