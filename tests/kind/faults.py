"""What happens to a cluster: pods replaced, nodes drained and killed, the API server restarted."""

import time

from tests.controlplane.client import wait_until
from tests.kind.cluster import SYSTEM, Cluster

_DEAD_SECONDS = 60.0
"""Longer than it takes until a node is NotReady and its pods have left their Services."""


def restart_by_rollout(cluster: Cluster) -> None:
    """Replace genguard's pods one by one."""
    cluster.kubectl("-n", SYSTEM, "rollout", "restart", "deployment/genguard")
    cluster.rolled_out()


def drain_the_first_worker(cluster: Cluster) -> None:
    """Evict every pod of a worker, then let it have pods again."""
    _drain(cluster, cluster.nodes()[0])


def drain_the_second_worker(cluster: Cluster) -> None:
    """The same with the other worker."""
    _drain(cluster, cluster.nodes()[1])


def kill_a_pod(cluster: Cluster) -> None:
    """End a pod that answers at once: no preStop, no drain."""
    name = cluster.answering()["metadata"]["name"]
    cluster.kubectl("-n", SYSTEM, "delete", "pod", name, "--force", "--grace-period=0")
    cluster.rolled_out()


def kill_a_node(cluster: Cluster) -> None:
    """Take the power from a worker where genguard answers, and give it back a minute later."""
    node = cluster.answering()["spec"]["nodeName"]
    cluster.run("docker", "kill", node)
    time.sleep(_DEAD_SECONDS)
    cluster.run("docker", "start", node)
    cluster.kubectl("wait", "--for=condition=Ready", f"node/{node}", "--timeout=180s")
    cluster.rolled_out()


def restart_the_api_server(cluster: Cluster) -> None:
    """End the API server of one control plane; its kubelet starts it again."""
    node = cluster.nodes("node-role.kubernetes.io/control-plane")[0]
    before = _api_server(cluster, node)
    cluster.run("docker", "exec", node, "crictl", "stop", "--timeout=0", before)
    wait_until(
        lambda: _api_server(cluster, node) not in ("", before), 180, every=1, what="a new one"
    )
    ready = ("kubectl", "get", "--raw", "/readyz")
    wait_until(
        lambda: cluster.run(*ready, check=False).returncode == 0, 180, every=1, what="/readyz"
    )


ALL = (
    restart_by_rollout,
    drain_the_first_worker,
    drain_the_second_worker,
    kill_a_pod,
    kill_a_node,
    restart_the_api_server,
)


def _drain(cluster: Cluster, node: str) -> None:
    cluster.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force")
    cluster.rolled_out()
    cluster.kubectl("uncordon", node)


def _api_server(cluster: Cluster, node: str) -> str:
    """The id of the container that runs."""
    words = ("docker", "exec", node, "crictl", "ps", "--quiet", "--name=^kube-apiserver$")
    return cluster.run(*words).stdout.strip()
