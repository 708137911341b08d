"""Ways in which a pod of genguard is taken away, and how each is undone."""

import threading
from collections.abc import Callable

from tests.kind.cluster import SYSTEM, Cluster, Json

Undo = Callable[[], object]


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
    return _without_node(cluster, pod, "kill", "start")


def freeze_the_node(cluster: Cluster, pod: Json) -> Undo:
    """Let its node stand still: nobody closes its connections."""
    return _without_node(cluster, pod, "pause", "unpause")


def _without_node(cluster: Cluster, pod: Json, end: str, begin: str) -> Undo:
    node = pod["spec"]["nodeName"]
    cluster.run("docker", end, node)

    def undo() -> None:
        cluster.run("docker", begin, node)
        cluster.kubectl("wait", "--for=condition=Ready", f"node/{node}", "--timeout=180s")
        cluster.rolled_out()

    return undo
