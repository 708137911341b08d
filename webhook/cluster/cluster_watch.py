"""Watches what the server must know of its cluster.

That is what the engine must know: version, CRDs, mutating webhooks and policies, so that a new
custom resource is examined correctly from its first object on; and kinds and versions of objects.
No admission answer waits for any of this.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from genguard.admission.matching import (
    BINDING,
    NAME_LABEL,
    POLICY,
    read_configurations,
    read_policies,
)
from genguard.detection.mutators import Mutators
from genguard.generation.custom import BadDefinitionError, CustomResource, from_definition
from genguard.objects.served import resource_name
from genguard.versions import NEVER_WATCHED, SENT_TO_NO_WEBHOOK, Versions
from webhook.cluster.coverage import Coverage
from webhook.cluster.discovery import path_if_served
from webhook.cluster.reconcile import NEVER, Reconciler
from webhook.cluster.rest import Rest
from webhook.cluster.watch import Change, ChangeKind, Collection, Locate, informing, keeping
from webhook.tasks.clock import CLOCK
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER

if TYPE_CHECKING:  # verbs that follow a cluster have none of these
    from genguard.review_setup import ReviewSetup
    from webhook.telemetry.metrics import Metrics

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION: Final = "admissionregistration.k8s.io"
_WEBHOOKS: Final = f"/apis/{ADMISSION}/v1/mutatingwebhookconfigurations"
_REGISTRATIONS: Final = f"/apis/{ADMISSION}/v1/validatingwebhookconfigurations"
_NAMESPACES: Final = "/api/v1/namespaces"
POLICY_PLURALS: Final = {
    POLICY: "mutatingadmissionpolicies",
    BINDING: "mutatingadmissionpolicybindings",
}
_FIRST_LOOK_SECONDS: Final = 10.0
_DEFINED_SECONDS: Final = 10


async def definitions(rest: Rest) -> list[dict[str, Any]]:
    """Return every CustomResourceDefinition. Raises RefusedError or one of UNREACHED."""
    return await rest.list_all(DEFINITIONS)


class _Version(msgspec.Struct, rename="camel"):
    git_version: str
    emulation_major: str = ""
    emulation_minor: str = ""


async def server_version(rest: Rest) -> str:
    """Return the version whose rules hold: the emulated one where the server has one (KEP-4330).

    Raises RefusedError or one of UNREACHED.
    """
    version = msgspec.convert(await rest.get("/version"), _Version)
    if version.emulation_major and version.emulation_minor:
        return f"{version.emulation_major}.{version.emulation_minor}"
    return version.git_version


def _versions(definition: dict[str, Any]) -> tuple[CustomResource, ...]:
    try:
        return from_definition(definition)
    except BadDefinitionError:
        return ()  # accepted by the API server, but not readable here: an unknown resource


def _labels(namespace: dict[str, Any]) -> Mapping[str, str]:
    metadata = namespace["metadata"]
    return {**(metadata.get("labels") or {}), NAME_LABEL: metadata["name"]}


@asynccontextmanager
async def watch_cluster(
    rest: Rest,
    setup: "ReviewSetup",
    mutators: Mutators,
    *,
    coverage: Coverage,
    metrics: "Metrics",
    supervisor: Supervisor,
) -> AsyncIterator[None]:
    """Have `setup`, `mutators` and `coverage` learn what the cluster has, now and at each change.

    Waits ten seconds at most for version and CRDs: a webhook must start while the API server is
    down, since the API server may be waiting for the webhook.
    """
    is_known = asyncio.Event()
    version = ""

    async def definitions_path() -> str:
        nonlocal version
        version = await server_version(rest)
        return DEFINITIONS

    def on_definitions(found: tuple[tuple[CustomResource, ...], ...]) -> None:
        custom = coverage.custom = tuple(version for versions in found for version in versions)
        for resource, reason in setup.learn(version, custom).items():
            about = {"resource": resource, "reason": reason}
            LOGGER.warning("status is not flipped", extra={"fields": about})
        if not is_known.is_set():
            known = {"version": version, "customResources": len(custom)}
            LOGGER.info("cluster connected", extra={"fields": known})
        is_known.set()
        coverage.changed()

    def on_webhooks(found: tuple[Mapping[str, Any], ...]) -> None:
        mutators.learn(registered=read_configurations(found))

    # A policy acts through its bindings: a change of either is a change of both.
    bound: dict[str, tuple[Mapping[str, Any], ...]] = {}

    def on_policies(kind: str, found: tuple[Mapping[str, Any], ...]) -> None:
        bound[kind] = found
        if len(bound) == len(POLICY_PLURALS):
            mutators.learn(policies=read_policies((*bound[POLICY], *bound[BINDING])))

    metrics.gauge("genguard_cluster_known", lambda: float(is_known.is_set()))
    collections: dict[str, tuple[str | Locate, Callable[[Change], None]]] = {
        "custom resources": (definitions_path, keeping(_versions, on_definitions, supervisor)),
        "webhooks": (_WEBHOOKS, keeping(dict, on_webhooks, supervisor)),
        "registrations": (_REGISTRATIONS, keeping(dict, coverage.learn_hooks, supervisor)),
        "namespaces": (_NAMESPACES, keeping(_labels, coverage.learn_namespaces, supervisor)),
    }
    for kind, plural in POLICY_PLURALS.items():  # v1 is served since 1.36
        served = partial(path_if_served, rest, f"{plural}.{ADMISSION}")
        collections[plural] = served, keeping(dict, partial(on_policies, kind), supervisor)
    async with AsyncExitStack() as stack:
        for what, (path, on_change) in collections.items():
            found, message = Collection(rest, path), "cluster not reached"
            await stack.enter_async_context(
                informing(f"watch of {what}", found, on_change, supervisor, message=message)
            )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_LOOK_SECONDS):
                await is_known.wait()
        yield


def see_versions(resource: str, versions: Versions, supervisor: Supervisor, change: Change) -> None:
    """Examine the version of an object that a watch has shown: see genguard/versions.py.

    resource  as kubectl names it: services, deployments.apps
    """
    if change.what is ChangeKind.GONE:
        versions.gone(change.uid)
    elif change.what is ChangeKind.SEEN and not change.is_cut:
        with supervisor.guard(f"versions of {resource}"):
            versions.see(resource.partition(".")[0], change.object, CLOCK.now())


@asynccontextmanager
async def watching_versions(
    rest: Rest, more: Iterable[str], versions: Versions, coverage: Coverage, supervisor: Supervisor
) -> AsyncIterator[None]:
    """Examine versions of what is sent to no webhook, of nodes, custom resources and `more` kinds.

    Watches begin and end as custom resources come and go; `coverage` learns what may be read.
    What the API server does not have is asked for again every ten minutes.
    """
    always, watched = {*SENT_TO_NO_WEBHOOK, "nodes", *more}, coverage.watched

    async def locate(kind: str) -> str | None:
        # A definition is there before what it defines is served.
        for _ in range(1 if kind in always else _DEFINED_SECONDS):
            if path := await path_if_served(rest, kind):
                return path
            await asyncio.sleep(1)
        return None

    def see(kind: str, change: Change) -> None:
        watched[kind] = True
        see_versions(kind, versions, supervisor, change)

    async def step() -> float:
        custom = {resource_name(kind.group, kind.resource) for kind in coverage.custom}
        wanted = (always | custom) - NEVER_WATCHED.keys()
        for name in watched.keys() - wanted:
            await supervisor.end([f"versions of {name}"])
            del watched[name]
        for name in sorted(wanted - watched.keys()):
            watched[name] = True
            found, seen = Collection(rest, partial(locate, name)), partial(see, name)
            lost = partial(watched.__setitem__, name, False)  # noqa: FBT003
            what = f"versions of {name}"
            watch = informing(what, found, seen, supervisor, on_trouble=lost)
            await watches.enter_async_context(watch)
        return NEVER

    async with AsyncExitStack() as watches:
        reconciler = Reconciler("kinds to watch", step)
        coverage.changed = reconciler.wake
        await watches.enter_async_context(reconciler.running(supervisor))
        yield
