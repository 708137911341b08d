"""Runs `genguard serve` as a process of its own and reads what it says of itself."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import ssl
import sys
import tempfile
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.controlplane.client import wait_until
from tests.controlplane.processes import ProcessGroup
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
_NAME = "genguard"
_OTHER_PAIRS = ("--cert-secret", "--cert-dir", "--tls-cert-file")
RECORD = "--record=recording.ndjson"
"""A flag: keeps every review in `Genguard.recording`."""
IMPORTS = {"PYTHONPATH": os.pathsep.join((str(ROOT), *filter(None, sys.path)))}
"""The environment of a process that runs `python -m webhook` of this checkout."""


class Genguard:
    """A context manager: `with Genguard("--audit-only") as guard: guard.url("mutate")`.

    It takes free ports, and makes its own certificate unless a flag names another. Leaving ends it
    at once; `stop` asks it to drain first, as a kubelet does.
    """

    def __init__(
        self, *flags: str, within: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        """`within`: a command that becomes the one that it is given, such as unshare(1)."""
        self.folder = Path(tempfile.mkdtemp(prefix="genguard-e2e-"))
        ports = ["--secure-port=0", "--ops-port=0"]
        if not any(flag.startswith(_OTHER_PAIRS) for flag in flags):
            ports.append(f"--cert-dir={self.folder}/certs")
        self._command = [*within, sys.executable, "-m", "webhook", "serve", *ports, *flags]
        self._environment = environment or {}
        self._processes: ProcessGroup | None = None

    def __enter__(self) -> Self:
        self._processes = ProcessGroup(self.folder)
        try:
            environment = {**IMPORTS, **self._environment}
            self._server = self._processes.start(_NAME, self._command, environment)
            serving = wait_until(self._serving, what="genguard serving")
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        self._admission: str = serving["admission"]
        self._ops: str = serving["ops"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._processes is not None
        if error is not None:
            error.add_note(f"end of genguard's log:\n{self._processes.tail(_NAME)}")
        self._processes.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, path: str) -> str:
        """Where a registration sends its reviews."""
        return f"{self._admission}/{path.removeprefix('/')}"

    @property
    def ops_port(self) -> int:
        """The port of the pages."""
        return int(self._ops.rpartition(":")[2])

    @property
    def admission_port(self) -> int:
        """Where reviews arrive."""
        port = urlsplit(self._admission).port
        assert port is not None
        return port

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._server.pid

    @property
    def ca_bundle(self) -> str:
        """What a registration's clientConfig.caBundle takes."""
        return b64encode((self.folder / "certs" / "ca.crt").read_bytes()).decode()

    @property
    def recording(self) -> Path:
        """What the flag RECORD keeps; whole once the process has ended."""
        return self.folder / RECORD.partition("=")[2]

    def log_lines(self, message: str | None = None) -> list[dict[str, Any]]:
        """Each line of the log, or those with one message."""
        text = (self.folder / f"{_NAME}.log").read_text()
        complete = text[: text.rfind("\n") + 1]  # the last line may be half written
        lines = [json.loads(line) for line in complete.splitlines()]
        return [line for line in lines if message in (None, line["message"])]

    def metrics(self) -> list[Sample]:
        """Every sample of /metrics."""
        families = text_string_to_metric_families(self.ops("/metrics")[1])
        return [sample for family in families for sample in family.samples]

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of this name that have these labels; 0 when there are none."""
        wanted = labels.items()
        return sum(s.value for s in self.metrics() if s.name == name and wanted <= s.labels.items())

    @property
    def ops_url(self) -> str:
        """Where the ops port is."""
        return self._ops

    def findings(self) -> list[dict[str, Any]]:
        """Every finding, as /api/findings shows it."""
        found: list[dict[str, Any]] = json.loads(self.ops("/api/findings")[1])["findings"]
        return found

    def ops(self, path: str, timeout: float = PATIENCE) -> tuple[int, str]:
        """GET on the ops port: status and text."""
        connection = http.client.HTTPConnection(urlsplit(self._ops).netloc, timeout=timeout)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def admission(self) -> http.client.HTTPSConnection:
        """A connection to the admission port, which the caller closes."""
        trust = ssl.create_default_context(cafile=str(self.folder / "certs" / "ca.crt"))
        at = urlsplit(self._admission).netloc
        return http.client.HTTPSConnection(at, timeout=PATIENCE, context=trust)

    def call(self, phase: str, review: dict[str, Any]) -> dict[str, Any]:
        """The `response` to one review, as the API server asks for it."""
        with contextlib.closing(self.admission()) as connection:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", f"/{phase}?timeout=30s", json.dumps(review), headers)
            answer = connection.getresponse()
            assert answer.status == 200
            response: dict[str, Any] = json.load(answer)["response"]
        assert response["allowed"]
        return response

    @property
    def has_store(self) -> bool:
        """Whether the store that it shares answers."""
        return self.metric("genguard_store_up") == 1

    def asked(self, operation: str, *results: str) -> float:
        """How many commands to the store had one of these results."""
        name = "genguard_store_requests_total"
        return sum(self.metric(name, operation=operation, result=one) for one in results)

    def terminate(self) -> None:
        """Sends SIGTERM, and does not wait."""
        self._server.send_signal(signal.SIGTERM)

    def pause(self) -> None:
        """Stops it from answering, and keeps its connections."""
        self._server.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Ends a pause."""
        self._server.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends it as a crash does."""
        self._server.kill()
        self._server.wait()

    def wait(self, timeout: float = PATIENCE) -> int:
        """Waits for the end; the exit code."""
        return self._server.wait(timeout)

    def stop(self, *, at_once: bool = False) -> int:
        """Ends it by SIGTERM; a second one, when it is not to wait for more requests."""
        self.terminate()
        if at_once:
            wait_until(lambda: self.log_lines("draining"), what="draining")
            self.terminate()
        return self.wait()

    def _serving(self) -> dict[str, Any] | None:
        assert self._processes is not None
        self._processes.check()
        lines = self.log_lines("serving")
        return lines[0] if lines else None
