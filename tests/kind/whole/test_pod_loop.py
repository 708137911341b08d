"""KEP-5067's endless loop between a real kubelet and a webhook that clears observedGeneration."""

import time

from tests.controlplane.client import wait_until
from tests.kind.cluster import PAUSE, Cluster, Json
from tests.kind.culprit import Culprit
from tests.kind.draws import named
from tests.kind.load import Figure

MANY = 5
SECONDS = 10.0


def pod(name: str, namespace: str) -> Json:
    """A pod that does nothing."""
    container = {"name": "c", "image": PAUSE, "imagePullPolicy": "IfNotPresent"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


def run(cluster: Cluster, namespace: str) -> None:
    """Start five pods, and wait until they are ready."""
    cluster.namespace(namespace)
    cluster.apply(*(pod(f"p-{number}", namespace) for number in range(MANY)))
    ready = ("wait", "--for=condition=Ready", "pod", "--all", "--timeout=120s")
    cluster.kubectl("-n", namespace, *ready)


def observed(cluster: Cluster, namespace: str) -> int:
    """How many pods have the observedGeneration that their kubelet sent."""
    found = cluster.get("-n", namespace, "pods")["items"]
    return sum(
        one["status"].get("observedGeneration") == one["metadata"]["generation"] for one in found
    )


def moving(cluster: Cluster, namespace: str) -> int:
    """How many pods are written to within ten seconds."""
    before = _versions(cluster, namespace)
    time.sleep(SECONDS)
    after = _versions(cluster, namespace)
    return sum(after[name] != version for name, version in before.items())


def test_audit_only_the_loop_is_found_and_enforcing_it_ends(
    cluster: Cluster, culprit: Culprit, figure: Figure
) -> None:
    cluster.ensure(audit_only=True)
    with culprit.clearing("pods/status", "looping", how="remove"):
        run(cluster, "looping")
        assert observed(cluster, "looping") == 0
        wait_until(lambda: len(named(cluster, "looping")) == MANY, 120, every=2, what="5 findings")
        before = moving(cluster, "looping")
        cluster.up(audit_only=False)
        wait_until(lambda: observed(cluster, "looping") == MANY, 120, every=2, what="5 repaired")
        after = moving(cluster, "looping")
    figure(f"{MANY} of {MANY} found, certain; written to before {before}, afterwards {after}")
    assert after == 0


def test_enforcing_a_pod_never_loops(cluster: Cluster, culprit: Culprit, figure: Figure) -> None:
    cluster.ensure(audit_only=False)
    with culprit.clearing("pods/status", "calm", how="remove"):
        run(cluster, "calm")
        wait_until(lambda: observed(cluster, "calm") == MANY, 60, every=1, what="5 observed")
        after = moving(cluster, "calm")
    figure(f"{MANY} of {MANY} observed, {after} written to afterwards")
    assert after == 0


def _versions(cluster: Cluster, namespace: str) -> dict[str, str]:
    found = cluster.get("-n", namespace, "pods")["items"]
    return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in found}
