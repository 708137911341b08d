"""From start to graceful end: certificate, listeners, readiness, draining.

start → serving → SIGTERM → draining (still answering, closing connections; after --shutdown-delay
      not ready) → quiet or out of time → listeners closed, what is in flight finished → end
"""

import asyncio
import contextlib
import secrets
import signal
import ssl
import time
from asyncio import sslproto
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol, cast

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from webhook.pipeline import Dependencies
from webhook.server import garbage
from webhook.server.access import Access, WithinHost
from webhook.server.admission import AdmissionHandler
from webhook.server.certificate import CertificateKeeper
from webhook.server.clients import Clients, Refusals
from webhook.server.connection import Connection, Http, OpenConnections, PortLimits
from webhook.server.detecting import Detecting
from webhook.server.finding_metrics import FindingMetrics
from webhook.server.judging import Elsewhere
from webhook.server.lag import LoopLag
from webhook.server.limits import KEEPALIVE_SECONDS, TLS_BUFFER_BYTES
from webhook.server.listener import Listener
from webhook.server.observe import Observations
from webhook.server.ops import ops_application
from webhook.server.options import ServerOptions
from webhook.server.overload import Overload
from webhook.server.record import Recorder
from webhook.server.server_metrics import Parts, show
from webhook.telemetry import declarations
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics
from webhook.threads import in_thread

_TICK_SECONDS: Final = 5.0
_PROBE_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.02
_IDLE_SECONDS: Final = 0.5
"""While it drains, a connection without a request for so long is closed: a client that reuses one
in that very moment loses its request, and under load it reuses the others."""


class Pages(Protocol):
    """What else is shown at the ops port."""

    def routes(self, server: "AdmissionService") -> list[web.AbstractRouteDef]:
        """Everything that is shown of `server`."""

    def close(self) -> None:
        """End what is being shown: the server stops."""


class AdmissionService:
    """One running server. `start`, then `drain`, then `stop`; or `run` for all of it."""

    def __init__(
        self,
        options: ServerOptions,
        dependencies: Callable[[], Dependencies],
        metrics: Metrics,
        detecting: Detecting,
        *,
        pages: Pages,
        access: Access | None = None,
        collectors: Iterable[Collector] = (),
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """`collectors`: more to show at /metrics. `access`: to the ops port, if not WithinHost.

        Raises certs.CertificateError or OSError when certificate or recording cannot be.
        """
        self._options: Final = options
        self._keeper: Final = CertificateKeeper(options)
        self._certificate: Final = self._keeper.serving
        self._probe_name: Final = secrets.token_hex(16)  # of the server, in our own handshakes
        self._clients: Final = (
            Clients(options.client_names, Refusals(metrics.refuse))
            if options.client_ca_file
            else None
        )
        self._recorder: Final = Recorder(options.record) if options.record else None
        self._metrics: Final = metrics
        self._detecting: Final = detecting
        self._pages: Final = pages
        self._access: Final = access or WithinHost()
        self._collectors: Final = tuple(collectors)
        observer = Observations(metrics, dependencies, self._recorder, detecting)
        limits = options.limits
        self._overload: Final = Overload(limits.shed_quiet_seconds)
        self._handler: Final = AdmissionHandler(
            dependencies, observer, limits, self._overload, elsewhere
        )
        self._http: web.Server | None = None
        self._connections: OpenConnections | None = None
        self._listener: Listener | None = None
        self._ops: web.AppRunner | None = None
        self._ops_connections: OpenConnections | None = None
        self._ops_listener: Listener | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._lag: LoopLag | None = None
        self._probe_failed = ""
        self._leaves = False
        self.secure_port = 0
        self.ops_port = 0

    async def start(self) -> None:
        """Listen on both ports. Raises OSError when an address is taken."""
        options, limits = self._options, self._options.limits
        self._lag = LoopLag()
        sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES  # of all: it can be told to none alone
        self._http = web.Server(self._handler)
        port_limits = PortLimits(limits.connections, limits.header_seconds, KEEPALIVE_SECONDS)
        refuse = self._metrics.refuse
        self._connections = OpenConnections(port_limits, refuse, self._lag, self._clients)
        self._listener = Listener(
            partial(_connect, self._http, self._connections),
            self._connections,
            self._admission_context(),
            limits.handshake_seconds,
        )
        await self._listener.open(options.bind_address, options.secure_port, limits.backlog)
        self.secure_port = self._listener.port
        connections, expiry = self._connections, self._seconds_to_expiry
        show(self._metrics, Parts(connections, self._lag, self._overload, self._recorder, expiry))
        trust = await self._start_ops(self._lag)
        await self._probe()
        self._ticker = asyncio.create_task(self._tick())
        self._detecting.start()
        LOGGER.info(
            "serving",
            extra={
                "facts": {
                    "admission": f"https://{options.bind_address}:{self.secure_port}",
                    "ops": f"{'https' if trust else 'http'}://{options.ops_address}:{self.ops_port}",
                    "certificate": self.fingerprint,
                    "notAfter": self.not_after.isoformat(),
                }
            },
        )

    async def _start_ops(self, lag: LoopLag) -> ssl.SSLContext | None:
        """Listen on the ops port, over TLS if a context is returned."""
        options, limits = self._options, self._options.limits
        registry = CollectorRegistry()
        registry.register(self._metrics)
        for collector in (FindingMetrics(self._detecting), *self._collectors):
            registry.register(collector)
        routes = self._pages.routes(self)
        self._ops = web.AppRunner(ops_application(registry, self.missing, self._access, routes))
        await self._ops.setup()
        refused: Counter[str] = Counter()
        self._metrics.counts(
            declarations.OPS_REFUSED_CONNECTIONS,
            lambda: [((reason,), count) for reason, count in refused.items()],
        )
        port_limits = PortLimits(
            limits.ops_connections,
            limits.ops_header_seconds,
            limits.ops_idle_seconds,
            spare=limits.ops_spare,
            makes_room=True,
        )
        self._ops_connections = OpenConnections(
            port_limits, lambda reason: refused.update((reason,)), lag
        )
        trust = self._certificate.context if options.ops_tls else None
        self._ops_listener = Listener(
            partial(_connect, cast(web.Server, self._ops.server), self._ops_connections),
            self._ops_connections,
            trust,
            limits.handshake_seconds,
        )
        await self._ops_listener.open(options.ops_address, options.ops_port, limits.backlog)
        self.ops_port = self._ops_listener.port
        return trust

    def _admission_context(self) -> ssl.SSLContext:
        if self._clients is None:
            return self._certificate.context
        context = self._certificate.guarded()
        self._clients.counting(context, self._probe_name)
        return context

    def missing(self) -> str | None:
        """Tell what keeps this server from being ready; None when it is."""
        if self._listener is None or not self._listener.is_serving:
            return "not listening"
        if self._leaves:
            return "draining"
        if self.not_after <= datetime.now(UTC):
            return "the certificate has expired"
        return self._probe_failed or None

    @property
    def not_after(self) -> datetime:
        """When the certificate being served expires."""
        return self._certificate.not_after

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate being served."""
        return self._certificate.fingerprint

    async def drain(self) -> None:
        """Answer on, with Connection: close, until nobody sends here any more.

        Idle connections are closed as well. Otherwise the API server would keep some of them, and
        the three calls of one write would reach this server and the one that takes its place.
        """
        limits, delay = self._options.limits, self._options.shutdown_delay
        self._handler.draining = True
        began = time.monotonic()
        LOGGER.info("draining")
        while (now := time.monotonic()) - began < delay + limits.drain_seconds:
            last = max(self._handler.last_request, began)
            self._leaves = now - began >= delay
            if self._leaves and now - last >= limits.drain_quiet_seconds:
                return
            if self._connections is not None:
                self._connections.close_idle(now - _IDLE_SECONDS)
            await asyncio.sleep(0.1)

    async def stop(self) -> None:
        """Close the listeners, finish what is in flight, end."""
        if self._ticker is not None:
            self._ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticker
        if self._lag is not None:
            self._lag.stop()
        if self._listener is not None:
            await self._listener.close()
        if self._http is not None and self._connections is not None:
            await self._finish(self._http, self._connections)
        self._pages.close()
        if self._ops_listener is not None:
            await self._ops_listener.close()
        if self._ops_connections is not None:
            self._ops_connections.close()
        if self._ops is not None:
            await self._ops.cleanup()
        await self._detecting.stop()
        if self._recorder is not None:
            await in_thread(self._recorder.close)
        LOGGER.info("stopped")

    async def _finish(self, http: web.Server, connections: OpenConnections) -> None:
        """Answer what has begun; aiohttp's own shutdown reads no more of a body."""
        self._handler.draining = True
        for _ in range(int(self._options.limits.body_seconds / _LOOK_SECONDS)):
            if not connections.busy:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        connections.close()
        http.pre_shutdown()  # without it, idle connections are waited for
        await http.shutdown(self._options.limits.body_seconds)

    async def run(self) -> None:
        """Serve until SIGTERM, then drain; SIGINT or a second SIGTERM ends at once."""
        loop = asyncio.get_running_loop()
        asked, hurried = asyncio.Event(), asyncio.Event()

        def on_sigterm() -> None:
            (hurried if asked.is_set() else asked).set()

        def on_sigint() -> None:
            asked.set()
            hurried.set()

        loop.add_signal_handler(signal.SIGTERM, on_sigterm)
        loop.add_signal_handler(signal.SIGINT, on_sigint)
        await self.start()
        garbage.settle()
        try:
            await asked.wait()
            draining = asyncio.create_task(self.drain())
            hurry = asyncio.create_task(hurried.wait())
            await asyncio.wait((draining, hurry), return_when=asyncio.FIRST_COMPLETED)
            for task in (draining, hurry):
                task.cancel()
        finally:
            await self.stop()

    def _seconds_to_expiry(self) -> float:
        return (self.not_after - datetime.now(UTC)).total_seconds()

    async def _tick(self) -> None:
        while True:
            await self._keeper.changed(_TICK_SECONDS)
            self._overload.look(time.monotonic())
            if self._clients is not None:
                self._clients.refusals.look()
            if self._keeper.look(datetime.now(UTC)) and self._connections is not None:
                self._connections.retire()
            await self._probe()

    async def _probe(self) -> None:
        """Ready means that a TLS handshake with this very port succeeds.

        As a client sees it: of TLS 1.3 it is over before the server asks who the client is.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        host = self._options.bind_address
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                _, writer = await asyncio.open_connection(
                    host, self.secure_port, ssl=context, server_hostname=self._probe_name
                )
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
        except (OSError, TimeoutError) as error:
            self._probe_failed = f"the admission port does not answer: {type(error).__name__}"
        else:
            self._probe_failed = ""


def _connect(server: web.Server, connections: OpenConnections) -> Connection:
    """Make the protocol of one connection."""
    return Connection(
        Http(
            server,
            connections.on_drop,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=connections.limits.idle,
            access_log=None,
            max_headers=64,
        ),
        connections,
    )
