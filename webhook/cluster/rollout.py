"""Waits until what was applied is there, and what it replaces is gone.

Pods that are ready, the end of the pods before them, a Secret that somebody else fills.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from certs import PairSnapshot
from webhook.cluster.applied import find, listed
from webhook.cluster.rest import Rest
from webhook.cluster.until import until
from webhook.manifest.documents import title_of
from webhook.manifest.kustomize import Document
from webhook.status.views.rollout import Rollout, rollout

_HASH: Final = "pod-template-hash"
"""The label by which a Deployment tells the pods of one template from those of another."""


async def until_rolled_out(rest: Rest, workload: Document, seconds: float) -> None:
    """As `kubectl rollout status`, of a Deployment or StatefulSet.

    Raises NotInTimeError, or RefusedError.
    """

    async def look() -> str:
        found = await find(rest, workload) or {}
        if rollout(found) is Rollout.COMPLETE:
            return ""
        status, spec = found.get("status") or {}, found.get("spec") or {}
        ready = f"{status.get('availableReplicas', 0)} of {spec.get('replicas', 0)} pods are ready"
        return f"{ready} of {title_of(workload)}"

    kubectl = f"kubectl -n {workload['metadata']['namespace']}"
    await until(look, seconds, next_step=f"{kubectl} describe pods says why")


async def until_replaced(rest: Rest, deployment: Document, seconds: float) -> None:
    """Only pods of the last template are left. Raises NotInTimeError, or RefusedError.

    A rollout is complete while they still terminate, and until they end they answer on the
    connections that they have.
    """

    async def look() -> str:
        names = await leaving(rest, deployment)
        return f"pods that are to end still run: {', '.join(names)}" if names else ""

    kubectl = f"kubectl -n {deployment['metadata']['namespace']}"
    await until(look, seconds, next_step=f"{kubectl} get pods shows them")


async def leaving(rest: Rest, deployment: Document) -> list[str]:
    """Names of pods that are being deleted, or that an earlier template has made.

    Raises RefusedError or UNREACHED.
    """
    metadata, selector = deployment["metadata"], deployment["spec"]["selector"]["matchLabels"]
    labels = ",".join(f"{name}={value}" for name, value in selector.items())

    async def alike(version: str, kind: str) -> list[Document]:
        like = {"apiVersion": version, "kind": kind, "metadata": metadata}
        return await listed(rest, like, labels)

    revision = _revision(await find(rest, deployment) or {})
    newest = {
        one["metadata"]["labels"].get(_HASH)
        for one in await alike("apps/v1", "ReplicaSet")
        if _revision(one) == revision
    }
    return [
        one["metadata"]["name"]
        for one in await alike("v1", "Pod")
        if "deletionTimestamp" in one["metadata"]
        or one["metadata"]["labels"].get(_HASH) not in {None, *newest}
    ]


def _revision(document: Mapping[str, Any]) -> str | None:
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    found: str | None = annotations.get("deployment.kubernetes.io/revision")
    return found


async def until_bundle(rest: Rest, secret: Mapping[str, Any], seconds: float) -> bytes:
    """The ca.crt that cert-manager puts into a Secret. Raises NotInTimeError, or RefusedError."""
    metadata = secret["metadata"]
    found: list[bytes] = []

    async def look() -> str:
        pair = read_pair(await find(rest, secret))
        if pair is None or not pair.ca_pem:
            return f"secret/{metadata['name']} has no ca.crt yet"
        found.append(pair.ca_pem)
        return ""

    kubectl = f"kubectl -n {metadata['namespace']}"
    await until(look, seconds, next_step=f"{kubectl} describe certificates says why")
    return found[0]


def read_pair(secret: Mapping[str, Any] | None) -> PairSnapshot | None:
    """The pair that a Secret holds; None where there is none."""
    data = (secret or {}).get("data") or {}
    try:
        read = {name: base64.b64decode(value, validate=True) for name, value in data.items()}
    except (binascii.Error, TypeError):
        return None
    if "tls.crt" not in read or "tls.key" not in read:
        return None
    return PairSnapshot(read["tls.crt"], read["tls.key"], read.get("ca.crt"))
