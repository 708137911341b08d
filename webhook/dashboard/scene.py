"""What pages are made from: what this server knows, nothing that it would have to ask for."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from webhook.dashboard.turns import Turns
from webhook.detection.suspects import Suspects
from webhook.server.detecting import Detecting
from webhook.server.watching import Watching
from webhook.telemetry.metrics import Metrics


class MissingError(Exception):
    """What a page is asked for is not known; the message says why that may be."""


class Sources(NamedTuple):
    """`about` tells mode, version, store and instance, in words; `connected`: to a cluster."""

    detecting: Detecting
    suspects: Suspects
    watching: Watching
    metrics: Metrics
    about: Callable[[], Mapping[str, str]]
    connected: bool


class Server(Protocol):
    """The server that the pages are a part of; see AdmissionService."""

    def missing(self) -> str | None:
        """What keeps it from being ready; None when it is."""

    @property
    def not_after(self) -> datetime:
        """When the certificate being served expires."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate being served."""


class Scene(NamedTuple):
    """What every page is given."""

    sources: Sources
    server: Server
    turns: Turns


class Seen(NamedTuple):
    """What a page shows: `model` is its JSON as well; `values` are what else its template takes."""

    model: Any
    values: Mapping[str, Any]
