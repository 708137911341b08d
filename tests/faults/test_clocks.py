"""The clock of genguard's machine is put forth an hour, and back, under load.

No write is late or fails, though failures are fatal, and a new loop is found and told each time.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from tests.e2e.culprits import OLD_OPERATOR, deployment, zeroes_observed_generation
from tests.e2e.registrations import registered
from tests.e2e.traffic import PATIENCE, Traffic
from tests.faults.faketime import Clock
from tests.faults.fleet import Fleet

HOUR = 3_600
JUMPS = {"forth": HOUR, "right again": 0, "back": -HOUR, "right at last": 0}


class Timed(NamedTuple):
    """One genguard, and what it takes for the time."""

    clock: Clock
    fleet: Fleet


@pytest.fixture
def timed(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Timed]:
    clock = Clock(tmp_path_factory.mktemp("clock") / "time")
    flags = (f"--kubeconfig={apiserver.kubeconfig}", "--events")
    with Fleet(*flags, replicas=1, environment=clock.environment) as fleet:
        yield Timed(clock, fleet)


def test_no_write_fails_and_loops_are_told_whatever_the_clock_says(
    apiserver: ControlPlane, namespace: NamespaceFactory, timed: Timed
) -> None:
    plane, where = apiserver, namespace(apiserver)
    clock, fleet = timed
    (guard,) = fleet.endpoints
    with (
        registered(plane, where, fleet, failurePolicy="Fail", timeoutSeconds=PATIENCE),
        Traffic(plane, where) as traffic,
        WebhookListener(plane.authority, zeroes_observed_generation) as culprit,
        culprit.registered(plane, where, ["deployments/status"], name=OLD_OPERATOR),
    ):
        _loop(plane, where, "first")
        wait_until(lambda: "first" in _told(fleet, plane, where), what="the first loop told")
        for number, seconds in enumerate(JUMPS.values()):
            clock.put(seconds)
            name = f"loop-{number}"
            traffic.more(100)
            _loop(plane, where, name)
            wait_until(lambda name=name: name in _told(fleet, plane, where), what=f"{name} told")
            assert guard.ops("/readyz")[0] == 200
        traffic.more(50)
    assert traffic.failures == []
    assert fleet.metric("genguard_shed_total") == 0
    times = [line["time"][:13] for line in guard.log_lines()]
    assert len(set(times)) >= 3, "three hours, or the clock was not put"


def _loop(plane: ControlPlane, namespace: str, name: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    plane.client.post(path, deployment(name))
    for replicas in range(1, 6):
        status = {"observedGeneration": 1, "replicas": replicas}
        plane.client.patch(f"{path}/{name}/status", {"status": status})


def _told(fleet: Fleet, plane: ControlPlane, namespace: str) -> set[str]:
    """The Deployments of which the log says that a loop was found, and Events as well."""
    (guard,) = fleet.endpoints
    lines = (*guard.log_lines("finding opened"), *guard.log_lines("finding escalated"))
    logged = {line["name"] for line in lines if line["namespace"] == namespace}
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    events = plane.client.get(path).body["items"]
    return logged & {event["regarding"]["name"] for event in events}
