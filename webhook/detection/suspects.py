"""Which other webhooks can have acted between genguard's two mutating registrations.

Rules, scope, selectors and operations are matched as the API server does it (apiserver
pkg/admission/plugin/webhook/predicates); what cannot be told from a review (labels of a namespace,
matchConditions) leaves a webhook possible. genguard's own are never suspects.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from webhook.detection.evidence import Evidence, Place
from webhook.detection.finding import Confidence
from webhook.detection.selectors import Truth, matches_labels
from webhook.detection.write import Matched

_OWN: Final = "genguard"
TRACE_LABEL: Final = "genguard.io/trace"
"""On the observers that `genguard trace` registers for a while."""
_PHASES: Final = frozenset({"/intent", "/mutate", "/outcome"})
_EVERYTHING: Final = "*"
_NAME_LABEL: Final = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Registered:
    """One webhook of a MutatingWebhookConfiguration."""

    configuration: str
    webhook: str
    rules: tuple[Mapping[str, Any], ...]
    namespace_selector: Mapping[str, Any] | None
    object_selector: Mapping[str, Any] | None
    any_version: bool
    conditional: bool
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
        wide = all(_EVERYTHING in "".join(rule.get("resources") or ()) for rule in self.rules)
        return 2 * (self.conditional or bool(keys - {_NAME_LABEL})) + wide


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
        found += [_read(name, hook) for hook in document.get("webhooks") or ()]
    return tuple(sorted(found, key=lambda one: one.configuration.encode()))


def _read(configuration: str, hook: Mapping[str, Any]) -> Registered:
    return Registered(
        configuration=configuration,
        webhook=hook.get("name", ""),
        rules=tuple(hook.get("rules") or ()),
        namespace_selector=hook.get("namespaceSelector"),
        object_selector=hook.get("objectSelector"),
        any_version=hook.get("matchPolicy", "Equivalent") == "Equivalent",
        conditional=bool(hook.get("matchConditions")),
        phase=_phase(configuration, hook),
        reinvoked=hook.get("reinvocationPolicy") == "IfNeeded",
    )


def _phase(configuration: str, hook: Mapping[str, Any]) -> str:
    """`/intent`, `/mutate` or `/outcome` for a webhook of genguard's own, else ""."""
    if _OWN not in configuration and _OWN not in hook.get("name", ""):
        return ""
    client = hook.get("clientConfig") or {}
    path = (client.get("service") or {}).get("path") or urlsplit(client.get("url") or "").path
    return path if path in _PHASES else ""


class Suspects:
    """The registrations of now; counts where each could have acted and nothing was done."""

    def __init__(self, registered: Iterable[Registered] = ()) -> None:
        self._others: tuple[Registered, ...] = tuple(_between(tuple(registered)))
        self._evidence: Final = Evidence()

    def learn(self, registered: Iterable[Registered]) -> None:
        """These are the registrations from now on."""
        self._others = tuple(_between(tuple(registered)))

    def candidates(self, write: Matched) -> tuple[str, ...]:
        """The webhooks that are called for such a write, in the order of calls."""
        return tuple(one.name for one in self._others if matches(one, write))

    def acquit(self, write: Matched) -> None:
        """A write that nobody changed: whoever was called for it left it alone."""
        where = Place(write.group, write.resource, write.subresource)
        self._evidence.acquit(self.candidates(write), where)

    def accused(
        self, names: Iterable[str], shared: Iterable[Iterable[str]], where: Place
    ) -> Iterator[tuple[str, Confidence]]:
        """The candidates of a finding as `ranked`, narrowed by what is known of each.

        `shared`: the candidates of every finding of the kind, this one's among them.
        """
        order = list(self.ranked(names, shared))
        if len(order) < 2 or not self._others:  # noqa: PLR2004 - nothing to choose between
            yield from order
            return
        doubts = {one.name: one.doubtful for one in self._others}
        sharing = [frozenset(finding) for finding in shared]
        weighed = self._evidence.weigh([name for name, _ in order], sharing, where, doubts)
        likeliest, second, *_ = sorted(weighed.values())
        stands_out = likeliest.stands_out_from(second)
        for name in sorted(weighed, key=lambda one: (weighed[one], one)):
            sure = stands_out and weighed[name] is likeliest
            yield name, Confidence.LIKELY if sure else Confidence.POSSIBLE

    def ranked(
        self, names: Iterable[str], shared: Iterable[Iterable[str]]
    ) -> Iterator[tuple[str, Confidence]]:
        """By nothing but who was there: one alone is certain."""
        del shared
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
    """Whether the API server calls the webhook for such a write, as far as a review shows."""
    if write.reinvoked and not one.reinvoked:
        return False
    if not any(_rule_matches(rule, write, any_version=one.any_version) for rule in one.rules):
        return False
    # Only one label of a namespace is known: the API server sets it to the name.
    known = {_NAME_LABEL: write.namespace}
    if write.namespace and (
        matches_labels(one.namespace_selector, known, complete=False) is Truth.FALSE
    ):
        return False
    return any(
        matches_labels(one.object_selector, labels, complete=True) is Truth.TRUE
        for labels in (write.labels, write.old_labels)
    )


def _rule_matches(rule: Mapping[str, Any], write: Matched, *, any_version: bool) -> bool:
    return (
        _has(rule.get("apiGroups"), write.group)
        and (any_version or _has(rule.get("apiVersions"), write.version))
        and _has(rule.get("operations"), write.operation)
        and _scope_matches(rule.get("scope") or _EVERYTHING, write)
        and any(_resource_matches(name, write) for name in rule.get("resources") or ())
    )


def _has(allowed: Any, value: str) -> bool:
    return _EVERYTHING in (allowed or ()) or value in (allowed or ())


def _scope_matches(scope: str, write: Matched) -> bool:
    if scope == "Namespaced":
        return bool(write.namespace)
    if scope == "Cluster":
        return not write.namespace
    return True


def _resource_matches(name: str, write: Matched) -> bool:
    """`pods` matches no subresource, `*/status` every status, `pods/*` all of pods and itself."""
    resource, slash, subresource = name.partition("/")
    if resource not in (_EVERYTHING, write.resource):
        return False
    return subresource == _EVERYTHING or (subresource if slash else "") == write.subresource
