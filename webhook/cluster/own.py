"""Who this server is in the cluster: for Events about itself, and among its replicas."""

import base64
import json
import secrets
import socket
from pathlib import Path
from typing import Final

from webhook.cluster.connection import IN_CLUSTER
from webhook.cluster.target import default_namespace

_TOKEN: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


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


def own_user(kubeconfig: str) -> str:
    """The user name of this server's own writes, as reviews have it.

    In a pod it is the subject of the token. Elsewhere it is taken to be the ServiceAccount that
    `genguard install` makes, in the kubeconfig's namespace.
    """
    if kubeconfig == IN_CLUSTER and (subject := _subject(_TOKEN)):
        return subject
    return f"system:serviceaccount:{default_namespace(kubeconfig)}:genguard"


def _subject(token: Path) -> str:
    """Of a JSON Web Token; "" where the file holds none. The API server checks it, not we."""
    try:
        _, claims, _ = token.read_text().split(".")
        subject = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return subject if isinstance(subject, str) else ""
