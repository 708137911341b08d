"""One webhook that harms many objects is one finding and one alert, live."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import Patch, WebhookListener
from tests.e2e.culprits import OLD_OPERATOR, deployment, pod
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.store.alertmanager import Alertmanager

_SECONDS = 5.0
_AT_ONCE = 8
Json = dict[str, Any]


class ClearsOnce:
    """Takes the observedGeneration away from the first write of each object that has one."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, request: Mapping[str, Any]) -> Patch:
        found = request["object"] or {}
        uid = found.get("metadata", {}).get("uid", "")
        if "observedGeneration" not in (found.get("status") or {}) or uid in self._seen:
            return ()
        self._seen.add(uid)
        return [{"op": "remove", "path": "/status/observedGeneration"}]


@pytest.mark.parametrize(
    ("collection", "made", "count", "severity"),
    [
        ("apis/apps/v1/{}/deployments", deployment, 60, "critical"),
        ("api/v1/{}/pods", pod, 120, "critical"),
        pytest.param("api/v1/{}/pods", pod, 3_000, "critical", marks=pytest.mark.nightly),
    ],
)
def test_many_objects_of_one_culprit_are_one_finding_and_one_alert(
    *,
    apiserver: ControlPlane,
    namespace: NamespaceFactory,
    collection: str,
    made: Any,
    count: int,
    severity: str,
) -> None:
    where = namespace(apiserver)
    path = "/" + collection.format(f"namespaces/{where}")
    client = apiserver.client
    names = [f"one-{number}" for number in range(count)]
    clears = ClearsOnce()
    resource = path.rpartition("/")[2]
    flags = "--audit-only", f"--kubeconfig={apiserver.kubeconfig}"
    with (
        Alertmanager() as alertmanager,
        WebhookListener(apiserver.authority, clears) as listener,
        listener.registered(apiserver, where, [f"{resource}/status"], name=OLD_OPERATOR),
        Genguard(*flags, f"--alertmanager={alertmanager.url}") as guard,
        registered(apiserver, where, guard),
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        list(pool.map(lambda name: client.post(path, made(name)), names))
        status = {"status": {"observedGeneration": 1}}
        list(pool.map(lambda name: client.patch(f"{path}/{name}/status", status), names))
        written = time.monotonic()

        def whole() -> Json | None:
            found = [one for one in guard.findings() if "objects" in one]
            return next((one for one in found if one["objects"]["count"] == count), None)

        found = wait_until(whole, what="one finding of all")
        took = time.monotonic() - written
        wait_until(lambda: alertmanager.alerts, what="an alert")
        alerted = {one["labels"]["finding"]: one["annotations"] for one in alertmanager.alerts}
        parts = [one for one in guard.findings() if one.get("partOf") == found["id"]]
    assert took < _SECONDS
    assert (found["severity"], "object" in found) == (severity, False)
    assert [one["name"] for one in found["actors"]] == [f"{OLD_OPERATOR}/reviews.example.org"]
    assert alerted.keys() == {found["id"]}, alerted
    assert len(parts) == count
