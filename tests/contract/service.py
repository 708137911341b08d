"""A real admission server on loopback, and a client that sends what no library would."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from genguard.detection.detection import Detection
from genguard.detection.mutators import Mutators
from genguard.review_setup import GenerationPatch, ReviewOptions, ReviewSetup
from genguard.status.tracking import Tracking
from tests.waiting import PATIENCE
from webhook.dashboard.page import Sources
from webhook.dashboard.routes import Dashboard
from webhook.server.access import Access
from webhook.server.admission import AdmissionHandler
from webhook.server.collectors import TrackedMetrics
from webhook.server.detecting import Detecting
from webhook.server.lifecycle import AdmissionService, about
from webhook.server.options import Limits
from webhook.server.recorder import Recorder
from webhook.server.settings import Settings
from webhook.server.watching import Watching
from webhook.store.intents import SharedIntents
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.spans import ExportedSpans

PATIENT = Limits(
    handshake_seconds=PATIENCE,
    header_seconds=PATIENCE,
    body_seconds=2 * PATIENCE,
    answer_seconds=PATIENCE,
    ops_header_seconds=PATIENCE,
    ops_idle_seconds=PATIENCE,
)
"""A test holds the event loop that its server runs on: neither is overloaded or slow."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP response, as it stood on the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def closes(self) -> bool:
        return self.headers.get("connection", "").lower() == "close"


@dataclass(slots=True)
class Wire:
    """One TLS connection; bytes out, responses in."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def dialled(cls, port: int, trust: ssl.SSLContext | None = None) -> "Wire":
        """A connection to a port on loopback, with TLS where somebody is trusted."""
        tls: dict[str, Any] = {"ssl": trust, "server_hostname": "localhost"} if trust else {}
        return cls(*await asyncio.open_connection("127.0.0.1", port, **tls))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, patience: float = PATIENCE) -> Answer:
        """Read one response with a Content-Length, as all of genguard's have."""
        async with asyncio.timeout(patience):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = head.split("\r\n")
            pairs = (line.partition(":") for line in lines[1:] if line)
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Answer(int(lines[0].split()[1]), headers, body)

    async def post(self, body: bytes, path: str = "/mutate", **headers: str) -> Answer:
        await self.send(http_post(body, path, **headers))
        return await self.answer()

    async def closed(self, patience: float = PATIENCE) -> bool:
        """Wait until the server has closed the connection."""
        async with asyncio.timeout(patience):
            with suppress(ConnectionError):
                while await self.reader.read(65536):
                    pass
        return True

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


def http_post(body: bytes, path: str = "/mutate", **headers: str) -> bytes:
    """A request as kube-apiserver sends it; underscores in header names become dashes."""
    fields = {
        "Host": "genguard.genguard-system.svc",
        "User-Agent": "kube-apiserver-admission",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return head(f"POST {path} HTTP/1.1", fields.items()) + body


def head(line: str, fields: Iterable[tuple[str, str]]) -> bytes:
    """The request line and headers; a header whose value is empty is left out."""
    lines = [line, *(f"{name}: {value}" for name, value in fields if value)]
    return "".join(f"{one}\r\n" for one in [*lines, ""]).encode()


@dataclass(slots=True)
class Running:
    """A started AdmissionService and everything a test may want to ask it."""

    service: AdmissionService
    setup: ReviewSetup
    metrics: Metrics
    trust: ssl.SSLContext
    detecting: Detecting
    watching: Watching
    dashboard: Dashboard
    _wires: list[Wire] = field(default_factory=list)

    async def connect(self) -> Wire:
        wire = await Wire.dialled(self.service.secure_port, self.trust)
        self._wires.append(wire)
        return wire

    async def dial(self, *, tls: bool = False) -> Wire:
        """A connection to the ops port."""
        wire = await Wire.dialled(self.service.ops_port, self.trust if tls else None)
        self._wires.append(wire)
        return wire

    async def post(self, body: bytes, path: str = "/mutate", **headers: str) -> Answer:
        """One request on a connection of its own."""
        return await (await self.connect()).post(body, path, **headers)

    async def review(self, asked: dict[str, Any], path: str = "/mutate") -> dict[str, Any]:
        """Send an AdmissionReview and expect an answer to it."""
        answer = await self.post(json.dumps(asked).encode(), path)
        assert answer.status == 200, answer.body
        return answer.json["response"]

    async def ops(
        self, path: str, method: str = "GET", *, tls: bool = False, **headers: str
    ) -> Answer:
        """Ask the ops port."""
        wire, fields = await self.dial(tls=tls), {"Host": "localhost", **headers}
        await wire.send(head(f"{method} {path} HTTP/1.1", fields.items()))
        return await wire.answer()

    async def samples(self, family: str) -> dict[str, float]:
        """The samples of one metric family, by what stands between the braces."""
        text = (await self.ops("/metrics")).body.decode()
        found = (line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(family))
        return {name.removeprefix(family).strip("{}"): float(value) for name, value in found}

    async def caught_up(self) -> None:
        """Wait until detection and tracking have seen every answered review."""
        while len(self.detecting):
            await asyncio.sleep(0)

    async def close(self) -> None:
        for wire in self._wires:
            await wire.close()
        await self.service.stop()


@asynccontextmanager
async def serving(
    folder: Path,
    *,
    options: ReviewOptions | None = None,
    limits: Limits | None = None,
    record: Path | None = None,
    access: Access | None = None,
    mutators: Mutators | None = None,
    watched: Iterable[str] = (),
    connected: bool = True,
    ops_tls: bool = False,
    client_ca_file: Path | None = None,
    client_names: Iterable[str] = (),
    remote_intents: SharedIntents | None = None,
    spans: ExportedSpans | None = None,
    shutdown_delay: float = 0.0,
    enforce: str = "",
    keeps_clients: Callable[[], bool] | None = None,
    stands_by_for: str = "",
) -> AsyncIterator[Running]:
    """Start a service on free ports, with a certificate of its own in `folder`."""
    setup = ReviewSetup(options or ReviewOptions(generation_patch=GenerationPatch.NEVER))
    metrics = Metrics(setup.knows)
    mutators = mutators or Mutators()
    settings = Settings(
        secure_port=0,
        ops_port=0,
        shutdown_delay=shutdown_delay,
        ops_tls=ops_tls,
        cert_dir=folder,
        client_ca_file=client_ca_file,
        client_name=tuple(client_names),
    )
    detecting = Detecting(Detection(mutators), {}, Tracking())
    role = {"role": "standby", "active": stands_by_for} if stands_by_for else {}
    setup.describe_server(
        lambda: {**about(metrics, "memory", detecting.detection.completeness, 0), **role}
    )
    watching = Watching(watched, detecting.tracking)
    metrics.registry.register(TrackedMetrics(detecting.tracking, setup.knows))
    sources = Sources(
        detecting, mutators, watching, metrics, setup.dependencies.about, connected, lambda: enforce
    )._replace(cluster="kind-shop" if connected else "")
    dashboard = Dashboard(sources)
    handler = AdmissionHandler(
        lambda: setup.dependencies,
        metrics,
        detecting,
        limits or PATIENT,
        Recorder(record) if record else None,
        remote_intents,
        spans,
        keeps_clients,
    )
    service = AdmissionService(settings, handler, pages=dashboard, access=access)
    await service.start()
    trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    running = Running(service, setup, metrics, trust, detecting, watching, dashboard)
    try:
        yield running
    finally:
        await running.close()
