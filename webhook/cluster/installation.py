"""The objects of an installation: applied, restored, deleted; and how genguard was installed.

The server's objects are applied (kubernetes.io/docs/reference/using-api/server-side-apply), so that
fields of others stay. Registrations are replaced as a whole, except for rules of other resources:
one more matchCondition or an objectSelector would decide whether genguard is called at all.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final

import manifests
from certs import PairSnapshot
from genguard.linting.hook import FOLLOWED, GENGUARD, INJECTED, MUTATING, VALIDATING
from webhook.cluster.reconcile import NEVER
from webhook.cluster.rest import APPLY_PATCH, RefusedError, Rest, if_there
from webhook.install.plan import RUN, Action, Step, compare, merged
from webhook.manifest.documents import (
    AUDIT_ONLY,
    FOLLOW,
    HEAL,
    Document,
    arguments_of,
    collection_of,
    path_of,
)
from webhook.manifest.rendering import (
    REGISTRATIONS,
    Choices,
    deployment_of,
    install_command,
    is_registration,
    pair_files,
    render,
    store_of,
)

NO_PAIR: Final = PairSnapshot(b"", b"", None)
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_PARTS: Final = ("Deployment", "StatefulSet", "NetworkPolicy")
"""What the flags of `genguard install` can be read from."""


_IDENTITY: Final = ("uid", "resourceVersion")
_PARAMS: Final = {"fieldManager": GENGUARD, "force": "true"}
_KINDS: Final = (
    (_ADMISSION, MUTATING),
    (_ADMISSION, VALIDATING),
    ("v1", "Namespace"),
)


async def find(rest: Rest, document: Mapping[str, Any]) -> Document | None:
    """Return the stored object of this kind and name, if any. Raises RefusedError or UNREACHED."""
    found: Document | None = await if_there(rest.get(path_of(document), kind=document["kind"]))
    return found


async def apply(rest: Rest, document: Document, *, dry_run: bool = False) -> Document:
    """Apply an object, and return it as it is stored then. Raises RefusedError or UNREACHED."""
    dry = {"dryRun": "All"} if dry_run else {}
    if is_registration(document):
        return await _replace(rest, document, dry)
    applied: Document = await rest.call(
        "PATCH", path_of(document), document, params=_PARAMS | dry, content_type=APPLY_PATCH
    )
    return applied


async def _replace(rest: Rest, document: Document, dry: dict[str, str]) -> Document:
    live = await find(rest, document)
    params = {"fieldManager": GENGUARD} | dry
    if live is None:
        made: Document = await rest.call("POST", collection_of(document), document, params=params)
        return made
    metadata = live["metadata"] | {
        key: {**(live["metadata"].get(key) or {}), **document["metadata"].get(key, {})}
        for key in ("labels", "annotations")
    }
    metadata["annotations"].pop(FOLLOWED, None)  # its server says so once it has narrowed the rules
    body = merged(document, live) | {"metadata": metadata}
    replaced: Document = await rest.call("PUT", path_of(document), body, params=params)
    return replaced


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
    """Restore an object to what it was, None if it did not exist; unchanged ones are left alone.

    Raises RefusedError or UNREACHED.
    """
    now = await find(rest, document)
    if before is None:
        if now is not None:
            await remove(rest, document)
        return
    old = before["metadata"]
    metadata = {key: value for key, value in old.items() if key not in _IDENTITY}
    if now is None:
        await rest.call("POST", collection_of(document), {**before, "metadata": metadata})
    elif now["metadata"]["resourceVersion"] != old["resourceVersion"]:
        metadata |= {key: now["metadata"][key] for key in _IDENTITY}
        await rest.call("PUT", path_of(document), {**before, "metadata": metadata})


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
    return [one for one in found if "deletionTimestamp" not in one["metadata"]]


@dataclass(slots=True)
class OwnInstallation:
    """How this server was installed, once a step of it has been taken."""

    rest: Rest
    namespace: str
    _command: str = ""

    def enforce(self) -> str:
        """The command that makes it enforcing; "" as long as it is not known."""
        return self._command

    async def read(self) -> float:
        """Read it once. Raises RefusedError or one of UNREACHED."""
        self._command = await enforcing_command(self.rest, self.namespace)
        return NEVER


async def enforcing_command(rest: Rest, namespace: str) -> str:
    """Return the command that makes the genguard of a namespace enforcing, "" without one there.

    Raises RefusedError or UNREACHED.
    """
    deployment = await find(rest, deployment_of(namespace))
    if deployment is None:
        return ""
    configurations = await list_objects(rest, {"apiVersion": _ADMISSION, "kind": MUTATING})
    choices = replace(choices_of(deployment, namespace), cert_manager=is_injected(configurations))
    expected = await asyncio.to_thread(render, choices, manifests.read, pair_files(NO_PAIR))
    live = {path_of(one): await find(rest, one) for one in expected if one["kind"] in _PARTS}
    return install_command(
        namespace, expected, live, is_injected=choices.cert_manager, enforces=True
    )


def choices_of(deployment: Document, namespace: str) -> Choices:
    """Reconstruct the flags of install from a Deployment, as far as they decide on objects."""
    address = store_of(deployment)
    own = next(
        store_of(one)
        for one in render(
            Choices(namespace=namespace, ha=True), manifests.read, pair_files(NO_PAIR)
        )
        if one["kind"] == "Deployment"
    )
    arguments = arguments_of(deployment)
    return Choices(
        namespace=namespace,
        audit_only=AUDIT_ONLY in arguments,
        heal=HEAL in arguments,
        follow=FOLLOW in arguments,
        ha=bool(address),
        store=address if address not in ("", own) else None,
    )


def is_injected(configurations: Iterable[Document]) -> bool:
    """Whether cert-manager writes the CA bundles of genguard's registrations."""
    names = {name for _, name in REGISTRATIONS}
    ours = [one["metadata"] for one in configurations if one["metadata"]["name"] in names]
    return any(INJECTED in (one.get("annotations") or {}) for one in ours)
