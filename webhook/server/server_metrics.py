"""What the server tells of itself at /metrics: connections, lag, certificate, what is left out."""

from collections.abc import Callable
from typing import NamedTuple

from webhook.server.connection import OpenConnections
from webhook.server.overload import LoopLag, Overload
from webhook.server.record import Recorder
from webhook.telemetry.metrics import Metrics


class Parts(NamedTuple):
    """Of a server; `expiry` is the seconds until its certificate expires."""

    connections: OpenConnections
    lag: LoopLag
    overload: Overload
    recorder: Recorder | None
    expiry: Callable[[], float]


def show(metrics: Metrics, parts: Parts) -> None:
    """Each is read at a scrape."""
    rejected, recorder = parts.overload.rejected, parts.recorder
    metrics.counts(
        "shed",
        "Reviews not judged for there was too much of something: in audit-only mode allowed, "
        "otherwise answered with 429.",
        ("reason",),
        lambda: [((reason.value,), count) for reason, count in rejected.items()],
    )
    metrics.gauge(
        "open_connections",
        "Connections of the admission port.",
        lambda: float(len(parts.connections)),
    )
    metrics.gauge(
        "event_loop_lag_seconds",
        "How late the event loop was at most of late: what every answer waited for.",
        parts.lag.longest,
    )
    metrics.gauge(
        "certificate_expiry_seconds",
        "Seconds until the served certificate expires.",
        parts.expiry,
    )
    if recorder is not None:
        metrics.gauge(
            "recording_dropped",
            "Reviews that the recording could not keep.",
            lambda: float(recorder.dropped),
        )
