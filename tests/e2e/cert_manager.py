"""Plays cert-manager: makes the Secret that a Certificate asks for, and injects its CA."""

import base64
import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from certs import renew
from tests.controlplane.client import ApiError, Client, wait_until
from tests.controlplane.plane import ControlPlane

_GROUP = "cert-manager.io"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_INJECTED = f"{_GROUP}/inject-ca-from"
_REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
_KINDS = {"issuers": "Issuer", "certificates": "Certificate"}


class CertManager:
    """`with CertManager(plane):`; its kinds are served until it is left."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        for plural, kind in _KINDS.items():
            self._plane.client.post(_DEFINITIONS, _definition(plural, kind))
        for plural in _KINDS:
            path = f"/apis/{_GROUP}/v1/{plural}"
            wait_until(lambda path=path: self._plane.client.get(path).body, what=path)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        for plural in _KINDS:
            self._plane.client.delete(f"{_DEFINITIONS}/{plural}.{_GROUP}")

    def _run(self) -> None:
        client = self._plane.client_of("admin")
        while not self._over.wait(0.3):
            try:
                self._look(client)
            except ApiError as error:
                if error.status not in (404, 409):  # gone, or changed since it was listed
                    raise
        client.close()

    def _look(self, client: Client) -> None:
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
        pair = renew(None, names=spec.get("dnsNames", ["ca"]), at=datetime.now(UTC)).pair
        files = {"tls.crt": pair.cert_pem, "tls.key": pair.key_pem, "ca.crt": pair.ca_pem or b""}
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
