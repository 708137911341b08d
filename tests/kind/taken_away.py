"""Ways in which a pod of genguard is taken away, and what that costs under 40 writes a second."""

import threading
import time
from collections.abc import Callable

from tests.kind.cluster import SYSTEM, Cluster, Figure, Json
from tests.kind.culprit import Culprit
from tests.kind.draws import unrepaired
from tests.kind.guarded import Guarded
from tests.kind.load import Load

_BEFORE = 5.0
_AFTER = 20.0
_HEALED_SECONDS = 10.0
Undo = Callable[[], object]
Take = Callable[[Cluster, Json], Undo]


def assert_guards_on(
    cluster: Cluster,
    culprit: Culprit,
    figure: Figure,
    take: Take,
    *,
    choose: Callable[[], Json],
    seconds: float,
) -> tuple[str, str]:
    """Take a pod away. No write fails, the gap is no longer, and all is repaired 10 s later.

    Returns the names of the pod that was taken, and of the one that answers afterwards.
    """
    namespace = take.__name__.replace("_", "-")
    with culprit.clearing("deployments/status", namespace), Load(cluster, namespace) as load:
        load.go_on(_BEFORE)
        taken = choose()
        with Guarded(cluster, namespace) as guarded:
            load.go_on(_BEFORE)
            undo = take(cluster, taken)
            load.go_on(_AFTER)
        load.stop()
        time.sleep(_HEALED_SECONDS)
        left, tally = unrepaired(cluster, namespace), load.tally
        answering = cluster.answering()
        undo()
    figure(f"{guarded}; {tally}; {len(left)} left unrepaired")
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")
    assert not tally.failures, tally.failures[:3]
    assert not guarded.failures, guarded.failures[:3]
    assert guarded.gap <= seconds
    assert left == []
    return taken["metadata"]["name"], answering["metadata"]["name"]


def kill(cluster: Cluster, pod: Json) -> Undo:
    """End its process as a crash does; its kubelet starts it again."""
    node = pod["spec"]["nodeName"]
    name = pod["metadata"]["name"]
    of_pod = f"--label=io.kubernetes.pod.name={name}"
    listed = ("crictl", "ps", "--quiet", "--name=^genguard$", of_pod)
    container = cluster.run("docker", "exec", node, *listed).stdout.strip()
    cluster.run("docker", "exec", node, "crictl", "stop", "--timeout=0", container)
    return cluster.rolled_out


def delete(cluster: Cluster, pod: Json) -> Undo:
    """End it as a rollout does."""
    cluster.kubectl("-n", SYSTEM, "delete", "pod", pod["metadata"]["name"], "--wait=false")
    return cluster.rolled_out


def drain(cluster: Cluster, pod: Json) -> Undo:
    """Evict it, with all other pods of its node."""
    node = pod["spec"]["nodeName"]
    words = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force")
    draining = threading.Thread(target=cluster.kubectl, args=words)
    draining.start()

    def undo() -> None:
        draining.join()
        cluster.kubectl("uncordon", node)
        cluster.rolled_out()

    return undo


def stop_the_node(cluster: Cluster, pod: Json) -> Undo:
    """Take the power from its node."""
    node = pod["spec"]["nodeName"]
    cluster.run("docker", "kill", node)

    def undo() -> None:
        cluster.run("docker", "start", node)
        cluster.kubectl("wait", "--for=condition=Ready", f"node/{node}", "--timeout=180s")
        cluster.rolled_out()

    return undo
