"""Loops in which generation runs away, or ought to and does not."""

from tests.controlplane.webhook_listener import no_patch
from tests.e2e.culprits import deployment
from tests.scenarios import culprits
from tests.scenarios.catalogue import scenario
from tests.scenarios.scene import Hook, Json, Scene

_IF_NEEDED = {"reinvocationPolicy": "IfNeeded"}


@scenario()
def generation_chased_without_status_subresource(scene: Scene) -> None:
    """kubernetes/autoscaler#5675: each status write makes a generation to be observed."""
    gauge = scene.gauge()
    for _ in range(25):
        gauge.put("gauge-controller", _observe)
        scene.pause(0.05)


def _observe(found: Json) -> None:
    found["status"] = {"observedGeneration": found["metadata"]["generation"]}


@scenario(Hook("mmm-stamper", culprits.stamps_pod_template, ("deployments",)))
def pod_template_stamped(scene: Scene) -> None:
    web = scene.create("apps/v1/deployments", deployment("web", replicas=0))
    for turn in range(10):
        web.patch("gitops", {"metadata": {"labels": {"synced": str(turn)}}})
        scene.pause(0.2)


@scenario(
    Hook("aaa-labels", culprits.labels, ("deployments", "widgets")),
    Hook("mmm-stamper", culprits.stamps_pod_template, ("deployments",)),
    Hook("nnn-looks", no_patch, ("*/*",)),
)
def pod_template_stamped_by_one_of_three(scene: Scene) -> None:
    widget = scene.widget()
    for size in range(4):
        widget.spec("deployer", size=size)
    web = scene.create("apps/v1/deployments", deployment("web", replicas=0))
    for turn in range(10):
        web.patch("gitops", {"metadata": {"labels": {"synced": str(turn)}}})
        scene.pause(0.1)


@scenario()
def replicas_of_two_wills(scene: Scene) -> None:
    web = scene.create("apps/v1/deployments", deployment("web"))
    scene.pause(1.0)
    for turn in range(9):
        web.spec(("gitops", "autoscaler")[turn % 2], replicas=(3, 5)[turn % 2])
        scene.pause(0.15)


@scenario()
def replicas_of_gitops_and_an_autoscaler(scene: Scene) -> None:
    """An autoscaler writes the scale subresource."""
    web = scene.create("apps/v1/deployments", deployment("web", replicas=1))
    scene.pause(0.5)
    for _ in range(5):
        web.spec("gitops", replicas=1)
        scene.pause(0.4)
        web.patch("horizontal-pod-autoscaler", {"spec": {"replicas": 2}}, "scale")
        scene.pause(0.4)


@scenario()
def replicas_left_out_below_an_autoscaler(scene: Scene) -> None:
    """An operator's PUT brings the default back (apache/superset-kubernetes-operator#151)."""
    web = scene.create("apps/v1/deployments", deployment("web", replicas=1))
    scene.pause(0.5)
    for replicas in (2, 4, 3, 5, 6):
        web.patch("horizontal-pod-autoscaler", {"spec": {"replicas": replicas}}, "scale")
        scene.pause(0.4)
        web.put("superset-operator", lambda found: found["spec"].pop("replicas"))
        scene.pause(0.4)


@scenario(Hook("mmm-annotator", culprits.stamps_annotation, ("deployments",)))
def annotation_stamped(scene: Scene) -> None:
    """A Deployment's own annotations count as its spec does."""
    web = scene.create("apps/v1/deployments", deployment("web", replicas=0))
    for turn in range(10):
        web.patch("gitops", {"metadata": {"labels": {"synced": str(turn)}}})
        scene.pause(0.1)


@scenario(Hook("mmm-stamper", culprits.stamps_pod_template, ("deployments",)))
def pod_template_stamped_under_a_whole_manifest(scene: Scene) -> None:
    """A client PUTs its manifest, which never has the stamp."""
    web = scene.create("apps/v1/deployments", deployment("web", replicas=0))
    for _ in range(10):
        web.put("gitops", lambda found: found.update(spec=deployment("web", replicas=0)["spec"]))
        scene.pause(0.1)


@scenario(Hook("mmm-pinner", culprits.pins_replicas, ("deployments", "deployments/scale")))
def replicas_pinned(scene: Scene) -> None:
    web = scene.create("apps/v1/deployments", deployment("web"))
    scene.pause(1.0)
    for _ in range(8):
        web.spec("gitops", replicas=5)
        scene.pause(0.1)


@scenario(
    Hook("mmm-counter", culprits.counts_calls(), ("widgets",), _IF_NEEDED),
    Hook("nnn-copier", culprits.follows_calls, ("widgets",)),
)
def mutation_that_never_settles(scene: Scene) -> None:
    widget = scene.widget()
    for size in range(8):
        widget.spec("deployer", size=size + 2)
        scene.pause(0.1)


@scenario()
def empty_ingress_put_again(scene: Scene) -> None:
    """What JSON shows as nothing counts, and protobuf forgets it: each PUT counts again."""
    spec = {"podSelector": {}, "policyTypes": ["Ingress"]}
    policy = scene.create(
        "networking.k8s.io/v1/networkpolicies", {"metadata": {"name": "policy"}, "spec": spec}
    )
    for _ in range(8):
        policy.put("gitops", lambda found: found["spec"].update(ingress=[]))
        scene.pause(0.1)


@scenario(Hook("mmm-knative", culprits.counts_calls(), ("gauges",)))
def a_spec_counted_up_by_a_webhook_beside_each_status(scene: Scene) -> None:
    """What stands in status follows, and so it never comes to rest (knative/serving#149)."""
    gauge = scene.gauge()

    def report(found: Json) -> None:
        found["status"] = {"latestRevision": f"helloworld-{found['spec'].get('called', 0):05}"}

    for _ in range(10):
        gauge.put("configuration-controller", report)
        scene.pause(0.4)
