"""Who this server is in the cluster: for Events about itself, and among its replicas."""

import secrets
import socket

from webhook.cluster.connection import IN_CLUSTER
from webhook.cluster.target import default_namespace


def own_object(kubeconfig: str) -> dict[str, str]:
    """The Pod that it runs in, whose name is its host's; elsewhere the kubeconfig's namespace."""
    namespace = default_namespace(kubeconfig)
    kind, name = "Namespace", namespace
    if kubeconfig == IN_CLUSTER:
        kind, name = "Pod", socket.gethostname()
    return {"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name}


def own_identity() -> str:
    """Of this process alone, also where a restarted one has the same host."""
    return f"{socket.gethostname()}_{secrets.token_hex(8)}"
