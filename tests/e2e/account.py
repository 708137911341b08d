"""Acts as genguard's own ServiceAccount, with the rights of the manifests and no others."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import manifests
from tests.controlplane.client import Client, Endpoint
from tests.controlplane.plane import ControlPlane
from webhook.manifest.documents import collection_of, path_of
from webhook.manifest.rendering import Choices, render

_KINDS = {"Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
_EMPTY = dict.fromkeys(("tls.crt", "tls.key", "ca.crt"), b"")


class Account:
    """A token of the account, in a kubeconfig that names its namespace."""

    def __init__(
        self, plane: ControlPlane, namespace: str, kubeconfig: Path, name: str = "genguard"
    ) -> None:
        """`name` of the ServiceAccount."""
        self.namespace = namespace
        self.kubeconfig = kubeconfig
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = plane.client.post(path, {"spec": {"expirationSeconds": 3600}})
        token: str = answer.body["status"]["token"]
        self.token = token
        ca = plane.authority.pair.certificate.decode()
        server = urlsplit(plane.server)
        self.client = Client(Endpoint("127.0.0.1", server.port or 443, ca, token))
        plane.write_kubeconfig(kubeconfig, token, namespace)


@contextmanager
def account(plane: ControlPlane, namespace: str, kubeconfig: Path) -> Iterator[Account]:
    """The account and its roles as the manifests have them, until it is left.

    What is in no namespace is named after it. The namespace stays: without a controller it would
    never be finalized.
    """
    made = [
        one
        for one in render(Choices(namespace=namespace), manifests.read, _EMPTY)
        if one["kind"] in _KINDS
    ]
    for one in made:
        if one["kind"].startswith("Cluster"):
            one["metadata"]["name"] += f"-of-{namespace}"
        if one.get("roleRef", {}).get("kind") == "ClusterRole":
            one["roleRef"]["name"] += f"-of-{namespace}"
        plane.client.post(collection_of(one), one)
    found = Account(plane, namespace, kubeconfig)
    try:
        yield found
    finally:
        found.client.close()
        for one in made:
            if one["kind"] != "Namespace":
                plane.client.delete(path_of(one))
