"""Plays the kubelet for genguard's pods: runs the server they would run, with the Secret's pair.

The pods become ready with this machine's address, so a Service leads to the process as it would
lead to a pod; the API server must resolve Services by itself (--enable-aggregator-routing).
"""

import base64
import os
import socket
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.controlplane.client import ApiError, wait_until
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import ProcessGroup
from tests.e2e.genguard import ROOT

PLANE = Options(
    controller_manager=True,
    apiserver_flags=("--enable-aggregator-routing=true",),
    # A node without heartbeats is not to be emptied.
    controller_manager_flags=("--controllers=*,-node-lifecycle-controller",),
)
SYSTEM = "genguard-system"
_NODE = "pretended"
_PORT = 8443  # containerPort of the Deployment, where the Service leads


def own_address() -> str:
    """An address of this machine that may stand in an EndpointSlice: not a loopback one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])


class Kubelet:
    """`with Kubelet(plane) as kubelet:`; looks twice a second until left."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._folder = Path(tempfile.mkdtemp(prefix="genguard-kubelet-"))
        self._processes = ProcessGroup(self._folder)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.paused = threading.Event()
        self._server: Any = None

    def __enter__(self) -> Self:
        self._plane.client.post("/api/v1/nodes", {"metadata": {"name": _NODE}})
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
        self._processes.stop()

    def _run(self) -> None:
        client = self._plane.client_of("admin")
        while not self._over.wait(0.3):
            if not self.paused.is_set():
                try:
                    self._look(client)
                except ApiError as error:
                    if error.status not in (404, 409):  # gone or changed since it was listed
                        raise
        client.close()

    def _look(self, client: Any) -> None:
        pods = client.get(f"/api/v1/namespaces/{SYSTEM}/pods").body["items"]
        for pod in pods:
            name = pod["metadata"]["name"]
            path = f"/api/v1/namespaces/{SYSTEM}/pods/{name}"
            if "deletionTimestamp" in pod["metadata"]:
                options = {"gracePeriodSeconds": 0}
                client.delete(path, options)
            elif (pod.get("status") or {}).get("phase") != "Running":
                if "nodeName" not in pod["spec"]:
                    target = {"apiVersion": "v1", "kind": "Node", "name": _NODE}
                    client.post(f"{path}/binding", {"metadata": {"name": name}, "target": target})
                self._serve(client, pod)
                client.patch(f"{path}/status", _running())
        if not pods and self._server is not None:
            self._processes.stop()
            self._processes, self._server = ProcessGroup(self._folder), None

    def _serve(self, client: Any, pod: dict[str, Any]) -> None:
        """One process stands for all pods of the Deployment; a new pair is loaded as it runs."""
        secret = client.get(f"/api/v1/namespaces/{SYSTEM}/secrets/genguard-tls").body
        for name, value in secret["data"].items():
            (self._folder / name).write_bytes(base64.b64decode(value))
        if self._server is not None:
            return
        (container,) = pod["spec"]["containers"]
        mode = [flag for flag in container["args"] if flag == "--audit-only"]
        files = [
            f"--tls-cert-file={self._folder}/tls.crt",
            f"--tls-private-key-file={self._folder}/tls.key",
        ]
        where = [f"--bind-address={own_address()}", f"--secure-port={_PORT}", "--ops-port=0"]
        command = [sys.executable, "-m", "webhook", "serve", *where, *files, *mode]
        path = os.pathsep.join((str(ROOT), *filter(None, sys.path)))
        self._server = self._processes.start("genguard", command, {"PYTHONPATH": path})
        log = self._folder / "genguard.log"
        wait_until(lambda: '"serving"' in log.read_text(), what="the pods' process serving")


def _running() -> dict[str, Any]:
    address = own_address()
    ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
    return {
        "status": {
            "phase": "Running",
            "conditions": ready,
            "podIP": address,
            "podIPs": [{"ip": address}],
        }
    }
