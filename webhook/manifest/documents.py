"""Read a Kubernetes document: its API path, its title, and the flags of a Deployment.

A live Deployment may hold anything. A part that does not have the expected form counts as absent.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from genguard.generation.table import load_rows
from genguard.objects.served import collection_path

Document = dict[str, Any]
"""A Kubernetes object, decoded."""

NAMESPACE: Final = "genguard-system"
"""The namespace in manifests/, and the usual one of an installation."""
AUDIT_ONLY: Final = "--audit-only"
HEAL: Final = "--heal"
FOLLOW: Final = "--registrations=follow"
STANDBY: Final = "--standby"
KUBE_SYSTEM: Final = "kube-system"
WATCH_FIGHTS: Final = "--watch-fights="
CLUSTER_NAME: Final = "--cluster-name="
ALERTMANAGER: Final = "--alertmanager="
"""The flag before a URL; it may be given several times."""

_OTHERS: Final = {
    ("cert-manager.io", "Issuer"): ("issuers", True),
    ("cert-manager.io", "Certificate"): ("certificates", True),
}
"""The custom resources in manifests/: resource, and whether it is namespaced."""


def path_of(document: Mapping[str, Any]) -> str:
    """Return `/apis/apps/v1/namespaces/shop/deployments/web`; or raise KeyError."""
    return f"{collection_of(document)}/{document['metadata']['name']}"


def collection_of(document: Mapping[str, Any]) -> str:
    """Return the API path without the name."""
    group, _, version = document["apiVersion"].rpartition("/")
    resource, namespaced = _resources()[group, document["kind"]]
    namespace = document["metadata"]["namespace"] if namespaced else ""
    return collection_path(group, version, resource, namespace)


def title_of(document: Mapping[str, Any]) -> str:
    """Return `deployment/genguard -n genguard-system`, as kubectl takes it."""
    metadata = document["metadata"]
    where = f" -n {metadata['namespace']}" if "namespace" in metadata else ""
    return f"{document['kind'].lower()}/{metadata['name']}{where}"


@cache
def _resources() -> Mapping[tuple[str, str], tuple[str, bool]]:
    rows = {(row.group, row.kind): (row.resource, row.namespaced) for row in load_rows()}
    return {**_OTHERS, **rows}


def arguments_of(workload: Mapping[str, Any]) -> tuple[str, ...]:
    """The arguments of all containers of a workload's pods."""
    return tuple(
        str(argument)
        for container in containers_of(workload)
        for argument in container.get("args") or ()
    )


def containers_of(workload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The containers of the template of a Deployment or StatefulSet."""
    spec = ((workload.get("spec") or {}).get("template") or {}).get("spec") or {}
    return list(spec.get("containers") or ())


def mode_of(deployment: Mapping[str, Any]) -> str:
    """The mode in which its pods run, as they also answer probes."""
    return "audit-only" if AUDIT_ONLY in arguments_of(deployment) else "enforcing"
