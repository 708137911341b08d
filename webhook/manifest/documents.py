"""Where the API server keeps a document, by the table of kinds."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from webhook.generation.table import load_rows
from webhook.objects.served import collection_path

AUDIT_ONLY: Final = "--audit-only"
HEAL: Final = "--heal"
ALERTMANAGER: Final = "--alertmanager="
"""The flag that a URL follows; it may come several times."""

_OTHERS: Final = {
    ("cert-manager.io", "Issuer"): ("issuers", True),
    ("cert-manager.io", "Certificate"): ("certificates", True),
}
"""Custom resources that are in manifests/."""


def path_of(document: Mapping[str, Any]) -> str:
    """`/apis/apps/v1/namespaces/shop/deployments/web`; raises KeyError for a kind of nobody's."""
    return f"{collection_of(document)}/{document['metadata']['name']}"


def collection_of(document: Mapping[str, Any]) -> str:
    """The same without the name."""
    group, _, version = document["apiVersion"].rpartition("/")
    resource, namespaced = _resources()[group, document["kind"]]
    namespace = document["metadata"]["namespace"] if namespaced else ""
    return collection_path(group, version, resource, namespace)


def title_of(document: Mapping[str, Any]) -> str:
    """`deployment/genguard -n genguard-system`, as kubectl takes it."""
    metadata = document["metadata"]
    where = f" -n {metadata['namespace']}" if "namespace" in metadata else ""
    return f"{document['kind'].lower()}/{metadata['name']}{where}"


@cache
def _resources() -> Mapping[tuple[str, str], tuple[str, bool]]:
    rows = {(row.group, row.kind): (row.resource, row.namespaced) for row in load_rows()}
    return {**_OTHERS, **rows}


def arguments_of(workload: Mapping[str, Any]) -> tuple[str, ...]:
    """The arguments of the pods' containers."""
    return tuple(
        str(argument)
        for container in containers_of(workload)
        for argument in container.get("args") or ()
    )


def alertmanagers_of(workload: Mapping[str, Any]) -> tuple[str, ...]:
    """URLs that the pods send findings to."""
    flags = (one for one in arguments_of(workload) if one.startswith(ALERTMANAGER))
    return tuple(one.removeprefix(ALERTMANAGER) for one in flags)


def containers_of(workload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The containers of the template of a Deployment or StatefulSet."""
    spec = ((workload.get("spec") or {}).get("template") or {}).get("spec") or {}
    return list(spec.get("containers") or ())


def mode_of(deployment: Mapping[str, Any]) -> str:
    """In which mode its pods run: the word by which they answer probes."""
    return "audit-only" if AUDIT_ONLY in arguments_of(deployment) else "enforcing"
