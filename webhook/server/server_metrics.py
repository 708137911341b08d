"""Exports what the server measures of itself: connections, lag, certificate, rejected reviews."""

from collections.abc import Callable
from typing import NamedTuple

from webhook.server.connection import OpenConnections
from webhook.server.overload import LoopLag, Overload
from webhook.server.record import Recorder
from webhook.telemetry import declarations
from webhook.telemetry.metrics import Metrics


class Parts(NamedTuple):
    """The measured parts; `expiry` returns the seconds until the certificate expires."""

    connections: OpenConnections
    lag: LoopLag
    overload: Overload
    recorder: Recorder | None
    expiry: Callable[[], float]


def show(metrics: Metrics, parts: Parts) -> None:
    """Export the measurements; each is read at a scrape."""
    rejected, recorder = parts.overload.rejected, parts.recorder
    metrics.counts(
        declarations.SHED,
        lambda: [((reason.value,), count) for reason, count in rejected.items()],
    )
    metrics.gauge(declarations.OPEN_CONNECTIONS, lambda: float(len(parts.connections)))
    metrics.gauge(declarations.EVENT_LOOP_LAG, parts.lag.longest)
    metrics.gauge(declarations.CERTIFICATE_EXPIRY, parts.expiry)
    if recorder is not None:
        metrics.gauge(declarations.RECORDING_DROPPED, lambda: float(recorder.dropped))
