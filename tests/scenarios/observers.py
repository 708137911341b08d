"""Controllers that raise observedGeneration as they should, and as they should not."""

from collections.abc import Callable

from tests.e2e.culprits import deployment
from tests.scenarios.catalogue import scenario
from tests.scenarios.scene import Json, Scene, Stored, condition, set_condition

_OPERATOR = "widget-operator"
_ROUNDS = 12


def observe(widget: Stored, **more: object) -> None:
    """Raise the number, with more of the status or alone."""

    def change(status: Json) -> None:
        status |= {"observedGeneration": widget.generation, **more}

    widget.put_status(_OPERATOR, change)


def says(scene: Scene, widget: Stored, *changes: Callable[[Json], object]) -> None:
    """Write the status again and again, without the number."""
    for change in changes:
        widget.put_status(_OPERATOR, change)
        scene.pause(0.1)


def with_phase(phase: str) -> Callable[[Json], object]:
    return lambda status: status.update(phase=phase)


def with_ready(value: str) -> Callable[[Json], object]:
    return lambda status: set_condition(status, condition("Ready", value))


@scenario()
def observed_generation_raised_at_the_beginning(scene: Scene) -> None:
    """The phase is still that of the old spec: https://github.com/apecloud/kubeblocks/issues/9632."""
    widget = scene.widget()
    for size in range(_ROUNDS):
        widget.spec("alice", size=size)
        observe(widget)
        scene.pause(0.2)
        says(scene, widget, with_phase("Updating"), with_phase("Running"))


@scenario()
def observed_generation_beside_an_old_ready(scene: Scene) -> None:
    """https://github.com/kubernetes-sigs/cluster-api/issues/11292: conditions follow later."""
    widget = scene.widget()
    for size in range(_ROUNDS):
        widget.spec("alice", size=size)
        observe(widget)
        scene.pause(0.2)
        says(scene, widget, with_ready("False"), with_ready("True"))


@scenario()
def observed_generation_never_raised(scene: Scene) -> None:
    """The field is there, and no code for it."""
    widget = scene.widget()
    widget.put_status(_OPERATOR, lambda status: status.update(observedGeneration=1))
    for size in range(_ROUNDS + 4):
        widget.spec("alice", size=size)
        says(scene, widget, with_phase("Updating"), with_phase("Running"))


@scenario()
def observed_generation_raised_with_the_new_status(scene: Scene) -> None:
    """As it should be, by an operator that writes at the beginning and at the end of its work."""
    widget = scene.widget()
    for size in range(_ROUNDS):
        widget.spec("alice", size=size)
        observe(widget, phase="Updating")
        scene.pause(0.2)
        observe(widget, phase="Running")
        scene.pause(0.1)


@scenario()
def observed_generation_of_the_core_controllers(scene: Scene) -> None:
    """Scaled and rolled out."""
    database, agent = deployment("db", replicas=1), deployment("agent")
    database["spec"]["serviceName"] = "db"
    del agent["spec"]["replicas"]
    template = deployment("old")["spec"]["template"]
    old = {"metadata": {"name": "old"}, "spec": {"replicas": 1, "template": template}}
    budget = {
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    scaled = [
        scene.create("apps/v1/deployments", deployment("web", replicas=1)),
        scene.create("apps/v1/statefulsets", database),
        scene.create("apps/v1/replicasets", deployment("bare", replicas=1)),
        scene.create("v1/replicationcontrollers", old),
    ]
    daemons = scene.create("apps/v1/daemonsets", agent)
    disruptions = scene.create("policy/v1/poddisruptionbudgets", budget)
    for turn in range(2):
        for one in scaled:
            one.spec("alice", replicas=turn % 3)
        rollout = {"metadata": {"annotations": {"turn": str(turn)}}}
        for one in (scaled[0], scaled[1], daemons):
            one.spec("alice", template=rollout)
            scene.pause(0.2)
        disruptions.spec("alice", minAvailable=turn % 3)
        scene.pause(0.3)
