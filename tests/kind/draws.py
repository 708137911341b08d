"""Draws: 20 Deployments whose status a webhook clears, and for how many genguard did its work."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.controlplane.client import wait_until
from tests.kind.cluster import PAUSE, Cluster, Figure, Json
from tests.kind.culprit import ACTOR, Culprit

MANY = 20
DETECTOR = "observed-generation-cleared"
_SECONDS = 90.0


def deployment(name: str, namespace: str, replicas: int = 1, *, paused: bool = False) -> Json:
    """A Deployment of pods that do nothing."""
    labels = {"app": name}
    container = {"name": "c", "image": PAUSE, "imagePullPolicy": "IfNotPresent"}
    pod = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "paused": paused,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def assert_named(
    cluster: Cluster, culprit: Culprit, figure: Figure, namespace: str, when: str
) -> None:
    """Make 20 Deployments whose status is zeroed; each needs a finding that names the webhook.

    when  what was done to genguard's pods, for the table of figures
    """
    with culprit.clearing("deployments/status", namespace), _made(cluster, namespace):
        count = _most(lambda: len(named(cluster, namespace)))
    figure(f"{count} of {MANY}, {when}")
    assert count == MANY


def assert_restored(
    cluster: Cluster, culprit: Culprit, figure: Figure, namespace: str, when: str
) -> None:
    """Make 20 Deployments whose status is zeroed; each must hold what its controller sent."""
    count = restored(cluster, culprit, namespace)
    figure(f"{count} of {MANY}, {when}")
    assert count == MANY


def restored(cluster: Cluster, culprit: Culprit, namespace: str) -> int:
    """Make 20 Deployments whose status is zeroed; how many hold what their controller sent."""
    with culprit.clearing("deployments/status", namespace), _made(cluster, namespace):
        return _most(lambda: MANY - len(unrepaired(cluster, namespace)))


def named(cluster: Cluster, namespace: str, detector: str = DETECTOR) -> set[str]:
    """Names of the objects for whose findings the culprit, and nobody else, is to blame."""
    found = set()
    for one in cluster.findings(namespace=namespace, detector=detector):
        actors = [(actor["name"], actor["confidence"]) for actor in one["actors"]]
        if actors == [(ACTOR, "certain")] and "object" in one:  # else it is about all of them
            found.add(one["object"]["name"])
    return found


def unrepaired(cluster: Cluster, namespace: str) -> list[str]:
    """Names of the Deployments whose observedGeneration is not their generation."""
    return [
        one["metadata"]["name"]
        for one in cluster.get("-n", namespace, "deployments")["items"]
        if one["status"].get("observedGeneration") != one["metadata"]["generation"]
    ]


@contextmanager
def _made(cluster: Cluster, namespace: str) -> Iterator[None]:
    """20 Deployments in a namespace, deleted in the end: nodes hold so many pods."""
    cluster.namespace(namespace)
    cluster.apply(*(deployment(f"d-{number:02}", namespace) for number in range(MANY)))
    try:
        yield
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def _most(count: Callable[[], int]) -> int:
    """The count when it has reached 20, or what it is when the time is over."""
    try:
        wait_until(lambda: count() == MANY, _SECONDS, every=2.0)
    except TimeoutError:
        return count()
    return MANY
