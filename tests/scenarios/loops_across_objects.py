"""Loops that reach further than one object: what follows from a fight, and two that chase."""

import itertools
from collections.abc import Mapping
from typing import Any

from tests.controlplane.webhook_listener import Patch
from tests.e2e.culprits import deployment
from tests.scenarios.catalogue import scenario
from tests.scenarios.reacting import Reaction, reacting
from tests.scenarios.scene import Hook, Json, Scene, Stored

_COPIED = "replicator.example.org/from-version"


@scenario()
def replicas_fought_over_above_a_replica_set(scene: Scene) -> None:
    """The deployment-controller does as it is asked, and walks the ReplicaSet to and fro."""
    web = scene.create("apps/v1/deployments", deployment("web", replicas=1))
    scene.pause(1.0)
    for turn in range(14):
        web.spec(("gitops", "autoscaler")[turn % 2], replicas=(1, 2)[turn % 2])
        scene.pause(0.2)


@scenario()
def a_replica_set_with_a_fight_of_its_own(scene: Scene) -> None:
    """Its Deployment is fought over, and so is the ReplicaSet: a tuner writes its replicas."""
    web = scene.create("apps/v1/deployments", deployment("web", replicas=0))
    scene.pause(1.0)
    path = scene.collection("apps/v1/replicasets")
    (found,) = scene.plane.client.get(path).body["items"]
    below = scene.stored("apps/v1/replicasets", found["metadata"]["name"])
    for turn in range(8):
        web.spec(("gitops", "autoscaler")[turn % 2], replicas=(1, 0)[turn % 2])
        scene.pause(0.15)
        below.spec("replica-tuner", replicas=2)
        scene.pause(0.15)


@scenario()
def a_child_of_what_two_fight_over(scene: Scene) -> None:
    """An operator renders its child as often as the parent moves, and reports what it has seen."""
    parent = scene.widget("parent")
    child = scene.child_of(parent)

    def report(found: Json) -> None:
        parent.status("widget-operator", observedGeneration=found["metadata"]["generation"])

    with reacting(Reaction("widget-operator", child, parent, _copies_size, then=report)):
        _fight_over(scene, parent, turns=40)


@scenario()
def a_child_of_what_two_fight_over_and_nobody_reports(scene: Scene) -> None:
    """The operator writes no status at all."""
    parent = scene.widget("parent")
    with reacting(Reaction("widget-operator", scene.child_of(parent), parent, _copies_size)):
        _fight_over(scene, parent, turns=40)


def _flips_size() -> Any:
    """Writes another size each time it is asked."""
    numbers = itertools.cycle((1, 2))

    def patch(request: Mapping[str, Any]) -> Patch:
        if request["operation"] != "UPDATE":
            return ()
        return [{"op": "replace", "path": "/spec/size", "value": next(numbers)}]

    return patch


@scenario(Hook("mmm-flipper", _flips_size(), ("widgets",)))
def a_child_of_what_a_webhook_flips(scene: Scene) -> None:
    """Each sync changes a label alone, and a webhook the size."""
    parent = scene.widget("parent")
    with reacting(Reaction("widget-operator", scene.child_of(parent), parent, _copies_size)):
        for turn in range(40):
            parent.patch("gitops", {"metadata": {"labels": {"synced": str(turn)}}})
            scene.pause(0.15)


@scenario()
def a_child_that_somebody_else_walks(scene: Scene) -> None:
    """Its parent is fought over; its operator reports only, and a tuner walks the child."""
    parent = scene.widget("parent")
    child = scene.child_of(parent)
    for turn in range(30):
        parent.spec(("gitops", "autoscaler")[turn % 2], size=(1, 2)[turn % 2])
        parent.status("widget-operator", observedGeneration=parent.generation)
        scene.pause(0.05)
        child.spec("tuner", size=(5, 6)[turn % 2])
        scene.pause(0.05)


@scenario()
def a_child_that_is_walked_after_the_fight(scene: Scene) -> None:
    """Its operator goes on to and fro by itself once the parent is quiet."""
    parent = scene.widget("parent")
    child = scene.child_of(parent)
    with reacting(Reaction("widget-operator", child, parent, _copies_size)):
        _fight_over(scene, parent, turns=24)
    scene.pause(2.0)
    for turn in range(60):
        child.spec("widget-operator", size=(1, 2)[turn % 2])
        scene.pause(0.1)


def _fight_over(scene: Scene, parent: Stored, turns: int) -> None:
    for turn in range(turns):
        parent.spec(("gitops", "autoscaler")[turn % 2], size=(1, 2)[turn % 2])
        scene.pause(0.15)


def _copies_size(found: Json) -> Json:
    return {"size": found["spec"]["size"] * 10}


@scenario()
def two_controllers_chase_each_other(scene: Scene) -> None:
    """Each notes in its object which generation of the other it has seen."""
    left, right = scene.widget("left"), scene.widget("right")
    with reacting(
        Reaction("left-controller", left, right, _notes_generation),
        Reaction("right-controller", right, left, _notes_generation),
    ):
        left.spec("deployer", size=2)
        scene.pause(4.0)


@scenario()
def two_controllers_chase_each_other_slowly(scene: Scene) -> None:
    """Each notes the resourceVersion that it has seen, and takes its time."""
    source, rendered = scene.widget("source"), scene.gauge("rendered")
    with reacting(
        Reaction("renderer", rendered, source, _notes_version, 0.5),
        Reaction("source-controller", source, rendered, _notes_version, 0.9),
    ):
        source.spec("deployer", size=2)
        scene.pause(18.0)


@scenario()
def two_controllers_chase_each_other_by_checksums(scene: Scene) -> None:
    """Nothing that the one writes is to be found in what the other has written."""
    source, rendered = scene.widget("source"), scene.gauge("rendered")
    with reacting(
        Reaction("renderer", rendered, source, _notes_checksum, 0.03),
        Reaction("source-controller", source, rendered, _notes_checksum),
    ):
        source.spec("deployer", size=2)
        scene.pause(7.0)


def _notes_generation(found: Json) -> Json:
    return {"seen": found["metadata"]["generation"]}


def _notes_version(found: Json) -> Json:
    return {"seen": found["metadata"]["resourceVersion"]}


def _notes_checksum(found: Json) -> Json:
    return {"checksum": f"{found['metadata']['generation'] * 7919:x}"}


def _copies_version(found: Json) -> Json:
    return {"metadata": {"annotations": {_COPIED: found["metadata"]["resourceVersion"]}}}


@scenario()
def two_replicators_copy_to_each_other(scene: Scene) -> None:
    """Each writes down of which version its copy is; nothing else changes."""
    left, right = (
        scene.create("v1/configmaps", {"metadata": {"name": name}, "data": {"a": "1"}})
        for name in ("left", "right")
    )
    for _ in range(14):
        left.patch("replicator-of-right", _copies_version(right.get()))
        scene.pause(0.2)
        right.patch("replicator-of-left", _copies_version(left.get()))
        scene.pause(0.3)


@scenario()
def a_secret_and_its_configmap_are_kept_alike(scene: Scene) -> None:
    """Two tools, each of which writes down which version of the other it has seen."""
    secret = scene.create("v1/secrets", {"metadata": {"name": "one"}, "stringData": {"a": "1"}})
    settings = scene.create("v1/configmaps", {"metadata": {"name": "two"}, "data": {"a": "1"}})
    for _ in range(14):
        secret.patch("secret-keeper", _copies_version(settings.get()))
        scene.pause(0.3)
        settings.patch("reflector", _copies_version(secret.get()))
        scene.pause(0.2)
