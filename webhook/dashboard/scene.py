"""What pages are made from: what this server knows, nothing that it would have to ask for."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import urlencode

from webhook.detection.suspects import Suspects
from webhook.server.detecting import Detecting
from webhook.server.watching import Watching
from webhook.telemetry.metrics import Metrics

LONGEST: Final = 300
"""Characters of a value: no name of Kubernetes is longer."""

MOST_WAITING: Final = 16

_Made = TypeVar("_Made")


class BadQueryError(ValueError):
    """A query that cannot be answered; the message says what is wrong with it."""


class MissingError(Exception):
    """What a page is asked for is not known; the message says why that may be."""


class BusyError(Exception):
    """Too many pages are being made already."""


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


class Turns:
    """One page after the other; a few may wait."""

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._one: Final = asyncio.Lock()
        self._left = most_waiting
        self._thread: Final = ThreadPoolExecutor(1, "dashboard")

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for one's turn; raises BusyError when too many wait."""
        if not self._left:
            raise BusyError
        self._left -= 1
        try:
            async with self._one:
                yield
        finally:
            self._left += 1

    async def aside(self, make: Callable[[], _Made]) -> _Made:
        """What `make` returns, made beside the event loop. It touches nothing that may change."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, make)

    def close(self) -> None:
        """Make nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)


class Scene(NamedTuple):
    """What every page is given."""

    sources: Sources
    server: Server
    turns: Turns


class Seen(NamedTuple):
    """What a page shows: `model` is its JSON as well; `values` are what else its template takes."""

    model: Any
    values: Mapping[str, Any]


def known_only(query: Mapping[str, str], names: Iterable[str]) -> None:
    """Raise BadQueryError for a parameter that is none of these, or a value that is too long."""
    known = sorted(names)
    if unknown := sorted(set(query) - set(known)):
        raise BadQueryError(f"unknown parameter {unknown[0]!r}; known are {', '.join(known)}")
    for name, value in query.items():
        if len(value) > LONGEST:
            raise BadQueryError(f"{name} must have at most {LONGEST} characters")


def one_of(query: Mapping[str, str], name: str, choices: Iterable[str], default: str = "") -> str:
    """A parameter that is one of some, or absent or empty."""
    found = query.get(name) or default
    if found and found not in (known := tuple(choices)):
        raise BadQueryError(f"{name} must be one of {', '.join(known)}")
    return found


def number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    """A parameter that is a number from 1 to `most`."""
    text = query.get(name) or str(default)
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:9]) <= most:
        raise BadQueryError(f"{name} must be a number from 1 to {most}")
    return int(text)


def link(path: str, query: Mapping[str, object], **changed: object) -> str:
    """The URL of a page, with what is empty left out."""
    values = {name: value for name, value in {**query, **changed}.items() if value}
    return f"{path}?{urlencode(values)}" if values else path
