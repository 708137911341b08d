"""Plays cert-manager: makes the Secret that a Certificate asks for, and injects its CA."""

import base64
from typing import Any

from tests.controlplane.certificates import Authority
from tests.controlplane.client import Client, wait_until
from tests.e2e.player import Player

_GROUP = "cert-manager.io"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_INJECTED = f"{_GROUP}/inject-ca-from"
_REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
_KINDS = {"issuers": "Issuer", "certificates": "Certificate"}


class CertManager(Player):
    """`with CertManager(plane):`; its kinds are served until it is left."""

    def begin(self) -> None:
        for plural, kind in _KINDS.items():
            self._plane.client.post(_DEFINITIONS, _definition(plural, kind))
        for plural in _KINDS:
            path = f"/apis/{_GROUP}/v1/{plural}"
            wait_until(lambda path=path: self._plane.client.get(path).body, what=path)

    def end(self) -> None:
        for plural in _KINDS:
            self._plane.client.delete(f"{_DEFINITIONS}/{plural}.{_GROUP}")

    def look(self, client: Client) -> None:
        for one in client.get(f"/apis/{_GROUP}/v1/certificates").body["items"]:
            self._issue(client, one)
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            for one in client.get(f"{_REGISTRATIONS}/{kind}").body["items"]:
                self._inject(client, f"{_REGISTRATIONS}/{kind}/{one['metadata']['name']}", one)

    def _issue(self, client: Client, certificate: dict[str, Any]) -> None:
        spec, namespace = certificate["spec"], certificate["metadata"]["namespace"]
        path = f"/api/v1/namespaces/{namespace}/secrets"
        name = spec["secretName"]
        if client.get(f"{path}/{name}", check=False).status == 200:
            return
        authority = Authority("cert-manager")
        pair = authority.issue_server(*spec.get("dnsNames", ["ca"]))
        files = {
            "tls.crt": pair.certificate,
            "tls.key": pair.key,
            "ca.crt": authority.pair.certificate,
        }
        data = {key: base64.b64encode(content).decode() for key, content in files.items()}
        metadata = {
            "name": name,
            "labels": spec["secretTemplate"]["labels"],
            "annotations": {f"{_GROUP}/certificate-name": certificate["metadata"]["name"]},
        }
        client.post(path, {"metadata": metadata, "type": "kubernetes.io/tls", "data": data})

    def _inject(self, client: Client, path: str, registration: dict[str, Any]) -> None:
        source = (registration["metadata"].get("annotations") or {}).get(_INJECTED)
        if source is None:
            return
        namespace, _, name = source.partition("/")
        found = client.get(f"/apis/{_GROUP}/v1/namespaces/{namespace}/certificates/{name}").body
        secret = f"/api/v1/namespaces/{namespace}/secrets/{found['spec']['secretName']}"
        bundle = client.get(secret).body["data"]["ca.crt"]
        if registration["webhooks"][0]["clientConfig"].get("caBundle") != bundle:
            pointer = "/webhooks/0/clientConfig/caBundle"
            client.patch(path, [{"op": "add", "path": pointer, "value": bundle}])


def _definition(plural: str, kind: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "metadata": {"name": f"{plural}.{_GROUP}"},
        "spec": {
            "group": _GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
        },
    }
