"""From start to graceful end: certificate, listeners, readiness, draining.

start → serving → SIGTERM → draining (still answering, closing connections; after --shutdown-delay
      not ready) → quiet or out of time → listeners closed, what is in flight finished → end
"""

import asyncio
import gc
import math
import platform
import signal
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final, Protocol, cast

from aiohttp import web

from certs.inspect import CertificateDetails
from genguard.detection.correlate import Completeness
from webhook import __version__
from webhook.server.access import Access, within_host
from webhook.server.admission import AdmissionHandler
from webhook.server.certificate import CertificateKeeper, Clients
from webhook.server.collectors import FindingMetrics
from webhook.server.connection import Port, naming_flags
from webhook.server.ops import ops_application
from webhook.server.overload import LoopLag, watchdog
from webhook.server.settings import Settings
from webhook.server.tls import HeldPair
from webhook.tasks.supervisor import FailingTask, Supervisor
from webhook.tasks.threads import in_thread
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

_LOOK_SECONDS: Final = 5.0
"""Between two looks at the certificate."""
TENDING: Final = "connections and certificate"
"""The name of the task."""
_POLL_SECONDS: Final = 0.02
_IDLE_SECONDS: Final = 2.0
"""While it drains or stands by, a connection without a request for so long is closed. The time
counts from the start of draining: under load each was closed with its answer by then, and a client
that reuses one in that very moment would lose its request."""
_YOUNG_OBJECTS, _MIDDLE_ROUNDS = 700, 5
"""More new objects than were freed, and rounds, before Python's garbage collector looks. With
100,000 objects remembered and 10,000 findings open the longest rounds take 1.5 ms, 9 ms where older
objects are looked at, and 27 ms for all."""
_SWITCH_SECONDS: Final = 0.000_5
"""How soon a thread with a large review lets the event loop go on; Python's default is 5 ms.
Under all attacks at once the 99th percentile of honest reviews was 76 to 84 ms."""


def about(
    metrics: Metrics,
    store: str,
    seen: Completeness,
    costly: int,
    failing: Collection[FailingTask] = (),
) -> Mapping[str, str]:
    """What this server says of itself to a probe: words, and nothing of any object.

    `incomplete` is how many writes were seen in part, of how many; `costly`, how many
    matchConditions cost too much to evaluate; `last`, when the last write came that was no dry run;
    `failing`, the tasks that failed and are not yet well again.
    """
    last = metrics.last_review
    return {
        "version": __version__,
        "instance": platform.node() or "unknown",
        "store": store,
        "incomplete": f"{seen.incomplete}/{seen.joined}",
        "costly": str(costly),
        "last": f"{datetime.fromtimestamp(last, UTC):%FT%TZ}" if last else "never",
        "failing": ",".join(task.name.replace(" ", "-") for task in failing) or "none",
    }


class Pages(Protocol):
    """Further pages of the ops port: the dashboard."""

    def routes(self, server: "AdmissionService") -> list[web.AbstractRouteDef]:
        """The routes of every page about `server`."""

    def close(self) -> None:
        """The server stops."""


class AdmissionService:
    """One running server. `start`, then `drain`, then `stop`; or `run` for all of it."""

    def __init__(
        self,
        settings: Settings,
        handler: AdmissionHandler,
        *,
        pages: Pages,
        access: Access | None = None,
        supervisor: Supervisor | None = None,
        pair: HeldPair | None = None,
    ) -> None:
        """`handler` answers reviews. `access`: to the ops port, if not within_host.

        `pair`: the certificate, if it is in a Secret. Raises certs.CertificateError or OSError when
        there is no usable one.
        """
        self._settings: Final = settings
        self._handler: Final = handler
        self._supervisor: Final = supervisor or Supervisor()
        self._pages: Final = pages
        self._access: Final = access or within_host
        self._keeper: Final = CertificateKeeper(settings, pair)
        self._lag: Final = LoopLag()
        refuse, serving = handler.metrics.refuse, self._keeper.serving
        self._clients: Clients | None = None
        if settings.client_ca_file:
            self._clients = Clients(frozenset(settings.client_name), refuse)
        self._port: Final = Port(
            web.Server(handler),
            handler.limits,
            self._lag,
            refuse,
            context=serving.guarded() if self._clients else serving.context,
            clients=self._clients,
        )
        self._ops: web.AppRunner | None = None
        self._ops_port: Port | None = None
        self._leaves = False
        self.secure_port = 0
        self.ops_port = 0

    async def start(self) -> None:
        """Listen on both ports. Raises OSError when an address is taken."""
        settings = self._settings
        address, port = settings.bind_address, settings.secure_port
        with naming_flags(("--bind-address", address), ("--secure-port", port)):
            await self._port.open(address, port)
        self.secure_port = self._port.number
        self._measure()
        await self._start_ops()
        self._supervisor.start(TENDING, self._tend)
        self._handler.detecting.start()
        scheme = "https" if settings.ops_tls else "http"
        fields = {
            "admission": f"https://{settings.bind_address}:{self.secure_port}",
            "ops": f"{scheme}://{settings.ops_address}:{self.ops_port}",
            "certificate": self.certificate.fingerprint,
            "notAfter": self.certificate.not_after.isoformat(),
        }
        LOGGER.info("serving", extra={"fields": fields})

    def _measure(self) -> None:
        """Export what the server measures of itself."""
        metrics, recorder = self._handler.metrics, self._handler.recorder
        rejected = self._handler.overload.rejected
        metrics.counts(
            "genguard_shed_total",
            lambda: [((reason.value,), count) for reason, count in rejected.items()],
        )
        metrics.gauge("genguard_open_connections", lambda: float(len(self._port.connections)))
        metrics.gauge("genguard_event_loop_lag_seconds", self._lag.longest)
        metrics.gauge("genguard_certificate_expiry_seconds", self._seconds_to_expiry)
        if recorder is not None:
            metrics.gauge("genguard_recording_dropped", lambda: float(recorder.dropped))

    async def _start_ops(self) -> None:
        """Listen on the ops port."""
        settings, metrics = self._settings, self._handler.metrics
        registry = metrics.registry
        registry.register(FindingMetrics(self._handler.detecting))
        routes = self._pages.routes(self)
        self._ops = web.AppRunner(
            ops_application(registry, self.missing, self._supervisor.failing, self._access, routes)
        )
        await self._ops.setup()
        refused: Counter[tuple[str, ...]] = Counter()
        metrics.counts("genguard_ops_refused_connections_total", refused.items)
        self._ops_port = Port(
            cast(web.Server, self._ops.server),
            self._handler.limits,
            self._lag,
            lambda reason: refused.update([(reason,)]),
            context=self._keeper.serving.context if settings.ops_tls else None,
            is_ops=True,
        )
        address, port = settings.ops_address, settings.ops_port
        with naming_flags(("--ops-address", address), ("--ops-port", port)):
            await self._ops_port.open(address, port)
        self.ops_port = self._ops_port.number

    def missing(self) -> str | None:
        """Why this server is not ready; None when it is."""
        if not self._port.is_serving:
            return "not listening"
        if self._leaves:
            return "draining"
        if self.certificate.not_after <= datetime.now(UTC):
            return "the certificate has expired"
        return None

    @property
    def certificate(self) -> CertificateDetails:
        """The certificate being served."""
        return self._keeper.serving.details

    async def drain(self) -> None:
        """Keep answering, with Connection: close, until nobody sends here any more.

        Idle connections are closed as well (`_tend`). Otherwise the API server would keep some
        of them, and the three calls of one write would reach this server and the one that takes its
        place.
        """
        limits, delay = self._handler.limits, self._settings.shutdown_delay
        self._handler.draining = True
        began = time.monotonic()
        LOGGER.info("draining")
        while (now := time.monotonic()) - began < delay + limits.drain_seconds:
            last = max(self._handler.last_request, began)
            self._leaves = now - began >= delay
            if self._leaves and now - last >= limits.drain_quiet_seconds:
                return
            await asyncio.sleep(0.1)

    async def _tend(self) -> None:
        """Drop overdue connections, and idle ones while this server drains or stands by.

        Every few seconds, look whether the certificate has changed.
        """
        began, looked = math.inf, -math.inf
        while True:
            await asyncio.sleep(0.1)
            for port in (self._port, self._ops_port):
                if port is not None:
                    port.drop_overdue()
            now = time.monotonic()
            began = min(began, now) if self._handler.sends_away else math.inf
            if now - began >= _IDLE_SECONDS:
                self._port.close_idle(now - _IDLE_SECONDS)
            if now - looked < _LOOK_SECONDS:
                continue
            looked = now
            self._handler.overload.end_if_quiet()
            if self._clients is not None:
                self._clients.episode.end_if_quiet()
            if self._keeper.refresh(datetime.now(UTC)):
                self._port.retire()

    async def stop(self) -> None:
        """Close the listeners, finish what is in flight, end."""
        await self._supervisor.end((TENDING,))
        self._lag.stop()
        await self._finish()
        self._pages.close()
        if self._ops_port is not None:
            self._ops_port.close()
        if self._ops is not None:
            await self._ops.cleanup()
        await self._handler.detecting.stop()
        if self._handler.recorder is not None:
            await in_thread(self._handler.recorder.close)
        LOGGER.info("stopped")

    async def _finish(self) -> None:
        """Answer what has begun; aiohttp's own shutdown reads no more of a body."""
        port, seconds = self._port, self._handler.limits.body_seconds
        port.close()
        self._handler.draining = True
        for _ in range(int(seconds / _POLL_SECONDS)):
            if not port.busy:
                break
            await asyncio.sleep(_POLL_SECONDS)
        port.server.pre_shutdown()  # without it, idle connections are waited for
        await port.server.shutdown(seconds)

    async def run(self) -> None:
        """Serve until SIGTERM, then drain; SIGINT or a second SIGTERM ends at once."""
        loop = asyncio.get_running_loop()
        asked, forced = asyncio.Event(), asyncio.Event()

        def end(*events: asyncio.Event) -> None:
            for event in events:
                event.set()

        loop.add_signal_handler(signal.SIGTERM, lambda: end(forced if asked.is_set() else asked))
        loop.add_signal_handler(signal.SIGINT, end, asked, forced)
        await self.start()
        # No request is answered while the garbage collector runs: what exists now is not looked at.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS, _MIDDLE_ROUNDS)
        sys.setswitchinterval(_SWITCH_SECONDS)
        with watchdog(self._handler.limits.stuck_seconds):
            try:
                await asked.wait()
                tasks = [asyncio.create_task(end) for end in (self.drain(), forced.wait())]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
            finally:
                await self.stop()

    def _seconds_to_expiry(self) -> float:
        return (self.certificate.not_after - datetime.now(UTC)).total_seconds()
