"""What a kubelet writes of pods, played on a real API server as its source says.

Mirror pods: pkg/kubelet/pod/mirror_client.go. Rejected pods: pkg/kubelet/kubelet.go:rejectPod.
Writes of status: pkg/kubelet/status/status_manager.go:syncPod, pkg/util/pod:PatchPodStatus.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cases_loader import read_beside
from tests.controlplane.client import Client, wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import RECORD, Genguard
from tests.e2e.recordings import examined, wrong_predictions
from tests.e2e.registrations import registered
from tests.e2e.statuses import Shop

NAMESPACE = "played-pods"
NODE = "played"
GATE = "gate.example.org/up"
STATUSES = read_beside(__file__, "kubelet_statuses.yaml")
STRATEGIC = "application/strategic-merge-patch+json"


class Kubelet:
    """A kubelet as far as the API server sees one; it runs no container."""

    def __init__(self, plane: ControlPlane) -> None:
        user = f"system:node:{NODE}"
        # The groups give the rights that the Node authorizer gives by its graph.
        self.client = plane.client.as_user(user, ["system:nodes", "system:masters"])
        node = {"metadata": {"name": NODE}, "status": {"nodeInfo": {}}}
        self.node_uid = plane.client.post("/api/v1/nodes", node).body["metadata"]["uid"]
        self.path = f"/api/v1/namespaces/{NAMESPACE}/pods"

    def create_mirror_pod(self, digest: str, image: str) -> dict[str, Any]:
        annotations = {"hash": digest, "mirror": digest, "source": "file", "seen": digest}
        body = pod("static", image)
        body["metadata"] |= {
            "annotations": {f"kubernetes.io/config.{key}": one for key, one in annotations.items()},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "name": NODE,
                    "uid": self.node_uid,
                    "controller": True,
                }
            ],
        }
        made: dict[str, Any] = self.client.post(self.path, body).body
        return made

    def delete_mirror_pod(self, uid: str) -> None:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        self.client.delete(f"{self.path}/static", options)

    def write(self, name: str, status: dict[str, Any]) -> dict[str, Any]:
        """Patches the status as PatchPodStatus does: with the uid, so that no other pod is hit."""
        uid = self.client.get(f"{self.path}/{name}").body["metadata"]["uid"]
        body = {"metadata": {"uid": uid}, "status": status}
        path = f"{self.path}/{name}/status"
        found: dict[str, Any] = self.client.patch(path, body, content_type=STRATEGIC).body
        return found

    def reject(self, name: str) -> dict[str, Any]:
        """What rejectPod writes; SetPodStatus adds the generation of the pod that it was given."""
        seen = self.client.get(f"{self.path}/{name}").body["metadata"]["generation"]
        return self.write(name, STATUSES["rejected"] | {"observedGeneration": seen})

    def run(self, name: str, generation: int, container: str, image: str) -> dict[str, Any]:
        status = copy.deepcopy(STATUSES["running"]) | {"observedGeneration": generation}
        status["conditions"][0]["observedGeneration"] = generation
        status["containerStatuses"][0] |= {
            "image": image,
            "imageID": f"{image}@sha256:{'a' * 64}",
            "containerID": f"containerd://{container}",
        }
        return self.write(name, status)


def pod(name: str, image: str = "nginx:1", **spec: Any) -> dict[str, Any]:
    spec = {"nodeName": NODE, "containers": [{"name": "c", "image": image}], **spec}
    return {"metadata": {"name": name}, "spec": {**spec, "automountServiceAccountToken": False}}


@pytest.fixture(scope="module")
def guard(apiserver: ControlPlane) -> Iterator[Genguard]:
    with Genguard(f"--kubeconfig={apiserver.kubeconfig}", "--watch=pods", RECORD) as running:
        yield running


@pytest.fixture(scope="module")
def kubelet(apiserver: ControlPlane, guard: Genguard) -> Iterator[Kubelet]:
    client = apiserver.client
    client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    account = {"metadata": {"name": "default"}}
    client.post(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
    with registered(apiserver, NAMESPACE, guard):
        yield Kubelet(apiserver)


@pytest.fixture(scope="module")
def admin(apiserver: ControlPlane) -> Client:
    return apiserver.client.as_user("alice", ["system:masters"])


def findings(guard: Genguard, name: str) -> list[dict[str, Any]]:
    status, text = guard.ops("/api/findings")
    assert status == 200, text
    return [one for one in json.loads(text)["findings"] if one["object"]["name"] == name]


def shown(guard: Genguard, name: str) -> dict[str, Any] | None:
    status, text = guard.ops(f"/api/objects?kind=Pod&namespace={NAMESPACE}&name={name}")
    assert status == 200, text
    found = [one for one in json.loads(text)["objects"] if one["name"] == name]
    return found[0] if found else None


def is_shown(guard: Genguard, name: str, **expected: Any) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        one = shown(guard, name)
        return one if one and {key: one[key] for key in expected} == expected else None

    return wait_until(found, what=f"{name} with {expected}, not {shown(guard, name)}")


def test_a_static_pod_that_changes_again_and_again_is_a_new_pod_each_time_and_no_loop(
    kubelet: Kubelet, guard: Genguard
) -> None:
    uids = set()
    for number in range(8):
        made = kubelet.create_mirror_pod(f"hash{number}", f"nginx:{number}")
        assert made["metadata"]["generation"] == 1
        running = kubelet.write(
            "static", {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        )
        # As the kubelet's own tests of mirror pods have it: it knows no generation of a file.
        assert "observedGeneration" not in running["status"]
        uids.add(made["metadata"]["uid"])
        is_shown(guard, "static", uid=made["metadata"]["uid"], generation=1, settled=True)
        if number < 7:
            kubelet.delete_mirror_pod(made["metadata"]["uid"])
    assert len(uids) == 8
    assert findings(guard, "static") == []


def test_a_mirror_pod_that_a_user_changes_counts_and_the_kubelet_takes_no_notice(
    kubelet: Kubelet, admin: Client, guard: Genguard
) -> None:
    path = f"{kubelet.path}/static"
    changed = admin.patch(path, {"spec": {"activeDeadlineSeconds": 9000}}).body
    assert changed["metadata"]["generation"] == 2
    written = kubelet.write("static", {"phase": "Running", "podIP": "192.0.2.7"})
    assert "observedGeneration" not in written["status"]
    is_shown(guard, "static", generation=2, settled=True)
    assert findings(guard, "static") == []


@pytest.mark.parametrize("changes", [0, 2], ids=["at-once", "after-changes"])
def test_a_pod_that_the_kubelet_rejects_has_the_generation_that_was_rejected(
    kubelet: Kubelet, admin: Client, guard: Genguard, changes: int
) -> None:
    name = f"rejected-{changes}"
    admin.post(kubelet.path, pod(name))
    for number in range(changes):
        patch = {"spec": {"activeDeadlineSeconds": 9000 - number}}
        admin.patch(f"{kubelet.path}/{name}", patch)
    found = kubelet.reject(name)
    assert found["metadata"]["generation"] == changes + 1
    assert found["status"]["observedGeneration"] == changes + 1
    assert found["status"]["phase"] == "Failed"
    one = is_shown(guard, name, generation=changes + 1, observedGeneration=changes + 1)
    assert (one["ready"], one["settled"], one["health"]) == (False, True, "Red")
    assert findings(guard, name) == []


def test_a_pod_is_settled_when_its_container_was_replaced_and_wait_waits_for_it(
    kubelet: Kubelet, admin: Client, guard: Genguard, apiserver: ControlPlane
) -> None:
    admin.post(kubelet.path, pod("web"))
    kubelet.run("web", 1, "c1", "docker.io/library/nginx:1")
    is_shown(guard, "web", generation=1, settled=True)
    with Shop(apiserver, NAMESPACE).wait("pod/web", "--for=reconciled=2") as waiting:
        waiting.says("Pod/web: ")
        patch = {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}
        path = f"{kubelet.path}/web"
        assert admin.patch(path, patch, content_type=STRATEGIC).body["metadata"]["generation"] == 2
        kubelet.run("web", 2, "c1", "docker.io/library/nginx:1")
        one = is_shown(guard, "web", generation=2, observedGeneration=2, settled=False)
        assert one["ready"]
        waiting.says("status.containerStatuses[c].image earlier")
        assert waiting.runs
        # containerd names the new container after another tag of the same image.
        kubelet.run("web", 2, "c2", "registry.example.com/mirror:7")
        is_shown(guard, "web", generation=2, settled=True, reconciledGeneration=2)
        waiting.ends(0)
    assert findings(guard, "web") == []


def test_whoever_writes_the_kubelets_status_is_told_and_whoever_writes_a_gate_is_not(
    kubelet: Kubelet, admin: Client, guard: Genguard
) -> None:
    admin.post(kubelet.path, pod("gated", readinessGates=[{"conditionType": GATE}]))
    kubelet.run("gated", 1, "c1", "nginx:1")
    gate = {"type": GATE, "status": "True", "observedGeneration": 1}
    path = f"{kubelet.path}/gated/status"
    admin.patch(path, {"status": {"conditions": [gate]}}, content_type=STRATEGIC)
    scheduler = kubelet.client.as_user("system:kube-scheduler", ["system:masters"])
    preempted = {"type": "DisruptionTarget", "status": "True", "observedGeneration": 1}
    scheduler.patch(path, {"status": {"conditions": [preempted]}}, content_type=STRATEGIC)
    is_shown(guard, "gated", observedGeneration=1)
    assert findings(guard, "gated") == []
    admin.patch(path, {"status": {"phase": "Failed", "reason": "Mine"}}, content_type=STRATEGIC)
    (one,) = wait_until(lambda: findings(guard, "gated"), what="the foreign writer told")
    assert (one["detector"], one["severity"]) == ("foreign-status-writer", "info")
    assert one["paths"] == ["/status/phase", "/status/reason"]
    assert [actor["name"] for actor in one["actors"]] == ["alice"]
    other = {"type": "other.example.org/up", "status": "True"}
    admin.patch(path, {"status": {"conditions": [other]}}, content_type=STRATEGIC)
    wait_until(
        lambda: (
            {one["detector"] for one in findings(guard, "gated")}
            == {"foreign-status-writer", "condition-generation-missing"}
        ),
        what="the condition without a generation told",
    )


def test_an_update_of_status_that_changes_nothing_is_counted(
    kubelet: Kubelet, admin: Client, guard: Genguard
) -> None:
    admin.post(kubelet.path, pod("still"))
    kubelet.run("still", 1, "c1", "nginx:1")
    name = "genguard_unchanged_status_writes_total"
    before = guard.metric(name, resource="pods")
    stored = kubelet.client.get(f"{kubelet.path}/still").body
    kubelet.client.put(f"{kubelet.path}/still/status", stored)
    wait_until(lambda: guard.metric(name, resource="pods") == before + 1, what="it is counted")


def test_every_write_was_predicted(kubelet: Kubelet, guard: Genguard) -> None:
    del kubelet
    guard.stop(at_once=True)
    reviews = examined(guard.recording, "Pod")
    assert len(reviews) > 50
    assert list(wrong_predictions(reviews)) == []
