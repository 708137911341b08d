"""Starts a real Kubernetes control plane on loopback, waits until it works and stops it again."""

import http.client
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests.controlplane import commands
from tests.controlplane.build import OTHER_MINOR, binaries, binary
from tests.controlplane.certificates import Authority, KeyPair, service_account_key
from tests.controlplane.client import Client, Endpoint
from tests.controlplane.identities import (
    ADMIN,
    Identity,
    identities,
    kubeconfig,
    token_file,
    tokens_of,
)
from tests.controlplane.nodes import is_usable, node
from tests.controlplane.options import Options
from tests.controlplane.ports import ReservedPort
from tests.controlplane.processes import KEEP, ProcessGroup, join

_PORT = "port"
_FLAGS: Mapping[str, Callable[[commands.Layout, Options], list[str]]] = {
    "kube-apiserver": commands.apiserver,
    "kube-controller-manager": commands.controller_manager,
    "kube-scheduler": commands.scheduler,
}


class ControlPlane:
    """A context manager: `with ControlPlane(Options(...)) as plane: plane.client.get(...)`."""

    authority: Authority
    """Signed the API server's certificate; issues those of webhook servers as well."""

    def __init__(self, options: Options | None = None, *, shared: bool = False) -> None:
        """`shared`: it goes on until everybody has left who joined it as well."""
        self.options = options or Options()
        self._shared = shared
        self._held: int | None = None
        self._processes: ProcessGroup | None = None
        self._port: ReservedPort | None = ReservedPort()
        self._know(Path(tempfile.mkdtemp(prefix="genguard-")), self._port.number, Authority(), {})

    @classmethod
    def joined(cls, folder: Path, options: Options) -> Self | None:
        """One that another process has started and shares; None where it has ended."""
        held = join(folder)
        if held is None:
            return None
        plane = cls.__new__(cls)
        plane.options, plane._shared, plane._held = options, True, held
        plane._processes = plane._port = None
        pair = KeyPair((folder / "ca.crt").read_bytes(), (folder / "ca.key").read_bytes())
        tokens = tokens_of((folder / "tokens.csv").read_text())
        plane._know(folder, int((folder / _PORT).read_text()), Authority(pair=pair), tokens)
        return plane

    def _know(
        self, folder: Path, port: int, authority: Authority, tokens: Mapping[str, str]
    ) -> None:
        self.folder = folder
        self.authority = authority
        self._at = commands.Layout(folder, port)
        self._identities = identities(tokens)
        self.client = self.client_of(ADMIN)

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return self._at.server

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig file."""
        return self._at.kubeconfig(ADMIN)

    def write_kubeconfig(self, path: Path, token: str, namespace: str = "default") -> Path:
        """Write the kubeconfig of whoever has this token; returns its path."""
        identity = Identity("genguard", "genguard", token=token)
        ca = self.authority.pair.certificate
        path.write_text(kubeconfig(self.server, ca, identity, namespace))
        return path

    @property
    def audit_log(self) -> Path:
        """Events of audit.k8s.io/v1, one a line, when `audit_level` is set."""
        return self.folder / self._at.audit

    @property
    def second_audit_log(self) -> Path:
        """The same of the second API server."""
        return self.folder / "audit-second.log"

    def __enter__(self) -> Self:
        if self._held is not None or self._processes is not None:  # it works already
            return self
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the parts in the order in which they need each other; returns when all work."""
        options, at = self.options, self._at
        programs = programs_of(options)
        paths = binaries(programs)  # first of all: this may build
        self._write_files()
        run = self._processes = ProcessGroup(self.folder, shared=self._shared)
        run.start("etcd", [paths["etcd"], *commands.etcd(at)])
        self._wait("etcd", (self.folder / "etcd:2379").exists)
        run.start("kube-apiserver", self._command("kube-apiserver", options))
        self._wait("kube-apiserver", self._serves)
        for program in ("kube-controller-manager", "kube-scheduler"):
            if program in programs:
                run.start(program, self._command(program, options))
        if options.kwok_nodes:
            for index in range(options.kwok_nodes):
                self.client.post("/api/v1/nodes", node(index))
            run.start("kwok", [paths["kwok"], *commands.kwok(at, options)])
            self._wait("kwok", self._nodes_usable)
        if options.controller_manager:
            self._wait("kube-controller-manager", self._controllers_work)

    def stop(self) -> None:
        """Ends every process and removes the folder; may be called twice.

        What is shared goes on while somebody else needs it.
        """
        self.client.close()
        if self._processes is not None:
            self._processes.stop()
            self._processes = None
        if self._port is not None:
            self._port.release()
        if self._held is not None:
            os.close(self._held)
            self._held = None
        if not self._shared and not os.environ.get(KEEP):
            shutil.rmtree(self.folder, ignore_errors=True)

    def crash(self, program: str) -> None:
        """Kills one of the programs; the others go on."""
        assert self._processes is not None
        self._processes.kill(program)

    def recover(self, program: str) -> None:
        """Starts a program that has crashed, with its data; returns when the API server serves."""
        assert self._processes is not None
        self._processes.again(program)
        self._wait(program, self._serves)

    def replace(self, program: str, options: Options) -> None:
        """Ends the API server, controller manager or scheduler, and starts that of other options.

        Everything that is stored stays, as in an upgrade or a rollback. Returns when the API server
        serves.
        """
        assert self._processes is not None
        command = self._command(program, options)  # this may build
        self._processes.kill(program)
        self._processes.start(program, command)
        self._wait(program, self._serves)

    @contextmanager
    def second_apiserver(self, options: Options) -> Iterator[Client]:
        """Another API server over the same storage, at a port of its own, while entered.

        Yields the administrator's client of it.
        """
        assert self._processes is not None
        name, port = "kube-apiserver-second", ReservedPort()
        at = commands.Layout(self.folder, port.number, self.second_audit_log.name)
        client = self.client_of(ADMIN, port=port.number)
        self._processes.start(
            name, [binary(apiserver_program(options)), *commands.apiserver(at, options)]
        )
        try:
            self._wait(name, lambda: _serves(client))
            yield client
        finally:
            client.close()
            self._processes.end(name)
            port.release()

    def log(self, program: str) -> str:
        """What a program has logged so far."""
        return (self.folder / f"{program}.log").read_text(errors="replace")

    def pids(self) -> dict[str, int]:
        """The process id of every program that runs."""
        return self._processes.pids() if self._processes is not None else {}

    def kubectl(
        self, *args: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl as the administrator."""
        command = [str(binary("kubectl")), f"--kubeconfig={self.kubeconfig}"]
        command += [f"--cache-dir={self.folder}/kubectl", *args]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=120, check=False
        )
        if check and done.returncode != 0:
            said = f"{done.stdout}{done.stderr}"
            raise AssertionError(f"kubectl {' '.join(args)} exited with {done.returncode}:\n{said}")
        return done

    def client_of(self, program: str, *, port: int | None = None) -> Client:
        """A client with the token of `admin` or of a program, to act as that program does."""
        ca = self.authority.pair.certificate.decode()
        token = self._identities[program].token
        return Client(Endpoint("127.0.0.1", port or self._at.port, ca, token))

    def _command(self, program: str, options: Options) -> list[str | Path]:
        name = apiserver_program(options) if program == "kube-apiserver" else program
        return [binary(name), *_FLAGS[program](self._at, options)]

    def _write_files(self) -> None:
        folder, ca = self.folder, self.authority.pair
        ca.write(folder, "ca")
        self.authority.issue_server("kubernetes.default.svc").write(folder, "apiserver")
        (folder / "service-accounts.key").write_bytes(service_account_key())
        (folder / _PORT).write_text(str(self._at.port))
        (folder / "tokens.csv").write_text(token_file(self._identities.values()))
        for name, identity in self._identities.items():
            config = kubeconfig(self.server, ca.certificate, identity)
            self._at.kubeconfig(name).write_text(config)
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": self.options.audit_level or "None"}],
        }
        (folder / "audit-policy.yaml").write_text(json.dumps(policy))

    def _wait(self, program: str, ready: Callable[[], bool]) -> None:
        run = self._processes
        assert run is not None
        end = time.monotonic() + self.options.start_timeout
        while not ready():
            run.check()
            if time.monotonic() >= end:
                raise run.failure(program, f"not ready in {self.options.start_timeout:g} s")
            time.sleep(0.02)

    def _serves(self) -> bool:
        return _serves(self.client)

    def _nodes_usable(self) -> bool:
        return all(is_usable(each) for each in self.client.get("/api/v1/nodes").body["items"])

    def _controllers_work(self) -> bool:
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        return self.client.get(path, check=False).status == 200


def programs_of(options: Options) -> list[str]:
    """The names of the binaries that a control plane needs."""
    programs = ["etcd", apiserver_program(options)]
    programs += ["kube-controller-manager"] * options.controller_manager
    programs += ["kube-scheduler"] * options.scheduler
    return programs + ["kwok"] * bool(options.kwok_nodes)


def apiserver_program(options: Options) -> str:
    """The name of the API server's binary."""
    return "kube-apiserver" if options.minor is None else f"{OTHER_MINOR}{options.minor}"


def _serves(client: Client) -> bool:
    try:
        return client.get("/readyz", check=False).status == 200
    except (OSError, http.client.HTTPException):
        return False
