"""Follows what the engine must know of a cluster: version, CRDs, mutating webhooks and policies.

Everything is listed and watched, so that a new custom resource is judged correctly from its first
object on. No admission answer waits for any of this.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from kubernetes.aio import client

from genguard.detection.policies import BINDING, POLICY, Policy, read_policies
from genguard.detection.suspects import Registered, read_configurations
from genguard.generation.custom import BadDefinitionError, CustomResource, from_definition
from webhook.cluster.connection import connected
from webhook.cluster.discovery import UNSERVED_SECONDS, collection_path
from webhook.cluster.rest import Rest, if_there
from webhook.cluster.watch import follow, watch_collection
from webhook.tasks.supervisor import Run, Supervisor
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION: Final = "admissionregistration.k8s.io"
_WEBHOOKS: Final = f"/apis/{ADMISSION}/v1/mutatingwebhookconfigurations"
POLICY_PLURALS: Final = {
    POLICY: "mutatingadmissionpolicies",
    BINDING: "mutatingadmissionpolicybindings",
}
_FIRST_FACTS_SECONDS: Final = 10.0


class ClusterFacts(NamedTuple):
    """The version of a cluster, and its custom resources."""

    server_version: str
    custom_resources: tuple[CustomResource, ...]


async def cluster_facts(rest: Rest, supervisor: Supervisor) -> AsyncIterator[ClusterFacts]:
    """Yield version and custom resources, now and at each change, until the watch ends.

    `supervisor` counts definitions that cannot be read.
    """
    version = await server_version(rest)
    async for known in watch_collection(rest, _DEFINITIONS, _versions, supervisor):
        yield ClusterFacts(version, tuple(one for versions in known for one in versions))


async def definitions(rest: Rest) -> list[dict[str, Any]]:
    """Return every CustomResourceDefinition. Raises RefusedError or one of UNREACHED."""
    return await rest.list_all(_DEFINITIONS)


async def policies(
    rest: Rest, supervisor: Supervisor, kind: str
) -> AsyncIterator[tuple[dict[str, Any], ...]]:
    """Yield all MutatingAdmissionPolicies, or their bindings, by `kind`, at each change.

    Where no version of them is served, there are none until one is: v1 since 1.36.
    """
    path = await if_there(collection_path(rest, f"{POLICY_PLURALS[kind]}.{ADMISSION}"))
    if path is None:
        yield ()
        await asyncio.sleep(UNSERVED_SECONDS)
        return
    async for known in watch_collection(rest, path, dict, supervisor):
        yield known


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


class ClusterListeners(NamedTuple):
    """The functions to call with news of the cluster, on the event loop's thread."""

    facts: Callable[[ClusterFacts], None]
    webhooks: Callable[[tuple[Registered, ...]], None]
    policies: Callable[[tuple[Policy, ...]], None]


@asynccontextmanager
async def follow_cluster(
    kubeconfig: str, listeners: ClusterListeners, metrics: Metrics, supervisor: Supervisor
) -> AsyncIterator[client.ApiClient]:
    """Call the listeners now and at each change while entered; yield the connection.

    Waits ten seconds at most for version and CRDs: a webhook must start while the API server is
    down, since the API server may be waiting for the webhook. Raises NoClusterError.
    """
    async with connected(kubeconfig) as api:
        rest = Rest(api)
        has_facts = asyncio.Event()

        def on_facts(facts: ClusterFacts) -> None:
            listeners.facts(facts)
            if not has_facts.is_set():
                known = {
                    "version": facts.server_version,
                    "customResources": len(facts.custom_resources),
                }
                LOGGER.info("cluster connected", extra={"facts": known})
            has_facts.set()

        def on_webhooks(found: tuple[Mapping[str, Any], ...]) -> None:
            listeners.webhooks(read_configurations(found))

        # A policy acts through its bindings: a change of either is a change of both.
        bound: dict[str, tuple[Mapping[str, Any], ...]] = {}

        def on_policies(kind: str, found: tuple[Mapping[str, Any], ...]) -> None:
            bound[kind] = found
            if len(bound) == len(POLICY_PLURALS):
                listeners.policies(read_policies((*bound[POLICY], *bound[BINDING])))

        def on_trouble(reason: str) -> None:
            LOGGER.warning("cluster not reached", extra={"facts": {"reason": reason}})

        metrics.gauge("genguard_cluster_known", lambda: float(has_facts.is_set()))
        facts = partial(cluster_facts, rest, supervisor)
        webhooks = partial(watch_collection, rest, _WEBHOOKS, dict, supervisor)
        following: dict[str, Run] = {
            "watch of custom resources": partial(follow, facts, on_facts, on_trouble),
            "watch of webhooks": partial(follow, webhooks, on_webhooks, on_trouble),
        }
        for kind, plural in POLICY_PLURALS.items():
            states = partial(policies, rest, supervisor, kind)
            following[f"watch of {plural}"] = partial(
                follow, states, partial(on_policies, kind), on_trouble
            )
        async with supervisor.running(following):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_FACTS_SECONDS):
                    await has_facts.wait()
            yield api
