"""Keeps judge and detection informed about a cluster while the server runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, NamedTuple

from kubernetes.aio import client

from webhook.cluster.connection import connected
from webhook.cluster.facts import (
    ClusterFacts,
    cluster_facts,
    mutating_webhooks,
    policies,
)
from webhook.cluster.rest import Rest
from webhook.cluster.watched import follow
from webhook.detection.policies import BINDING, POLICY, Policy, read_policies
from webhook.detection.suspects import Registered
from webhook.running import running
from webhook.telemetry import declarations
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

_FIRST_LOOK_SECONDS: Final = 10.0


class Learners(NamedTuple):
    """Who is told what; each is called from the event loop's thread."""

    facts: Callable[[ClusterFacts], None]
    webhooks: Callable[[tuple[Registered, ...]], None]
    policies: Callable[[tuple[Policy, ...]], None]


@asynccontextmanager
async def follow_cluster(
    kubeconfig: str, learners: Learners, metrics: Metrics
) -> AsyncIterator[client.ApiClient]:
    """Tell the learners about the cluster, now and at each change; gives the connection.

    Waits for the first look, but not for long: a webhook must come up while the API server is
    down, since the API server may be waiting for the webhook. Raises NoClusterError.
    """
    async with connected(kubeconfig) as api:
        rest = Rest(api)
        looked = asyncio.Event()

        def on_facts(facts: ClusterFacts) -> None:
            learners.facts(facts)
            if not looked.is_set():
                known = {
                    "version": facts.server_version,
                    "customResources": len(facts.custom_resources),
                }
                LOGGER.info("cluster connected", extra={"facts": known})
            looked.set()

        # A policy acts through its bindings: each turn of either is a turn of both.
        bound: dict[str, tuple[Mapping[str, Any], ...]] = {POLICY: (), BINDING: ()}

        def on_policies(kind: str, found: tuple[Mapping[str, Any], ...]) -> None:
            bound[kind] = found
            learners.policies(read_policies((*bound[POLICY], *bound[BINDING])))

        def on_trouble(reason: str) -> None:
            LOGGER.warning("cluster not reached", extra={"facts": {"reason": reason}})

        metrics.gauge(declarations.CLUSTER_KNOWN, lambda: float(looked.is_set()))
        following = (
            follow(lambda: cluster_facts(rest), on_facts, on_trouble),
            follow(lambda: mutating_webhooks(rest), learners.webhooks, on_trouble),
            *(
                follow(partial(policies, rest, kind), partial(on_policies, kind), on_trouble)
                for kind in bound
            ),
        )
        async with running(following):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_LOOK_SECONDS):
                    await looked.wait()
            yield api
