"""Objects that come and go for ever, and writes that never come out."""

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.controlplane.client import ApiError
from tests.controlplane.webhook_listener import Patch
from tests.e2e.culprits import deployment, pod
from tests.scenarios import culprits, refusing
from tests.scenarios.catalogue import scenario
from tests.scenarios.scene import Hook, Scene, Stored


@scenario()
def descheduler_against_a_replicaset(scene: Scene) -> None:
    """Whatever runs is deleted, and made again."""
    scene.create("apps/v1/deployments", deployment("web", replicas=1))
    for _ in range(9):
        scene.pause(0.6)
        scene.delete_all("v1/pods", "descheduler")
    scene.pause(0.5)


@scenario()
def descheduler_against_two_pods(scene: Scene) -> None:
    """One Pod after the other, each as soon as it runs, and without a grace period."""
    body = deployment("web", replicas=2)
    body["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 0
    scene.create("apps/v1/deployments", body)
    for _ in range(6):
        scene.pause(0.8)
        scene.delete_all("v1/pods", "descheduler")
    scene.pause(0.5)


@scenario()
def created_and_deleted_by_turns(scene: Scene) -> None:
    """Two users want a Job there, and not there."""
    for _ in range(8):
        job = scene.create("batch/v1/jobs", _job("nightly"), "alice")
        scene.pause(0.3)
        job.delete("bob")
        scene.pause(0.2)


@scenario()
def cleaned_away_and_made_again(scene: Scene) -> None:
    """A controller makes what a cleaner takes for a leftover."""
    for turn in range(9):
        widget = scene.create("example.org/v1/widgets", _widget("one"), "widget-controller")
        widget.status("widget-controller", observedGeneration=1, phase="Running")
        scene.pause(0.2 + turn % 3 / 10)
        widget.delete("cleaner")
        scene.pause(0.1)


@scenario()
def owner_that_is_not_there(scene: Scene) -> None:
    """The garbage collector deletes what names an owner that nobody knows."""
    owner = {
        "apiVersion": "example.org/v1", "kind": "Widget", "name": "gone",
        "uid": "00000000-0000-4000-8000-000000000001", "controller": True,
    }  # fmt: skip
    for _ in range(8):
        body = _job("child")
        body["metadata"]["ownerReferences"] = [owner]
        made = scene.create("batch/v1/jobs", body, "operator")
        made.wait_until_gone()
        scene.pause(0.1)


@scenario()
def update_refused_by_a_policy(scene: Scene) -> None:
    widget = scene.widget()
    with refusing.policy(scene, ["widgets"], "!has(object.spec.size) || object.spec.size < 5"):
        for turn in range(12):
            with suppress(ApiError):
                widget.spec("gitops", size=9)
            widget.status("widget-controller", observedGeneration=1, seen=turn)
            scene.pause(0.3)


@scenario()
def update_refused_by_a_webhook_that_is_gone(scene: Scene) -> None:
    web = scene.create("apps/v1/deployments", deployment("web", replicas=1))
    scene.pause(1.5)
    with refusing.webhook_that_is_gone(scene, ["deployments"]):
        for _ in range(12):
            with suppress(ApiError):
                web.spec("gitops", replicas=3)
            scene.pause(0.3)


@scenario()
def status_invalid_with_another_message_each_time(scene: Scene) -> None:
    """A controller of an older version of the schema: nothing of the status is ever stored."""
    widget = scene.widget()
    for turn in range(20):
        message = f"try {turn} failed"
        with suppress(ApiError):
            widget.status("widget-controller", readyGauges="none", message=message)
        scene.pause(0.3)


@scenario()
def puts_of_a_version_that_never_advances(scene: Scene) -> None:
    """A controller whose watch hangs: each PUT is answered 409, with the same version again."""
    widget = scene.widget()
    widget.status("widget-controller", observedGeneration=1)
    old = widget.get()
    widget.spec("deployer", size=2)
    stuck = scene.plane.client.as_user("stuck-controller", ["system:masters"])
    for turn in range(20):
        with suppress(ApiError):
            stuck.put(f"{widget.path}/status", {**old, "status": {"phase": f"try {turn}"}})
        scene.pause(0.3)


def _makes_invalid(request: Mapping[str, Any]) -> Patch:
    """Counts in text what the API server counts in numbers."""
    if request["operation"] != "UPDATE":
        return ()
    return [{"op": "add", "path": "/spec/minReadySeconds", "value": -1}]


@scenario(Hook("mmm-defaults", _makes_invalid, ("deployments",)))
def made_invalid_by_a_webhook(scene: Scene) -> None:
    web = scene.create("apps/v1/deployments", deployment("web", replicas=1))
    for _ in range(12):
        with suppress(ApiError):
            web.spec("gitops", replicas=3)
        scene.pause(0.3)


@scenario()
def pods_refused_by_a_quota(scene: Scene) -> None:
    refusing.quota(scene, pods=1)
    scene.create("apps/v1/deployments", deployment("web", replicas=2))
    scene.pause(12.0)


@scenario()
def pods_refused_by_a_policy(scene: Scene) -> None:
    with refusing.policy(scene, ["pods"], "has(object.metadata.annotations)"):
        scene.create("apps/v1/deployments", deployment("web", replicas=2))
        scene.pause(7.0)


@scenario()
def creation_refused_by_a_policy(scene: Scene) -> None:
    scene.widget("other")
    with refusing.policy(scene, ["widgets"], "object.spec.size < 5"):
        for _ in range(10):
            with suppress(ApiError):
                scene.create("example.org/v1/widgets", _widget("one", size=9), "gitops")
            scene.pause(0.3)


@scenario()
def several_refused_at_once(scene: Scene) -> None:
    """Two users are refused for ever, each with a change of his own; a third one is not."""
    widget = scene.widget()

    def ask(user: str, size: int) -> None:
        for _ in range(10):
            with suppress(ApiError):
                widget.spec(user, size=size)
            scene.pause(0.3)

    with refusing.policy(scene, ["widgets"], "!has(object.spec.size) || object.spec.size < 5"):
        users = (("alice", 8), ("bob", 9))
        threads = [threading.Thread(target=ask, args=one) for one in users]
        for one in threads:
            one.start()
        for one in threads:
            one.join()


def _job(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "image:1"}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return {"metadata": {"name": name}, "spec": spec}


def _widget(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": spec or {"size": 1},
    }


@scenario()
def two_owners_of_one_name(scene: Scene) -> None:
    """Each deletes what the other has made, and makes it again as its own."""
    owners = {user: scene.widget(f"of-{user}").get() for user in ("red", "blue")}
    made = None
    for turn in range(10):
        user = ("red", "blue")[turn % 2]
        scene.make_way(user, made)
        metadata = owners[user]["metadata"]
        owner = {
            "apiVersion": "example.org/v1", "kind": "Widget",
            "name": metadata["name"], "uid": metadata["uid"], "controller": True,
        }  # fmt: skip
        body = {**_widget("shared"), "kind": "Gauge"}
        body["metadata"]["ownerReferences"] = [owner]
        made = scene.create("example.org/v1/gauges", body, user)
        scene.pause(0.4)


@scenario()
def two_tools_replace_one_object(scene: Scene) -> None:
    """By deletion, since a field of it cannot be changed."""
    made = None
    for turn in range(10):
        user = ("installer", "migrator")[turn % 2]
        scene.make_way(user, made)
        made = scene.create("example.org/v1/widgets", _widget("one"), user)
        scene.pause(0.3)


@scenario()
def a_copy_that_is_old_for_ever(scene: Scene) -> None:
    """Its watch hangs: each PUT names the version of long ago, and is answered 409."""
    widget = scene.widget()
    old = widget.get()
    widget.spec("deployer", size=2)
    late = scene.plane.client.as_user("late-controller", ["system:masters"])
    for turn in range(16):
        with suppress(ApiError):
            late.put(widget.path, {**old, "spec": {"size": turn}})
        scene.pause(0.6)


@scenario()
def a_finalizer_that_cannot_be_removed(scene: Scene) -> None:
    """The same, where metadata is all that it changes."""
    body = _widget("one")
    body["metadata"]["finalizers"] = ["example.org/hold"]
    widget = scene.create("example.org/v1/widgets", body)
    old = widget.get()
    widget.delete("deployer")
    old["metadata"].pop("finalizers")
    late = scene.plane.client.as_user("late-controller", ["system:masters"])
    for _ in range(16):
        with suppress(ApiError):
            late.put(widget.path, old)
        scene.pause(0.6)
    widget.patch("deployer", {"metadata": {"finalizers": None}})


@scenario()
def pods_of_a_name_that_is_too_long_for_a_label(scene: Scene) -> None:
    """Each gets the name of its revision as a label (kubernetes/kubernetes#64023)."""
    body = deployment("db-" + 54 * "x", replicas=1)
    body["spec"]["template"]["metadata"]["labels"] = {"app": "db"}
    body["spec"] |= {"serviceName": "", "selector": {"matchLabels": {"app": "db"}}}
    scene.create("apps/v1/statefulsets", body)
    scene.pause(12.0)


_OPERATOR = "system:serviceaccount:search:operator"


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
def requests_for_a_certificate_without_end(scene: Scene) -> None:
    """What is issued never fits the Secret (cert-manager/cert-manager#6988)."""
    certificate = scene.widget("web-tls")
    for number in range(60):
        scene.create("example.org/v1/gauges", gauge_of(certificate, number), "cert-manager")
        scene.pause(0.1)


@scenario(Hook("mmm-agent", culprits.encodes_pods_without("restartPolicy"), ("pods",)))
def sidecars_stripped_by_an_old_agent(scene: Scene) -> None:
    """Its API is older than 1.28 (enix/kube-image-keeper#457); pods wait in Init for ever."""
    scene.create("apps/v1/deployments", with_sidecar(deployment("web", replicas=6)))
    scene.pause(3.0)


@scenario(Hook("mmm-agent", culprits.encodes_pods_without("restartPolicy"), ("pods",)))
def sidecars_stripped_and_refused(scene: Scene) -> None:
    """Without it a probe may not be set (doitintl/kube-secrets-init#53)."""
    probe = {"exec": {"command": ["true"]}}
    scene.create("apps/v1/deployments", with_sidecar(deployment("web"), startupProbe=probe))
    scene.pause(9.0)


def with_sidecar(body: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A workload whose pods have an init container that goes on (KEP-753)."""
    one = {"name": "proxy", "image": "image:1", "restartPolicy": "Always", **fields}
    body["spec"]["template"]["spec"]["initContainers"] = [one]
    return body


def gauge_of(parent: Stored, size: int) -> dict[str, Any]:
    """A child under a generated name."""
    found = parent.get()
    owner = {key: found[key] for key in ("apiVersion", "kind")}
    owner |= {key: found["metadata"][key] for key in ("name", "uid")}
    metadata = {"generateName": "web-tls-", "ownerReferences": [{**owner, "controller": True}]}
    return {
        "apiVersion": "example.org/v1",
        "kind": "Gauge",
        "metadata": metadata,
        "spec": {"size": size},
    }
