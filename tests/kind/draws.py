"""Draws: 20 Deployments whose status a webhook clears, and for how many genguard did its work."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from genguard.admission.matching import Writes, may_match
from tests.beside import Again
from tests.controlplane.client import wait_until
from tests.kind.cluster import PAUSE, Cluster, Figure, Json
from tests.kind.culprit import ACTOR, Culprit

MANY = 20
DETECTOR = "observed-generation-cleared"
_SECONDS = 90.0
_STATUS = Writes("apps", "deployments/status", "UPDATE")
_MOST_SPOILT = 10


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


def assert_named_within_ten_writes(
    cluster: Cluster, culprit: Culprit, figure: Figure, namespace: str
) -> None:
    """Register the webhook while 20 Deployments are written once a second: all its phases are gone.

    It must be named for each of them before it has been called ten times.
    """
    with _made(cluster, namespace, replicas=0):
        wait_until(lambda: not _intent_is_called(cluster), 150, every=1, what="/intent taken away")
        with (
            _written(cluster, namespace) as spoilt,
            culprit.clearing("deployments/status", namespace),
        ):
            count = _most(lambda: len(named(cluster, namespace)), every=0.5)
            most = max(spoilt.values())
    figure(f"{count} of {MANY}, each within {most} writes that it had spoilt")
    assert count == MANY
    assert most <= _MOST_SPOILT


@contextmanager
def _written(cluster: Cluster, namespace: str) -> Iterator[Mapping[str, int]]:
    """Write each status of 20 Deployments once a second; yield how many writes came out wrong."""
    spoilt: Counter[str] = Counter()

    def write(names: Sequence[str], _: int) -> None:
        for number, name in enumerate(names):
            path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/status"
            status = {"observedGeneration": 1, "unavailableReplicas": number}
            answer = cluster.client.patch(path, {"status": status}).body
            spoilt[name] += answer["status"].get("observedGeneration") != 1

    with ExitStack() as stack:
        for at in range(4):
            stack.enter_context(Again(partial(write, _names()[at::4]), 1.0))
        yield spoilt


def _intent_is_called(cluster: Cluster) -> bool:
    found = cluster.get("mutatingwebhookconfiguration", "0--genguard-intent")
    return may_match(found["webhooks"][0].get("rules", ()), _STATUS)


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


def _names() -> list[str]:
    return [f"d-{number:02}" for number in range(MANY)]


@contextmanager
def _made(cluster: Cluster, namespace: str, replicas: int = 1) -> Iterator[None]:
    """20 Deployments in a namespace, deleted in the end: nodes hold so many pods."""
    cluster.namespace(namespace)
    cluster.apply(*(deployment(name, namespace, replicas) for name in _names()))
    try:
        yield
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def _most(count: Callable[[], int], every: float = 2.0) -> int:
    """The count when it has reached 20, or what it is when the time is over."""
    try:
        wait_until(lambda: count() == MANY, _SECONDS, every=every)
    except TimeoutError:
        return count()
    return MANY
