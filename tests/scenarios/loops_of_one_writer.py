"""Loops of one user alone: against itself, against an order, or against what the server keeps."""

import random

from tests.e2e.culprits import deployment
from tests.scenarios import culprits
from tests.scenarios.catalogue import scenario
from tests.scenarios.scene import Hook, Json, Scene, condition, set_condition, set_taint

_TRACKING = "argocd.argoproj.io/tracking-id"
_OPERATOR = "system:serviceaccount:operators:widget-operator"


@scenario()
def two_copies_of_an_operator_without_an_election(scene: Scene) -> None:
    """Each has settings of its own: https://github.com/passmower/passmower/issues/236."""
    web = scene.create("apps/v1/deployments", deployment("web", replicas=1))
    for turn in range(10):
        pod = ("widget-operator-a", "widget-operator-b")[turn % 2]
        web.spec(f"{_OPERATOR}@{pod}", replicas=(3, 5)[turn % 2])
        scene.pause(0.7)


@scenario()
def two_copies_of_an_operator_and_no_pod_is_known(scene: Scene) -> None:
    """observedGeneration stands beside, and grows: no state of the whole object comes back."""
    gauge = scene.gauge()
    for turn in range(14):

        def write(found: Json, size: int = (3, 5)[turn % 2]) -> None:
            found["spec"]["size"] = size
            found["status"] = {"observedGeneration": found["metadata"]["generation"]}

        gauge.put(_OPERATOR, write)
        scene.pause(0.2)


@scenario()
def two_applications_claim_one_object(scene: Scene) -> None:
    """https://github.com/argoproj/argo-cd/issues/8811: each sync takes it from the other."""
    web = scene.create("apps/v1/deployments", deployment("web", replicas=0))
    user = "system:serviceaccount:argocd:argocd-application-controller"
    for turn in range(9):
        name = ("user", "user-service")[turn % 2]
        tracking = f"{name}:apps/Deployment:shop/web"
        web.patch(user, {"metadata": {"annotations": {_TRACKING: tracking}}})
        scene.pause(0.6)


@scenario()
def condition_flipped_twenty_times_a_second(scene: Scene) -> None:
    widget = scene.widget()
    for turn in range(60):
        new = condition("Ready", ("True", "False")[turn % 2], observedGeneration=1)
        widget.put_status("widget-operator", lambda status, one=new: set_condition(status, one))
        scene.pause(0.02)


def _shuffled(found: Json, chance: random.Random) -> None:
    (container,) = found["spec"]["template"]["spec"]["containers"]
    names = [one["name"] for one in container["env"]]
    while [one["name"] for one in container["env"]] == names:
        chance.shuffle(container["env"])


def with_environment(name: str) -> Json:
    body = deployment(name, replicas=0)
    (container,) = body["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": f"VARIABLE_{number}", "value": "x"} for number in range(4)]
    return body


@scenario()
def environment_in_the_order_of_a_map(scene: Scene) -> None:
    """An operator that ranges over a map; there are few orders, and some come back."""
    web = scene.create("apps/v1/deployments", with_environment("web"))
    chance = random.Random(1)
    for _ in range(12):
        web.put("web-operator", lambda found: _shuffled(found, chance))
        scene.pause(0.4)


@scenario()
def a_certificate_issued_at_each_pass(scene: Scene) -> None:
    """Though the one before it is valid still (ricoberger/vault-secrets-operator#367)."""
    secret = scene.create("v1/secrets", {"metadata": {"name": "web-tls"}})
    for _ in range(24):
        issued = {f"tls.{part}": f"{part} {scene.tick() * 7919:040x}" for part in ("crt", "key")}
        secret.patch("vault-secrets-operator", {"stringData": issued})
        scene.pause(1.0)


@scenario(Hook("mmm-sorter", culprits.sorts_environment, ("deployments",)))
def environment_sorted_by_a_webhook(scene: Scene) -> None:
    """What the tool applies has another order, and so each apply makes a generation."""
    web = scene.create("apps/v1/deployments", with_environment("web"))
    for _ in range(9):
        web.put("gitops", _reversed_environment)
        scene.pause(0.3)


def _reversed_environment(found: Json) -> None:
    (container,) = found["spec"]["template"]["spec"]["containers"]
    container["env"].sort(key=lambda one: one["name"], reverse=True)


@scenario()
def a_random_password_with_each_render(scene: Scene) -> None:
    """https://github.com/goharbor/harbor-helm/issues/2263: its checksum rolls the Deployment."""
    web = scene.create("apps/v1/deployments", deployment("web", replicas=0))
    for turn in range(12):
        checksum = f"{(turn + 1) * 7919:040x}"
        annotations = {"checksum/secret": checksum}
        web.spec("gitops", template={"metadata": {"annotations": annotations}})
        scene.pause(0.5)


@scenario()
def a_time_in_the_template_at_each_pass(scene: Scene) -> None:
    web = scene.create("apps/v1/deployments", deployment("web", replicas=0))
    for _ in range(12):
        variable = {"name": "RENDERED", "value": f"at {scene.tick() * 7919}"}
        container = {"name": "c", "env": [variable]}
        patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
        web.strategic("web-operator", patch)
        scene.pause(0.4)


@scenario()
def a_field_that_the_stored_version_does_not_know(scene: Scene) -> None:
    """A conversion that loses it; nobody takes it back."""
    lens = scene.lens("v1")
    for _ in range(12):
        lens.spec("gitops", colour="red")
        scene.pause(0.3)


@scenario()
def a_manifest_of_an_old_version_is_applied_again(scene: Scene) -> None:
    """By PUT, with its other fields, beside a user of the new version."""
    lens = scene.lens("v1")
    new = scene.stored("example.org/v2/lenses", "one")
    for turn in range(12):
        lens.put("gitops", lambda found: found["spec"].update(colour="red"))
        if turn % 4 == 3:
            new.patch("inventory", {"metadata": {"labels": {"seen": str(turn)}}})
        scene.pause(0.3)


@scenario(Hook("mmm-cleaner", culprits.removes_status, ("gauges",)))
def a_whole_status_taken_away_by_a_webhook(scene: Scene) -> None:
    """The kind has no status subresource, and no status is ever stored."""
    gauge = scene.gauge()
    for turn in range(10):
        gauge.put("gauge-controller", lambda found, n=turn: found.update(status={"seen": n}))
        scene.pause(0.3)


@scenario(Hook("mmm-cleaner", culprits.removes_status, ("gauges",)))
def a_status_with_conditions_taken_away_by_a_webhook(scene: Scene) -> None:
    gauge = scene.gauge()

    def report(found: Json) -> None:
        ready = condition("Ready", "True", observedGeneration=found["metadata"]["generation"])
        found["status"] = {"observedGeneration": 1, "conditions": [ready]}

    for _ in range(10):
        gauge.put("gauge-controller", report)
        scene.pause(0.3)


@scenario()
def a_taint_of_two_rules_of_one_controller(scene: Scene) -> None:
    """One adds it, the other removes it (kubernetes-sigs/node-readiness-controller#260)."""
    node = scene.node()
    for turn in range(78):

        def change(found: Json, is_there: bool = turn % 2 == 0) -> None:
            set_taint(found, "readiness.k8s.io/network", is_there=is_there)

        node.put("node-readiness-controller", change)
        scene.pause(0.3)
    node.delete("deployer")
