"""Objects named on a command line or in a manifest, and the API resources that serve them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from genguard.generation.table import load_rows
from genguard.objects.fields import get, text
from genguard.objects.served import Served, UnknownTargetError, find, split_target

NAMESPACE_KINDS: Final = (
    *("deployments.apps", "statefulsets.apps", "daemonsets.apps", "replicasets.apps"),
    *("replicationcontrollers", "cronjobs.batch", "jobs.batch", "pods", "services"),
    *("ingresses.networking.k8s.io", "persistentvolumeclaims"),
    *("horizontalpodautoscalers.autoscaling", "poddisruptionbudgets.policy"),
)
"""The kinds that are shown for a namespace when the user names none."""


_GROUPS: Final = frozenset(row.group for row in load_rows()) - {""}


class RequestedTarget(NamedTuple):
    """What the user named: one object, or with `name` "" every object of a kind."""

    kind: str
    """As typed: a kind, plural or short name, with or without version and group."""
    name: str
    namespace: str = ""
    """From a manifest; "" means the namespace of the command line."""

    @property
    def may_come(self) -> bool:
        """Whether its kind may be defined later: it is named with a group that is custom."""
        group = self.kind.partition(".")[2].rstrip(".")
        return "." in group and _GROUPS.isdisjoint((group, group.partition(".")[2]))


class WatchTarget(NamedTuple):
    """What to watch in the cluster: one object, or with `name` "" all that `selector` matches.

    `namespace` "" means every namespace, or none for a cluster-scoped kind.
    """

    served: Served
    namespace: str
    name: str = ""
    selector: str = ""

    @property
    def list_parameters(self) -> dict[str, str]:
        """The query parameters that limit a list or watch to this target."""
        parameters = {"labelSelector": self.selector} if self.selector else {}
        return parameters | ({"fieldSelector": f"metadata.name={self.name}"} if self.name else {})

    def __str__(self) -> str:
        """`deployments.apps/web in namespace shop`."""
        what = f"{self.served}/{self.name}" if self.name else str(self.served)
        return f"{what} in namespace {self.namespace}" if self.namespace else what


def parse_targets(words: Sequence[str]) -> list[RequestedTarget]:
    """Read the arguments of `genguard status` and `wait`; raises UnknownTargetError.

    `deploy/web sts/db`, `deploy web api` or `deploy,sts`; no arguments mean NAMESPACE_KINDS.
    """
    if not words:
        return [RequestedTarget(kind, "") for kind in NAMESPACE_KINDS]
    if any("/" in word for word in words):
        return [RequestedTarget(*split_target(word)) for word in words]
    kinds, *names = words
    return [
        RequestedTarget(kind, name) for kind in kinds.split(",") if kind for name in names or [""]
    ]


def target_of_manifest(document: Mapping[str, Any]) -> RequestedTarget | None:
    """Return the object that a manifest describes; None without apiVersion, kind or name."""
    version, kind = get(document, "apiVersion"), get(document, "kind")
    name, namespace = get(document, "metadata", "name"), get(document, "metadata", "namespace")
    if not (isinstance(version, str) and isinstance(kind, str) and isinstance(name, str)):
        return None
    group, _, version = version.rpartition("/")
    return RequestedTarget(f"{kind}.{version}.{group}", name, text(namespace))


def resolve_targets(
    requested: Iterable[RequestedTarget],
    served_kinds: Sequence[Served],
    namespace: str,
    selector: str = "",
) -> list[WatchTarget]:
    """Find the API resource that serves each target; raises UnknownTargetError."""
    targets = []
    for target in requested:
        served = find(target.kind, served_kinds)
        if not served.watchable:
            raise UnknownTargetError(f"{served} cannot be watched, so it has no status")
        target_namespace = (target.namespace or namespace) if served.namespaced else ""
        targets.append(WatchTarget(served, target_namespace, target.name, selector))
    return targets
