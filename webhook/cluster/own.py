"""What stands for this server in the cluster, for Events that are about nothing else."""

import socket

from webhook.cluster.facts import IN_CLUSTER
from webhook.cluster.target import default_namespace


def own_object(kubeconfig: str) -> dict[str, str]:
    """The Pod that it runs in, whose name is its host's; elsewhere the kubeconfig's namespace."""
    namespace = default_namespace(kubeconfig)
    kind, name = "Namespace", namespace
    if kubeconfig == IN_CLUSTER:
        kind, name = "Pod", socket.gethostname()
    return {"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name}
