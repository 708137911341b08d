"""A tenth of a processor, or 128 MiB of memory, are enough for a cluster that is not asleep.

They are what the manifests request. Nothing of a control group is needed: a process that runs for
10 ms in each 100 ms is what a quota of 100m leaves it (Documentation/scheduler/sched-bwc.rst in
Linux), and the most memory that it ever had is what a limit would have had to allow, with the
pages of files that could have been given back.
"""

import time
from pathlib import Path

from tests.beside import Beside
from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.culprits import deployment
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.e2e.traffic import Traffic, passed_unseen

PERIOD_SECONDS = 0.1
RUNNING_SECONDS = 0.01
SECONDS = 10.0
MOST_MEMORY = 128 * 1024 * 1024
OBJECTS = 300


class Throttled(Beside):
    """`with Throttled(guard):`; it stands still for nine tenths of the time."""

    def __init__(self, guard: Genguard) -> None:
        super().__init__()
        self._guard = guard

    def _run(self) -> None:
        while not self._over.is_set():
            self._guard.go_on()
            time.sleep(RUNNING_SECONDS)
            self._guard.pause()
            self._over.wait(PERIOD_SECONDS - RUNNING_SECONDS)
        self._guard.go_on()


def test_with_a_tenth_of_a_processor_no_write_fails_and_no_probe(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    """As installed: Ignore, 2 s. What it does not come to in time is shed, and passes unseen."""
    where = namespace(apiserver)
    with (
        Genguard(f"--kubeconfig={apiserver.kubeconfig}") as guard,
        registered(apiserver, where, guard, timeoutSeconds=2),
        Traffic(apiserver, where) as traffic,
    ):
        traffic.more(50)
        unseen, written = passed_unseen(apiserver).total(), traffic.written
        examined = guard.metric("genguard_reviews_total", resource="podtemplates")
        with Throttled(guard):
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                assert guard.ops("/livez")[0] == 200  # or no answer in 10 s
                time.sleep(0.5)
        examined = guard.metric("genguard_reviews_total", resource="podtemplates") - examined
        unseen = passed_unseen(apiserver).total() - unseen
        written = traffic.written - written
        traffic.more(50)
    assert traffic.failures == []
    assert examined > unseen
    print(f"{written} writes, {examined:g} calls examined, {unseen} passed unseen")


def test_128_mebibytes_are_never_used_up(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    where = namespace(apiserver)
    path = f"/apis/apps/v1/namespaces/{where}/deployments"
    flags = (f"--kubeconfig={apiserver.kubeconfig}", "--watch=deployments.apps", "--events")
    with (
        Genguard(*flags) as guard,
        registered(apiserver, where, guard),
        Traffic(apiserver, where) as traffic,
    ):
        for number in range(OBJECTS):
            made = apiserver.client.post(path, deployment(f"web-{number}")).body
            status = {"observedGeneration": made["metadata"]["generation"], "replicas": 1}
            apiserver.client.patch(f"{path}/web-{number}/status", {"status": status})
        traffic.more(1_000)
        wait_until(lambda: guard.metric("genguard_objects") >= OBJECTS, what="objects tracked")
        used = _peak(guard)
    assert traffic.failures == []
    assert used < MOST_MEMORY
    print(f"{traffic.written} writes, {OBJECTS} objects, {used / 2**20:.0f} MiB at most")


def _peak(guard: Genguard) -> int:
    """VmHWM of proc(5), in bytes."""
    status = Path(f"/proc/{guard.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
