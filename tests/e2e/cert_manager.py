"""Plays cert-manager: makes the Secret that a Certificate asks for, and injects its CA."""

import base64
from contextlib import ExitStack
from typing import Any

from tests.controlplane.certificates import Authority
from tests.controlplane.client import Client
from tests.e2e.custom import defined, definition
from tests.e2e.player import Player

_GROUP = "cert-manager.io"
_INJECTED = f"{_GROUP}/inject-ca-from"
_REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
_KINDS = {"issuers": "Issuer", "certificates": "Certificate"}


class CertManager(Player):
    """`with CertManager(plane):`; its kinds are served until it is left."""

    def begin(self) -> None:
        self._defined = ExitStack()
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        for plural, kind in _KINDS.items():
            document = definition(_GROUP, plural, kind, schema, status=False)
            self._defined.enter_context(defined(self._plane, document))

    def end(self) -> None:
        self._defined.close()

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
