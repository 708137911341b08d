"""Loops that users and controllers make in status, without any webhook."""

from tests.scenarios.catalogue import scenario
from tests.scenarios.scene import Json, Scene, Stored, condition, set_condition, set_taint


@scenario()
def cleared_by_an_old_writer(scene: Scene) -> None:
    widget = scene.widget()
    for turn in range(8):
        widget.put_status(
            "widget-controller", lambda status, n=turn: status.update(observedGeneration=1, seen=n)
        )
        widget.put_status("old-operator", lambda status: status.pop("observedGeneration"))
        scene.pause(0.1)


@scenario()
def fields_dropped_by_an_old_struct(scene: Scene) -> None:
    widget = scene.widget()

    def report(status: Json) -> None:
        status["observedGeneration"] = 1
        status["capacity"] = {"disk": "1Gi"}
        set_condition(status, condition("Scaled", "True", observedGeneration=1))

    def round_trip(status: Json) -> None:
        """Its type knows neither capacity nor the condition's list."""
        known = {key: status[key] for key in ("observedGeneration",) if key in status}
        status.clear()
        status.update(known, touched=scene.tick())

    for _ in range(8):
        widget.put_status("widget-controller", report)
        widget.put_status("old-operator", round_trip)
        scene.pause(0.1)


@scenario()
def observed_generation_never_moves(scene: Scene) -> None:
    widget = scene.widget()
    for size in range(9):
        widget.spec("deployer", size=size + 2)
        widget.status("widget-controller", observedGeneration=1, replicas=size)
        widget.status("widget-controller", observedGeneration=1, lastRun=str(scene.tick()))
        scene.pause(0.2)


@scenario()
def observed_generation_in_the_future(scene: Scene) -> None:
    widget = scene.widget()
    for size in range(8):
        made = widget.spec("deployer", size=size + 2)
        ahead = made["metadata"]["generation"] + 1
        widget.status("widget-controller", observedGeneration=ahead, replicas=size)
        scene.pause(0.1)


@scenario()
def one_condition_of_two_owners(scene: Scene) -> None:
    widget = scene.widget()
    opinions = (("widget-controller", "True"), ("health-checker", "False"))
    for turn in range(14):
        user, status = opinions[turn % 2]
        widget.put_status(
            user, lambda found, value=status: set_condition(found, condition("Available", value))
        )
        scene.pause(0.1)


@scenario()
def status_rewritten_by_its_own_watch(scene: Scene) -> None:
    """Each write makes the event that makes the next: nothing but a time changes."""
    widget = scene.widget()
    for _ in range(90):
        stamp = f"2026-01-01T00:00:00.{scene.tick():06}Z"
        widget.status("hot-controller", observedGeneration=1, lastUpdateTime=stamp)
        scene.pause(0.02)


@scenario()
def status_flipped_by_two_replicas_of_a_controller(scene: Scene) -> None:
    """Two leaders at once: they count different numbers, and each puts its own."""
    widget = scene.widget()
    for turn in range(16):
        user = ("controller-a", "controller-b")[turn % 2]
        widget.status(user, observedGeneration=1, replicas=(3, 5)[turn % 2])
        scene.pause(0.1)


def _bound_pod(scene: Scene) -> Stored:
    """A pod on a node of which nobody but the scenario is the kubelet."""
    spec = {
        "nodeName": "nowhere",
        "readinessGates": [{"conditionType": "gate.example.org/up"}],
        "containers": [{"name": "c", "image": "i"}],
    }
    made = scene.create("v1/pods", {"metadata": {"name": "one"}, "spec": spec})
    ready = condition("Ready", "False", observedGeneration=1)

    def report(status: Json) -> None:
        status.update(phase="Running", observedGeneration=1, conditions=[ready])

    made.put_status("system:node:nowhere", report)
    return made


@scenario()
def status_of_a_bound_pod_by_a_stranger(scene: Scene) -> None:
    made = _bound_pod(scene)
    for turn in range(8):
        text = f"seen {turn}"
        made.put_status("stranger", lambda status, said=text: status.update(message=said))
        scene.pause(0.1)


@scenario()
def conditions_of_a_pod_without_generation(scene: Scene) -> None:
    made = _bound_pod(scene)
    for turn in range(8):
        new = condition("gate.example.org/up", "True" if turn % 2 else "False")
        made.put_status("gatekeeper", lambda status, one=new: set_condition(status, one))
        scene.pause(0.1)


@scenario()
def endpointslice_of_two_controllers(scene: Scene) -> None:
    """Its generation counts endpoints, which stand beside spec."""
    body = {"metadata": {"name": "web"}, "addressType": "IPv4", "endpoints": [], "ports": []}
    made = scene.create("discovery.k8s.io/v1/endpointslices", body)
    for turn in range(16):
        user, address = (("red", "10.0.0.1"), ("blue", "10.0.0.2"))[turn % 2]
        made.patch(user, {"endpoints": [{"addresses": [address]}]})
        scene.pause(0.3)


@scenario()
def a_taint_of_a_node_put_back_at_each_pass(scene: Scene) -> None:
    """Who has what it waits for takes it away (gardener/gardener#11678); others stay."""
    node, key = scene.node(), "cni.istio.io/not-ready"
    node.put("deployer", lambda found: set_taint(found, "dedicated", is_there=True))
    for _ in range(7):
        node.put("gardener", lambda found: set_taint(found, key, is_there=True))
        scene.pause(0.5)
        node.put("istio-cni", lambda found: set_taint(found, key, is_there=False))
        scene.pause(0.5)
    node.delete("deployer")
