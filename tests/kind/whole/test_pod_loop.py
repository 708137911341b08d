"""KEP-5067's endless loop between a real kubelet and a webhook that clears observedGeneration."""

import time

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.controlplane.client import wait_until
from tests.kind.cluster import PAUSE, Cluster, Figure, Json
from tests.kind.culprit import WEBHOOK, Culprit
from tests.kind.draws import named

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


def writes(cluster: Cluster) -> int:
    """How many writes of a status the webhook is asked about within ten seconds.

    A write that changes nothing is not stored, so that resourceVersions do not show the loop.
    """
    before = _calls(cluster)
    time.sleep(SECONDS)
    return _calls(cluster) - before


def test_audit_only_the_loop_is_found_and_enforcing_it_ends(
    cluster: Cluster, culprit: Culprit, figure: Figure
) -> None:
    cluster.ensure(audit_only=True)
    with culprit.clearing("pods/status", "looping", how="remove"):
        run(cluster, "looping")
        assert observed(cluster, "looping") == 0
        wait_until(lambda: len(named(cluster, "looping")) == MANY, 120, every=2, what="5 findings")
        before = writes(cluster)
        cluster.up(audit_only=False)
        wait_until(lambda: observed(cluster, "looping") == MANY, 120, every=2, what="5 repaired")
        after = writes(cluster)
    figure(f"{MANY} of {MANY} found, certain; in 10 s {before} writes before, {after} afterwards")
    assert before > 0
    assert after == 0


def test_enforcing_a_pod_never_loops(cluster: Cluster, culprit: Culprit, figure: Figure) -> None:
    cluster.ensure(audit_only=False)
    with culprit.clearing("pods/status", "calm", how="remove"):
        run(cluster, "calm")
        wait_until(lambda: observed(cluster, "calm") == MANY, 60, every=1, what="5 observed")
        after = writes(cluster)
    figure(f"{MANY} of {MANY} observed, {after} writes in 10 s")
    assert after == 0


def _calls(cluster: Cluster) -> int:
    """How often the API server has called the webhook."""
    name = "apiserver_admission_webhook_admission_duration_seconds_count"
    families = text_string_to_metric_families(cluster.kubectl("get", "--raw", "/metrics"))
    samples = [one for family in families for one in family.samples]
    return sum(int(one.value) for one in samples if _is_call(one, name))


def _is_call(sample: Sample, name: str) -> bool:
    return sample.name == name and sample.labels["name"] == WEBHOOK
