"""The limits of the admission port, each with its reason."""

from dataclasses import dataclass
from typing import Final

KEEPALIVE_SECONDS: Final = 180.0
"""Above the 90 s after which the API server's Go client drops an idle connection. A server that
closes first races with a reused POST, which is never retried (apimachinery util/net/http.go)."""

RETRY_AFTER_SECONDS: Final = 1
"""client-go repeats a 429 or 5xx that carries it, inside the webhook's own timeout
(client-go rest/with_retry.go); without it the answer is final."""

TLS_BUFFER_BYTES: Final = 32 * 1024
"""Two TLS records, for each connection and before its handshake. asyncio takes 256 KiB and touches
all of it: 1,000 clients that say nothing took 280 MiB."""

LARGE_BYTES: Final = 512 * 1024
"""What is larger is worked on in a thread; smaller, a review takes less than a millisecond."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and counts of one admission port."""

    handshake_seconds: float = 5.0  # asyncio allows 60
    header_seconds: float = 10.0  # from the first byte, or from the connection, to whole headers
    body_seconds: float = 5.0  # less when ?timeout= says so
    connections: int = 1_024  # those in their TLS handshake included
    backlog: int = 1_024
    ops_connections: int = 128  # more than pages, streams and checks of tokens can keep busy
    ops_spare: int = 16  # where all of these are busy: probes, and clients that are told so
    ops_header_seconds: float = 5.0
    ops_idle_seconds: float = 60.0  # above the 30 s between two scrapes
    body_bytes_in_flight: int = 64 * 1024 * 1024  # what slow senders may occupy all together
    large_from: int = LARGE_BYTES
    large_reviews: int = 16  # judged or waiting for it: at most 60 ms each on one core
    large_bytes: int = 32 * 1024 * 1024  # of their bodies
    answer_seconds: float = 2.0  # how long a client waits that does not say so with ?timeout=
    shed_quiet_seconds: float = 10.0  # nothing was shed for so long: an overload is over
    drain_quiet_seconds: float = 5.0  # no request for so long: nobody sends here any more
    drain_seconds: float = 30.0


class BodyBudget:
    """How many bytes of large reviews wait at once; over the limit, requests are shed."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def take(self, size: int) -> bool:
        """Reserve `size` bytes; False when they do not fit."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def give_back(self, size: int) -> None:
        """Release what was taken."""
        self._left += size
