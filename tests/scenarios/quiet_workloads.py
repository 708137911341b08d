"""Workloads that live as they should, with all of Kubernetes' own controllers."""

from tests.e2e.culprits import deployment, pod
from tests.scenarios.catalogue import scenario
from tests.scenarios.scene import Scene


@scenario()
def rollouts(scene: Scene) -> None:
    scene.create("apps/v1/deployments", deployment("web"))
    for number in (2, 3, 4):
        scene.pause(1.0)
        scene.kubectl("set", "image", "deployment/web", f"c=image:{number}")
    scene.pause(1.5)


@scenario()
def rollback_and_again(scene: Scene) -> None:
    """One user takes a release back, and brings it out again: A, B, A, B."""
    scene.create("apps/v1/deployments", deployment("web", replicas=1))
    for image in ("image:2", "image:1", "image:2", "image:1"):
        scene.pause(0.7)
        scene.kubectl("set", "image", "deployment/web", f"c={image}")
    scene.pause(1.0)


@scenario()
def thirty_pods_at_once(scene: Scene) -> None:
    scene.create("apps/v1/deployments", deployment("many", replicas=30))
    scene.pause(4.0)


@scenario()
def generated_names(scene: Scene) -> None:
    body = pod()
    del body["metadata"]["name"]
    body["metadata"]["generateName"] = "one-"
    for _ in range(8):
        scene.create("v1/pods", body)
    scene.pause(2.0)


@scenario()
def scaled_up_and_down(scene: Scene) -> None:
    scene.create("apps/v1/deployments", deployment("web", replicas=3))
    for replicas in (0, 4, 1, 5, 2):
        scene.pause(0.5)
        scene.kubectl("scale", "deployment/web", f"--replicas={replicas}")
    scene.pause(1.0)
    scene.kubectl("delete", "deployment/web", "--wait=false")
    scene.pause(1.0)


@scenario()
def stateful_and_daemon_sets(scene: Scene) -> None:
    body = deployment("db")
    stateful = {**body, "spec": {**body["spec"], "serviceName": "db"}}
    scene.create("apps/v1/statefulsets", stateful)
    daemon = deployment("agent")
    del daemon["spec"]["replicas"]
    scene.create("apps/v1/daemonsets", daemon)
    scene.pause(2.0)
    scene.kubectl("set", "image", "statefulset/db", "c=image:2")
    scene.kubectl("set", "image", "daemonset/agent", "c=image:2")
    scene.pause(3.0)


@scenario()
def replicas_corrected_once(scene: Scene) -> None:
    web = scene.create("apps/v1/deployments", deployment("web", replicas=3))
    scene.pause(1.0)
    web.spec("somebody", replicas=1)
    scene.pause(0.5)
    web.spec("gitops", replicas=3)
    scene.pause(1.0)


@scenario()
def replicas_kept_as_an_autoscaler_has_them(scene: Scene) -> None:
    """By an operator that writes all else (apache/superset-kubernetes-operator#152)."""
    web = scene.create("apps/v1/deployments", deployment("web", replicas=1))
    for turn, replicas in enumerate((2, 4, 3, 2, 3, 4)):
        scene.pause(0.4)
        web.patch("horizontal-pod-autoscaler", {"spec": {"replicas": replicas}}, "scale")
        scene.pause(0.4)
        seen = {"labels": {"example.org/pass": str(turn)}}
        web.put("superset-operator", lambda found, seen=seen: found["metadata"].update(seen))


@scenario()
def annotations_of_many_tools(scene: Scene) -> None:
    """A Deployment's annotations count: four tools mark it by turns, each with its own."""
    web = scene.create("apps/v1/deployments", deployment("web"))
    for turn in range(16):
        user = f"tool-{turn % 4}"
        web.patch(user, {"metadata": {"annotations": {f"{user}/at": str(turn)}}})
        scene.pause(0.1)


@scenario()
def endpointslices_while_pods_come_and_go(scene: Scene) -> None:
    service = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    scene.create("v1/services", {"metadata": {"name": "web"}, "spec": service})
    scene.create("apps/v1/deployments", deployment("web", replicas=3))
    for number in range(2, 5):
        scene.pause(1.5)
        scene.kubectl("set", "image", "deployment/web", f"c=image:{number}")
        scene.kubectl("scale", "deployment/web", f"--replicas={2 + number % 2}")
    scene.pause(2.0)
