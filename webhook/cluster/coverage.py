"""What findings can be about: what is there, what is sent to this server, and what it watches.

Whoever asks about anything else is told so, with the command that changes it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from genguard.admission.matching import NAME_LABEL, Writes, may_match
from genguard.explain.explanation import served_row
from genguard.generation.custom import CustomResource
from genguard.generation.table import load_rows
from genguard.linting.hook import Hook, read_hooks
from genguard.objects.served import Served, UnknownTargetError, find
from genguard.versions import NEVER_WATCHED
from webhook.manifest.documents import KUBE_SYSTEM

_AGAIN: Final = "repeat the install with its flags and"
"""No whole command: without its other flags it would change the mode or the image."""


@dataclass(slots=True)
class Coverage:
    """What a server has learnt of its cluster so far.

    custom      every version of each custom resource
    hooks       those of the phase /outcome, which is registered for all that is sent at all
    namespaces  the labels of each; empty as long as no cluster was read
    watched     kinds whose versions are examined, and whether they may be read
    changed     is called when custom resources have come or gone
    """

    custom: tuple[CustomResource, ...] = ()
    hooks: tuple[Hook, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    watched: dict[str, bool] = field(default_factory=dict)
    changed: Callable[[], object] = bool

    def learn_hooks(self, configurations: Iterable[Mapping[str, Any]]) -> None:
        """Take in all validating webhook configurations."""
        hooks = read_hooks(configurations)
        self.hooks = tuple(hook for hook in hooks if hook.own_phase == "/outcome")

    def learn_namespaces(self, found: Iterable[Mapping[str, str]]) -> None:
        """Take in the labels of all namespaces, the name among them."""
        self.namespaces = {labels[NAME_LABEL]: labels for labels in found}

    def why_nothing(self, kind: str, namespace: str) -> str:
        """Say why nothing can be found of a kind in a namespace; "" where something could be.

        "" stands for every kind, and for every namespace.
        """
        if not self.namespaces:
            return "what is watched is not known: this genguard serve has read no cluster"
        if namespace and namespace not in self.namespaces:
            return f"namespace {namespace} is not there"
        try:
            found = find(kind, self._kinds()) if kind else None
        except UnknownTargetError as error:
            return str(error)
        if found and self.watched.get(str(found)):
            return ""
        if found and not any(is_called(hook, *found.of) for hook in self.hooks):
            return f"not watched: {self._why_not_watched(str(found))}"
        return self._why_not_selected(namespace) if namespace else ""

    def _why_not_watched(self, resource: str) -> str:
        if resource in self.watched:
            return f"{resource} cannot be read: run genguard install again"
        usual = f"{resource}: {_AGAIN} --watch-kinds {resource}"
        return NEVER_WATCHED.get(resource, usual)

    def _why_not_selected(self, namespace: str) -> str:
        labels = self.namespaces[namespace]
        if any(hook.selects_namespace(namespace, labels) for hook in self.hooks):
            return ""
        why = "the registrations leave it out"
        if namespace == KUBE_SYSTEM:
            why = f"{_AGAIN} --include-kube-system"
        return f"{namespace} is not watched: {why}"

    def _kinds(self) -> Iterator[Served]:
        for row in load_rows():
            yield from (served_row(row, version) for version in row.versions)
        for kind in self.custom:  # their scope and short names are not known
            names = kind.version, kind.resource, kind.kind.lower(), kind.kind, ()
            yield Served(kind.group, *names, namespaced=True, has_status=True, watchable=True)


def is_called(hook: Hook, group: str, resource: str) -> bool:
    """Whether a webhook is called for updates of a kind, or of its status."""
    kind = group, resource
    writes = (Writes.named(*kind, subresource, "UPDATE") for subresource in ("", "status"))
    return any(may_match(hook.rules, each) for each in writes)
