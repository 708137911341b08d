"""Every limit of the server, and how many connections the descriptors allow."""

import resource
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from webhook.telemetry.logs import LOGGER

KEEPALIVE_SECONDS: Final = 180.0
"""Above the 90 s after which the API server's Go client drops an idle connection. A server that
closes first races with a reused POST, which is never retried (apimachinery util/net/http.go)."""

RETRY_AFTER_SECONDS: Final = 1
"""client-go repeats a 429 or 5xx that carries it, inside the webhook's own timeout
(client-go rest/with_retry.go); without it the answer is final."""

LARGE_BYTES: Final = 512 * 1024
LARGE_VALUES: Final = 2_000
"""What has more bytes or more values is worked on in a thread; an update of a pod has 800 values.
The worst of 2,000 values are examined in 4 ms, and compared in as long, on one core."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and counts of one admission port."""

    handshake_seconds: float = 5.0  # asyncio allows 60
    header_seconds: float = 10.0  # from the first byte, or from the connection, to whole headers
    body_seconds: float = 5.0  # less when ?timeout= says so
    connections: int = 1_024  # those in their TLS handshake included
    backlog: int = 1_024
    ops_connections: int = 128  # more than pages and checks of tokens can keep busy
    ops_spare: int = 16  # more where all of these are busy: probes, and clients that get a 503
    ops_header_seconds: float = 5.0
    ops_idle_seconds: float = 60.0  # above the 30 s between two scrapes
    body_bytes_in_flight: int = 64 * 1024 * 1024  # what slow senders may occupy all together
    large_from: int = LARGE_BYTES
    large_values: int = LARGE_VALUES
    large_bytes: int = 24 * 1024 * 1024  # of large bodies examined or waiting for it
    answer_seconds: float = 2.0  # how long a client waits that does not say so with ?timeout=
    overload_quiet_seconds: float = 10.0  # nothing was rejected for so long: an overload is over
    drain_quiet_seconds: float = 5.0  # no request for so long: nobody sends here any more
    drain_seconds: float = 30.0
    stuck_seconds: float = 30.0  # the event loop has not run for so long: the process ends
    detection_queue: int = 5_000  # reviews that wait for detection, and the bytes of their bodies
    detection_queue_bytes: int = 24 * 1024 * 1024


OTHER_DESCRIPTORS: Final = 128
"""For listeners, files, threads, the API server, the store and Alertmanager."""
FEWEST_CONNECTIONS: Final = 16
"""Connections that the admission port has in any case."""


def raise_limit() -> int:
    """Raise this process's soft limit of descriptors to the hard one, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS knows a hard limit that cannot be reached
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft


def fit(limits: Limits, descriptors: int) -> Limits:
    """Lower the connections of both ports by one share, so that they need so few descriptors.

    Neither port can take what the other one and files need, so a probe is answered whatever else is
    open.
    """
    wanted = limits.connections + limits.ops_connections + limits.ops_spare
    free = max(descriptors - OTHER_DESCRIPTORS, descriptors // 2)
    if descriptors == resource.RLIM_INFINITY or free >= wanted:
        return limits
    fitted = replace(
        limits,
        connections=max(limits.connections * free // wanted, FEWEST_CONNECTIONS),
        ops_connections=max(limits.ops_connections * free // wanted, 3),
        ops_spare=max(limits.ops_spare * free // wanted, 1),
    )
    fields = {"connections": fitted.connections, "action": "raise ulimit -n"}
    LOGGER.warning("few descriptors: fewer connections are accepted", extra={"fields": fields})
    return fitted
