"""An https admission webhook on loopback for tests: keeps each review, answers a chosen patch."""

import base64
import json
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol, Self

from tests.controlplane.certificates import Authority
from tests.controlplane.client import Client, wait_until
from tests.controlplane.fixtures import unique

Patch = Sequence[Mapping[str, Any]]
_PROBE = "/probe"
_MOST_WAITING = 128
"""Connections that are not accepted yet; of five more the kernel drops some for a second."""
_PROBE_LABEL = "genguard.io/test-probe"


class HasClient(Protocol):
    """A control plane, or a cluster of kind."""

    @property
    def client(self) -> Client: ...


def no_patch(request: Mapping[str, Any]) -> Patch:
    """A webhook that only looks."""
    del request
    return ()


class WebhookListener:
    """Serves while it is entered; `reviews` has every AdmissionReview in the order of arrival."""

    def __init__(
        self,
        authority: Authority,
        patch: Callable[[Mapping[str, Any]], Patch] = no_patch,
        address: str = "127.0.0.1",
    ) -> None:
        """`address` of this machine: where the API server reaches it."""
        self.reviews: list[dict[str, Any]] = []
        self.probed = threading.Event()
        self.patch = patch
        self._ca_bundle = authority.ca_bundle
        context = _tls(authority, address)  # before the socket: this may fail
        self._server = ThreadingHTTPServer((address, 0), _handler(self))
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(
            self._server.socket,
            server_side=True,
            do_handshake_on_connect=False,  # each in its own thread, at the first read
        )
        self._server.socket.listen(_MOST_WAITING)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        address, port = self._server.server_address[:2]
        return f"https://{address!s}:{port}"

    @contextmanager
    def registered(
        self,
        plane: HasClient,
        namespace: str,
        resources: Sequence[str] = ("configmaps",),
        name: str | None = None,
        **settings: Any,
    ) -> Iterator[str]:
        """Makes the API server call this webhook; returns when it does. Yields the name.

        Mutating webhooks are called in the order of their names. No other worker of the run may
        give one this name.
        """
        name = name or unique("listener")
        probe = {"objectSelector": {"matchLabels": {_PROBE_LABEL: name}}}
        hooks = [
            self._hook("reviews.example.org", "/", namespace, resources) | settings,
            self._hook("probe.example.org", _PROBE, namespace, ("configmaps",)) | probe,
        ]
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        plane.client.post(path, {"metadata": {"name": name}, "webhooks": hooks})
        try:
            wait_until(lambda: self._called(plane, namespace, name), what=f"{name} in force")
            self.reviews.clear()
            yield name
        finally:
            plane.client.delete(f"{path}/{name}")

    def _called(self, plane: HasClient, namespace: str, name: str) -> bool:
        # The API server learns of a configuration some time after it has stored it, and of all
        # its webhooks at once: when one answers a dry run, so would the others.
        body = {"metadata": {"name": name, "labels": {_PROBE_LABEL: name}}}
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        plane.client.post(path, body, params={"dryRun": "All"})
        return self.probed.is_set()

    def _hook(
        self, name: str, path: str, namespace: str, resources: Sequence[str]
    ) -> dict[str, Any]:
        rule = {
            "apiGroups": ["*"],
            "apiVersions": ["*"],
            "operations": ["*"],
            "resources": list(resources),
        }
        url = f"{self.url}{path}"
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": url, "caBundle": self._ca_bundle},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [rule],
            "sideEffects": "None",
            "timeoutSeconds": 30,
        }


def _handler(listener: WebhookListener) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # the API server keeps its connections
        disable_nagle_algorithm = True

        def do_POST(self) -> None:  # the name http.server asks for
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            response = {"uid": review["request"]["uid"], "allowed": True}
            if self.path.startswith(_PROBE):
                listener.probed.set()
            else:
                listener.reviews.append(review)
                patch = listener.patch(review["request"])
                if patch:
                    response["patchType"] = "JSONPatch"
                    response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
            answer = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
            content = json.dumps(answer | {"response": response}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (inherited)
            """Says nothing: the reviews are kept."""

    return Handler


def _tls(authority: Authority, address: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:  # ssl loads keys from files only
        context.load_cert_chain(*authority.issue_server(address).write(Path(folder), "webhook"))
    return context
