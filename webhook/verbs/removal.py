"""Uninstalling: what there is of genguard's, and its removal, the registrations first."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import manifests
from webhook.cluster.apply import find, leftovers, list_objects, remove
from webhook.cluster.install_waits import until
from webhook.cluster.rest import RefusedError, Rest
from webhook.install.plan import Action, Step
from webhook.install.registering import home_of
from webhook.manifest.documents import path_of, title_of
from webhook.manifest.kustomize import Document, in_order
from webhook.manifest.rendering import FINDINGS, Choices, is_registration, render, secret_of
from webhook.verbs.installation import connected

_NAME: Final = "app.kubernetes.io/name"
_OURS: Final = ("genguard", "genguard-valkey")
"""The values of this label on what is installed, and on the pods of it."""
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
"""What somebody would miss if the namespace went."""
_CLUSTERS_OWN: Final = "kube-root-ca.crt"  # the ConfigMap that every namespace is given


@dataclass(frozen=True, slots=True)
class RemovalOptions:
    """What the flags say."""

    kubeconfig: str | None
    context: str | None
    namespace: str
    seconds: float
    registrations_only: bool


async def prepare(options: RemovalOptions) -> list[Step]:
    """What would be deleted, in order. Raises NoClusterError, RefusedError or UNREACHED."""
    async with connected(options.kubeconfig, options.context) as (rest, _):
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
            told = f"it holds {', '.join(others[:3])}"
            steps[steps.index(namespaces[0])] = Step(
                Action.UNCHANGED, namespaces[0].document, note=told
            )
    return steps


def _check_home(live: list[Document], namespace: str) -> None:
    """The registrations and rights of a genguard elsewhere are not for this one to take away."""
    homes = {home_of(one) for one in live} - {"", namespace}
    if homes:
        told = f"the registrations lead to namespace {min(homes)} and not to {namespace}: give -n "
        raise RefusedError(HTTPStatus.CONFLICT, f"{told}{min(homes)}")


async def run(steps: list[Step], options: RemovalOptions) -> None:
    """Raise NotInTimeError, RefusedError or UNREACHED; it can be run again."""
    gone = [step.document for step in steps if step.action is Action.DELETE]
    async with connected(options.kubeconfig, options.context) as (rest, _):
        for document in gone:
            await remove(rest, document)

        async def look() -> str:
            left = [title_of(one) for one in gone if await find(rest, one)]
            return f"{', '.join(left)} is still being deleted" if left else ""

        await until(look, options.seconds)


def _installed(namespace: str) -> list[Document]:
    """Whatever any way to install would have put there."""
    empty = dict.fromkeys(("tls.crt", "tls.key", "ca.crt"), b"")
    ways = (
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
    """Objects in the namespace that are not genguard's."""
    found = []
    for version, kind in _OTHERS:
        like = {"apiVersion": version, "kind": kind, "metadata": {"namespace": namespace}}
        for one in await list_objects(rest, like):
            metadata = one["metadata"]
            is_ours = (metadata.get("labels") or {}).get(_NAME) in _OURS
            if not is_ours and metadata["name"] not in (_CLUSTERS_OWN, FINDINGS):
                found.append(f"{kind.lower()}/{metadata['name']}")
    return found
