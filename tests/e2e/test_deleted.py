"""Objects that are deleted: home says what kubectl says."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.culprits import pod
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered

PODS = ("one", "two", "three")
PATIENCE = 90.0


def crashing(restarts: int) -> dict[str, Any]:
    """The status of a pod whose container ends at each start, as a kubelet writes it."""
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off"}
    container = {
        "name": "c", "image": "image:1", "imageID": "", "ready": False, "restartCount": restarts,
        "state": {"waiting": waiting},
    }  # fmt: skip
    return {"phase": "Running", "containerStatuses": [container]}


class Scene:
    """One namespace of the cluster, and the genguard that looks on."""

    def __init__(self, plane: ControlPlane, namespace: str, guard: Genguard) -> None:
        self.plane, self.namespace, self.guard = plane, namespace, guard
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    def create(self) -> None:
        for name in PODS:
            body = pod(name)
            body["spec"]["schedulerName"] = "nobody"
            self.plane.client.post(self.pods, body)
            self.report(name, 1)

    def report(self, name: str, restarts: int) -> bool:
        """Write the status of a pod; return whether there is one."""
        body = {"status": crashing(restarts)}
        kind = "application/strategic-merge-patch+json"
        path = f"{self.pods}/{name}/status"
        answer = self.plane.client.patch(path, body, content_type=kind, check=False)
        return answer.status == 200

    def delete(self, name: str) -> None:
        self.plane.client.delete(f"{self.pods}/{name}", {"gracePeriodSeconds": 0})

    def stored(self) -> set[str]:
        """The names of the pods that kubectl finds."""
        items = self.plane.client.get(self.pods).body["items"]
        return {one["metadata"]["name"] for one in items}

    def broken(self) -> set[str]:
        """The names of everything of this namespace that home shows as broken."""
        status, text = self.guard.ops("/api/broken")
        assert status == 200, text
        found = json.loads(text)["notSettled"]
        return {one["name"] for one in found if one["namespace"] == self.namespace}

    def known(self) -> set[str]:
        """The names of the pods that genguard takes to exist."""
        found = json.loads(self.guard.ops(f"/api/objects?kind=Pod&namespace={self.namespace}")[1])
        return {one["name"] for one in found["objects"]}


def report_until_gone(scene: Scene, name: str) -> None:
    restarts = 2
    while scene.report(name, restarts):
        restarts += 1


def test_pods_that_are_gone_are_not_broken_whatever_was_written_while_they_went(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(cluster)
    flags = (f"--kubeconfig={cluster.kubeconfig}", "--watch=pods")
    with Genguard(*flags) as guard, registered(cluster, name, guard):
        scene = Scene(cluster, name, guard)
        scene.create()
        wait_until(lambda: scene.broken() == set(PODS), PATIENCE, what="broken pods shown")

        # Reviews that were sent before the deletion are read after it.
        guard.pause()
        with ThreadPoolExecutor(2 * len(PODS)) as pool:
            reports = [pool.submit(report_until_gone, scene, one) for one in PODS]
            time.sleep(1.0)
            for one in [pool.submit(scene.delete, one) for one in PODS]:
                one.result()
            guard.go_on()
            for report in reports:
                report.result()
        assert not scene.stored()
        wait_until(lambda: not scene.known(), PATIENCE, what="home without the pods")
        assert not scene.broken()


def test_a_namespace_that_is_gone_is_shown_no_more(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    """The last write of a namespace is to /finalize, of which genguard gets no review."""
    name = namespace(cluster)
    path = f"/api/v1/namespaces/{name}"
    with Genguard(f"--kubeconfig={cluster.kubeconfig}", "--watch=namespaces") as guard:

        def shown() -> set[str]:
            found = json.loads(guard.ops("/api/broken")[1])
            assert found["verdict"] != "broken"
            return {one["name"] for one in found["proceeding"]}

        body = {"metadata": {"name": "held", "finalizers": ["example.org/held"]}}
        cluster.client.post(f"{path}/configmaps", body)
        cluster.client.delete(path)
        wait_until(lambda: name in shown(), PATIENCE, what="the namespace in progress")
        free = {"metadata": {"finalizers": None}}
        cluster.client.patch(f"{path}/configmaps/held", free)
        gone = lambda: cluster.client.get(path, check=False).status == 404  # noqa: E731
        wait_until(gone, PATIENCE, what="the namespace gone")
        wait_until(lambda: name not in shown(), PATIENCE, what="home without the namespace")
