"""From one pod to the next: what the first has only seen, the second one heals."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from genguard.detection.detection import Detection
from genguard.review_setup import ReviewOptions, ReviewSetup
from genguard.status.tracking import Tracking
from tests.reviews import make_review
from tests.unit.cluster.objects import Api, Leads, deployment, path_of
from tests.unit.cluster.test_findings_configmap import ConfigMaps
from tests.unit.detection.builders import INTENT, MUTATE, OUTCOME, feed
from tests.waiting import until
from webhook.cluster import healing
from webhook.cluster.coverage import Coverage
from webhook.cluster.rest import RefusedError
from webhook.serve import connected
from webhook.serve.connected import ConnectedCluster
from webhook.server.detecting import Detecting
from webhook.server.settings import Settings
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

    async def read(self, path: str) -> bytes:
        return await self.objects.read(path)

    async def call(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        if "/configmaps" in path:
            return await self.configmaps.call(method, path, body)
        return await self.objects.call(method, path, body, **more)

    async def get(self, path: str) -> Any:
        raise RefusedError(404, f"{path}: no kinds are discovered here")


@asynccontextmanager
async def in_cluster(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ConnectedCluster]:
    """A connection of one pod, which leads."""
    monkeypatch.setattr(connected, "default_namespace", lambda _: "genguard-system")
    metrics, supervisor = Metrics(lambda *_: False), Supervisor()
    async with AsyncExitStack() as stack:
        app = SimpleNamespace(
            stack=stack,
            settings=Settings(heal=True),
            metrics=metrics,
            supervisor=supervisor,
            setup=ReviewSetup(ReviewOptions()),
            leader=Leads(),
            pods=None,
            coverage=Coverage(),
        )
        yield ConnectedCluster(cast(Any, app), cast(Any, cluster), "")


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
    monkeypatch.setattr(persister, "SAVE_SECONDS", 0.001)
    monkeypatch.setattr(healing, "_TICK_SECONDS", 0.001)


async def test_what_one_pod_restored_and_was_lost_before_the_next_one_led_is_put_back(monkeypatch):
    """While no pod answered, a write was not restored; nobody saw it."""
    cluster, leads = Cluster(), Leads()
    first, second = (Detecting(Detection(), {}, Tracking()) for _ in range(2))
    async with in_cluster(cluster, monkeypatch) as pod:
        await pod.save_findings(NAME, first, leads)
        see_loss(first.detection, cluster, is_restored=True)
        assert not any(one.damage for one in first.detection.ledger.damaged())
        await until(lambda: cluster.configmaps.found)
    async with in_cluster(cluster, monkeypatch) as pod:
        await pod.save_findings(NAME, second, leads)
        await pod.look_at(second, ())
        await until(lambda: "observedGeneration" in cluster.objects.status(WEB))
        known = second.detection.ledger.damaged
        await until(lambda: not any(one.damage for one in known()))
    assert cluster.objects.status(WEB) == {"replicas": 1, "observedGeneration": 3}
