"""The story of a user, in this order: audit-only, a loop and its alert, enforcing, uninstall."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.client import wait_until
from tests.dashboard.browser import chromium, visiting
from tests.e2e.custom import definition
from tests.kind import alertmanager, faults
from tests.kind.cluster import SYSTEM, Cluster, Figure, is_free
from tests.kind.culprit import ACTOR, Culprit
from tests.kind.draws import (
    DETECTOR,
    assert_named,
    assert_named_within_ten_writes,
    assert_restored,
    deployment,
    named,
    unrepaired,
)
from tests.kind.load import assert_nothing_lost
from tests.kind.switching import Switch

Json = dict[str, Any]
SHOP = "shop"
MUTATE = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/zzzzzz-genguard-mutate"
)
README_PORT = 8080
"""The port of README's `kubectl port-forward`."""


def test_kind_sh_up_installs_genguard_audit_only(cluster: Cluster, figure: Figure) -> None:
    begin = time.monotonic()
    done = cluster.up(audit_only=True)
    figure(f"{time.monotonic() - begin:.0f} s with cluster and image")
    assert "reached" in done.stdout
    assert cluster.mode() == "audit-only"


def test_doctor_finds_nothing_to_mend(cluster: Cluster, figure: Figure) -> None:
    lines = cluster.doctor()
    assert cluster.faults() == {}, lines
    assert "audit-only" in lines["reached"]["message"]
    figure(f"{len(lines)} checks, 0 warnings, 0 failures")


def test_pods_run_under_pod_security_restricted(cluster: Cluster, figure: Figure) -> None:
    labels = cluster.get("namespace", SYSTEM)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    words = ("label", "namespace", SYSTEM, "--dry-run=server", "--overwrite")
    standard = "pod-security.kubernetes.io/enforce=restricted"
    again = cluster.run("kubectl", *words, standard)
    assert "Warning" not in again.stderr
    pods = cluster.pods()
    figure(f"{len(pods)} pod{'s' if len(pods) > 1 else ''}, no warning")


@pytest.mark.parametrize("draw", [1, 2])
def test_audit_only_the_webhook_that_clears_20_deployments_is_named(
    cluster: Cluster, culprit: Culprit, figure: Figure, draw: int
) -> None:
    done = cluster.replace_pods(draw)
    assert_named(cluster, culprit, figure, f"found-{draw}", f"after {done}")


def test_audit_only_a_webhook_that_comes_while_a_loop_runs_is_named_within_ten_writes(
    cluster: Cluster, culprit: Culprit, figure: Figure
) -> None:
    assert_named_within_ten_writes(cluster, culprit, figure, "running")


@pytest.fixture(scope="module")
def shop(cluster: Cluster, culprit: Culprit) -> Iterator[None]:
    """A namespace in which the webhook clears the status of Deployments, and an Alertmanager."""
    alertmanager.run(cluster)
    cluster.install("--alertmanager", alertmanager.URL, audit_only=True)
    # What goes on at the same time is one finding of the culprit.
    wait_until(lambda: _are_resolved(cluster), 300, every=3, what="the end of all findings")
    cluster.namespace(SHOP)
    with culprit.clearing("deployments/status", SHOP):
        yield
    cluster.kubectl("delete", "namespace", SHOP, "--wait=false")


@pytest.mark.usefixtures("shop")
def test_a_rollout_hangs_and_the_finding_stays_open_while_it_does(
    cluster: Cluster, figure: Figure
) -> None:
    cluster.apply(deployment("web", SHOP, replicas=3))
    available(cluster, 1)
    cluster.kubectl("-n", SHOP, "rollout", "restart", "deployment/web")
    available(cluster, 2)
    assert hangs(cluster)
    wait_until(lambda: named(cluster, SHOP), 60, every=1, what="a finding that names the webhook")
    (first,) = cluster.findings(namespace=SHOP, detector=DETECTOR)
    assert first["state"] == "open"
    state = wait_until(lambda: _left(cluster, "open"), 240, every=3, what="no new sign")
    assert state == "quiet"
    assert hangs(cluster)
    figure(f"{ACTOR}, severity {first['severity']}; then {state}")


@pytest.mark.usefixtures("shop")
def test_converge_says_before_it_is_applied_that_a_webhook_will_spoil_its_status(
    cluster: Cluster, figure: Figure
) -> None:
    """The webhook is behind a Service, and is asked through the API server."""
    words = ("converge", "-f", "-", "-o", "json")
    begin = time.monotonic()
    done = cluster.genguard(*words, text=json.dumps(deployment("api", SHOP)), check=False)
    taken = time.monotonic() - begin
    said = json.loads(done.stdout)
    contested = {one["field"]: one["actors"][0]["name"] for one in said["contested"]}
    assert (done.returncode, said["notAsked"]) == (1, {}), done
    assert contested["status.observedGeneration"] == ACTOR
    other = cluster.genguard(*words, text=json.dumps(deployment("api", "default")), check=False)
    assert (other.returncode, json.loads(other.stdout)["contested"]) == (0, []), other
    assert not cluster.get("deployments", "-n", SHOP, "-l", "app=api")["items"]
    figure(f"{ACTOR} named in {taken:.1f} s; in another namespace it comes to rest")


@pytest.mark.usefixtures("shop")
def test_the_step_that_is_shown_was_tried(cluster: Cluster, figure: Figure) -> None:
    """The active pod remembers the last writes; a standby shows what was saved, untried."""
    (found,) = cluster.findings(namespace=SHOP, detector=DETECTOR)
    name = f"finding/{found['id']}"
    explained = json.loads(cluster.genguard("explain", name, "-o", "json").stdout)
    tried = [one["trial"] for one in explained["fix"] if one.get("trial", {}).get("of")]
    assert tried, explained["fix"]
    assert all(one["ended"] == one["of"] for one in tried)
    figure(f"tried on {tried[0]['of']} writes")


@pytest.mark.usefixtures("shop")
def test_the_alert_fires_in_alertmanager_while_the_rollout_hangs(
    cluster: Cluster, figure: Figure
) -> None:
    labels = {"alertname": "GenguardLoop", "namespace": SHOP, "name": "web", "detector": DETECTOR}
    (alert,) = wait_until(
        lambda: alertmanager.alerts(cluster, **labels), 60, every=1, what="the alert"
    )
    assert hangs(cluster)
    figure(f"GenguardLoop, {alert['status']['state']}")


@pytest.mark.usefixtures("shop")
def test_the_dashboard_shows_the_finding_through_the_readmes_port_forward(
    cluster: Cluster, figure: Figure
) -> None:
    assert is_free(README_PORT), f"somebody listens on port {README_PORT} of this machine"
    with cluster.forwarded(port=README_PORT):
        title = asyncio.run(_look(README_PORT))
    figure(f'Chromium shows "{title}"')


async def _look(port: int) -> str:
    async with chromium() as browser, visiting(browser, port) as visitor:
        assert await visitor.open("/") == 200
        title = await visitor.page.title()
        assert "broken" in title
        assert ACTOR.partition("/")[0] in await visitor.text()
        assert await visitor.open(f"/?namespace={SHOP}") == 200
        assert f"{SHOP}/web" in await visitor.text()
        return title


@pytest.mark.usefixtures("shop")
def test_enforcing_completes_the_rollout_that_hung(cluster: Cluster, figure: Figure) -> None:
    assert hangs(cluster)
    begin = time.monotonic()
    with Switch(cluster) as switch:
        cluster.up(audit_only=False)
        installed = time.monotonic() - begin
        switch.is_over("enforcing")
    words = ("-n", SHOP, "rollout", "status", "deployment/web", "--timeout=60s")
    cluster.kubectl(*words)
    figure(f"kind.sh up took {installed:.0f} s; {switch}")
    assert unrepaired(cluster, SHOP) == []


@pytest.mark.parametrize("draw", [1, 2])
def test_enforcing_the_value_of_20_deployments_is_restored(
    cluster: Cluster, culprit: Culprit, figure: Figure, draw: int
) -> None:
    done = cluster.replace_pods(draw)
    assert_restored(cluster, culprit, figure, f"restored-{draw}", f"after {done}")


def test_enforcing_a_widget_s_cleared_value_is_restored_and_other_writes_cost_no_call(
    cluster: Cluster, figure: Figure
) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    cluster.apply(definition("example.org", "widgets", "Widget", schema, status=True))
    cluster.ensure(audit_only=False)
    cluster.namespace("widgets")
    path, client = "/apis/example.org/v1/namespaces/widgets/widgets", cluster.client
    body = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "one"}}
    wait_until(lambda: client.post(path, body), what="widgets are served")
    ready = {"type": "Ready", "status": "True", "observedGeneration": 1}
    left = {"observedGeneration": 1, "conditions": [ready]}

    def write(**fields: Any) -> Json:
        made: Json = client.patch(f"{path}/one/status", {"status": fields}).body["status"]
        return made

    def is_restored() -> bool:
        write(**left)
        lost = {"observedGeneration": None, "conditions": [{**ready, "observedGeneration": 0}]}
        return write(**lost) == left

    begin = time.monotonic()
    wait_until(is_restored, every=1, what="the value of a kind that came later restored")
    seconds, before = time.monotonic() - begin, repairing_calls(cluster)
    for turn in range(1_000):
        write(observedGeneration=1, conditions=[{**ready, "reason": f"R{turn}"}])
    calls = repairing_calls(cluster) - before
    figure(f"both values, {seconds:.0f} s after its definition; {calls:.0f} of 1,000 writes called")
    assert calls == 0
    assert "widgets" not in str(client.get(MUTATE).body["webhooks"][0]["rules"])


def repairing_calls(cluster: Cluster) -> float:
    """How often the API server has called for a write that loses a value, and for it alone."""
    lines = cluster.kubectl("get", "--raw", "/metrics").splitlines()
    called = [one for one in lines if one.startswith("apiserver_admission_webhook_request_total{")]
    return sum(float(one.split()[-1]) for one in called if '"repair.genguard.io"' in one)


def test_a_rolling_restart_under_load_costs_nobody_a_write(
    cluster: Cluster, culprit: Culprit, figure: Figure
) -> None:
    assert_nothing_lost(cluster, culprit, figure, faults.restart_by_rollout)


def test_audit_only_again_nothing_is_repaired_once_install_has_returned(
    cluster: Cluster, figure: Figure
) -> None:
    with Switch(cluster) as switch:
        cluster.install(audit_only=True)
        switch.is_over("audit-only")
    figure(str(switch))
    assert "audit-only" in cluster.doctor()["reached"]["message"]


def test_uninstall_leaves_nothing(cluster: Cluster, figure: Figure) -> None:
    cluster.genguard("uninstall", "--yes")
    left = wait_until(lambda: cluster.leftovers() or ["nothing"], what="what is left")
    figure(", ".join(left))
    assert left == ["nothing"]


def available(cluster: Cluster, generation: int) -> None:
    """Wait until three pods of this generation of the Deployment are ready, and no other is."""

    def is_so() -> bool:
        sets = cluster.get("-n", SHOP, "replicasets")["items"]
        ready = [one["status"].get("readyReplicas", 0) for one in sets]
        return len(ready) == generation and max(ready) == sum(ready) == 3

    wait_until(is_so, 120, every=1, what="three ready pods of the last rollout, and no other")


def hangs(cluster: Cluster) -> bool:
    """Whether `kubectl rollout status` waits for a rollout that is done."""
    words = ("-n", SHOP, "rollout", "status", "deployment/web", "--timeout=5s")
    done = cluster.run("kubectl", *words, check=False)
    return done.returncode != 0 and "to be observed" in done.stdout


def _are_resolved(cluster: Cluster) -> bool:
    found = cluster.findings(detector=DETECTOR)
    return all(one["state"] == "resolved" for one in found)


def _left(cluster: Cluster, state: str) -> str:
    """The finding's state, once it is not this one."""
    (one,) = cluster.findings(namespace=SHOP, detector=DETECTOR)
    return "" if one["state"] == state else str(one["state"])
