"""Controllers with habits of their own, as real operators have been seen to have them."""

from tests.scenarios.catalogue import scenario
from tests.scenarios.scene import Json, Scene, condition, set_condition


@scenario()
def controller_was_down_and_catches_up(scene: Scene) -> None:
    widget = scene.widget()
    widget.status("widget-controller", observedGeneration=1, phase="Ready")
    for size in range(10):
        widget.spec("deployer", size=size + 2)
        scene.pause(0.1)
    scene.pause(1.0)
    # It begins with what it remembers, as kube-controller-manager's progress condition does.
    widget.status("widget-controller", phase="Starting")
    for generation in (4, 8, 11):
        widget.status("widget-controller", observedGeneration=generation, phase="Working")
        scene.pause(0.1)
    widget.status("widget-controller", observedGeneration=11, phase="Ready")


@scenario()
def observed_generation_lowered_once(scene: Scene) -> None:
    """Legal, as after a restore from backup."""
    widget = scene.widget()
    for size in range(4):
        widget.spec("deployer", size=size + 2)
        widget.status("widget-controller", observedGeneration=size + 2, replicas=size)
    widget.status("widget-controller", observedGeneration=2, replicas=9)
    scene.pause(0.5)
    widget.status("widget-controller", observedGeneration=5, replicas=4)


@scenario()
def flux_stays_at_minus_one(scene: Scene) -> None:
    """Until it succeeds or gives up; its conditions are current all the time."""
    widget = scene.widget()
    for turn in range(30):
        if turn % 5 == 4:
            widget.spec("deployer", size=turn)
        widget.put_status("kustomize-controller", _flux(widget.generation, turn))
        scene.pause(0.1)
    widget.status("kustomize-controller", observedGeneration=widget.generation)


def _flux(generation: int, turn: int):
    ready = ("Unknown", "False")[turn % 2]

    def change(status: Json) -> None:
        status["observedGeneration"] = -1
        set_condition(
            status,
            condition("Ready", ready, observedGeneration=generation, message=f"/tmp/{turn:05}"),
        )
        if turn % 2:
            set_condition(status, condition("Reconciling", "True", observedGeneration=generation))
        else:
            status["conditions"] = [
                one for one in status["conditions"] if one["type"] != "Reconciling"
            ]

    return change


@scenario()
def ready_true_unknown_true(scene: Scene) -> None:
    """One controller walks its own cycle at each interval."""
    widget = scene.widget()
    for turn in range(32):
        value = ("True", "Unknown")[turn % 2]
        widget.put_status(
            "kustomize-controller",
            lambda status, value=value: (
                status.update(observedGeneration=1),
                set_condition(status, condition("Ready", value, observedGeneration=1)),
            ),
        )
        scene.pause(0.05)


@scenario()
def argo_writes_a_string(scene: Scene) -> None:
    widget = scene.widget()
    for size in range(8):
        widget.spec("deployer", size=size + 2)
        generation = str(size + 2)
        for phase in ("Progressing", "Paused", "Progressing", "Healthy"):
            widget.status("argo-rollouts", observedGeneration=generation, phase=phase)


@scenario()
def argo_lags_a_step_as_a_string(scene: Scene) -> None:
    """Phases of a canary while the user has gone on: one generation behind for some writes."""
    widget = scene.widget()
    for size in range(4):
        widget.spec("deployer", size=size + 2)
        for phase in ("Progressing", "Paused", "Step"):
            behind = str(size + 1 if phase == "Progressing" else size + 2)
            widget.status("argo-rollouts", observedGeneration=behind, phase=phase, step=size)
            scene.pause(0.1)


@scenario()
def user_approves_in_status(scene: Scene) -> None:
    """Users write status legitimately: retry, promote, renew."""
    widget = scene.widget()
    for turn in range(2):
        widget.put_status(
            "argo-rollouts",
            lambda status, n=turn: status.update(
                observedGeneration=1,
                pauseConditions=[{"reason": "CanaryPauseStep", "startTime": f"{n:04}"}],
                controllerPause=True,
                step=n,
            ),
        )
        widget.status("somebody", pauseConditions=None, controllerPause=None)
        scene.pause(0.1)


@scenario()
def conditions_removed_by_their_owner(scene: Scene) -> None:
    widget = scene.widget()
    for turn in range(10):
        if turn % 2:
            widget.put_status("cert-manager", lambda status: status.pop("conditions"))
        else:
            widget.put_status(
                "cert-manager",
                lambda status: set_condition(
                    status, condition("Issuing", "True", observedGeneration=1)
                ),
            )


@scenario()
def status_that_counts_and_nobody_chases(scene: Scene) -> None:
    """AnalysisRun, Experiment, VPA checkpoint: no status subresource, no observedGeneration."""
    gauge = scene.gauge()
    for turn in range(20):
        gauge.patch("argo-rollouts", {"status": {"phase": "Running", "count": turn}})
        scene.pause(0.05)


@scenario()
def trails_by_one_for_ever(scene: Scene) -> None:
    """No status subresource: what it observes is old as soon as it is written."""
    gauge = scene.gauge()
    for size in range(8):
        gauge.spec("deployer", size=size + 2)
        gauge.put(
            "gauge-controller",
            lambda found: found.update(
                status={"observedGeneration": found["metadata"]["generation"]}
            ),
        )
        scene.pause(0.3)


@scenario()
def handed_over_to_a_new_leader(scene: Scene) -> None:
    """The next leader writes as another user, once repeating what the first had written."""
    widget = scene.widget()
    for user in ("controller-0", "controller-1"):
        for turn in range(8):
            widget.status(user, observedGeneration=1, phase=("Working", "Ready")[turn % 2], n=turn)
