"""Plays the kubelet for genguard's pods: runs the server they would run, with the Secret's pair.

Where the Secret is empty, the server makes the pair, with the rights of its account. The Job of the
Helm chart is run with the rights of its own.

The pods become ready with this machine's address, so a Service leads to the process as it would
lead to a pod; the API server must resolve Services by itself (--enable-aggregator-routing).
"""

import base64
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from certs import write_files
from tests.controlplane.client import Client, wait_until
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import ProcessGroup
from tests.e2e.account import Account
from tests.e2e.genguard import IMPORTS
from tests.e2e.player import Player
from tests.faults.apart import apart
from tests.locking import locked
from tests.waiting import PATIENCE
from webhook.cluster.connection import POD_NAME
from webhook.cluster.standby import ACTIVE

PLANE = Options(
    controller_manager=True,
    apiserver_flags=("--enable-aggregator-routing=true",),
    # A node without heartbeats is not to be emptied.
    controller_manager_flags=("--controllers=*,-node-lifecycle-controller",),
)
SYSTEM = "genguard-system"
_NODE = "pretended"
_JOB = "genguard-register"
_PORT = 8443  # containerPort of the Deployment, where the Service leads
PORT_LOCK = Path(tempfile.gettempdir()) / "genguard-kubelet.lock"
"""The port is that of the manifests: one run of its tests at a time on a machine."""


def own_address() -> str:
    """An address of this machine that may stand in an EndpointSlice: not a loopback one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])


class Kubelet(Player):
    """`with Kubelet(plane) as kubelet:`; looks twice a second until left.

    said  the log of the Job that was run last
    """

    def __init__(self, plane: ControlPlane, ops_port: int = 0) -> None:
        """`ops_port`: of the dashboard; the server then has the flags and the account of a pod."""
        super().__init__(plane)
        self._ops_port = ops_port
        self._folder = Path()
        self._processes: ProcessGroup | None = None
        self._mounted: dict[str, bytes] = {}
        self._args: list[str] = []
        self._makes_pair = False
        self._jobs: dict[str, subprocess.Popen[bytes]] = {}
        self.said: Path | None = None
        self._held = ExitStack()

    def begin(self) -> None:
        self._held.enter_context(locked(PORT_LOCK))
        self._plane.client.post("/api/v1/nodes", {"metadata": {"name": _NODE}})

    def end(self) -> None:
        for job in self._jobs.values():
            job.kill()
            job.wait()
        self._stop()
        self._held.close()

    def look(self, client: Client) -> None:
        pods = client.get(f"/api/v1/namespaces/{SYSTEM}/pods").body["items"]
        if not pods:
            self._stop()
        for pod in pods:
            path = f"/api/v1/namespaces/{SYSTEM}/pods/{pod['metadata']['name']}"
            if "deletionTimestamp" in pod["metadata"]:
                client.delete(path, {"gracePeriodSeconds": 0})
                continue
            if pod["metadata"]["labels"].get("app.kubernetes.io/name") == _JOB:
                self._run_job(client, path, pod)
                continue
            if pod["metadata"]["labels"].get("app.kubernetes.io/name") == "genguard":
                secret = client.get(f"/api/v1/namespaces/{SYSTEM}/secrets/genguard-tls").body
                self._serve(pod, secret)
            if pod["status"].get("phase") != "Running":
                if "nodeName" not in pod["spec"]:
                    self._bind(client, path, pod)
                client.patch(f"{path}/status", _running())
                if any("--standby" in one.get("args", ()) for one in pod["spec"]["containers"]):
                    # As the leader would: the one process stands for all pods.
                    client.patch(path, {"metadata": {"labels": {ACTIVE: "true"}}})

    def _run_job(self, client: Client, path: str, pod: dict[str, Any]) -> None:
        """Start its command, and tell the Job how it ended."""
        name = pod["metadata"]["name"]
        if name not in self._jobs:
            self._bind(client, path, pod)
            folder = Path(self._held.enter_context(tempfile.TemporaryDirectory()))
            place = f"/api/v1/namespaces/{SYSTEM}/configmaps/{_JOB}"
            for key, text in client.get(place).body["data"].items():
                (folder / key).write_text(text)
            (container,) = pod["spec"]["containers"]
            (mount,) = (one for one in container["volumeMounts"] if one["name"] == "registrations")
            words = [one.replace(mount["mountPath"], str(folder)) for one in container["args"]]
            words.append(f"--kubeconfig={self._kubeconfig_of(_JOB, folder)}")
            self.said = folder / "log"
            with self.said.open("wb") as log:
                command = [sys.executable, "-m", "webhook", *words]
                self._jobs[name] = subprocess.Popen(
                    command, env={**os.environ, **IMPORTS}, stdout=log, stderr=log
                )
        elif self._jobs[name].poll() is not None and pod["status"].get("phase") == "Pending":
            phase = "Failed" if self._jobs[name].returncode else "Succeeded"
            client.patch(f"{path}/status", {"status": {"phase": phase}})

    def _kubeconfig_of(self, name: str, folder: Path) -> Path:
        account = Account(self._plane, SYSTEM, folder / f"{name}.kubeconfig", name)
        account.client.close()
        return account.kubeconfig

    def _bind(self, client: Client, path: str, pod: dict[str, Any]) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": _NODE}
        client.post(f"{path}/binding", {"metadata": pod["metadata"], "target": target})

    def _serve(self, pod: dict[str, Any], secret: dict[str, Any]) -> None:
        """One process stands for all pods, with the arguments of the pod that started last.

        A new pair in the Secret is loaded as it runs.
        """
        (container,) = pod["spec"]["containers"]
        starts = pod["status"].get("phase") != "Running"
        if starts and self._processes is not None and container["args"] != self._args:
            self._stop()
        if self._processes is None:
            self._folder = Path(tempfile.mkdtemp(prefix="genguard-kubelet-"))
            self._processes = ProcessGroup(self._folder)
        found = {name: base64.b64decode(value) for name, value in secret.get("data", {}).items()}
        if found != self._mounted:
            write_files(self._folder, found)
        if not self._args:
            self._args = container["args"]
            self._makes_pair |= not found
            self._start(pod)
        self._mounted = found

    def _start(self, pod: dict[str, Any]) -> None:
        assert self._processes is not None
        # The Valkey of the manifests is not there: names of Services lead nowhere on this machine.
        kept = ("--audit-only", "--store=valkey://")
        mode = [
            flag.replace("/etc/genguard/store/", f"{self._folder}/store-")
            for flag in self._args
            if flag.startswith(kept)
        ]
        files = [
            f"--tls-cert-file={self._folder}/tls.crt",
            f"--tls-private-key-file={self._folder}/tls.key",
        ]
        where = [f"--bind-address={own_address()}", f"--secure-port={_PORT}"]
        where += ["--ops-address=127.0.0.1", f"--ops-port={self._ops_port}"]
        program = [sys.executable, "-m", "webhook"]
        environment = dict(IMPORTS)
        if self._ops_port:
            # The last of two values counts. Nobody has to be waited for: there is one process.
            command = [*self._mount_account(), *program, *self._args, *where, *files]
            command.append("--shutdown-delay=0s")
            environment |= self._environment(pod)
        else:
            if self._makes_pair or any("--store" in flag for flag in mode):
                files.append(f"--kubeconfig={self._kubeconfig_of('genguard', self._folder)}")
            if self._makes_pair:
                files.append("--cert-secret=genguard-tls")
            command = [*program, "serve", *where, *files, *mode]
        self._server = self._processes.start("genguard", command, environment)
        log = self._folder / "genguard.log"
        wait_until(lambda: '"serving"' in log.read_text(), what="the pods' process serving")

    def _mount_account(self) -> tuple[str, ...]:
        """The beginning of a command line: what follows has the files of the ServiceAccount."""
        mounted = self._folder / "account"
        mounted.mkdir()
        owner = Account(self._plane, SYSTEM, self._folder / "kubeconfig", "genguard")
        owner.client.close()
        (mounted / "token").write_text(owner.token)
        (mounted / "namespace").write_text(SYSTEM)
        (mounted / "ca.crt").write_bytes(self._plane.authority.pair.certificate)
        at = "/run/secrets/kubernetes.io/serviceaccount"
        return apart(f"mount -t tmpfs none /run\nmkdir -p {at}\ncp {mounted}/* {at}")

    def _environment(self, pod: dict[str, Any]) -> dict[str, str]:
        server = urlsplit(self._plane.server)
        return {
            POD_NAME: pod["metadata"]["name"],
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT": str(server.port),
        }

    def _stop(self) -> None:
        if self._processes is not None:
            if self._ops_port:
                self._server.terminate()  # it gives the Lease back
                self._server.wait(PATIENCE)
            self._processes.stop()
            shutil.rmtree(self._folder, ignore_errors=True)
        self._processes, self._mounted, self._args = None, {}, []


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
