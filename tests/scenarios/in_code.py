"""Scenarios whose writers need code: what they write is drawn, or depends on what came of it."""

import random
from contextlib import suppress
from datetime import UTC, datetime

from tests.controlplane.client import ApiError
from tests.e2e.culprits import deployment, pod
from tests.scenarios import culprits
from tests.scenarios.catalogue import scenario
from tests.scenarios.scene import Hook, Json, Scene

_OPERATOR = "system:serviceaccount:search:operator"
_HOLD = ["example.org/hold"]
_GAUGE = {"apiVersion": "example.org/v1", "kind": "Gauge"}
_WIDGET = {"apiVersion": "example.org/v1", "kind": "Widget"}


def _shuffled(found: Json, chance: random.Random) -> None:
    (container,) = found["spec"]["template"]["spec"]["containers"]
    names = [one["name"] for one in container["env"]]
    while [one["name"] for one in container["env"]] == names:
        chance.shuffle(container["env"])


@scenario()
def environment_in_the_order_of_a_map(scene: Scene) -> None:
    """An operator that ranges over a map; there are few orders, and some come back."""
    body = deployment("web", replicas=0)
    (container,) = body["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": f"VARIABLE_{number}", "value": "x"} for number in range(4)]
    web, chance = scene.create("apps/v1/deployments", body), random.Random(1)
    for _ in range(12):
        web.put("web-operator", lambda found: _shuffled(found, chance))
        scene.pause(0.4)


@scenario()
def an_autoscaler_says_what_it_sees_at_each_pass(scene: Scene) -> None:
    """In one text of a ConfigMap, with the times of its probes (kubernetes/autoscaler#6375)."""
    seen = scene.create("v1/configmaps", {"metadata": {"name": "cluster-autoscaler-status"}})
    for turn in range(20):
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}000 +0000 UTC"
        health = f"status: Healthy\n    ready: {7 + turn // 8}\n    lastProbeTime: {now}"
        text = f"time: {now}\nautoscalerStatus: Running\nclusterWide:\n  health:\n    {health}\n"
        annotations = {"cluster-autoscaler.kubernetes.io/last-updated": now}
        body = {"metadata": {"annotations": annotations}, "data": {"status": text}}
        seen.patch("cluster-autoscaler", body)
        scene.pause(2.0)


@scenario(Hook("mmm-mirror", culprits.mirrors_images, ("pods",)))
def bootstrap_pod_that_is_never_as_wanted(scene: Scene) -> None:
    """Its operator compares the whole spec (opensearch-project/opensearch-k8s-operator#1503)."""
    for _ in range(11):
        made, wanted = scene.create("v1/pods", pod("bootstrap"), _OPERATOR), pod("bootstrap")
        if made.get()["spec"]["containers"][0]["image"] == wanted["spec"]["containers"][0]["image"]:
            return
        scene.pause(0.2)
        made.delete(_OPERATOR)
        made.wait_until_gone()


@scenario()
def children_as_many_as_are_needed(scene: Scene) -> None:
    """Each under a new name, and those before them go."""
    found = scene.widget("web-tls").get()
    owner = {key: found[key] for key in ("apiVersion", "kind")} | {"controller": True}
    owner |= {key: found["metadata"][key] for key in ("name", "uid")}
    metadata = {"generateName": "web-tls-", "ownerReferences": [owner]}
    for size in range(30):
        body = {**_GAUGE, "metadata": metadata, "spec": {"size": size}}
        made = [scene.create("example.org/v1/gauges", body, "operator") for _ in range(2)]
        scene.pause(0.1)
        for one in made:
            one.delete("operator")


@scenario()
def finalizers_added_once_and_removed_once(scene: Scene) -> None:
    """Eight objects live and end, one after the other, under one name too."""
    for turn in range(8):
        widget = scene.widget(("one", f"two-{turn}")[turn % 2])
        widget.put(
            "operator", lambda found: found["metadata"].update(finalizers=["example.org/hold"])
        )
        widget.status("operator", observedGeneration=1)
        scene.plane.client.as_user("deployer", ["system:masters"]).delete(widget.path)
        widget.put("operator", lambda found: found["metadata"].pop("finalizers"))
        scene.pause(0.1)


@scenario()
def finalizers_that_came_back_once_or_twice(scene: Scene) -> None:
    """With each deletion in the foreground (numaproj/numaplane#725), until the cache is new."""
    gitops = scene.plane.client.as_user("gitops", ["system:masters"])
    for number in range(8):
        metadata = {"name": f"rollout-{number}", "finalizers": _HOLD}
        body = {**_WIDGET, "metadata": metadata, "spec": {"size": 1}}
        widget = scene.create("example.org/v1/widgets", body)
        gitops.delete(widget.path, {"propagationPolicy": "Foreground"})
        widget.wait_for(lambda found: found["metadata"]["finalizers"] == _HOLD)
        for others in (["foregroundDeletion"], ["foregroundDeletion"], []):
            with suppress(ApiError):
                widget.patch("numaplane", {"metadata": {"finalizers": others}})


@scenario()
def refused_puts_of_a_stale_cache(scene: Scene) -> None:
    """A controller whose cache hangs behind: each PUT is refused, none is stored."""
    widget = scene.widget()
    widget.status("widget-controller", observedGeneration=1, phase="Ready")
    old = widget.get()
    widget.spec("deployer", size=2)
    late = scene.plane.client.as_user("late-controller", ["system:masters"])
    for _ in range(15):
        try:
            late.put(f"{widget.path}/status", {**old, "status": {"phase": "Pending"}})
        except ApiError as error:
            assert error.status == 409
    widget.status("widget-controller", observedGeneration=2)
