"""`genguard status` and `wait` on a real cluster: the truth, its reasons, and when it came true."""

import json
from typing import Any

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.nodes import node
from tests.controlplane.plane import ControlPlane
from tests.e2e.culprits import deployment, pod
from tests.e2e.custom import served
from tests.e2e.statuses import GATE, Shop, State

WEB = "apps/v1/deployments/web"
WORKLOADS = ("apps/v1/deployments", "apps/v1/replicasets", "pods")
NEVER = "1h"


@pytest.fixture
def shop(cluster: ControlPlane, namespace: NamespaceFactory) -> Shop:
    return Shop(cluster, namespace(cluster))


def workload(
    replicas: int = 2, /, name: str = "web", *, gated: bool = False, **annotations: str
) -> dict[str, Any]:
    """A Deployment whose pods do as their annotations say: see Options.kwok_nodes.

    Gated, they are ready when `Shop.open` lets them.
    """
    made = deployment(name, replicas)
    made["spec"]["template"]["metadata"]["annotations"] = marks(**annotations)
    if gated:
        made["spec"]["template"]["spec"]["readinessGates"] = [{"conditionType": GATE}]
    return made


def marks(**annotations: str) -> dict[str, str]:
    return {f"genguard.io/test-{key.replace('_', '-')}": each for key, each in annotations.items()}


def image(name: str, **annotations: str) -> dict[str, Any]:
    """A change of the template, which makes other pods."""
    containers = [{"name": "c", "image": name}]
    return {"metadata": {"annotations": marks(**annotations)}, "spec": {"containers": containers}}


def done(state: State, images: set[str], replicas: int) -> bool:
    """What a person with kubectl would call rolled out, with nothing left of what was before."""
    pods = [one for key, one in state.items() if key.startswith("pods/")]
    sets = [one for key, one in state.items() if key.startswith("replicasets/")]
    web = state["deployments/web"]
    status = web["status"]
    counts = {f"{word}Replicas": replicas for word in ("updated", "ready", "available")}
    return (
        web["metadata"]["generation"] == status["observedGeneration"]
        and counts.items() <= status.items()
        and status["replicas"] == replicas
        and not status.get("terminatingReplicas")
        and {one["spec"]["containers"][0]["image"] for one in pods} == images
        and len(pods) == replicas
        and all(one["status"].get("observedGeneration") for one in sets)
        and all(one["status"].get("readyReplicas", 0) == one["spec"]["replicas"] for one in sets)
        and not any(one["status"].get("terminatingReplicas") for one in sets)
    )


def test_a_deployment_is_waited_for_before_it_exists_and_until_all_is_done(shop: Shop) -> None:
    with shop.wait("deploy/web") as run:
        run.says("deployments.apps/web in namespace")
        assert "it does not exist yet" in run.lines[0]
        shop.create("apps/v1/deployments", workload(3, gated=True))
        run.says(" › Pod/web-")
        waiting = shop.status("deploy/web")
        assert (waiting["ready"], waiting["settled"], waiting["health"]) == (False, False, "Yellow")
        assert "status.availableReplicas 0, want 3" in waiting["reasons"]
        assert waiting["kstatus"] == "InProgress"
        assert waiting["argo"] == "Progressing"
        assert waiting["rollout"] == "waiting"
        shop.open(count=3)
        run.ends(0)
        assert shop.shows(lambda state: done(state, {"image:1"}, 3), *WORKLOADS)
        assert run.lines[-1] == "reached ready and settled: Deployment/web"
        assert len(run.lines) < 60, "a line for each reason, and no storm"
    found = shop.tree("deploy/web")
    assert [one["kind"] for one in found] == ["Deployment", "ReplicaSet", "Pod", "Pod", "Pod"]
    assert {(one["ready"], one["settled"], one["health"]) for one in found} == {
        (True, True, "Green")
    }
    assert found[0] | {"reasons": []} == {
        "kind": "Deployment", "namespace": shop.namespace, "name": "web", "ready": True,
        "settled": True, "health": "Green", "progress": 1.0, "tableReady": True,
        "kstatus": "Current", "argo": "Healthy", "rollout": "complete", "reconciledGeneration": 1,
        "terminatingReplicas": 0, "reasons": [], "apiVersion": "apps/v1", "group": "apps",
        "uid": found[0]["uid"], "trafficReady": None, "applicationQualified": None,
        "culprits": None,
    }  # fmt: skip


def test_pods_that_linger_keep_it_unsettled_though_kubectl_says_complete(shop: Shop) -> None:
    shop.create("apps/v1/deployments", workload(2, terminates_after=NEVER))
    shop.until("deploy/web", ready=True, settled=True)
    with (
        shop.wait("deploy/web", "--for=reconciled=2") as settled,
        shop.wait("deploy/web", "--for=ready", "--for=reconciled") as begun,
    ):
        settled.says("waiting for reconciled=2: Deployment/web: metadata.generation 1, want 2")
        begun.ends(0)
        shop.change(WEB, template=image("image:2"))
        with shop.wait("deploy/web", "--for=ready") as ready:
            ready.ends(0)
        found = shop.status("deploy/web")
        assert "successfully rolled out" in shop.rollout("deployment/web")
        assert (found["ready"], found["settled"], found["health"]) == (True, False, "Yellow")
        assert (found["kstatus"], found["argo"], found["rollout"]) == (
            "Current", "Healthy", "complete",
        )  # fmt: skip
        assert found["terminatingReplicas"] == 2
        assert any("terminatingReplicas 2, want 0" in reason for reason in found["reasons"])
        assert found["reconciledGeneration"] is None
        rows = shop.run("deploy/web").stdout
        assert "≠ kstatus says Current, Argo CD says Healthy, kubectl says complete" in rows
        assert settled.runs
        shop.force()
        settled.ends(0)
        assert shop.shows(lambda state: done(state, {"image:2"}, 2), *WORKLOADS)
    assert shop.status("deploy/web")["reconciledGeneration"] == 2


def test_scaling_is_not_done_before_the_last_pod_is_there_or_gone(shop: Shop) -> None:
    shop.create("apps/v1/deployments", workload(1, ready_after="500ms", terminates_after="1s"))
    shop.until("deploy/web", settled=True)
    for replicas in (3, 1):
        generation = shop.change(WEB, replicas=replicas)["metadata"]["generation"]
        with shop.wait("deploy/web", f"--for=reconciled={generation}") as run:
            run.ends(0)
        assert shop.shows(
            lambda state, number=generation, count=replicas: (
                state["deployments/web"]["metadata"]["generation"] == number
                and done(state, {"image:1"}, count)
            ),
            *WORKLOADS,
        )


def test_a_bad_image_fails_for_good_past_its_deadline(shop: Shop) -> None:
    shop.create("apps/v1/deployments", workload(2))
    shop.until("deploy/web", settled=True)
    bad = image("bad", ready_after=NEVER)
    shop.change(WEB, template=bad, progressDeadlineSeconds=2)
    with shop.wait("deploy/web") as run:
        run.ends(1)

    def exceeded(state: State) -> bool:
        conditions = state["deployments/web"]["status"]["conditions"]
        return any(one["reason"] == "ProgressDeadlineExceeded" for one in conditions)

    assert shop.shows(exceeded, "apps/v1/deployments")
    assert run.lines[-1].startswith("failed: Deployment/web: status.conditions[Progressing] False")
    found = shop.status("deploy/web")
    assert (found["ready"], found["settled"], found["health"]) == (False, False, "Red")
    assert found["rollout"] == "failed"
    assert found["kstatus"] == "Failed"
    assert any("ProgressDeadlineExceeded" in reason for reason in found["reasons"])
    assert any(" › Pod/web-" in reason for reason in found["reasons"]), "the leaf is named"
    shop.change(WEB, template=image("image:3", ready_after="0s"))
    with shop.wait("deploy/web") as run:
        run.ends(0)


def test_a_paused_deployment_says_what_waits_for_its_resumption(shop: Shop) -> None:
    shop.create("apps/v1/deployments", workload(2))
    shop.until("deploy/web", settled=True)
    shop.change(WEB, paused=True)
    found = shop.until("deploy/web", settled=True, kstatus="InProgress", argo="Suspended")
    assert (found["ready"], found["rollout"]) == (True, "complete")
    assert any("spec.paused true" in reason for reason in found["reasons"])
    shop.change(WEB, template=image("image:2"))
    with shop.wait("deploy/web", "--timeout=3s") as run:
        run.ends(3)
    assert run.lines[-1].startswith("timed out after 3 s: Deployment/web: ")
    assert any("until it is resumed" in one for one in shop.status("deploy/web")["reasons"])
    with shop.wait("deploy/web") as run:
        shop.change(WEB, paused=False)
        run.ends(0)


def test_a_partition_holds_back_all_but_the_last_pods(shop: Shop) -> None:
    body = workload(3, name="db")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    body["spec"] |= {"serviceName": "db", "updateStrategy": strategy}
    shop.create("apps/v1/statefulsets", body)
    with shop.wait("sts/db") as run:
        run.ends(0)
    shop.change("apps/v1/statefulsets/db", template=image("image:2"))
    with shop.wait("sts/db", "--for=ready", "--for=reconciled=2") as run:
        run.ends(0)
    images = {
        one["metadata"]["name"]: one["spec"]["containers"][0]["image"]
        for one in shop.get("pods")["items"]
    }
    assert images == {"db-0": "image:1", "db-1": "image:1", "db-2": "image:2"}
    found = shop.status("sts/db")
    assert (found["ready"], found["settled"], found["health"]) == (True, True, "Green")
    assert found["rollout"] == "complete"
    assert found["tableReady"] is False


def test_a_new_node_unsettles_a_daemon_set_until_its_pod_is_ready(
    cluster: ControlPlane, shop: Shop
) -> None:
    body = workload(name="agent", gated=True)
    del body["spec"]["replicas"]
    shop.create("apps/v1/daemonsets", body)
    shop.open(count=3)
    shop.until("ds/agent", ready=True, settled=True)
    name = cluster.client.post("/api/v1/nodes", node(17)).body["metadata"]["name"]
    try:
        found = shop.until("ds/agent", ready=False)
        assert (found["settled"], found["rollout"]) == (False, "waiting")
        assert "status.numberReady 3, want 4" in found["reasons"]
        assert any(reason.startswith("Pod/agent-") for reason in found["reasons"])
        with shop.wait("ds/agent") as run:
            run.says("Pod/agent-")
            shop.open(count=1)
            run.ends(0)
            assert shop.shows(
                lambda state: (
                    len(state) == 4
                    and all(
                        any(
                            (one["type"], one["status"]) == ("Ready", "True")
                            for one in each["status"]["conditions"]
                        )
                        for each in state.values()
                    )
                ),
                "pods",
            )
    finally:
        cluster.client.delete(f"/api/v1/nodes/{name}")


def job(name: str, **annotations: str) -> dict[str, Any]:
    template = pod(**annotations)
    template["spec"] |= {"restartPolicy": "Never", "readinessGates": [{"conditionType": GATE}]}
    return {"metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": template}}


@pytest.mark.parametrize(("exit_code", "condition"), [("0", "Complete"), ("1", "Failed")])
def test_a_job_is_waited_for_until_it_completes_or_fails(
    shop: Shop, exit_code: str, condition: str
) -> None:
    shop.create("batch/v1/jobs", job("once", completes_after="0s", exit_code=exit_code))
    running = shop.until("job/once", kstatus="Current")
    assert (running["ready"], running["settled"], running["argo"]) == (
        False, False, "Progressing",
    )  # fmt: skip
    assert "status.conditions[Complete] absent, want True" in running["reasons"]
    with shop.wait("job/once") as run:
        run.says("Job/once: ")
        shop.open(count=1)
        run.ends(int(exit_code))

    def is_over(state: State) -> bool:
        conditions = state["jobs/once"]["status"]["conditions"]
        return any((one["type"], one["status"]) == (condition, "True") for one in conditions)

    assert shop.shows(is_over, "batch/v1/jobs")
    found = shop.status("job/once")
    good = exit_code == "0"
    assert (found["ready"], found["settled"]) == (good, True)
    assert found["health"] == ("Green" if good else "Red")
    if not good:
        assert run.lines[-1] == (
            "failed: Job/once: status.conditions[Failed] True, want False: BackoffLimitExceeded"
        )


def test_a_claim_without_a_volume_blocks_itself_and_the_pod_that_wants_it(shop: Shop) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    shop.create("persistentvolumeclaims", claim)
    body = pod("db")
    body["spec"]["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    shop.create("pods", body)
    found = shop.until("pvc/data", kstatus="InProgress")
    assert (found["ready"], found["settled"]) == (False, False)
    assert "status.phase Pending, want Bound" in found["reasons"]
    stuck = shop.until("pod/db", ready=False)
    assert any("Unschedulable" in reason for reason in stuck["reasons"])
    with shop.wait("pvc/data", "pod/db", "--timeout=2s") as run:
        run.ends(3)
    assert "PersistentVolumeClaim/data: status.phase Pending" in run.lines[-1]
    assert "Pod/db: " in run.lines[-1]


def test_a_disruption_budget_is_ready_when_enough_pods_are_healthy(shop: Shop) -> None:
    shop.create("apps/v1/deployments", workload(2, gated=True))
    budget = {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}}
    shop.create("policy/v1/poddisruptionbudgets", {"metadata": {"name": "web"}, "spec": budget})
    found = shop.until("pdb/web", ready=False, kstatus="Current")
    assert any(reason.startswith("status.currentHealthy 0, want") for reason in found["reasons"])
    shop.open(count=2)
    with shop.wait("pdb/web") as run:
        run.ends(0)
    found = shop.status("pdb/web")
    assert found["tableReady"] is False, "the table has no percentages"
    assert found["kstatus"] == "Current"


def test_a_load_balancer_is_ready_with_an_address_and_a_hostname_is_one(shop: Shop) -> None:
    ports = [{"port": 80}]
    shop.create(
        "services", {"metadata": {"name": "web"}, "spec": {"type": "LoadBalancer", "ports": ports}}
    )
    found = shop.status("svc/web")
    assert (found["ready"], found["kstatus"], found["argo"]) == (False, "Current", "Progressing")
    assert any("status.loadBalancer.ingress absent" in reason for reason in found["reasons"])
    with shop.wait("svc/web", "--for=health=green") as run:
        run.says("status.loadBalancer.ingress")
        ingress = {"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.org"}]}}}
        shop.plane.client.patch(shop.path("services/web/status"), ingress)
        run.ends(0)
        assert shop.shows(
            lambda s: s["services/web"]["status"]["loadBalancer"]["ingress"], "services"
        )

    assert shop.status("svc/web")["tableReady"] is False, "the table asks for an ip"


def condition(kind: str, status: str, generation: int) -> dict[str, Any]:
    return {
        "type": kind, "status": status, "reason": "Because", "message": "",
        "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip


def test_custom_resources_that_lag_lead_or_stall(shop: Shop) -> None:
    with served(shop.plane, shop.namespace, status_subresource=True) as widgets:
        target = f"{widgets.resource}/one"
        with shop.wait(target) as run:
            run.says("it does not exist yet")
            made = widgets.create(spec={"size": 1})
            run.says("Widget/one: metadata.generation 1, want a newer status")
            good = {"observedGeneration": 1, "conditions": [condition("Ready", "True", 1)]}
            made = widgets.put(made, "status", status=good)
            run.ends(0)
        made = widgets.put(made, spec={"size": 2})
        lagging = shop.status(target)
        assert (lagging["ready"], lagging["settled"], lagging["kstatus"]) == (
            False, False, "InProgress",
        )  # fmt: skip
        assert "status.observedGeneration 1, want 2" in lagging["reasons"]
        stale = {"conditions": [condition("Ready", "True", 1)]}
        made = widgets.put(made, "status", status=stale)
        found = shop.status(target)
        assert (found["ready"], found["kstatus"]) == (False, "Current"), "kstatus looks no closer"
        assert "status.conditions[Ready].observedGeneration 1, want 2" in found["reasons"]
        leading = {"observedGeneration": 7, "conditions": [condition("Ready", "True", 2)]}
        made = widgets.put(made, "status", status=leading)
        found = shop.status(target)
        assert found["settled"] is False
        ahead = "status.observedGeneration 7, want 2: ahead of the generation"
        assert ahead in found["reasons"]
        with shop.wait(target) as run:
            run.says(ahead)
            stalled = {"observedGeneration": 2, "conditions": [condition("Stalled", "True", 2)]}
            widgets.put(made, "status", status=stalled)
            run.ends(1)
            assert shop.shows(
                lambda s: s["widgets/one"]["status"]["conditions"][0]["type"] == "Stalled",
                f"{widgets.group}/v1/widgets",
            )
        assert run.lines[-1].startswith("failed: Widget/one: status.conditions[Stalled] True")
        found = shop.status(target)
        assert (found["health"], found["kstatus"]) == ("Red", "Failed")


def test_a_custom_resource_that_flaps_is_yellow_with_the_count(shop: Shop) -> None:
    with served(shop.plane, shop.namespace, status_subresource=True) as widgets:
        made = widgets.create(spec={"size": 1})
        with shop.watch(f"{widgets.resource}/one") as run:

            def says(**wanted: Any) -> dict[str, Any] | None:
                last: dict[str, Any] = json.loads(run.lines[-1]) if run.lines else {}
                return last if wanted.items() <= last.items() else None

            for turn in range(7):
                good = turn % 2 == 0
                ready = condition("Ready", "True" if good else "False", 1)
                status = {"observedGeneration": 1, "conditions": [ready]}
                made = widgets.put(made, "status", status=status)
                wait_until(lambda good=good: says(ready=good), what=f"turn {turn} is told")
            last = wait_until(lambda: says(ready=True, health="Yellow"), what="Yellow")
        assert "Ready 6: changes within 10 minutes: flapping" in last["reasons"]


def test_what_is_owned_below_any_owner_and_an_application_is_told(shop: Shop) -> None:
    with served(shop.plane, shop.namespace, status_subresource=True) as widgets:
        owner = widgets.create(spec={"size": 1})
        good = {"observedGeneration": 1, "conditions": [condition("Ready", "True", 1)]}
        widgets.put(owner, "status", status=good)
        body = workload(1, gated=True)
        body["metadata"]["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": "Widget",
                "name": "one",
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
        ]
        target = f"{widgets.resource}/one"
        shop.create("apps/v1/deployments", body)
        found = shop.until(target, ready=False)
        assert any("Deployment/web › " in reason for reason in found["reasons"])
        shop.open(count=1)
        with shop.wait(target) as run:
            run.ends(0)
        kinds = [one["kind"] for one in shop.tree(target)]
        assert kinds == ["Widget", "Deployment", "ReplicaSet", "Pod"]


def test_a_set_is_ready_when_all_of_it_is_and_names_what_is_not(shop: Shop) -> None:
    for name in ("fast", "slow"):
        body = workload(1, name=name, gated=name == "slow")
        body["metadata"]["labels"] = {"part-of": "shop"}
        shop.create("apps/v1/deployments", body)
    shop.until("deploy/fast", settled=True)
    rows = shop.run("deploy", "-l", "part-of=shop").stdout.splitlines()
    assert rows[-1] == "2 objects: 1 Green, 1 Yellow; not ready, not settled"
    with shop.wait("deploy", "-l", "part-of=shop") as run:
        run.says("Deployment/slow: ")
        shop.open(count=1)
        run.ends(0)
    assert run.lines[0].startswith("waiting for ready and settled: Deployment/slow: ")
    assert run.lines[-1] == "reached ready and settled: Deployment/fast; Deployment/slow"
    everything = {(one["kind"], one["name"]) for one in shop.tree()}
    assert {("Deployment", "fast"), ("Deployment", "slow")} <= everything


def test_a_file_names_what_is_waited_for_and_its_kind_may_come_later(
    shop: Shop, tmp_path: Any
) -> None:
    group = "late.genguard.io"
    documents = [
        {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "one"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}},
    ]
    path = tmp_path / "objects.json"
    path.write_text("\n".join(map(json.dumps, documents)))
    with shop.wait("-f", str(path)) as run:
        run.says("there is no kind 'Widget.v1.late.genguard.io'")
        with served(shop.plane, shop.namespace, status_subresource=True, group=group) as widgets:
            run.says("it does not exist yet")
            shop.create("configmaps", documents[1])
            made = widgets.create(spec={"size": 1})
            good = {"observedGeneration": 1, "conditions": [condition("Ready", "True", 1)]}
            widgets.put(made, "status", status=good)
            run.ends(0)


def test_a_server_that_is_named_must_answer(shop: Shop) -> None:
    shop.create("apps/v1/deployments", workload(1))
    gone = shop.run("deploy/web", "--server=http://127.0.0.1:9")
    assert gone.exit_code == 1
    assert "no answer from /api/findings" in gone.stderr
