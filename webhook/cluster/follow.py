"""Keeps the judge informed about a cluster while the server runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from webhook.cluster.facts import ClusterFacts, connect, follow
from webhook.generation.custom import CustomResource
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

_FIRST_LOOK_SECONDS: Final = 10.0


@asynccontextmanager
async def follow_cluster(
    kubeconfig: str,
    learn: Callable[[str, tuple[CustomResource, ...]], None],
    metrics: Metrics,
) -> AsyncIterator[None]:
    """Tell `learn` the cluster's version and custom resources, now and at each change.

    Waits for the first look, but not for long: a webhook must come up while the API server is
    down, since the API server may be waiting for the webhook. Raises NoClusterError.
    """
    api = await connect(kubeconfig)
    looked = asyncio.Event()

    def on_facts(facts: ClusterFacts) -> None:
        learn(facts.server_version, facts.custom_resources)
        if not looked.is_set():
            known = {
                "version": facts.server_version,
                "customResources": len(facts.custom_resources),
            }
            LOGGER.info("cluster connected", extra={"facts": known})
        looked.set()

    def on_trouble(reason: str) -> None:
        LOGGER.warning("cluster not reached", extra={"facts": {"reason": reason}})

    metrics.gauge(
        "cluster_known", "1 once version and CRDs are known.", lambda: float(looked.is_set())
    )
    following = asyncio.create_task(follow(api, on_facts, on_trouble))
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_LOOK_SECONDS):
                await looked.wait()
        yield
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
        await api.close()  # type: ignore[no-untyped-call]
