"""Objects that come and go as they should, and writes that are refused and then come out."""

import threading
from contextlib import suppress
from typing import Any

from tests.controlplane.client import ApiError
from tests.e2e.culprits import deployment
from tests.scenarios import refusing
from tests.scenarios.catalogue import scenario
from tests.scenarios.loops_of_lives import _job, _widget, gauge_of
from tests.scenarios.scene import Scene


@scenario()
def jobs_with_a_ttl(scene: Scene) -> None:
    """One name each time: made by a pipeline, deleted when its time is over."""
    for _ in range(7):
        body = _job("migrate")
        body["spec"]["ttlSecondsAfterFinished"] = 0
        body["spec"]["template"]["metadata"] = {
            "annotations": {"genguard.io/test-completes-after": "100ms"}
        }
        scene.create("batch/v1/jobs", body, "pipeline").wait_until_gone()
        scene.pause(0.1)


@scenario()
def finished_jobs_cleaned_away(scene: Scene) -> None:
    for _ in range(7):
        body = _job("report")
        body["spec"]["template"]["metadata"] = {
            "annotations": {"genguard.io/test-completes-after": "100ms"}
        }
        job = scene.create("batch/v1/jobs", body, "pipeline")
        job.wait_for(lambda found: "completionTime" in found.get("status", {}))
        job.delete("cleaner")
        scene.pause(0.1)


@scenario()
def restarted_by_rollouts(scene: Scene) -> None:
    scene.create("apps/v1/deployments", deployment("web", replicas=1))
    for _ in range(6):
        scene.pause(0.9)
        scene.kubectl("rollout", "restart", "deployment/web")
    scene.pause(1.0)


@scenario()
def to_zero_and_back(scene: Scene) -> None:
    web = scene.create("apps/v1/deployments", deployment("web", replicas=1))
    for turn in range(14):
        scene.pause(0.5)
        web.spec("autoscaler", replicas=turn % 2)
    scene.pause(0.5)


@scenario()
def drained_in_waves(scene: Scene) -> None:
    """All Pods of a node are deleted, and after a while those of the next node."""
    scene.create("apps/v1/deployments", deployment("web", replicas=4))
    for _ in range(2):
        scene.pause(2.0)
        scene.delete_all("v1/pods", "administrator")
    scene.pause(1.5)


@scenario()
def deployed_and_deleted_by_one_pipeline(scene: Scene) -> None:
    """Deployments of one name make ReplicaSets of one name, which the garbage collector deletes."""
    for _ in range(7):
        web = scene.create("apps/v1/deployments", deployment("web", replicas=1), "pipeline")
        scene.pause(0.4)
        web.delete("pipeline")
        scene.wait_until_none("apps/v1/replicasets")


@scenario()
def suite_that_makes_and_deletes_one_name(scene: Scene) -> None:
    for _ in range(10):
        widget = scene.create("example.org/v1/widgets", _widget("one"), "suite")
        widget.status("widget-controller", observedGeneration=1)
        widget.delete("suite")
        scene.pause(0.1)


@scenario()
def operator_that_replaces_its_job(scene: Scene) -> None:
    for _ in range(8):
        job = scene.create("batch/v1/jobs", _job("step"), "operator")
        scene.pause(0.3)
        job.delete("operator")


@scenario()
def pod_restarted_by_hand(scene: Scene) -> None:
    scene.create("apps/v1/deployments", deployment("web", replicas=1))
    for _ in range(3):
        scene.pause(1.0)
        scene.delete_all("v1/pods", "somebody")
    scene.pause(1.0)


@scenario()
def created_although_it_is_there(scene: Scene) -> None:
    """A controller creates at each pass, and takes AlreadyExists for an answer."""
    scene.create("v1/services", _service("web"), "controller")
    for _ in range(12):
        with suppress(ApiError):
            scene.create("v1/services", _service("web"), "controller")
        with suppress(ApiError):
            scene.create("example.org/v1/widgets", _widget("one"), "controller")
        scene.pause(0.2)


@scenario()
def wrong_three_times(scene: Scene) -> None:
    widget = scene.widget()
    with refusing.policy(scene, ["widgets"], "!has(object.spec.size) || object.spec.size < 5"):
        for _ in range(3):
            with suppress(ApiError):
                widget.spec("somebody", size=9)
            scene.pause(0.7)
        widget.spec("somebody", size=4)
        for size in (8, 7, 6, 3):
            with suppress(ApiError):
                scene.create("example.org/v1/widgets", _widget("two", size=size), "somebody")
            scene.pause(0.5)


@scenario()
def refused_until_it_is_allowed(scene: Scene) -> None:
    widget = scene.widget()
    with refusing.policy(scene, ["widgets"], "!has(object.spec.size) || object.spec.size < 5"):
        for _ in range(3):
            with suppress(ApiError):
                widget.spec("gitops", size=9)
            scene.pause(0.5)
    for _ in range(10):
        with suppress(ApiError):
            widget.spec("gitops", size=9)
        scene.pause(0.2)


@scenario()
def conflicts_tried_again(scene: Scene) -> None:
    widget = scene.widget()

    def count(user: str) -> None:
        for turn in range(10):
            widget.put(user, lambda found, n=turn: found["spec"].update({user: n}))

    threads = [threading.Thread(target=count, args=(f"writer-{one}",)) for one in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


@scenario()
def dry_runs_refused(scene: Scene) -> None:
    widget = scene.widget()
    with refusing.policy(scene, ["widgets"], "!has(object.spec.size) || object.spec.size < 5"):
        for _ in range(10):
            with suppress(ApiError):
                widget.patch("gitops", {"spec": {"size": 9}}, dryRun="All")
            with suppress(ApiError):
                scene.create("example.org/v1/widgets", _widget("two", size=9), dryRun="All")
            scene.pause(0.2)


@scenario()
def pods_up_to_a_quota(scene: Scene) -> None:
    """As many as there may be, and one more when another one goes."""
    refusing.quota(scene, pods=40)
    web = scene.create("apps/v1/deployments", deployment("web", replicas=4))
    for replicas in (5, 6, 7, 8, 9, 10):
        scene.pause(0.7)
        web.spec("autoscaler", replicas=replicas)
    scene.pause(2.0)


def _service(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}


@scenario()
def replaced_by_one_tool_and_then_by_another(scene: Scene) -> None:
    """Three times in all, as in a migration that is done again."""
    made = None
    for user in ("installer", "migrator", "installer", "migrator"):
        scene.make_way(user, made)
        made = scene.create("example.org/v1/widgets", _widget("one"), user)
        scene.pause(0.4)


@scenario()
def a_copy_that_is_old_for_two_seconds(scene: Scene) -> None:
    """A watch that is late; then it names the version that is stored."""
    widget = scene.widget()
    old = widget.get()
    widget.spec("deployer", size=2)
    late = scene.plane.client.as_user("late-controller", ["system:masters"])
    for turn in range(6):
        with suppress(ApiError):
            late.put(widget.path, {**old, "spec": {"size": turn}})
        scene.pause(0.3)
    widget.spec("late-controller", size=9)


@scenario()
def children_as_many_as_are_needed(scene: Scene) -> None:
    """Each under a new name, and those before them go."""
    owner = scene.widget("web-tls")
    for size in range(30):
        body = gauge_of(owner, size)
        made = [scene.create("example.org/v1/gauges", body, "operator") for _ in range(2)]
        scene.pause(0.1)
        for one in made:
            one.delete("operator")


@scenario()
def finalizers_that_came_back_once_or_twice(scene: Scene) -> None:
    """With each deletion in the foreground (numaproj/numaplane#725), until the cache is new."""
    hold, gitops = ["example.org/hold"], scene.plane.client.as_user("gitops", ["system:masters"])
    for number in range(8):
        body = _widget(f"rollout-{number}")
        body["metadata"]["finalizers"] = hold
        widget = scene.create("example.org/v1/widgets", body)
        gitops.delete(widget.path, {"propagationPolicy": "Foreground"})
        widget.wait_for(lambda found: found["metadata"]["finalizers"] == hold)
        for others in (["foregroundDeletion"], ["foregroundDeletion"], []):
            with suppress(ApiError):
                widget.patch("numaplane", {"metadata": {"finalizers": others}})
