"""The clock of genguard's machine is put forth an hour, and back, while a loop goes on.

No other write fails, though failures are fatal. Home is red all the time, and the finding is
resolved soon after the loop has ended.
"""

import json
import time
from pathlib import Path
from typing import Any

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.culprits import deployment
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.e2e.traffic import PATIENCE, Traffic
from tests.faults.faketime import Clock

HOUR = 3_600
SECONDS_OF_LOOP = 4.0
"""After each jump: findings are settled each second."""


def test_no_write_fails_and_home_is_red_while_a_loop_goes_on_whatever_the_clock_says(
    apiserver: ControlPlane, namespace: NamespaceFactory, tmp_path: Path
) -> None:
    plane, where = apiserver, namespace(apiserver)
    clock = Clock(tmp_path / "time")
    flags = f"--kubeconfig={plane.kubeconfig}"
    with (
        Genguard(flags, environment=clock.environment) as guard,
        registered(plane, where, guard, failurePolicy="Fail", timeoutSeconds=PATIENCE),
        Traffic(plane, where) as traffic,
    ):
        path = f"/apis/apps/v1/namespaces/{where}/deployments"
        plane.client.post(path, deployment("fought"))

        def fight() -> bool:
            for user, replicas in (("first", 2), ("second", 5)):
                client = plane.client.as_user(user, ["system:masters"])
                client.patch(f"{path}/fought", {"spec": {"replicas": replicas}})
            return is_red(guard)

        wait_until(fight, what="the loop is found")
        (begun,) = fights(guard)
        for seconds in (HOUR, 0, -HOUR, 0):
            clock.put(seconds)
            end = time.monotonic() + SECONDS_OF_LOOP
            assert is_red(guard), "before any write"
            while time.monotonic() < end:
                assert fight()
            traffic.more(20)
        (found,) = fights(guard)
        assert (found["id"], found["state"]) == (begun["id"], "open")
        clock.put(-HOUR)
        wait_until(lambda: not is_red(guard), what="home no longer red")
        wait_until(lambda: fights(guard)[0]["state"] == "resolved", what="resolved")
        puts = [line["seconds"] for line in guard.log_lines("clock was put")]
        assert [round(one / HOUR) for one in puts] == [1, -1, -1, 1, -1]
        assert len(guard.log_lines("finding resolved")) == 1
        assert guard.metric("genguard_shed_total") == 0
    assert traffic.failures == []


def is_red(guard: Genguard) -> bool:
    """Whether home counts a finding: the Deployment, which no controller sees, is not meant."""
    status, text = guard.ops("/api/broken")
    assert status == 200, text
    return bool(json.loads(text)["findings"])


def fights(guard: Genguard) -> list[dict[str, Any]]:
    found = guard.findings()
    return [one for one in found if one["detector"] == "spec-fight"]
