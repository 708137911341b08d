"""Makes the CustomResourceDefinitions that a loop needs."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from genguard.reproduce.anonymous import is_builtin
from genguard.reproduce.recorded import Document, RecordedWrite, request_of

_SCALE: Final = "scale"

_PATHS_OF_SCALE: Final = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
}


def definitions_of(
    writes: Sequence[RecordedWrite], with_status: AbstractSet[str]
) -> Iterator[Document]:
    """Yield a CustomResourceDefinition, of any fields, for each custom resource that is written.

    with_status  those with a subresource `status`, as `widgets.example.org`
    """
    found: dict[str, tuple[Document, set[str]]] = {}
    for request in (request_of(line) for write in writes for line in write):
        resource = request["resource"]
        if not is_builtin(resource.get("group", "")):
            plural = f"{resource['resource']}.{resource['group']}"
            known, below = found.setdefault(plural, (request, set()))
            if known.get("subResource") == _SCALE:  # which is of another kind
                found[plural] = request, below
            below.add(request.get("subResource", ""))
    for plural, (request, below) in found.items():
        resource, kind = request["resource"], request["kind"]["kind"]
        if kind == "Scale":
            kind = "Scaled"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {
            "name": resource["version"],
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
        }
        version["subresources"] = {
            **({"status": {}} if "status" in below or plural in with_status else {}),
            **({_SCALE: _PATHS_OF_SCALE} if _SCALE in below else {}),
        }
        names = {"plural": resource["resource"], "kind": kind, "listKind": f"{kind}List"}
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": plural},
            "spec": {
                "group": resource["group"],
                "scope": "Namespaced" if request.get("namespace") else "Cluster",
                "names": {**names, "singular": kind.lower()},
                "versions": [version],
            },
        }
