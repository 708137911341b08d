"""Waits during an installation until the cluster is as it should be.

The checks: dry runs reach every phase and mode,
pods are ready, pods of an earlier template have ended, cert-manager has filled a Secret.
"""

import asyncio
import secrets
import time
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from certs import PairSnapshot
from genguard.admission.probe import Seen, read_answers
from genguard.status.views.rollout import Rollout, rollout
from webhook.cluster.certificates import decoded
from webhook.cluster.installation import find, list_objects
from webhook.cluster.reconcile import until
from webhook.cluster.rest import RefusedError, Rest
from webhook.install.plan import probe
from webhook.manifest.documents import Document, collection_of, title_of

_REFUSED_SECONDS: Final = 10.0
"""Registrations take effect within two seconds; a refusal after this time is final."""


class Probed(NamedTuple):
    """The answer to one probe: the phases that have seen it, and the refusal, if any."""

    seen: Mapping[str, Seen]
    status: int
    refusal: str


async def send_probe(rest: Rest, namespace: str, run: str = "") -> Probed:
    """Send one dry run. Raises one of UNREACHED."""
    value = secrets.token_hex(8)
    document = probe(value, namespace, run)
    answer = await rest.call_raw(
        "POST", collection_of(document), document, params={"dryRun": "All"}
    )
    refusal = answer.message if answer.status >= HTTPStatus.BAD_REQUEST else ""
    return Probed(read_answers(answer.warnings, value), answer.status, refusal)


async def send_probes(rest: Rest, namespace: str, count: int) -> tuple[Probed, ...]:
    """Send `count` dry runs at once. Raises one of UNREACHED."""
    return tuple(await asyncio.gather(*(send_probe(rest, namespace) for _ in range(count))))


async def until_seen(
    rest: Rest,
    namespace: str,
    phases: Collection[str],
    seconds: float,
    run: str = "",
    *,
    refused_seconds: float = _REFUSED_SECONDS,
) -> str:
    """Wait until every phase has seen a probe.

    Return "", or the refusal where another component, such as a policy, refuses every probe.
    Raises NotInTimeError, or RefusedError where the user may not send it.
    """
    refused: list[str] = []
    end = time.monotonic() + refused_seconds

    async def check() -> str:
        probed = await send_probe(rest, namespace, run)
        absent = [phase for phase in phases if phase not in probed.seen]
        if not absent:
            return ""
        reason = (
            probed.refusal or f"a dry run in {namespace} passed, not seen by {', '.join(absent)}"
        )
        refusal = RefusedError(probed.status, probed.refusal)
        if refusal.missing_right:
            raise refusal  # it never reached a webhook, and never will
        if _is_others(probed) and time.monotonic() >= end:
            refused.append(reason)
            return ""
        return reason

    await until(check, seconds)
    return refused[0] if refused else ""


def _is_others(probed: Probed) -> bool:
    """Whether another component refused it, not a webhook of ours that cannot be called (500)."""
    is_refused = HTTPStatus.BAD_REQUEST <= probed.status < HTTPStatus.INTERNAL_SERVER_ERROR
    return is_refused and probed.status != HTTPStatus.NOT_FOUND


async def until_rolled_out(rest: Rest, workload: Document, seconds: float) -> None:
    """Wait, like `kubectl rollout status`, for a Deployment or StatefulSet.

    Raises NotInTimeError, or RefusedError.
    """

    async def check() -> str:
        found = await find(rest, workload) or {}
        if rollout(found) is Rollout.COMPLETE:
            return ""
        status, spec = found.get("status") or {}, found.get("spec") or {}
        ready = f"{status.get('availableReplicas', 0)} of {spec.get('replicas', 0)} pods are ready"
        return f"{ready} of {title_of(workload)}"

    kubectl = f"kubectl -n {workload['metadata']['namespace']}"
    await until(check, seconds, next_step=f"{kubectl} describe pods says why")


async def until_replaced(rest: Rest, deployment: Document, seconds: float) -> None:
    """Wait until all pods of earlier templates have ended. Raises NotInTimeError or RefusedError.

    A rollout is complete while such pods still terminate, and they answer on open connections.
    """

    async def check() -> str:
        names = await leaving(rest, deployment)
        return f"pods that are to end still run: {', '.join(names)}" if names else ""

    kubectl = f"kubectl -n {deployment['metadata']['namespace']}"
    await until(check, seconds, next_step=f"{kubectl} get pods shows them")


async def leaving(rest: Rest, deployment: Document) -> list[str]:
    """Return the names of pods that are being deleted: after a rollout, of earlier templates.

    Raises RefusedError or UNREACHED.
    """
    labels = deployment["spec"]["selector"]["matchLabels"].items()
    like = {"apiVersion": "v1", "kind": "Pod", "metadata": deployment["metadata"]}
    pods = await list_objects(rest, like, ",".join(f"{name}={value}" for name, value in labels))
    return [one["metadata"]["name"] for one in pods if "deletionTimestamp" in one["metadata"]]


async def until_bundle(rest: Rest, secret: Mapping[str, Any], seconds: float) -> bytes:
    """Wait for the ca.crt that cert-manager or a pod puts into a Secret, and return it.

    Raises NotInTimeError, or RefusedError.
    """
    metadata = secret["metadata"]
    found: list[bytes] = []

    async def check() -> str:
        pair = read_pair(await find(rest, secret))
        if pair is None or not pair.ca_pem:
            return f"secret/{metadata['name']} has no ca.crt yet"
        found.append(pair.ca_pem)
        return ""

    kubectl = f"kubectl -n {metadata['namespace']}"
    next_step = f"{kubectl} logs deployment/genguard says why, or {kubectl} describe certificates"
    await until(check, seconds, next_step=next_step)
    return found[0]


def read_pair(secret: Mapping[str, Any] | None) -> PairSnapshot | None:
    """Return the certificate and key in a Secret; None where it holds none."""
    read = decoded(secret or {})
    if "tls.crt" not in read or "tls.key" not in read:
        return None
    return PairSnapshot(read["tls.crt"], read["tls.key"], read.get("ca.crt"))
