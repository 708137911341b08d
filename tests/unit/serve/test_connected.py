"""From one pod to the next: what the first has only seen, the second one heals."""

from contextlib import AsyncExitStack
from typing import Any, cast

import pytest

from genguard.detection.detection import Detection
from genguard.status.tracking import Tracking
from tests.reviews import make_review
from tests.unit.cluster.objects import Api, Leads, deployment, path_of
from tests.unit.cluster.test_findings_configmap import ConfigMaps
from tests.unit.detection.builders import INTENT, MUTATE, OUTCOME, feed
from tests.waiting import until
from webhook.cluster import healing
from webhook.serve.connected import ConnectedCluster
from webhook.server.detecting import Detecting
from webhook.store import persister
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.metrics import Metrics

WEB = deployment("web")
NAME = "genguard-findings"
WRITER = "system:controller"


class Cluster:
    """A Rest for objects, ConfigMaps and Events."""

    def __init__(self) -> None:
        self.objects, self.configmaps = Api(), ConfigMaps()
        self.events: list[dict[str, Any]] = []

    async def read(self, path: str) -> bytes:
        return await self.objects.read(path)

    async def call(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        if "/configmaps" in path:
            return await self.configmaps.call(method, path, body)
        return await self.objects.call(method, path, body, **more)

    async def create(self, namespace: str, event: dict[str, Any]) -> None:
        self.events.append(event)


def in_cluster(cluster: Cluster) -> ConnectedCluster:
    """A connection of which a test uses the Rest and the Events alone."""
    unused: Any = None
    return ConnectedCluster(
        rest=cast(Any, cluster),
        namespace="genguard-system",
        lease=unused,
        create_event=cluster.create,
        tell_store=unused,
        tokens=unused,
        exists=unused,
        is_own=unused,
        news=unused,
        supervisor=Supervisor(),
    )


def see_loss(detection: Detection, cluster: Cluster, *, is_restored: bool = False) -> None:
    """A webhook clears what the controller of a stored Deployment sends, long ago."""
    cluster.objects.put(WEB, replicas=1)
    stored = cluster.objects.objects[path_of(WEB)]
    sent = {**stored, "status": {"replicas": 1, "observedGeneration": 3}}
    came = sent if is_restored else stored
    for phase, new in ((INTENT, sent), (MUTATE, stored), (OUTCOME, came)):
        asked = make_review("UPDATE", "deployments", new, stored, subresource="status", name="web")
        asked["request"] |= {"namespace": "shop", "userInfo": {"username": WRITER}}
        feed(detection, phase, asked, 100.0)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persister, "_TICK_SECONDS", 0.001)
    monkeypatch.setattr(healing, "_TICK_SECONDS", 0.001)


async def test_what_an_audit_only_pod_saw_is_healed_by_the_enforcing_pod_that_comes_next():
    cluster, leads = Cluster(), Leads()
    metrics = Metrics(lambda group, resource: False)
    connected = in_cluster(cluster)
    looking_on = Detecting(Detection(), {}, Tracking())
    async with AsyncExitStack() as first:
        await first.enter_async_context(
            connected.saved_findings(NAME, looking_on, leadership=leads, metrics=metrics)
        )
        ledger = looking_on.detection.ledger
        await first.enter_async_context(connected.rechecks(looking_on, None, metrics))
        see_loss(looking_on.detection, cluster)
        (before,) = ledger.damaged()
        await until(lambda: cluster.configmaps.found)
    assert cluster.objects.status(WEB) == {"replicas": 1}, "audit-only"

    enforcing = Detecting(Detection(), {}, Tracking())
    metrics = Metrics(lambda group, resource: False)
    async with AsyncExitStack() as second:
        await second.enter_async_context(
            connected.saved_findings(NAME, enforcing, leadership=leads, metrics=metrics)
        )
        ledger = enforcing.detection.ledger
        assert list(ledger.damaged()) == [before], "known before it serves"
        await second.enter_async_context(connected.rechecks(enforcing, leads, metrics, heals=True))
        await until(lambda: not list(ledger.damaged()))
    assert cluster.objects.status(WEB) == {"replicas": 1, "observedGeneration": 3}
    (event,) = cluster.events
    assert WRITER in event["note"]
    samples = [one for family in metrics.registry.collect() for one in family.samples]
    healed = {one.labels["result"]: one.value for one in samples if "heals" in one.name}
    assert healed == {"healed": 1, "refused": 0, "conflict": 0, "gone": 0, "failed": 0}


async def test_what_one_pod_restored_and_was_lost_before_the_next_one_led_is_put_back():
    """While no pod answered, a write was not restored; nobody saw it."""
    cluster, leads = Cluster(), Leads()
    metrics = Metrics(lambda group, resource: False)
    connected = in_cluster(cluster)
    first, second = (Detecting(Detection(), {}, Tracking()) for _ in range(2))
    async with connected.saved_findings(NAME, first, leadership=leads, metrics=metrics):
        see_loss(first.detection, cluster, is_restored=True)
        assert not list(first.detection.ledger.damaged())
        await until(lambda: cluster.configmaps.found)
    metrics = Metrics(lambda group, resource: False)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(
            connected.saved_findings(NAME, second, leadership=leads, metrics=metrics)
        )
        await stack.enter_async_context(connected.rechecks(second, leads, metrics, heals=True))
        await until(lambda: "observedGeneration" in cluster.objects.status(WEB))
        await until(lambda: not list(second.detection.ledger.damaged()))
    assert cluster.objects.status(WEB) == {"replicas": 1, "observedGeneration": 3}
