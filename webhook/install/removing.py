"""Remove an installation: the registrations first, then everything else."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import manifests
from genguard.objects.shown import few
from webhook.cluster.installation import find, leftovers, list_objects, remove
from webhook.cluster.reconcile import until
from webhook.cluster.rest import RefusedError, Rest
from webhook.install.installing import check_release, connected
from webhook.install.plan import Action, Step
from webhook.install.registering import home_of
from webhook.manifest.documents import Document, in_order, path_of, title_of
from webhook.manifest.rendering import (
    FINDINGS,
    Choices,
    deployment_of,
    is_registration,
    render,
    secret_of,
)

_NAME: Final = "app.kubernetes.io/name"
_OURS: Final = ("genguard", "genguard-valkey")
"""The values of this label on installed objects and their pods."""

_OTHERS: Final = (
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("v1", "PersistentVolumeClaim"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
)
"""Kinds whose objects keep the namespace from being deleted."""

_CLUSTERS_OWN: Final = "kube-root-ca.crt"  # the ConfigMap that every namespace is given


@dataclass(frozen=True, slots=True)
class RemovalOptions:
    """The flags of uninstall."""

    kubeconfig: str | None
    context: str | None
    namespace: str
    seconds: float
    registrations_only: bool


async def prepare(options: RemovalOptions) -> list[Step]:
    """List what would be deleted, in order. Raises NoClusterError, RefusedError or UNREACHED."""
    async with connected(options.kubeconfig, options.context) as (rest, _):
        if not options.registrations_only:  # the off switch is for every genguard
            await check_release(rest, [deployment_of(options.namespace)])
        documents = _installed(options.namespace)
        first = [one for one in documents if is_registration(one)]
        live = [one for one in [await find(rest, one) for one in first] if one]
        if not options.registrations_only:
            _check_home(live, options.namespace)
        found = live + await leftovers(rest)
        if not options.registrations_only:
            # Last what was created first: the namespace, with all that is in it.
            server = reversed([one for one in documents if not is_registration(one)])
            found += await list_objects(rest, secret_of(options.namespace), f"{_NAME}=genguard")
            found += [one for one in server if one["kind"] != "Secret" and await find(rest, one)]
        steps = [Step(Action.DELETE, one) for one in found]
        namespaces = [step for step in steps if _is_home(step, options.namespace)]
        if namespaces and (others := await _others(rest, options.namespace)):
            text = f"it holds {', '.join(others[:3])}"
            steps[steps.index(namespaces[0])] = Step(
                Action.UNCHANGED, namespaces[0].document, note=text
            )
    return steps


def _check_home(live: list[Document], namespace: str) -> None:
    """Refuse to delete the registrations of a genguard in another namespace."""
    homes = {home_of(one) for one in live} - {"", namespace}
    if homes:
        text = f"the registrations lead to namespace {min(homes)} and not to {namespace}: give -n "
        raise RefusedError(HTTPStatus.CONFLICT, f"{text}{min(homes)}")


async def run(steps: list[Step], options: RemovalOptions, tell: Callable[[str], None]) -> None:
    """Delete, and wait until all is gone. Raises NotInTimeError, RefusedError or UNREACHED."""
    gone = [step.document for step in steps if step.action is Action.DELETE]
    async with connected(options.kubeconfig, options.context) as (rest, _):
        for document in gone:
            await remove(rest, document)

        has_told = False

        async def reason() -> str:
            nonlocal has_told
            left = [title_of(one) for one in gone if await find(rest, one)]
            if left and not has_told:
                has_told = True
                tell(f"deleted; {few(left)} must end, half a minute or more")
            return f"{', '.join(left)} is still being deleted" if left else ""

        await until(reason, options.seconds)


def _installed(namespace: str) -> list[Document]:
    """Every object that install makes with any of its flags."""
    empty = dict.fromkeys(("tls.crt", "tls.key", "ca.crt"), b"")
    ways = (
        Choices(namespace=namespace),
        Choices(namespace=namespace, ha=True),
        Choices(namespace=namespace, ha=True, cert_manager=True),
    )
    rendered = [one for choices in ways for one in render(choices, manifests.read, empty)]
    made = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": FINDINGS, "namespace": namespace},
    }
    return in_order({path_of(one): one for one in (*rendered, made)}.values())


def _is_home(step: Step, namespace: str) -> bool:
    metadata = step.document["metadata"]
    return bool(step.document["kind"] == "Namespace" and metadata["name"] == namespace)


async def _others(rest: Rest, namespace: str) -> list[str]:
    """Name the objects in the namespace that are not genguard's."""
    found = []
    for version, kind in _OTHERS:
        like = {"apiVersion": version, "kind": kind, "metadata": {"namespace": namespace}}
        for one in await list_objects(rest, like):
            metadata = one["metadata"]
            is_ours = (metadata.get("labels") or {}).get(_NAME) in _OURS
            if not is_ours and metadata["name"] not in (_CLUSTERS_OWN, FINDINGS):
                found.append(f"{kind.lower()}/{metadata['name']}")
    return found
