"""Controllers that write several objects, or one after another's, as they should."""

from tests.e2e.culprits import deployment
from tests.scenarios.catalogue import scenario
from tests.scenarios.reacting import Reaction, every, reacting
from tests.scenarios.scene import Json, Scene


@scenario()
def one_operator_writes_many_objects_in_one_pass(scene: Scene) -> None:
    widgets = [scene.widget(f"part-{number}") for number in range(6)]
    for turn in range(12):
        for one in widgets:
            one.spec("stack-operator", revision=turn)
        scene.pause(0.1)


@scenario()
def two_objects_that_settle(scene: Scene) -> None:
    """A release makes both controllers write a few times in turn, and then all is done."""
    left, right = scene.widget("left"), scene.widget("right")
    for release in range(4):
        with reacting(
            Reaction("left-controller", left, right, _notes, times=3),
            Reaction("right-controller", right, left, _notes, times=3),
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
        Reaction("left-controller", left, source, _notes),
        Reaction("right-controller", right, source, _notes, 0.05),
    ):
        for turn in range(20):
            source.spec("editor", edit=turn)
            scene.pause(0.3)


@scenario()
def a_controller_follows_an_object_that_is_ramped_up(scene: Scene) -> None:
    """A user raises a number step by step, and a controller follows without owning anything."""
    wanted, made = scene.widget("wanted"), scene.widget("made")
    with reacting(Reaction("follower", made, wanted, _notes)):
        for size in range(24):
            wanted.spec("release-tool", size=size)
            scene.pause(0.2)


@scenario()
def replicas_ramped_up_step_by_step(scene: Scene) -> None:
    """An autoscaler scales a Deployment, and the deployment-controller its ReplicaSet."""
    web = scene.create("apps/v1/deployments", deployment("web", replicas=1))
    scene.pause(1.0)
    for replicas in range(2, 16):
        web.patch("horizontal-pod-autoscaler", {"spec": {"replicas": replicas}}, "scale")
        scene.pause(0.2)


@scenario()
def a_child_follows_its_parent(scene: Scene) -> None:
    """A user tries several sizes, and takes some back; an operator renders the child each time."""
    parent = scene.widget("parent")
    with reacting(Reaction("widget-operator", scene.child_of(parent), parent, _notes)):
        for size in (1, 2, 1, 3, 1, 2, 4, 2, 5):
            parent.spec("deployer", size=size)
            scene.pause(0.4)


def _notes(found: Json) -> Json:
    return {"seen": found["metadata"]["generation"]}


@scenario()
def copied_in_one_direction(scene: Scene) -> None:
    """The source is written by somebody else, as often as it is copied."""
    source, copy = (
        scene.create("v1/configmaps", {"metadata": {"name": name}, "data": {"a": "1"}})
        for name in ("source", "copy")
    )
    for turn in range(14):
        source.patch("owner", {"metadata": {"annotations": {"example.org/pass": str(turn)}}})
        scene.pause(0.2)
        version = source.get()["metadata"]["resourceVersion"]
        copy.patch("replicator", {"metadata": {"annotations": {"example.org/from": version}}})
        scene.pause(0.3)


@scenario()
def two_tools_stamp_two_objects_by_turns(scene: Scene) -> None:
    left, right = (
        scene.create("v1/configmaps", {"metadata": {"name": name}, "data": {"a": "1"}})
        for name in ("left", "right")
    )
    for turn in range(14):
        left.patch("scanner", {"metadata": {"annotations": {"example.org/scan": f"s{turn}"}}})
        scene.pause(0.2)
        right.patch("auditor", {"metadata": {"annotations": {"example.org/audit": f"a{turn}"}}})
        scene.pause(0.3)
