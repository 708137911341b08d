"""KEP-5067's own list of tests, with genguard enforcing at all three hooks and predicting.

Five hundred updates of one pod take most of a minute; the other pods are written meanwhile.
"""

from collections.abc import Iterator

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.busy_pods import LAST, UPDATES, Pods
from tests.e2e.culprits import is_ready, pod
from tests.e2e.genguard import RECORD, Genguard
from tests.e2e.recordings import ExaminedReview, examined, unpredicted_changes, wrong_predictions
from tests.e2e.registrations import registered, rule

NAMESPACE = "pod-generations"
SPEC = "spec-changed"


@pytest.fixture(scope="module")
def guard() -> Iterator[Genguard]:
    with Genguard(RECORD) as running:
        yield running


@pytest.fixture(scope="module")
def pods(cluster: ControlPlane, guard: Genguard) -> Iterator[Pods]:
    client = cluster.client
    client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
    wait_until(lambda: client.get(account), what="the service account")
    more = rule(["pods/binding", "pods/eviction"])
    with registered(cluster, NAMESPACE, guard, rules=[more]):
        made = Pods(client, f"/api/v1/namespaces/{NAMESPACE}/pods")
        made.watching.start()
        made.run(pod("busy"))
        made.updating.start()
        yield made
        made.updating.join()
        if made.watching.is_alive():
            client.post(made.path, pod(LAST))
            made.watching.join()
    client.delete(f"/api/v1/namespaces/{NAMESPACE}")


def predicted(guard: Genguard, name: str, kind: str = "Pod") -> list[ExaminedReview]:
    """What genguard said of the outcomes of a pod, which is what was stored."""

    def known() -> list[ExaminedReview]:
        whole = guard.recording.read_text().rpartition("\n")[0] + "\n"  # the last line may grow
        copy = guard.recording.with_name(f"{name}.ndjson")
        copy.write_text(whole)
        reviews = [one for one in examined(copy, kind) if one.request["name"] == name]
        assert list(wrong_predictions(reviews)) == []
        return [one for one in reviews if one.phase == "outcome"]

    return wait_until(known, what=f"reviews of {name}")


def test_a_resize_counts(pods: Pods, guard: Genguard) -> None:
    name = pods.run(pod("resized"))
    container = {"name": "c", "resources": {"requests": {"cpu": "200m"}}}
    pods.change(name, "resize", containers=[container])
    pods.observes(name, 2)
    assert SPEC in {one.cause for one in predicted(guard, name)}


def test_an_ephemeral_container_counts(pods: Pods, guard: Genguard) -> None:
    name = pods.run(pod("debugged"))
    pods.change(name, "ephemeralcontainers", ephemeralContainers=[{"name": "d", "image": "i"}])
    pods.observes(name, 2)
    assert SPEC in {one.cause for one in predicted(guard, name)}


def test_a_graceful_deletion_counts_once(pods: Pods, guard: Genguard) -> None:
    name = pods.run(pod("deleted", terminates_after="20s"))
    answer = pods.client.delete(f"{pods.path}/{name}").body
    assert answer["metadata"]["deletionTimestamp"]
    assert answer["metadata"]["generation"] == 2
    pods.observes(name, 2)
    pods.client.delete(f"{pods.path}/{name}", {"gracePeriodSeconds": 10})
    assert pods.generation(name) == 2
    deletions = [one for one in predicted(guard, name) if one.request["operation"] == "DELETE"]
    assert [one.step for one in deletions] == [1, 0]


def test_an_eviction_counts_as_the_deletion_it_is(pods: Pods, guard: Genguard) -> None:
    name = pods.run(pod("evicted", terminates_after="20s"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    pods.client.post(f"{pods.path}/{name}/eviction", eviction)
    pods.observes(name, 2)
    # It deletes without a review of the deletion, and shows no object: its step is foretold.
    evictions = predicted(guard, name, "Eviction")
    assert [(one.step, one.cause) for one in evictions] == [(1, "evicted")]


def test_a_binding_does_not_count(pods: Pods, guard: Genguard) -> None:
    body = pod("bound")
    body["spec"]["schedulerName"] = "nobody"
    pods.client.post(pods.path, body)
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "bound"}}
    pods.client.post(f"{pods.path}/bound/binding", binding | {"target": target})
    wait_until(lambda: is_ready(pods.get("bound")))
    assert pods.get("bound")["spec"]["nodeName"] == "node-0"
    pods.observes("bound", 1)
    assert [one.step for one in predicted(guard, "bound", "Binding")] == [0]


def test_a_change_of_metadata_alone_does_not_count(pods: Pods, guard: Genguard) -> None:
    name = pods.run(pod("labelled"))
    labels = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}
    assert pods.client.patch(f"{pods.path}/{name}", labels).body["metadata"]["labels"]["a"] == "b"
    assert pods.generation(name) == 1
    assert {one.step for one in predicted(guard, name) if not one.write.subresource} <= {0, 1}


def test_a_generation_that_the_client_sends_is_ignored(pods: Pods) -> None:
    body = pod("forged")
    body["metadata"]["generation"] = 77
    assert pods.client.post(pods.path, body).body["metadata"]["generation"] == 1
    # A binding that came in between would have the patch tried again, on another version.
    wait_until(lambda: is_ready(pods.get("forged")))
    patch = {"metadata": {"generation": 78, "labels": {"a": "b"}}}
    assert pods.client.patch(f"{pods.path}/forged", patch).body["metadata"]["generation"] == 1
    patch = {"metadata": {"generation": 79}, "spec": {"activeDeadlineSeconds": 1000}}
    assert pods.client.patch(f"{pods.path}/forged", patch).body["metadata"]["generation"] == 2


def test_five_hundred_updates_at_ten_a_second_converge_and_every_write_was_predicted(
    pods: Pods, guard: Genguard
) -> None:
    pods.updating.join(timeout=120)
    pods.observes("busy", UPDATES + 1)
    pods.client.post(pods.path, pod(LAST))
    pods.watching.join(timeout=30)
    assert not pods.watching.is_alive()
    wait_until(lambda: is_ready(pods.get(LAST)))
    guard.stop(at_once=True)
    reviews = examined(guard.recording, "Pod")
    assert {one.phase for one in reviews} == {"intent", "mutate", "outcome"}
    busy = [one for one in reviews if one.request["name"] == "busy" and one.phase == "outcome"]
    assert len([one for one in busy if one.cause == "spec-changed"]) >= UPDATES
    assert list(wrong_predictions(reviews)) == []
    # Of an eviction no review shows the object: its own test looks at it.
    others = [one for one in pods.events if one.object["metadata"]["name"] != "evicted"]
    assert list(unpredicted_changes(others, reviews)) == []
