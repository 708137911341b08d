"""Descriptors: how many this process may have, and how many connections each port gets of them."""

import resource
from contextlib import suppress
from dataclasses import replace
from typing import Final

from webhook.server.limits import Limits
from webhook.telemetry.logs import LOGGER

OWN: Final = 128
"""For listeners, files, threads, the API server, the store and Alertmanager."""
FEWEST: Final = 16
"""Connections of the admission port that are never taken away."""


def raise_limit() -> int:
    """Raise this process's soft limit of descriptors to the hard one, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS knows a hard limit that cannot be reached
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft


def fit(limits: Limits, descriptors: int) -> Limits:
    """Limits that keep within so many descriptors, whatever the clients of both ports do."""
    if descriptors == resource.RLIM_INFINITY:
        return limits
    left = descriptors - OWN - limits.ops_connections - limits.ops_spare
    connections = min(limits.connections, max(left, FEWEST))
    if connections < limits.connections:
        facts = {"connections": connections, "mend": "raise ulimit -n"}
        LOGGER.warning("few descriptors: the admission port gets fewer", extra={"facts": facts})
    return replace(limits, connections=connections)
