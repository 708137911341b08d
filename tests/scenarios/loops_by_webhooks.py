"""Loops that another webhook makes in the status of objects."""

from tests.controlplane.webhook_listener import no_patch
from tests.e2e.culprits import deployment, is_ready, pod
from tests.scenarios import culprits
from tests.scenarios.catalogue import scenario
from tests.scenarios.scene import Hook, Json, Scene, Stored, condition, set_condition

_DEPLOYMENT_STATUS = ("deployments/status",)
_WIDGET_STATUS = ("widgets/status",)


def _only_if(expression: str) -> Json:
    return {"matchConditions": [{"name": "when", "expression": expression}]}


def _rollouts(scene: Scene, images: int = 3) -> None:
    scene.create("apps/v1/deployments", deployment("web"))
    for number in range(2, images + 1):
        scene.pause(1.0)
        scene.kubectl("set", "image", "deployment/web", f"c=image:{number}")
    scene.pause(1.5)


@scenario(Hook(culprits.OLD_OPERATOR, culprits.zeroes_observed_generation, _DEPLOYMENT_STATUS))
def deployment_status_zeroed(scene: Scene) -> None:
    _rollouts(scene)


@scenario(
    Hook("aaa-labels", culprits.labels, ("deployments",)),
    Hook("mmm-audits", no_patch, ("deployments/scale", "pods")),
    Hook("ppp-old-operator", culprits.removes_observed_generation, _DEPLOYMENT_STATUS),
)
def deployment_status_removed_by_one_of_three(scene: Scene) -> None:
    _rollouts(scene)


@scenario(Hook(culprits.OLD_OPERATOR, culprits.removes_observed_generation, ("pods/status",)))
def pod_status_loop(scene: Scene) -> None:
    scene.create("v1/pods", pod("one"))
    scene.pause(3.0)


def _running_pod(scene: Scene) -> None:
    scene.create("v1/pods", pod("one")).wait_for(is_ready)


@scenario(
    Hook(culprits.OLD_OPERATOR, culprits.removes_observed_generation, ("pods/status",)),
    before=_running_pod,
)
def pod_that_ran_before_the_webhook(scene: Scene) -> None:
    """The second symptom of KEP-5067: the API server puts the old value back."""
    scene.kubectl("set", "image", "pod/one", "c=image:2")
    scene.pause(4.0)


@scenario(Hook("mmm-old-apps", culprits.removes_spec_field("replicas"), ("deployments",)))
def replicas_removed_and_set_by_default(scene: Scene) -> None:
    web = scene.create("apps/v1/deployments", deployment("web", replicas=1))
    scene.pause(1.0)
    for _ in range(12):
        web.spec("gitops", replicas=3)
        scene.pause(0.3)


@scenario(
    Hook(culprits.OLD_OPERATOR, culprits.clears_observed_generation_of_conditions, ("*/status",))
)
def conditions_cleared(scene: Scene) -> None:
    _reconcile(scene.widget(), times=8)


@scenario(Hook("gatekeeper", culprits.zeroes_observed_generation, _WIDGET_STATUS))
def custom_status_zeroed(scene: Scene) -> None:
    _reconcile(scene.widget(), times=8)


@scenario(
    Hook("aaa-everywhere", no_patch, ("*/status",)),
    Hook("mmm-guilty", culprits.removes_observed_generation, _WIDGET_STATUS),
    Hook("nnn-everywhere", no_patch, ("*/*",)),
)
def custom_status_removed_by_one_of_three(scene: Scene) -> None:
    scene.create("apps/v1/deployments", deployment("web"))
    scene.pause(1.0)
    _reconcile(scene.widget(), times=8)


@scenario(
    Hook("aaa-larger", no_patch, _WIDGET_STATUS, _only_if("object.spec.size > 100")),
    Hook("mmm-guilty", culprits.removes_observed_generation, _WIDGET_STATUS),
)
def custom_status_removed_beside_a_condition_that_is_false(scene: Scene) -> None:
    _reconcile(scene.widget(), times=8)


@scenario(
    Hook("aaa-audits", no_patch, _WIDGET_STATUS),
    Hook("mmm-young", culprits.removes_observed_generation, _WIDGET_STATUS, later=3.0),
)
def custom_status_removed_by_the_younger_of_two(scene: Scene) -> None:
    _reconcile(scene.widget(), times=8)


@scenario(Hook("mmm-defaulter", culprits.removes_status_field("conditions"), _WIDGET_STATUS))
def conditions_dropped(scene: Scene) -> None:
    _reconcile(scene.widget(), times=8)


@scenario(Hook("mmm-opinion", culprits.sets_status_field("phase", "Unknown"), _WIDGET_STATUS))
def phase_overwritten(scene: Scene) -> None:
    widget = scene.widget()
    for _ in range(12):  # it reads back what it did not write, and writes again
        widget.status("widget-controller", phase="Ready", observedGeneration=1)
        scene.pause(0.1)


@scenario(
    Hook("mmm-old-apps", culprits.removes_status_field("terminatingReplicas"), _DEPLOYMENT_STATUS)
)
def terminating_replicas_dropped(scene: Scene) -> None:
    slow = deployment("web", replicas=4)
    slow["spec"]["template"]["metadata"]["annotations"] = {
        "genguard.io/test-terminates-after": "2s"
    }
    scene.create("apps/v1/deployments", slow)
    scene.pause(1.5)
    for replicas in (2, 4, 1):
        scene.kubectl("scale", "deployment/web", f"--replicas={replicas}")
        scene.pause(1.0)


def _reconcile(widget: Stored, times: int) -> None:
    """A controller that writes what it has seen whenever the spec has moved."""

    def report(status: Json) -> None:
        generation = widget.generation
        status["observedGeneration"] = generation
        set_condition(status, condition("Ready", "True", observedGeneration=generation))

    for size in range(times):
        widget.spec("deployer", size=size + 2)
        widget.put_status("widget-controller", report)
        widget.put_status("widget-controller", report)  # its informer shows that it is not kept
