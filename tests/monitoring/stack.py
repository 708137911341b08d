"""A real Prometheus and a real Alertmanager on loopback, with the rules that users apply."""

import json
import re
import shutil
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.client import wait_until
from tests.controlplane.processes import ProcessGroup
from tests.monitoring.binaries import binary, files_beside
from tests.monitoring.rules import write_rules
from tests.store.alertmanager import Alertmanager as Kept
from tests.waiting import PATIENCE

Alert = dict[str, Any]
_PORT = re.compile(r'msg="?Listening on"? address=\S*?:(\d+)')
_ANY_PORT = "--web.listen-address=127.0.0.1:0"


class Program:
    """One of the two, and what its API says."""

    def __init__(self, processes: ProcessGroup, name: str, *flags: str) -> None:
        self._processes, self._name = processes, name
        processes.start(name, [binary(name), *flags, _ANY_PORT])
        self.url = f"http://127.0.0.1:{wait_until(self._port, what=f'{name} listening')}"
        wait_until(self._ready, what=f"{name} ready")

    def get(self, path: str, **params: str) -> Any:
        self._processes.check()
        url = f"{self.url}{path}?{urllib.parse.urlencode(params)}"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return json.load(answer)

    def _ready(self) -> bool:
        self._processes.check()
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=PATIENCE) as answer:
                return bool(answer.status == HTTPStatus.OK)
        except urllib.error.HTTPError as error:  # it listens before it has opened its data
            with error:
                return False

    def _port(self) -> str | None:
        self._processes.check()
        found = _PORT.search(self._processes.log(self._name).read_text(errors="replace"))
        return found and found[1]


class Prometheus(Program):
    """Scrapes and evaluates each second; the rules themselves are as in the file."""

    def firing(self) -> list[Alert]:
        alerts: list[Alert] = self.get("/api/v1/alerts")["data"]["alerts"]
        return [alert for alert in alerts if alert["state"] == "firing"]

    def pending_or_firing(self) -> set[str]:
        """All but what says how busy this machine is."""
        found = self.get("/api/v1/alerts")["data"]["alerts"]
        return {one["labels"]["alertname"] for one in found} - {"GenguardEventLoopLag"}

    def value(self, expression: str) -> float | None:
        result = self.get("/api/v1/query", query=expression)["data"]["result"]
        return float(result[0]["value"][1]) if result else None


class Alertmanager(Program):
    """Notifies within a second."""

    def active(self, **labels: str) -> list[Alert]:
        found: list[Alert] = self.get("/api/v2/alerts")
        return [alert for alert in found if labels.items() <= alert["labels"].items()]


class Receiver(Kept):
    """Who is on call: every notification of Alertmanager's, in order."""

    def told(self, status: str, **labels: str) -> list[Alert]:
        """The alerts that were told with this status and these labels."""
        found = [one for one in self.alerts if one["status"] == status]
        return [one for one in found if labels.items() <= one["labels"].items()]


class Stack:
    """Both programs, and who is told."""

    def __init__(self, folder: Path, processes: ProcessGroup, receiver: Receiver) -> None:
        self._folder, self._processes = folder, processes
        self.receiver = receiver
        files_beside(folder)
        hook = {"url": receiver.url, "send_resolved": True}
        times = {"group_wait": "0s", "group_interval": "1s", "repeat_interval": "1h"}
        config = self._write(
            "alertmanager.yaml",
            {
                "route": {"receiver": "on-call", "group_by": ["..."], **times},
                "receivers": [{"name": "on-call", "webhook_configs": [hook]}],
            },
        )
        self.alertmanager = Alertmanager(
            processes,
            "alertmanager",
            f"--config.file={config}",
            f"--storage.path={folder}/alertmanager",
            "--cluster.listen-address=",
        )

    def scrape(
        self, *targets: str, jobs: Sequence[dict[str, Any]] = (), **labels: str
    ) -> Prometheus:
        """Start Prometheus on genguards, each `host:port`, and what else the jobs scrape."""
        at = urllib.parse.urlsplit(self.alertmanager.url).netloc
        config = self._write(
            "prometheus.yaml",
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(write_rules(self._folder))],
                "alerting": {"alertmanagers": [{"static_configs": [{"targets": [at]}]}]},
                "scrape_configs": [
                    {
                        "job_name": "genguard",
                        "static_configs": [{"targets": list(targets), "labels": labels}],
                    },
                    *jobs,
                ],
            },
        )
        return Prometheus(
            self._processes,
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={self._folder}/prometheus",
        )

    def _write(self, name: str, document: Any) -> Path:
        path = self._folder / name
        path.write_text(yaml.safe_dump(document))
        return path


@contextmanager
def running() -> Iterator[Stack]:
    """An Alertmanager that runs, and a Prometheus to start."""
    folder = Path(tempfile.mkdtemp(prefix="genguard-monitoring-"))
    processes = ProcessGroup(folder)
    try:
        with Receiver() as receiver:
            yield Stack(folder, processes, receiver)
    except BaseException as error:
        for log in folder.glob("*.log"):
            error.add_note(f"end of {log.name}:\n{processes.tail(log.stem)}")
        raise
    finally:
        processes.stop()
        shutil.rmtree(folder, ignore_errors=True)
