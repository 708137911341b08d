"""Waits until what was applied is there: pods that are ready, a Secret that somebody else fills."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from certs import PairSnapshot
from webhook.cluster.applied import find
from webhook.cluster.rest import Rest
from webhook.cluster.until import until
from webhook.manifest.kustomize import Document
from webhook.status.views.rollout import Rollout, rollout


async def until_rolled_out(rest: Rest, deployment: Document, seconds: float) -> None:
    """As `kubectl rollout status`. Raises NotInTimeError, or RefusedError."""

    async def look() -> str:
        found = await find(rest, deployment) or {}
        if rollout(found) is Rollout.COMPLETE:
            return ""
        status, spec = found.get("status") or {}, found.get("spec") or {}
        return f"{status.get('availableReplicas', 0)} of {spec.get('replicas', 0)} pods are ready"

    kubectl = f"kubectl -n {deployment['metadata']['namespace']}"
    await until(look, seconds, next_step=f"{kubectl} describe pods says why")


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
