"""What differs from one Kubernetes to the next: rows of a table in docs/concepts.md.

Every server is asked as it is without a flag that turns something on, in two namespaces: in one of
them genguard looks after status.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tests.controlplane.client import STRATEGIC_MERGE_PATCH, Client
from tests.controlplane.discovery import ServedResource
from tests.differential.samples import Filler, load_samples, notation

COUNTED: Final = "counted"
AS_SENT: Final = "as sent"
STORED: Final = "stored"
NOT_STORED: Final = "not stored"
KEPT: Final = "kept"
LOST: Final = "lost"
NOT_SERVED: Final = "not served"
ALONE: Final = "default"
GUARDED: Final = "guarded"
_OWN_GENERATION: Final = 7
_OBSERVED: Final = {"observedGeneration": 3}


class Server:
    """An API server and what it serves, in the order of its preference."""

    def __init__(self, client: Client, served: Sequence[ServedResource]) -> None:
        self.client: Final = client
        self.served: Final = served
        self._numbers: Final = itertools.count()

    def versions(self, resource: str) -> list[str]:
        """In which a resource is served; `resource` as kubectl writes it."""
        return [one.version for one in self.served if notation(one) == resource]

    def create(
        self, resource: str, namespace: str = ALONE, **params: str
    ) -> tuple[str, dict[str, Any]]:
        """The path and the object of the resource's sample, with a generation of its own."""
        found = next(one for one in self.served if notation(one) == resource)
        sample = load_samples()[resource]
        filler = Filler(_OWN_GENERATION, namespace)
        document = filler.fill(sample.object(found.version))
        name = f"fact-{next(self._numbers)}"
        metadata = {"generation": _OWN_GENERATION, **document.get("metadata", {}), "name": name}
        document |= {"apiVersion": found.api_version, "kind": found.kind, "metadata": metadata}
        made = self.client.post(found.path(namespace), document, params=params).body
        return found.path(namespace, name), made


def _kinds(server: Server) -> str:
    return str(len({notation(one) for one in server.served}))


def _generation(resource: str) -> Callable[[Server], str]:
    def ask(server: Server) -> str:
        if not server.versions(resource):
            return NOT_SERVED
        _, made = server.create(resource, dryRun="All")
        return {1: COUNTED, _OWN_GENERATION: AS_SENT}[made["metadata"]["generation"]]

    return ask


def _cleared(resource: str) -> Callable[[Server], str]:
    def ask(server: Server) -> str:
        alone, guarded = (_after_clearing(server, resource, one) for one in (ALONE, GUARDED))
        return alone if alone == guarded else f"{alone} → {guarded}"

    return ask


def _after_clearing(server: Server, resource: str, namespace: str) -> str:
    status = f"{server.create(resource, namespace)[0]}/status"
    written = server.client.patch(status, {"status": _OBSERVED}).body
    if "observedGeneration" not in written.get("status", {}):
        return NOT_STORED
    cleared = {"status": {"observedGeneration": None}}
    left = server.client.patch(status, cleared).body["status"]
    return KEPT if left.get("observedGeneration") else LOST


def _resize(server: Server) -> str:
    (pods,) = (one for one in server.served if notation(one) == "pods")
    if "resize" not in pods.subresources:
        return NOT_SERVED
    path, pod = server.create("pods")
    name = pod["spec"]["containers"][0]["name"]
    more = [{"name": name, "resources": {"requests": {"cpu": "1m"}}}]
    resized = server.client.patch(
        f"{path}/resize", {"spec": {"containers": more}}, content_type=STRATEGIC_MERGE_PATCH
    ).body
    before, after = (one["metadata"].get("generation", 0) for one in (pod, resized))
    return COUNTED if after == before + 1 else "not counted"


def _terminating(server: Server) -> str:
    path = server.create("deployments.apps")[0]
    status = {"replicas": 1, "terminatingReplicas": 2}
    written = server.client.patch(f"{path}/status", {"status": status}).body["status"]
    return STORED if "terminatingReplicas" in written else NOT_STORED


def _policies(server: Server) -> str:
    found = server.versions("mutatingadmissionpolicies.admissionregistration.k8s.io")
    return ", ".join(found) or NOT_SERVED


FACTS: Final[Mapping[str, Callable[[Server], str]]] = {
    "kinds of objects that are stored": _kinds,
    "Pod: `metadata.generation`": _generation("pods"),
    "Pod: an `observedGeneration` that a write clears": _cleared("pods"),
    "Pod: `/resize`": _resize,
    "Deployment: an `observedGeneration` that a write clears": _cleared("deployments.apps"),
    "Deployment: `status.terminatingReplicas`": _terminating,
    "HorizontalPodAutoscaler: `metadata.generation`": _generation(
        "horizontalpodautoscalers.autoscaling"
    ),
    "ResourceSlice: `metadata.generation`": _generation("resourceslices.resource.k8s.io"),
    "MutatingAdmissionPolicy": _policies,
}
