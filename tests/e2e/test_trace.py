"""`genguard trace` names the one webhook of five that clobbers, and leaves nothing behind."""

import os
import signal
from collections.abc import Iterator

import pytest

from tests.beside import Again
from tests.controlplane.client import ApiError, wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.culprits import deployment
from tests.e2e.tracing import CULPRIT, FIVE, five_webhooks, observers, trace, wait_for_observers

OBSERVED = "/status/observedGeneration"
SLOTS = len(FIVE) + 1


@pytest.fixture
def web(cluster: ControlPlane, namespace: NamespaceFactory) -> Iterator[str]:
    """A namespace with an available Deployment `web`; afterwards nothing is left registered."""
    name = namespace(cluster)
    path = f"/apis/apps/v1/namespaces/{name}/deployments"
    cluster.client.post(path, deployment("web"))
    cluster.client.post(path, deployment("other", replicas=0))

    def is_available() -> bool:
        found = cluster.client.get(f"{path}/web").body.get("status", {})
        return found.get("availableReplicas") == 2 and found.get("observedGeneration") == 1

    wait_until(is_available, what="web available")
    yield name
    assert observers(cluster) == []


def written(plane: ControlPlane, namespace: str) -> Again:
    """The controller writes the status of `web` and of `other`, again and again."""

    def write(turn: int) -> None:
        for name in ("web", "other"):
            path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
            template = {"metadata": {"annotations": {"example.org/number": str(turn)}}}
            try:
                plane.client.patch(path, {"spec": {"template": template, "paused": True}})
            except ApiError as error:
                assert error.status == 409

    return Again(write, 0.1, done=plane.client.close)


def test_of_five_webhooks_it_names_the_one_that_clobbers(cluster: ControlPlane, web: str) -> None:
    with (
        five_webhooks(cluster, web),
        written(cluster, web),
        trace(cluster, "deployment.apps/web", "-n", web, "--writes=20", "--timeout=3m") as run,
    ):
        report = run.report()
    (culprit,) = report["culprits"]
    assert culprit == {
        "type": "webhook",
        "name": f"{CULPRIT}/reviews.example.org",
        "webhooks": ["reviews.example.org"],
        "confidence": "certain",
        "paths": [OBSERVED],
    }
    assert report["writes"]["complete"] >= 20
    assert report["notSeen"] == report["changedMeanwhile"] == []
    found = {one["configurations"][0]["name"]: one for one in report["webhooks"]}
    assert list(found) == list(FIVE)
    assert [len(one["configurations"]) for one in report["webhooks"]] == [1] * len(FIVE)
    assert not found["aaa-first"]["fields"] and not found["zzz-last"]["fields"]
    assert {one["pointer"] for one in found["mmm-old-operator"]["fields"]} == {
        "/status/collisionCount"
    }
    assert {one["subresource"] for one in found[CULPRIT]["fields"]} == {"status"}
    assert report["object"]["name"] == "web"
    assert "before" not in found[CULPRIT]["fields"][0]


def test_a_poke_needs_nobody_to_write_and_shows_values_when_asked(
    cluster: ControlPlane, web: str
) -> None:
    path = f"/apis/apps/v1/namespaces/{web}/deployments/web"
    with five_webhooks(cluster, web):
        before = cluster.client.get(path).body
        with trace(cluster, "deploy/web", "-n", web, "--poke", "--show-values") as run:
            report = run.report()
        assert cluster.client.get(path).body == before
    (culprit,) = report["culprits"]
    assert culprit["name"] == f"{CULPRIT}/reviews.example.org"
    row = next(one for one in report["webhooks"] if one["configurations"][0]["name"] == CULPRIT)
    (field,) = row["fields"]
    # The API server reads each patched object into its own type, which leaves out a 0.
    assert (field["change"], field["before"], "after" in field) == ("removed", 1, False)
    assert field["observedGeneration"] == "cleared"


def lost(cluster: ControlPlane, namespace: str) -> None:
    """Have the controller write the status through the culprit, until the stored value is gone."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    template = {"metadata": {"annotations": {"example.org/number": "1"}}}
    cluster.client.patch(path, {"spec": {"template": template}})

    def is_gone() -> bool:
        return "observedGeneration" not in cluster.client.get(path).body["status"]

    wait_until(is_gone, what="observedGeneration gone")


def test_of_a_rollout_that_hangs_already_a_poke_names_the_culprit(
    cluster: ControlPlane, web: str
) -> None:
    path = f"/apis/apps/v1/namespaces/{web}/deployments/web"
    with five_webhooks(cluster, web):
        lost(cluster, web)
        with trace(cluster, "deploy/web", "-n", web, "--poke") as run:
            report = run.report()
        after = cluster.client.get(path).body
    assert "observedGeneration" not in after["status"], "a dry run stores nothing"
    assert report["verdict"] == "clobbered"
    (culprit,) = report["culprits"]
    assert (culprit["name"], culprit["confidence"]) == (f"{CULPRIT}/reviews.example.org", "certain")
    assert culprit["paths"] == [OBSERVED]
    assert {"path": "status.observedGeneration"}.items() <= report["carried"][0].items()


def test_a_killed_run_leaves_what_the_next_one_removes(cluster: ControlPlane, web: str) -> None:
    with five_webhooks(cluster, web):
        with trace(cluster, "deploy/web", "-n", web, "--timeout=5m") as killed:
            left = wait_for_observers(cluster, killed, SLOTS)
            killed.send(signal.SIGKILL)
        assert observers(cluster) == left
        # Writes go on, though nobody answers the API server any more.
        path = f"/apis/apps/v1/namespaces/{web}/deployments/web"
        cluster.client.patch(path, {"metadata": {"labels": {"written": "yes"}}})
        with trace(cluster, "deploy/web", "-n", web, "--poke") as run:
            report = run.report()
        assert [one["name"] for one in report["culprits"]] == [f"{CULPRIT}/reviews.example.org"]
        assert all(f"removed {name}" in run.err for name in left)


def test_cleanup_alone_removes_what_others_registered(cluster: ControlPlane, web: str) -> None:
    with (
        five_webhooks(cluster, web),
        trace(cluster, "deploy/web", "-n", web, "--timeout=5m") as running,
    ):
        wait_for_observers(cluster, running, SLOTS)
        with trace(cluster, "--cleanup") as cleaning:
            cleaning.end()
        assert cleaning.code == 0, cleaning.err
        assert cleaning.err.count("removed") == SLOTS
        assert observers(cluster) == []
        running.send(signal.SIGTERM)
        assert running.end().code == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_ends_it_and_it_cleans_up(
    cluster: ControlPlane, web: str, number: signal.Signals
) -> None:
    with (
        five_webhooks(cluster, web),
        trace(cluster, "deploy/web", "-n", web, "--timeout=5m") as run,
    ):
        wait_for_observers(cluster, run, SLOTS)
        run.send(number)
        assert run.end().code == 128 + number
        assert observers(cluster) == []


def test_without_yes_and_a_terminal_nothing_is_registered(cluster: ControlPlane, web: str) -> None:
    with five_webhooks(cluster, web):
        with trace(cluster, "deploy/web", "-n", web, yes=False) as run:
            assert run.end().code == 1
        assert "give --yes" in run.err
        assert all(name in run.err for name in FIVE)


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 0)])
def test_on_a_terminal_it_asks(cluster: ControlPlane, web: str, answer: str, code: int) -> None:
    keyboard, terminal = os.openpty()
    try:
        os.write(keyboard, f"{answer}\n".encode())
        with (
            five_webhooks(cluster, web),
            trace(cluster, "deploy/web", "-n", web, "--poke", yes=False, stdin=terminal) as run,
        ):
            assert run.end().code == code, run.err
    finally:
        os.close(keyboard)
        os.close(terminal)
    assert "Register them? [y/N]" in run.err
    assert ("observers registered" in run.err) is (code == 0)


def test_who_may_not_register_is_refused_before_anything_is_asked(
    cluster: ControlPlane, web: str
) -> None:
    weak = cluster.folder / "kube-controller-manager.kubeconfig"  # lists whatever there is
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    body = {
        "metadata": {"name": f"{web}-view"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "system:kube-controller-manager"}],
    }
    cluster.client.post(bindings, body)
    try:
        with (
            five_webhooks(cluster, web),
            trace(cluster, "deploy/web", "-n", web, f"--kubeconfig={weak}") as run,
        ):
            assert run.end().code == 1
    finally:
        cluster.client.delete(f"{bindings}/{web}-view")
    assert "you may not create or delete mutatingwebhookconfigurations" in run.err
