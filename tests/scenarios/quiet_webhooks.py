"""Webhooks that are well-behaved, or that were not, once."""

from tests.controlplane.webhook_listener import no_patch
from tests.e2e.culprits import deployment
from tests.scenarios import culprits
from tests.scenarios.catalogue import scenario
from tests.scenarios.scene import Hook, Scene

_IF_NEEDED = {"reinvocationPolicy": "IfNeeded"}


@scenario(
    Hook("aaa-labels", culprits.labels, ("deployments", "widgets", "pods"), _IF_NEEDED),
    Hook("bbb-defaults", culprits.defaults_a_field, ("widgets",), _IF_NEEDED),
    Hook("ccc-sidecars", culprits.injects_a_sidecar, ("deployments",), _IF_NEEDED),
    Hook("ddd-looks", no_patch, ("*/*",), _IF_NEEDED),
)
def well_behaved_webhooks(scene: Scene) -> None:
    scene.create("apps/v1/deployments", deployment("web", replicas=1))
    widget = scene.widget()
    for number in range(2, 6):
        scene.kubectl("set", "image", "deployment/web", f"c=image:{number}")
        widget.spec("deployer", size=number)
        widget.status("widget-controller", observedGeneration=number)
        scene.pause(0.5)


@scenario(
    Hook("bbb-defaults", culprits.defaults_a_field, ("widgets",)),
    Hook("ccc-sidecars", culprits.injects_a_sidecar, ("deployments",)),
)
def puts_that_leave_out_what_is_defaulted(scene: Scene) -> None:
    """A client that PUTs its whole manifest each time; the webhook fills it up each time."""
    widget = scene.widget()
    web = scene.create("apps/v1/deployments", deployment("web"))
    for turn in range(10):
        widget.put("deployer", lambda found, n=turn: found.update(spec={"size": n // 4}))
        web.put("deployer", lambda found: found.update(spec=deployment("web")["spec"]))
        scene.pause(0.2)


@scenario(
    Hook(
        culprits.OLD_OPERATOR,
        culprits.once(culprits.zeroes_observed_generation),
        ("widgets/status",),
    )
)
def one_clobber_and_never_again(scene: Scene) -> None:
    widget = scene.widget()
    for size in range(8):
        widget.spec("deployer", size=size + 2)
        widget.status("widget-controller", observedGeneration=size + 2)
        scene.pause(0.1)


@scenario(Hook("mmm-normalises", culprits.sets_status_field("phase", "ready"), ("widgets/status",)))
def status_normalised_and_accepted(scene: Scene) -> None:
    """It changes what is sent, once; the controller reads it back and is content."""
    widget = scene.widget()
    widget.status("widget-controller", phase="Ready", observedGeneration=1)
    for turn in range(8):
        widget.status("widget-controller", observedGeneration=1, checks=turn)


@scenario(
    Hook("pod-policies", culprits.encodes_pods_without("securityContext"), ("pods",)),
    Hook("mmm-mirror", culprits.mirrors_images, ("pods",)),
)
def policies_that_change_each_new_pod(scene: Scene) -> None:
    """One takes away what it forbids, the other has images from the cluster's own registry."""
    body = deployment("web", replicas=8)
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["securityContext"] = {"privileged": True}
    scene.create("apps/v1/deployments", body)
    scene.pause(3.0)


@scenario(Hook("mmm-user-info", culprits.writes_down_who_in_status, ("gauges",)))
def a_status_that_a_webhook_adds_to_at_each_report(scene: Scene) -> None:
    """Nothing else changes, and generation moves by the report (DataDog/chaos-controller#511)."""
    gauge = scene.gauge()
    for phase in ("NotInjected", "PartiallyInjected", "Injected", "Paused", "PreviouslyInjected"):
        status = {"injectionStatus": phase}
        gauge.put("chaos-controller", lambda found, made=status: found.update(status=made))
        scene.pause(0.6)
