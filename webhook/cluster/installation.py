"""How a genguard in a cluster was installed, and the command that makes it enforcing."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import manifests
from certs import PairSnapshot
from genguard.linting.hook import INJECTED, MUTATING
from webhook.cluster.apply import find, list_objects
from webhook.cluster.reconcile import NEVER
from webhook.cluster.rest import Rest
from webhook.manifest.documents import AUDIT_ONLY, FOLLOW, HEAL, Document, arguments_of, path_of
from webhook.manifest.install_command import install_command
from webhook.manifest.rendering import (
    REGISTRATIONS,
    Choices,
    SharedStore,
    deployment_of,
    pair_files,
    render,
    store_of,
)

NO_PAIR: Final = PairSnapshot(b"", b"", None)
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_PARTS: Final = ("Deployment", "StatefulSet", "NetworkPolicy")
"""What the flags of `genguard install` can be read from."""


class OwnInstallation:
    """How this server was installed, once a step of it has been taken."""

    def __init__(self, rest: Rest, namespace: str) -> None:
        self._rest: Final = rest
        self._namespace: Final = namespace
        self._command = ""

    def enforce(self) -> str:
        """The command that makes it enforcing; "" as long as it is not known."""
        return self._command

    async def read(self) -> float:
        """Read it once. Raises RefusedError or one of UNREACHED."""
        self._command = await enforcing_command(self._rest, self._namespace)
        return NEVER


async def enforcing_command(rest: Rest, namespace: str) -> str:
    """Return the command that makes the genguard of a namespace enforcing, "" without one there.

    Raises RefusedError or UNREACHED.
    """
    head = deployment_of(namespace)
    deployment = await find(rest, head)
    if deployment is None:
        return ""
    deployment = {**head, **deployment}
    configurations = await list_objects(rest, {"apiVersion": _ADMISSION, "kind": MUTATING})
    choices = replace(choices_of(deployment, namespace), cert_manager=is_injected(configurations))
    expected = await asyncio.to_thread(render, choices, manifests.read, pair_files(NO_PAIR))
    parts = [one for one in expected if one["kind"] in _PARTS]
    live = {path_of(one): await find(rest, one) for one in parts}
    live = {path: one and {**_head(parts, path), **one} for path, one in live.items()}
    return install_command(
        namespace, expected, live, is_injected=choices.cert_manager, enforces=True
    )


def _head(parts: Iterable[Document], path: str) -> dict[str, Any]:
    """Return type and name of the part at a path: answers may lack the type."""
    found = next(one for one in parts if path_of(one) == path)
    return {"apiVersion": found["apiVersion"], "kind": found["kind"]}


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
        # Where it is matters to nothing that is looked at here.
        store=SharedStore(address, "", 0) if address not in ("", own) else None,
    )


def is_injected(configurations: Iterable[Document]) -> bool:
    """Whether cert-manager writes the CA bundles of genguard's registrations."""
    names = {name for _, name in REGISTRATIONS}
    ours = [one["metadata"] for one in configurations if one["metadata"]["name"] in names]
    return any(INJECTED in (one.get("annotations") or {}) for one in ours)
