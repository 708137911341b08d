"""Reads the webhooks of a configuration; a field of the wrong type counts as absent.

Defaults are those of admissionregistration.k8s.io/v1 (its defaults.go in kubernetes).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from genguard.admission.matching import EVERYTHING, NAME_LABEL, Rule, Writes, matching_resource
from genguard.admission.review import own_phase
from genguard.generation.table import find_row, load_rows
from genguard.objects.fields import items, mapping, text
from genguard.objects.selectors import Truth, matches_labels
from genguard.objects.shown import json_line

MUTATING: Final = "MutatingWebhookConfiguration"
VALIDATING: Final = "ValidatingWebhookConfiguration"
INJECTED: Final = "cert-manager.io/inject-ca-from"
"""The annotation that makes cert-manager write a caBundle."""
INJECTORS: Final = (
    INJECTED,
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
    "service.beta.openshift.io/inject-cabundle",
)
"""Annotations of a configuration whose caBundle another program writes."""
FOLLOWED: Final = "genguard.io/registrations"
"""The annotation of a registration of genguard whose rules its server keeps (`follow`)."""
GENGUARD: Final = "genguard"
"""The field manager of genguard's own writes."""
DEFAULT_TIMEOUT: Final = 10
_OF_CLUSTER: Final = {(row.group, row.resource) for row in load_rows() if not row.namespaced} - {
    ("", "namespaces")
}
_BUILT_IN: Final = frozenset({EVERYTHING, *(row.group for row in load_rows())})


class Target(NamedTuple):
    """Requests that a rule may match; `scope` as in rules: Namespaced or Cluster."""

    writes: Writes
    scope: str = "Namespaced"


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook; `index` is its position in its configuration, of which it has the metadata."""

    kind: str
    metadata: Mapping[str, Any]
    index: int
    body: Mapping[str, Any]

    @property
    def configuration(self) -> str:
        """The name of its configuration."""
        return text(self.metadata.get("name"))

    @property
    def annotations(self) -> Mapping[str, Any]:
        """The annotations of its configuration."""
        return mapping(self.metadata.get("annotations"))

    @property
    def name(self) -> str:
        """The name in findings: `configuration/webhook`."""
        return f"{self.configuration}/{text(self.body.get('name'))}"

    @property
    def mutates(self) -> bool:
        """Whether it belongs to a MutatingWebhookConfiguration."""
        return self.kind == MUTATING

    @property
    def order(self) -> tuple[bytes, int]:
        """The sort key of the calls: bytes of the configuration's name, then the index."""
        return self.configuration.encode(), self.index

    @property
    def rules(self) -> Iterator[Rule]:
        """The entries of `rules`, as far as they are read here."""
        for rule in map(mapping, items(self.body.get("rules"))):
            listed = {key: texts(rule.get(key)) for key in ("apiGroups", "resources", "operations")}
            yield {**listed, "scope": text(rule.get("scope")) or EVERYTHING}

    @property
    def fails(self) -> bool:
        """Whether failurePolicy is Fail, the default."""
        return (text(self.body.get("failurePolicy")) or "Fail") == "Fail"

    @property
    def timeout(self) -> int:
        """The timeout of a call, in seconds; 10 by default."""
        given = self.body.get("timeoutSeconds")
        return given if type(given) is int else DEFAULT_TIMEOUT

    @property
    def reinvoked(self) -> bool:
        """Whether reinvocationPolicy is IfNeeded; the default is Never."""
        return text(self.body.get("reinvocationPolicy")) == "IfNeeded"

    @property
    def matches_built_in(self) -> bool:
        """Whether its rules name an API group of Kubernetes itself."""
        return any(not _BUILT_IN.isdisjoint(rule["apiGroups"]) for rule in self.rules)

    @property
    def conditional(self) -> bool:
        """Whether it has matchConditions, which may exclude any request; lint ignores them."""
        return bool(items(self.body.get("matchConditions")))

    @property
    def selects_objects(self) -> bool:
        """Whether it has an objectSelector that leaves something out."""
        return any(mapping(self.body.get("objectSelector")).values())

    @property
    def namespace_keys(self) -> frozenset[str]:
        """The keys of the expressions of its namespaceSelector."""
        found = items(mapping(self.body.get("namespaceSelector")).get("matchExpressions"))
        return frozenset(text(mapping(expression).get("key")) for expression in found)

    @property
    def leaves_out_enforcer(self) -> bool:
        """Whether it tells the Admissions Enforcer of AKS to leave it alone (Azure/AKS#4002)."""
        labels = {**mapping(self.metadata.get("labels")), **self.annotations}
        return labels.get("admissions.enforcer/disabled") == "true"

    @property
    def requires_object_label(self) -> bool:
        """Whether it is called for objects with a label alone, which few have."""
        return _requires(self.body.get("objectSelector"))

    @property
    def requires_namespace_label(self) -> bool:
        """Whether it is called in namespaces with a label alone."""
        return _requires(self.body.get("namespaceSelector"))

    @property
    def is_of_cluster(self) -> bool:
        """Whether its rules match objects without a namespace alone, which no selector excludes.

        The labels of a Namespace are those that a namespaceSelector reads.
        """
        targets = [*targets_of(self)]
        return bool(targets) and all(
            target.scope == "Cluster" or target.writes[:2] in _OF_CLUSTER for target in targets
        )

    @property
    def may_match(self) -> bool:
        """Whether a rule may match anything: its scope is that of a resource that it names."""
        return not all(
            never_matches(group, name, rule["scope"])
            for rule in self.rules
            for group, name in product(rule["apiGroups"], rule["resources"])
        )

    @property
    def path(self) -> str:
        """The HTTP path that the API server calls."""
        client = mapping(self.body.get("clientConfig"))
        service = mapping(client.get("service"))
        try:
            return text(service.get("path")) or urlsplit(text(client.get("url"))).path
        except ValueError:
            return ""

    @property
    def own_phase(self) -> str:
        """The phase of genguard that it registers, such as "/mutate"; "" for other webhooks."""
        metadata = {"name": self.configuration, "labels": mapping(self.metadata.get("labels"))}
        return own_phase({"metadata": metadata}, self.body)

    @property
    def rules_writer(self) -> str:
        """The field manager that wrote its rules last, "" where managedFields do not say it."""
        item = f"k:{json_line({'name': text(self.body.get('name'))})}"
        found: list[tuple[str, str]] = []
        for entry in map(mapping, items(self.metadata.get("managedFields"))):
            webhooks = mapping(mapping(entry.get("fieldsV1")).get("f:webhooks"))
            if "f:rules" in mapping(webhooks.get(item)):
                found.append((text(entry.get("time")), text(entry.get("manager"))))
        return max(found, default=("", ""))[1]

    def selects_namespace(self, namespace: str, more: Mapping[str, str] = {}) -> bool:
        """Whether its namespaceSelector includes a namespace; `more` labels than the default."""
        labels = {NAME_LABEL: namespace, **more}
        selector = mapping(self.body.get("namespaceSelector"))
        try:
            return matches_labels(selector, labels, complete=True) is not Truth.FALSE
        except (AttributeError, TypeError):
            return True

    def covering(self, *targets: Target) -> list[str]:
        """Return the field path of each rule that matches any of these requests, each once."""
        found = {
            self.field(f"rules[{position}].resources[{index}]"): None
            for target in targets
            for position, rule in enumerate(self.rules)
            if {rule["scope"], target.scope} != {"Cluster", "Namespaced"}
            and (index := matching_resource(rule, target.writes)) is not None
        }
        return list(found)

    def field(self, path: str) -> str:
        """Return the path of one of its fields inside the configuration."""
        return f"webhooks[{self.index}].{path}"


def read_hooks(documents: Iterable[Any]) -> Iterator[Hook]:
    """Yield the webhooks of every webhook configuration among decoded documents."""
    for document in documents:
        found = mapping(document)
        if found.get("kind") in (MUTATING, VALIDATING):
            metadata = mapping(found.get("metadata"))
            for index, body in enumerate(map(mapping, items(found.get("webhooks")))):
                yield Hook(found["kind"], metadata, index, body)


def texts(value: Any) -> tuple[str, ...]:
    """Return the strings of a list; other items are ignored."""
    return tuple(item for item in items(value) if isinstance(item, str))


def _requires(selector: Any) -> bool:
    """Whether a selector wants a label, and not only that one is absent or has other values."""
    expressions = map(mapping, items(mapping(selector).get("matchExpressions")))
    wants = any(expression.get("operator") in ("In", "Exists") for expression in expressions)
    return wants or bool(mapping(selector).get("matchLabels"))


def never_matches(group: str, resource: str, scope: str) -> bool:
    """Whether a rule with this scope matches no such object: of a kind of Kubernetes itself."""
    row = find_row(group, resource.partition("/")[0])
    return row is not None and scope == ("Cluster" if row.namespaced else "Namespaced")


def targets_of(hook: Hook) -> Iterator[Target]:
    """Yield a target for each resource and operation in the rules; `*` stays `*`."""
    for rule in hook.rules:
        for parts in product(rule["apiGroups"], rule["resources"], rule["operations"]):
            yield Target(Writes(*parts), "Cluster" if rule["scope"] == "Cluster" else "Namespaced")


def overlap(hook: Hook, other: Hook) -> bool:
    """Whether some request matches the rules of both webhooks."""
    return bool(hook.covering(*targets_of(other)) or other.covering(*targets_of(hook)))
