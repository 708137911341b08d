"""Users and controllers that write much, often or late, and do nothing wrong."""

import threading
from collections.abc import Callable
from dataclasses import replace

from tests.controlplane.client import ApiError
from tests.controlplane.webhook_listener import no_patch
from tests.e2e.culprits import deployment
from tests.scenarios.catalogue import scenario
from tests.scenarios.scene import Hook, Json, Scene, Stored, condition, set_condition


@scenario()
def autoscaler_status(scene: Scene) -> None:
    """Twelve a minute, compressed: currentReplicas and metrics move, and come back."""
    widget = scene.widget()
    for turn in range(36):
        widget.status(
            "horizontal-pod-autoscaler",
            observedGeneration=1,
            currentReplicas=2 + turn % 3,
            lastScaleTime=f"2026-01-01T00:00:{scene.tick() % 60:02}Z",
            currentMetrics=[{"type": "Resource", "value": 50 + turn % 7}],
        )
        scene.pause(0.05)


@scenario()
def interval_driven_status(scene: Scene) -> None:
    widget = scene.widget()
    for turn in range(40):
        widget.status("poller", observedGeneration=1, checks=turn, lastChecked=f"at {scene.tick()}")
        scene.pause(0.05)


@scenario()
def heartbeats(scene: Scene) -> None:
    """Times only, as nodes and leases have them: a few a second is not a storm."""
    widget = scene.widget()
    for _ in range(20):
        widget.status("agent", observedGeneration=1, lastHeartbeatTime=f"{scene.tick():06}")
        scene.pause(0.25)


@scenario()
def eight_writers_of_one_object(scene: Scene) -> None:
    widget = scene.widget()

    def write(number: int) -> None:
        for turn in range(10):
            widget.spec(f"writer-{number}", **{f"field{number}": turn})

    _together(8, write)


@scenario()
def stale_puts_tried_again(scene: Scene) -> None:
    widget = scene.widget()

    def write(number: int) -> None:
        for turn in range(8):
            mine = {f"field{number}": turn}
            widget.put(f"writer-{number}", lambda found, mine=mine: found["spec"].update(mine))
            widget.put_status(f"writer-{number}", lambda status, mine=mine: status.update(mine))

    _together(4, write)


@scenario()
def one_user_in_a_hurry(scene: Scene) -> None:
    """KEP-5067's own end-to-end test writes 500 updates, one each 100 ms."""
    widget = scene.widget()
    for size in range(500):
        widget.spec("loader", size=size)
    widget.status("widget-controller", observedGeneration=widget.generation)


@scenario()
def writes_that_change_nothing(scene: Scene) -> None:
    widget = scene.widget(size=3)
    widget.status("widget-controller", observedGeneration=1, phase="Ready")
    for _ in range(20):
        widget.spec("gitops", size=3)
        widget.status("widget-controller", observedGeneration=1, phase="Ready")


@scenario()
def dry_runs(scene: Scene) -> None:
    widget = scene.widget()
    for turn in range(20):
        user = ("gitops", "somebody")[turn % 2]
        widget.patch(user, {"spec": {"size": turn % 2}}, dryRun="All")
        widget.patch(user, {"status": {"phase": str(turn % 2)}}, "status", dryRun="All")


@scenario()
def conditions_of_two_owners(scene: Scene) -> None:
    widget = scene.widget()
    for turn in range(12):
        for user, kind in (("widget-controller", "Ready"), ("health-checker", "Healthy")):
            value = ("True", "False", "Unknown")[turn % 3]
            widget.put_status(
                user,
                lambda status, kind=kind, value=value: set_condition(
                    status, condition(kind, value, observedGeneration=1)
                ),
            )


@scenario()
def own_fields_by_turns(scene: Scene) -> None:
    """Two users move their own fields to and fro, and do not touch each other's."""
    widget = scene.widget()
    for turn in range(16):
        widget.spec(("red", "blue")[turn % 2], **{("left", "right")[turn % 2]: turn // 2 % 2})
        scene.pause(0.05)


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


_LOOKS_ON = Hook("looks-on", no_patch, ("widgets", "widgets/status"))
"""It is called for each write, and changes none."""


@scenario(_LOOKS_ON)
def forty_clients_of_one_user(scene: Scene) -> None:
    """Patches of one object at once: many have one key, and the API server tries some again."""
    widget = scene.widget()

    def write(number: int) -> None:
        mine = {f"client-{number % 20}": f"{number}"}
        _until_stored(widget, {"metadata": {"annotations": mine}})

    _together(40, write)


@scenario(replace(_LOOKS_ON, settings={"reinvocationPolicy": "IfNeeded"}))
def clients_of_one_user_patch_one_status(scene: Scene) -> None:
    """The same of status, each with a field of its own."""
    widget = scene.widget()

    def write(number: int) -> None:
        for turn in range(2):
            mine = {f"field{number}": turn}
            _until_stored(widget, {"status": mine}, "status")

    _together(24, write)


def _until_stored(widget: Stored, body: Json, subresource: str = "") -> None:
    """Again after a conflict: the API server gives up a PATCH after five tries, and a slow one."""
    while True:
        try:
            widget.patch("fleet", body, subresource)
        except ApiError as error:
            assert error.status in {409, 504}
        else:
            return


def _together(count: int, write: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=write, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@scenario()
def an_update_that_changes_nothing_at_each_pass(scene: Scene) -> None:
    """Who compares does not know all who builds (stacklok/toolhive#5616): a waste, and no harm."""
    web = scene.create("apps/v1/deployments", deployment("web", replicas=0))
    for _ in range(36):
        web.put("toolhive-operator", lambda _: None)
        scene.pause(0.5)
