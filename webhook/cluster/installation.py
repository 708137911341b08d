"""The objects of an installation: applied, restored, deleted, waited for; and how it was made.

The server's objects are applied (kubernetes.io/docs/reference/using-api/server-side-apply), so that
fields of others stay. Registrations are replaced as a whole, except for rules of other resources:
one more matchCondition or an objectSelector would decide whether genguard is called at all.
"""

import asyncio
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import manifests
from genguard.admission.probe import Seen, read_answers
from genguard.linting.hook import FOLLOWED, GENGUARD, INJECTED, MUTATING, VALIDATING
from genguard.status.drawing import blocking_reasons, shorten
from genguard.status.trees import build_trees
from genguard.status.views.rollout import Rollout, rollout
from webhook.cluster.reconcile import until
from webhook.cluster.rest import APPLY_PATCH, JSON, RefusedError, Rest, if_there
from webhook.install.plan import RUN, Action, Step, compare, merged, probe
from webhook.manifest.documents import (
    AUDIT_ONLY,
    CLUSTER_NAME,
    FOLLOW,
    HEAL,
    Document,
    arguments_of,
    collection_of,
    path_of,
    title_of,
)
from webhook.manifest.rendering import (
    PHASES,
    REGISTRATIONS,
    Choices,
    deployment_of,
    install_command,
    is_registration,
    render,
    store_of,
)

ADMISSION: Final = "admissionregistration.k8s.io/v1"
_PARTS: Final = ("Deployment", "StatefulSet", "NetworkPolicy")
"""What the flags of `genguard install` can be read from."""
_IDENTITY: Final = ("uid", "resourceVersion")
_KINDS: Final = ((ADMISSION, MUTATING), (ADMISSION, VALIDATING), ("v1", "Namespace"))
_REFUSED_SECONDS: Final = 10.0
"""Registrations take effect within two seconds; a refusal after this time is final."""


async def find(rest: Rest, document: Mapping[str, Any]) -> Document | None:
    """Return the stored object of this kind and name, if any. Raises RefusedError or UNREACHED."""
    return await if_there(rest.get(path_of(document), kind=document["kind"]))


async def apply(rest: Rest, document: Document, *, dry_run: bool = False) -> Document:
    """Apply an object, and return it as it is stored then. Raises RefusedError or UNREACHED."""
    params = {"fieldManager": GENGUARD} | ({"dryRun": "All"} if dry_run else {})
    method, path, body, form = "PATCH", path_of(document), document, APPLY_PATCH
    if not is_registration(document):
        params["force"] = "true"
    elif live := await find(rest, document):
        metadata = live["metadata"] | {
            key: {**(live["metadata"].get(key) or {}), **document["metadata"].get(key, {})}
            for key in ("labels", "annotations")
        }
        metadata["annotations"].pop(FOLLOWED, None)  # until its server has narrowed the rules
        method, body, form = "PUT", merged(document, live) | {"metadata": metadata}, JSON
    else:
        method, path, form = "POST", collection_of(document), JSON
    return await rest.call(method, path, body, params=params, content_type=form)


async def plan_step(rest: Rest, document: Document) -> Step:
    """Return what applying an object would change. Raises RefusedError or UNREACHED."""
    live = await find(rest, document)
    try:
        would = await apply(rest, document, dry_run=True)
    except RefusedError as error:
        # The namespace is created by the plan itself.
        if live is not None or error.status != HTTPStatus.NOT_FOUND:
            raise
        return Step(Action.CREATE, document)
    return compare(document, live, would)


async def remove(rest: Rest, document: Mapping[str, Any]) -> None:
    """Delete an object, if it exists. Raises RefusedError or UNREACHED."""
    await if_there(rest.call("DELETE", path_of(document), {"propagationPolicy": "Background"}))


async def put_back(rest: Rest, document: Document, before: Document | None) -> None:
    """Restore an object to what it was, None if it did not exist.

    Raises RefusedError or UNREACHED.
    """
    if before is None:
        await remove(rest, document)
        return
    now = await find(rest, document)
    kept = {key: value for key, value in before["metadata"].items() if key not in _IDENTITY}
    if now is None:
        await rest.call("POST", collection_of(document), before | {"metadata": kept})
    else:
        kept["resourceVersion"] = now["metadata"]["resourceVersion"]
        await rest.call("PUT", path_of(document), before | {"metadata": kept})


async def list_objects(rest: Rest, like: Mapping[str, Any], selector: str = "") -> list[Document]:
    """Return all objects of the kind and namespace of `like`, with the kind that lists omit."""
    params = {"labelSelector": selector} if selector else {}
    return await rest.list_all(collection_of(like), params, kind=like["kind"])


async def leftovers(rest: Rest) -> list[Document]:
    """Return what unfinished installations left: trial namespaces and test configurations.

    Raises RefusedError or UNREACHED.
    """
    found = []
    for version, kind in _KINDS:
        found += await list_objects(rest, {"apiVersion": version, "kind": kind}, RUN)
    return [document for document in found if "deletionTimestamp" not in document["metadata"]]


async def leaving(rest: Rest, workload: Document) -> list[str]:
    """Return the names of pods that are being deleted: those of earlier templates after a rollout.

    Raises RefusedError or UNREACHED.
    """
    pods = await _owned(rest, workload, "v1", "Pod")
    return [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"]]


async def _owned(rest: Rest, workload: Document, version: str, kind: str) -> list[Document]:
    """Return the objects of a kind that the selector of a workload chooses."""
    labels = workload["spec"]["selector"]["matchLabels"].items()
    like = {"apiVersion": version, "kind": kind, "metadata": workload["metadata"]}
    return await list_objects(rest, like, ",".join(f"{name}={value}" for name, value in labels))


async def why_not_ready(rest: Rest, workload: Document) -> str:
    """Say why a workload is not ready now, as `genguard status` does; "" where it is.

    Raises RefusedError or UNREACHED.
    """
    sets = await _owned(rest, workload, "apps/v1", "ReplicaSet")
    pods = await _owned(rest, workload, "v1", "Pod")
    root, *_ = build_trees([workload, *sets, *pods], at=time.time())
    view = root.assessment.view
    return "" if view.ready else shorten(blocking_reasons(view) or view.reasons)


async def until_rolled_out(rest: Rest, workload: Document, seconds: float) -> None:
    """Wait, like `kubectl rollout status`, and until all pods of earlier templates have ended.

    A rollout is complete while such pods still terminate, and they answer on open connections.
    Raises NotInTimeError, or RefusedError.
    """

    async def check() -> str:
        found = await find(rest, workload) or {}
        if rollout(found) is not Rollout.COMPLETE:
            why = await why_not_ready(rest, found) if found else "it is not there"
            return f"{title_of(workload)} is not rolled out: {why or 'pods of before still run'}"
        names = await leaving(rest, workload)
        return f"pods that are to end still run: {', '.join(names)}" if names else ""

    kubectl = f"kubectl -n {workload['metadata']['namespace']}"
    await until(check, seconds, next_step=f"{kubectl} describe pods says why")


async def until_bundle(rest: Rest, secret: Mapping[str, Any], seconds: float) -> str:
    """Wait for the ca.crt that cert-manager or a pod puts into a Secret; return it in base64.

    Raises NotInTimeError, or RefusedError.
    """
    metadata, found = secret["metadata"], [""]

    async def check() -> str:
        found[0] = ((await find(rest, secret) or {}).get("data") or {}).get("ca.crt", "")
        return "" if found[0] else f"secret/{metadata['name']} has no ca.crt yet"

    kubectl = f"kubectl -n {metadata['namespace']}"
    next_step = f"{kubectl} logs deployment/genguard says why, or {kubectl} describe certificates"
    await until(check, seconds, next_step=next_step)
    return found[0]


async def send_probe(rest: Rest, namespace: str, run: str = "") -> tuple[Seen, int, str]:
    """Send one dry run; return the phases that have seen it, its status, and the refusal, if any.

    Raises one of UNREACHED.
    """
    value = secrets.token_hex(8)
    document = probe(value, namespace, run)
    path, params = collection_of(document), {"dryRun": "All"}
    status, message, warnings = await rest.call_raw("POST", path, document, params)
    refusal = message if status >= HTTPStatus.BAD_REQUEST else ""
    return read_answers(warnings, value), status, refusal


async def until_seen(
    rest: Rest,
    namespace: str,
    seconds: float,
    run: str = "",
    *,
    refused_seconds: float = _REFUSED_SECONDS,
) -> str:
    """Wait until every phase has seen a probe.

    Return "", or the refusal where another component, such as a policy, refuses every probe.
    Raises NotInTimeError, or RefusedError where the user may not send it.
    """
    refused = [""]
    end = time.monotonic() + refused_seconds

    async def check() -> str:
        seen, status, refusal = await send_probe(rest, namespace, run)
        absent = [phase for phase in PHASES if phase not in seen]
        if not absent:
            return ""
        if (error := RefusedError(status, refusal)).missing_right:
            raise error  # it never reached a webhook, and never will
        # 500 or 404: a webhook of ours cannot be called.
        is_others = status // 100 == 4 and status != HTTPStatus.NOT_FOUND  # noqa: PLR2004
        if is_others and time.monotonic() >= end:
            refused[0] = refusal
            return ""
        return refusal or f"a dry run in {namespace} passed, not seen by {', '.join(absent)}"

    await until(check, seconds)
    return refused[0]


async def enforcing_command(rest: Rest, namespace: str) -> str:
    """Return the command that makes the genguard of a namespace enforcing, "" without one there.

    Raises RefusedError or UNREACHED.
    """
    deployment = await find(rest, deployment_of(namespace))
    if deployment is None:
        return ""
    configurations = await list_objects(rest, {"apiVersion": ADMISSION, "kind": MUTATING})
    choices = replace(choices_of(deployment, namespace), cert_manager=is_injected(configurations))
    expected = await asyncio.to_thread(render, choices, manifests.read)
    parts = (document for document in expected if document["kind"] in _PARTS)
    live = {path_of(document): await find(rest, document) for document in parts}
    return install_command(
        namespace, expected, live, is_injected=choices.cert_manager, enforces=True
    )


def choices_of(deployment: Document, namespace: str) -> Choices:
    """Reconstruct the flags of install from a Deployment, as far as they decide on objects."""
    address = store_of(deployment)
    rendered = render(Choices(namespace=namespace, ha=True), manifests.read)
    own = next(store_of(document) for document in rendered if document["kind"] == "Deployment")
    arguments = arguments_of(deployment)
    names = (x.removeprefix(CLUSTER_NAME) for x in arguments if x.startswith(CLUSTER_NAME))
    return Choices(
        namespace=namespace,
        audit_only=AUDIT_ONLY in arguments,
        heal=HEAL in arguments,
        follow=FOLLOW in arguments,
        ha=bool(address),
        store=address if address not in ("", own) else None,
        cluster_name=next(names, ""),
    )


def is_injected(configurations: Iterable[Document]) -> bool:
    """Whether cert-manager writes the CA bundles of genguard's registrations."""
    names = {name for _, name in REGISTRATIONS}
    ours = [
        configuration["metadata"]
        for configuration in configurations
        if configuration["metadata"]["name"] in names
    ]
    return any(INJECTED in (metadata.get("annotations") or {}) for metadata in ours)
