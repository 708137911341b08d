"""Scenarios that reach further than one object: controllers react to what others have written."""

import itertools
from collections.abc import Mapping
from typing import Any

from tests.controlplane.webhook_listener import Patch
from tests.e2e.culprits import deployment
from tests.scenarios.catalogue import scenario
from tests.scenarios.reacting import Reaction, every, reacting
from tests.scenarios.scene import Hook, Json, Scene, Stored


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


@scenario()
def two_objects_that_settle(scene: Scene) -> None:
    """A release makes both controllers write a few times in turn, and then all is done."""
    left, right = scene.widget("left"), scene.widget("right")
    for release in range(4):
        with reacting(
            Reaction("left-controller", left, right, _notes_generation, times=3),
            Reaction("right-controller", right, left, _notes_generation, times=3),
        ):
            left.spec("deployer", release=release)
            scene.pause(1.5)


@scenario()
def two_controllers_of_one_period(scene: Scene) -> None:
    """Each writes at its own interval, which is the same, and nothing of the other's."""
    left, right = scene.widget("left"), scene.widget("right")
    with every(
        0.3,
        lambda: left.spec("left-controller", tick=scene.tick()),
        lambda: right.spec("right-controller", tick=scene.tick()),
    ):
        scene.pause(12.0)


@scenario()
def two_controllers_follow_a_third(scene: Scene) -> None:
    """A user edits a source, and two controllers render what follows from it."""
    source, left, right = scene.widget("source"), scene.widget("left"), scene.widget("right")
    with reacting(
        Reaction("left-controller", left, source, _notes_generation),
        Reaction("right-controller", right, source, _notes_generation, 0.05),
    ):
        for turn in range(20):
            source.spec("editor", edit=turn)
            scene.pause(0.3)


@scenario()
def a_controller_follows_an_object_that_is_ramped_up(scene: Scene) -> None:
    """A user raises a number step by step, and a controller follows without owning anything."""
    wanted, made = scene.widget("wanted"), scene.widget("made")
    with reacting(Reaction("follower", made, wanted, _notes_generation)):
        for size in range(24):
            wanted.spec("release-tool", size=size)
            scene.pause(0.2)


@scenario()
def a_child_follows_its_parent(scene: Scene) -> None:
    """A user tries several sizes, and takes some back; an operator renders the child each time."""
    parent = scene.widget("parent")
    with reacting(Reaction("widget-operator", scene.child_of(parent), parent, _notes_generation)):
        for size in (1, 2, 1, 3, 1, 2, 4, 2, 5):
            parent.spec("deployer", size=size)
            scene.pause(0.4)
