"""What is asked for on the command line: KIND/NAME, KIND NAME, KIND alone, or a whole namespace."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from webhook.objects.fields import get
from webhook.objects.served import split_target

EVERYTHING: Final = (
    *("deployments.apps", "statefulsets.apps", "daemonsets.apps", "replicasets.apps"),
    *("replicationcontrollers", "cronjobs.batch", "jobs.batch", "pods", "services"),
    *("ingresses.networking.k8s.io", "persistentvolumeclaims"),
    *("horizontalpodautoscalers.autoscaling", "poddisruptionbudgets.policy"),
)
"""The kinds of a namespace that say how it does, where none is named."""


class Asked(NamedTuple):
    """One object, or with `name` "" every object of a kind."""

    kind: str
    name: str
    namespace: str = ""
    """Its own, where it says one."""


def parse_asked(words: Sequence[str]) -> list[Asked]:
    """What the arguments name; raises UnknownTargetError.

    `deploy/web sts/db`, `deploy web api`, `deploy,sts`, or nothing: EVERYTHING.
    """
    if not words:
        return [Asked(kind, "") for kind in EVERYTHING]
    if any("/" in word for word in words):
        return [Asked(*split_target(word)) for word in words]
    kinds, *names = words
    return [Asked(kind, name) for kind in kinds.split(",") if kind for name in names or [""]]


def asked_by(document: Mapping[str, Any]) -> Asked | None:
    """The object of a manifest; None where it does not say which."""
    version, kind = get(document, "apiVersion"), get(document, "kind")
    name, namespace = get(document, "metadata", "name"), get(document, "metadata", "namespace")
    if not (isinstance(version, str) and isinstance(kind, str) and isinstance(name, str)):
        return None
    group, _, version = version.rpartition("/")
    within = namespace if isinstance(namespace, str) else ""
    return Asked(f"{kind}.{version}.{group}", name, within)
