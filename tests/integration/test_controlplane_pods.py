"""Pods on kwok nodes behave as a kubelet of Kubernetes 1.35 or newer would let them."""

import time
from collections.abc import Mapping
from typing import Any

import pytest

from tests.controlplane.client import STRATEGIC_MERGE_PATCH, Client, wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import Patch, WebhookListener
from tests.waiting import PATIENCE

OWNED = {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"}


def pod(name: str = "one", **annotations: str) -> dict[str, Any]:
    marked = {f"genguard.io/test-{key.replace('_', '-')}": v for key, v in annotations.items()}
    containers = [{"name": "c", "image": "image:1", "resources": {"requests": {"cpu": "100m"}}}]
    return {
        "metadata": {"name": name, "labels": {"app": "a"}, "annotations": marked},
        "spec": {"containers": containers, "restartPolicy": "Never"},
    }


def template(name: str, **spec: Any) -> dict[str, Any]:
    inner = pod()
    inner["spec"].pop("restartPolicy")
    selector = {"matchLabels": {"app": "a"}}
    return {
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": inner, **spec},
    }


def conditions(found: Mapping[str, Any]) -> dict[str, Any]:
    return {each["type"]: each for each in found["status"].get("conditions", ())}


def is_observed(found: Mapping[str, Any]) -> bool:
    generation = found["metadata"]["generation"]
    every = [found["status"], *(conditions(found)[name] for name in OWNED & {*conditions(found)})]
    return all(each.get("observedGeneration") == generation for each in every)


def is_ready(found: Mapping[str, Any]) -> bool:
    return bool(conditions(found).get("Ready", {}).get("status") == "True")


def run(client: Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    client.post(path, body)
    at = f"{path}/{body['metadata']['name']}"

    def found() -> dict[str, Any] | None:
        seen: dict[str, Any] = client.get(at).body
        return seen if is_ready(seen) else None

    return wait_until(found, what=f"{at} ready")


def is_gone(client: Client, path: str) -> bool:
    return client.get(path, check=False).status == 404


def test_a_deployment_of_three_becomes_available(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(cluster)
    deployments = f"/apis/apps/v1/namespaces/{name}/deployments"
    cluster.client.post(deployments, template("web", replicas=3))
    cluster.kubectl("rollout", "status", "deployment/web", f"--namespace={name}", "--timeout=120s")
    web = cluster.client.get(f"{deployments}/web").body
    assert web["status"]["availableReplicas"] == 3
    assert web["status"]["observedGeneration"] == web["metadata"]["generation"] == 1
    pods = cluster.client.get(f"/api/v1/namespaces/{name}/pods").body["items"]
    assert {each["status"]["phase"] for each in pods} == {"Running"}
    assert {each["spec"]["nodeName"] for each in pods} == {"node-0", "node-1", "node-2"}
    for each in pods:
        assert conditions(each).keys() == OWNED
        assert is_observed(each)
        assert is_ready(each)


def test_the_kubelet_writes_under_a_kubelet_name(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(cluster)
    with (
        WebhookListener(cluster.authority) as listener,
        listener.registered(cluster, name, ["pods/status"]),
    ):
        run(cluster.client, f"/api/v1/namespaces/{name}/pods", pod())
        phases = [each["request"]["object"]["status"]["phase"] for each in listener.reviews]
        users = {each["request"]["userInfo"]["username"] for each in listener.reviews}
    assert phases == ["Pending", "Running", "Running"]
    assert users == {"system:node:kwok"}


@pytest.mark.parametrize(
    ("subresource", "change"),
    [
        ("/resize", {"containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}}}]}),
        ("", {"containers": [{"name": "c", "image": "image:2"}]}),
        ("", {"activeDeadlineSeconds": 1000}),
        ("/ephemeralcontainers", {"ephemeralContainers": [{"name": "debug", "image": "i"}]}),
    ],
    ids=["resize", "image", "deadline", "debugging"],
)
def test_a_moved_generation_is_observed(
    cluster: ControlPlane, namespace: NamespaceFactory, subresource: str, change: dict[str, Any]
) -> None:
    pods = f"/api/v1/namespaces/{namespace(cluster)}/pods"
    run(cluster.client, pods, pod())
    body = {"spec": change}
    cluster.client.patch(f"{pods}/one{subresource}", body, content_type=STRATEGIC_MERGE_PATCH)

    def seen() -> dict[str, Any] | None:
        found: dict[str, Any] = cluster.client.get(f"{pods}/one").body
        settled = is_observed(found) and conditions(found).keys() == OWNED
        return found if settled and found["metadata"]["generation"] == 2 else None

    found = wait_until(seen)
    (container,), (status,) = found["spec"]["containers"], found["status"]["containerStatuses"]
    assert status["resources"] == container["resources"]
    assert status["image"] == container["image"]
    assert status["restartCount"] == (1 if container["image"] == "image:2" else 0)


def test_deletion_is_observed_and_then_honoured(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    pods = f"/api/v1/namespaces/{namespace(cluster)}/pods"
    made = run(cluster.client, pods, pod(terminates_after="700ms"))
    cluster.client.delete(f"{pods}/one")
    version = {"resourceVersion": made["metadata"]["resourceVersion"]}
    events = []
    for each in cluster.client.watch(pods, params=version, timeout=PATIENCE):
        events.append(each)
        if each.type == "DELETED":
            break
    seen = [
        (
            each.type,
            each.object["metadata"]["generation"],
            each.object["status"]["observedGeneration"],
            each.object["status"]["phase"],
        )
        for each in events
    ]
    assert seen == [
        ("MODIFIED", 2, 1, "Running"),
        ("MODIFIED", 2, 2, "Running"),
        ("MODIFIED", 2, 2, "Succeeded"),
        ("MODIFIED", 2, 2, "Succeeded"),  # grace 0
        ("DELETED", 2, 2, "Succeeded"),
    ]


def test_a_pod_with_a_finalizer_ends_once_and_stays(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(cluster)
    body = pod()
    body["metadata"]["finalizers"] = ["genguard.io/test"]
    pods = f"/api/v1/namespaces/{name}/pods"
    run(cluster.client, pods, body)
    with WebhookListener(cluster.authority) as listener, listener.registered(cluster, name, ["*"]):
        cluster.client.delete(f"{pods}/one")
        time.sleep(1)
        deletes = [each for each in listener.reviews if each["request"]["operation"] == "DELETE"]
    found = cluster.client.get(f"{pods}/one").body
    assert found["status"]["phase"] == "Succeeded"
    assert [each["request"]["userInfo"]["username"] for each in deletes] == [
        "kubernetes-admin",
        "system:node:kwok",
    ]
    cluster.client.patch(f"{pods}/one", {"metadata": {"finalizers": None}})
    wait_until(lambda: is_gone(cluster.client, f"{pods}/one"))


def test_a_job_completes_when_its_pods_are_annotated(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(cluster)
    jobs = f"/apis/batch/v1/namespaces/{name}/jobs"
    for job, code in (("good", "0"), ("bad", "3")):
        inner = pod(completes_after="100ms", exit_code=code)
        body = {"metadata": {"name": job}, "spec": {"template": inner, "backoffLimit": 0}}
        cluster.client.post(jobs, body)
    for job, condition in (("good", "complete"), ("bad", "failed")):
        wait = f"--for=condition={condition}"
        cluster.kubectl("wait", f"job/{job}", wait, f"--namespace={name}", "--timeout=120s")
    for each in cluster.client.get(f"/api/v1/namespaces/{name}/pods").body["items"]:
        good = each["metadata"]["labels"]["job-name"] == "good"
        assert each["status"]["phase"] == ("Succeeded" if good else "Failed")
        (container,) = each["status"]["containerStatuses"]
        assert container["state"]["terminated"]["exitCode"] == (0 if good else 3)
        assert not container["ready"]


def test_an_unready_pod_still_observes_its_generation(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    pods = f"/api/v1/namespaces/{namespace(cluster)}/pods"
    cluster.client.post(pods, pod(ready_after="1h"))

    def observed(generation: int) -> bool:
        found = cluster.client.get(f"{pods}/one").body
        return is_observed(found) and found["status"]["observedGeneration"] == generation

    wait_until(lambda: observed(1))
    cluster.client.patch(f"{pods}/one", {"spec": {"activeDeadlineSeconds": 1000}})
    wait_until(lambda: observed(2))
    assert not is_ready(cluster.client.get(f"{pods}/one").body)


def test_a_readiness_gate_is_waited_for(cluster: ControlPlane, namespace: NamespaceFactory) -> None:
    pods = f"/api/v1/namespaces/{namespace(cluster)}/pods"
    body = pod()
    body["spec"]["readinessGates"] = [{"conditionType": "example.com/gate"}]
    cluster.client.post(pods, body)
    wait_until(lambda: cluster.client.get(f"{pods}/one").body["status"]["phase"] == "Running")
    assert not is_ready(cluster.client.get(f"{pods}/one").body)
    gate = {"status": {"conditions": [{"type": "example.com/gate", "status": "True"}]}}
    cluster.client.patch(f"{pods}/one/status", gate, content_type=STRATEGIC_MERGE_PATCH)
    wait_until(lambda: is_ready(cluster.client.get(f"{pods}/one").body))


def test_a_stateful_set_replaces_its_pods_under_their_names(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(cluster)
    path = f"/apis/apps/v1/namespaces/{name}/statefulsets"
    cluster.client.post(path, template("db", replicas=3, serviceName="db"))
    rollout = ("rollout", "status", "statefulset/db", f"--namespace={name}", "--timeout=120s")
    cluster.kubectl(*rollout)
    pods = f"/api/v1/namespaces/{name}/pods"
    first = {each["metadata"]["uid"] for each in cluster.client.get(pods).body["items"]}
    cluster.kubectl("rollout", "restart", "statefulset/db", f"--namespace={name}")
    cluster.kubectl(*rollout)
    second = cluster.client.get(pods).body["items"]
    assert {each["metadata"]["name"] for each in second} == {"db-0", "db-1", "db-2"}
    assert not first & {each["metadata"]["uid"] for each in second}
    assert all(is_observed(each) for each in second)


def clears_observed_generation(request: Mapping[str, Any]) -> Patch:
    if "observedGeneration" not in request["object"]["status"]:
        return ()
    return [{"op": "remove", "path": "/status/observedGeneration"}]


def test_a_clearing_webhook_makes_the_endless_loop_but_not_an_endless_pod(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(cluster)
    pods = f"/api/v1/namespaces/{name}/pods"
    with (
        WebhookListener(cluster.authority, clears_observed_generation) as listener,
        listener.registered(cluster, name, ["pods/status"]),
    ):
        run(cluster.client, pods, pod())
        before = len(listener.reviews)
        time.sleep(1)
        assert len(listener.reviews) - before >= 5
        assert "observedGeneration" not in cluster.client.get(f"{pods}/one").body["status"]
        cluster.client.delete(f"{pods}/one")
        wait_until(lambda: is_gone(cluster.client, f"{pods}/one"))
