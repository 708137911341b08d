"""One user alone, who writes to and fro, in another order, or something new, for good reasons."""

from datetime import UTC, datetime

from tests.e2e.culprits import deployment
from tests.scenarios import culprits
from tests.scenarios.catalogue import scenario
from tests.scenarios.loops_of_one_writer import with_environment
from tests.scenarios.scene import Hook, Json, Scene, condition, set_condition, set_taint

_OPERATOR = "system:serviceaccount:operators:widget-operator"


@scenario()
def an_operator_is_rolled_out_and_back(scene: Scene) -> None:
    """Each pod does what its version does; none comes back."""
    web = scene.create("apps/v1/deployments", deployment("web", replicas=1))
    for turn in range(8):
        web.spec(f"{_OPERATOR}@widget-operator-{turn}", replicas=(3, 5)[turn % 2])
        scene.pause(0.7)


@scenario()
def two_pods_of_an_operator_share_the_work(scene: Scene) -> None:
    """Each writes the fields that are its own."""
    widget = scene.widget()
    for turn in range(16):
        pod, field = (("shard-0", "left"), ("shard-1", "right"))[turn % 2]
        widget.spec(f"{_OPERATOR}@{pod}", **{field: turn})
        scene.pause(0.1)


@scenario()
def a_person_edits_to_and_fro(scene: Scene) -> None:
    web = scene.create("apps/v1/deployments", deployment("web", replicas=1))
    for turn in range(6):
        web.spec("alice", replicas=(3, 5)[turn % 2])
        scene.pause(1.3)


@scenario()
def an_application_is_moved_and_moved_back(scene: Scene) -> None:
    web = scene.create("apps/v1/deployments", deployment("web", replicas=0))
    for name in ("shop", "store", "shop"):
        tracking = {"argocd.argoproj.io/tracking-id": f"{name}:apps/Deployment:shop/web"}
        web.patch("argocd", {"metadata": {"annotations": tracking}})
        scene.pause(0.6)


@scenario()
def a_readiness_that_comes_and_goes(scene: Scene) -> None:
    """What is measured is unsteady, once a second or so."""
    widget = scene.widget()
    for turn in range(9):
        new = condition("Ready", ("True", "False")[turn % 2], observedGeneration=1)
        widget.put_status("widget-operator", lambda status, one=new: set_condition(status, one))
        scene.pause(0.8)


@scenario()
def a_list_that_is_put_in_order_once(scene: Scene) -> None:
    web = scene.create("apps/v1/deployments", with_environment("web"))
    for replicas in range(8):

        def write(found: Json, replicas: int = replicas) -> None:
            found["spec"]["replicas"] = replicas
            (container,) = found["spec"]["template"]["spec"]["containers"]
            container["env"].sort(key=lambda one: one["name"], reverse=True)

        web.put("web-operator", write)
        scene.pause(0.3)


@scenario(Hook("mmm-sorter", culprits.sorts_environment, ("deployments",)))
def a_webhook_sorts_what_is_sorted_already(scene: Scene) -> None:
    web = scene.create("apps/v1/deployments", with_environment("web"))
    for replicas in range(8):
        web.put("gitops", lambda found, n=replicas: found["spec"].update(replicas=n))
        scene.pause(0.3)


@scenario()
def a_few_versions_are_rolled_out_in_a_hurry(scene: Scene) -> None:
    web = scene.create("apps/v1/deployments", deployment("web", replicas=0))
    for turn in range(5):
        container = {"name": "c", "image": f"image:{turn + 2}"}
        web.strategic("pipeline", {"spec": {"template": {"spec": {"containers": [container]}}}})
        scene.pause(1.0)


@scenario()
def a_revision_beside_the_template_at_each_pass(scene: Scene) -> None:
    """It rolls nothing out."""
    widget = scene.widget()
    for turn in range(14):
        widget.spec("gitops", revision=f"{turn * 7919:040x}")
        scene.pause(0.4)


@scenario()
def a_field_that_both_versions_know(scene: Scene) -> None:
    lens = scene.lens("v1")
    for turn in range(12):
        lens.spec("gitops", size=turn)
        scene.pause(0.2)


@scenario()
def a_lost_field_is_asked_for_now_and_then(scene: Scene) -> None:
    """As often as a person tries."""
    lens = scene.lens("v1")
    for _ in range(4):
        lens.spec("alice", colour="red")
        scene.pause(0.8)


@scenario(Hook("mmm-cleaner", culprits.once(culprits.removes_status), ("gauges",)))
def a_status_taken_away_once(scene: Scene) -> None:
    gauge = scene.gauge()
    for turn in range(10):
        gauge.put("gauge-controller", lambda found, n=turn: found.update(status={"seen": n}))
        scene.pause(0.3)


@scenario(Hook("mmm-cleaner", culprits.removes_status, ("gauges",)))
def no_status_that_could_be_taken_away(scene: Scene) -> None:
    gauge = scene.gauge()
    for turn in range(10):
        gauge.spec("deployer", size=turn)
        scene.pause(0.2)


@scenario()
def an_autoscaler_says_what_it_sees_at_each_pass(scene: Scene) -> None:
    """In one text of a ConfigMap, with the times of its probes (kubernetes/autoscaler#6375)."""
    seen = scene.create("v1/configmaps", {"metadata": {"name": "cluster-autoscaler-status"}})
    for turn in range(20):
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}000 +0000 UTC"
        health = f"status: Healthy\n    ready: {7 + turn // 8}\n    lastProbeTime: {now}"
        text = f"time: {now}\nautoscalerStatus: Running\nclusterWide:\n  health:\n    {health}\n"
        annotations = {"cluster-autoscaler.kubernetes.io/last-updated": now}
        body = {"metadata": {"annotations": annotations}, "data": {"status": text}}
        seen.patch("cluster-autoscaler", body)
        scene.pause(2.0)


@scenario()
def taints_of_a_node_that_becomes_ready(scene: Scene) -> None:
    """One goes with each daemon that is ready, and one comes back (uswitch/nidhogg#24)."""
    node, daemons = scene.node(), ("fluentd", "kiam-agent", "node-local-dns", "weave-net")
    turns = [*((name, True) for name in daemons), ("node-local-dns", False), ("weave-net", False)]
    turns += [("weave-net", True), ("kiam-agent", False), ("weave-net", False), ("fluentd", False)]
    for name, is_there in turns:
        key = f"nidhogg.uswitch.com/kube-system.{name}"

        def change(found: Json, key: str = key, is_there: bool = is_there) -> None:
            set_taint(found, key, is_there=is_there)

        node.put("nidhogg", change)
        scene.pause(0.4)
    node.delete("deployer")
