"""One webhook of a configuration, read with patience: a field of the wrong type is not there.

Defaults are those of admissionregistration.k8s.io/v1 (its defaults.go in kubernetes).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from webhook.objects.own_webhooks import own_phase
from webhook.objects.selectors import Truth, matches_labels

MUTATING: Final = "MutatingWebhookConfiguration"
VALIDATING: Final = "ValidatingWebhookConfiguration"
_EVERYTHING: Final = "*"
_DEFAULT_TIMEOUT: Final = 10


class Target(NamedTuple):
    """What a request is about, as rules see it; `*` stands for everything of the kind."""

    group: str
    resource: str
    subresource: str
    operation: str
    namespaced: bool = True


class Rule(NamedTuple):
    """One rule, and where it stands."""

    position: int
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    operations: tuple[str, ...]
    scope: str

    def covers(self, target: Target) -> int | None:
        """The index of the resource that matches such a request, if any does."""
        if not (_has(self.groups, target.group) and _has(self.operations, target.operation)):
            return None
        if self.scope == ("Cluster" if target.namespaced else "Namespaced"):
            return None
        for index, name in enumerate(self.resources):
            resource, slash, subresource = name.partition("/")
            if not _same(resource, target.resource):
                continue
            # `pods` is no subresource of pods; `pods/*` is pods and all of them.
            if subresource == _EVERYTHING or (subresource if slash else "") == target.subresource:
                return index
        return None


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook; `index` is its place in its configuration."""

    kind: str
    configuration: str
    annotations: Mapping[str, Any]
    labels: Mapping[str, Any]
    index: int
    body: Mapping[str, Any]

    @property
    def name(self) -> str:
        """As findings name it."""
        return f"{self.configuration}/{text(self.body.get('name'))}"

    @property
    def mutates(self) -> bool:
        """Of a MutatingWebhookConfiguration."""
        return self.kind == MUTATING

    @property
    def order(self) -> tuple[bytes, int]:
        """Mutating webhooks are called by the bytes of the configuration's name, then in order."""
        return self.configuration.encode(), self.index

    @property
    def rules(self) -> Iterator[Rule]:
        """Its rules."""
        for index, found in enumerate(items(self.body.get("rules"))):
            rule = mapping(found)
            yield Rule(
                index,
                texts(rule.get("apiGroups")),
                texts(rule.get("resources")),
                texts(rule.get("operations")),
                text(rule.get("scope")) or _EVERYTHING,
            )

    @property
    def fails(self) -> bool:
        """Its failurePolicy is Fail, which is the default."""
        return (text(self.body.get("failurePolicy")) or "Fail") == "Fail"

    @property
    def timeout(self) -> int:
        """Its timeoutSeconds."""
        given = self.body.get("timeoutSeconds")
        return given if type(given) is int else _DEFAULT_TIMEOUT

    @property
    def reinvoked(self) -> bool:
        """Its reinvocationPolicy is IfNeeded; Never is the default."""
        return text(self.body.get("reinvocationPolicy")) == "IfNeeded"

    @property
    def conditional(self) -> bool:
        """It has matchConditions, which are not evaluated here: they may leave anything out."""
        return bool(items(self.body.get("matchConditions")))

    @property
    def selects_objects(self) -> bool:
        """It has an objectSelector."""
        return bool(mapping(self.body.get("objectSelector")))

    @property
    def path(self) -> str:
        """The path that is called."""
        client = mapping(self.body.get("clientConfig"))
        service = mapping(client.get("service"))
        try:
            return text(service.get("path")) or urlsplit(text(client.get("url"))).path
        except ValueError:
            return ""

    @property
    def own_phase(self) -> str:
        """Which of a genguard's registrations this is, "" for a webhook of others."""
        metadata = {"name": self.configuration, "labels": self.labels}
        return own_phase({"metadata": metadata}, self.body)

    def selects_namespace(self, namespace: str) -> bool:
        """Whether objects of a namespace without labels of its own are selected."""
        labels = {"kubernetes.io/metadata.name": namespace}
        selector = mapping(self.body.get("namespaceSelector"))
        try:
            return matches_labels(selector, labels, complete=True) is not Truth.FALSE
        except (AttributeError, TypeError):
            return True

    def covering(self, target: Target) -> Iterator[str]:
        """The field of each rule that matches such a request."""
        for rule in self.rules:
            index = rule.covers(target)
            if index is not None:
                yield self.field(f"rules[{rule.position}].resources[{index}]")

    def field(self, path: str) -> str:
        """A path inside the configuration."""
        return f"webhooks[{self.index}].{path}"


def read_hooks(documents: Iterable[Any]) -> Iterator[Hook]:
    """The webhooks of every webhook configuration among the documents."""
    for document in documents:
        found = mapping(document)
        if found.get("kind") in (MUTATING, VALIDATING):
            metadata = mapping(found.get("metadata"))
            for index, body in enumerate(items(found.get("webhooks"))):
                yield Hook(
                    found["kind"],
                    text(metadata.get("name")),
                    mapping(metadata.get("annotations")),
                    mapping(metadata.get("labels")),
                    index,
                    mapping(body),
                )


def mapping(value: Any) -> Mapping[str, Any]:
    """An object, an empty one where it is none."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """A list, an empty one where it is none."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """A string, the empty one where it is none."""
    return value if isinstance(value, str) else ""


def texts(value: Any) -> tuple[str, ...]:
    """The strings of a list."""
    return tuple(one for one in items(value) if isinstance(one, str))


def _has(allowed: tuple[str, ...], value: str) -> bool:
    return any(_same(one, value) for one in allowed)


def _same(one: str, value: str) -> bool:
    return value == _EVERYTHING or one in (_EVERYTHING, value)
