"""What all pages share: their inputs, checks of URL parameters, and a queue of requests.

A page is one module: a function that takes a PageContext, the URL parameters and the time, and
returns PageData. It uses only the state of this server; it asks nobody.
A standby has the active pod answer.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from genguard.detection.mutators import Mutators
from genguard.objects.shown import json_line
from webhook.cluster.coverage import Coverage
from webhook.cluster.registrations import Registrations
from webhook.server.detecting import Detecting
from webhook.server.lifecycle import AdmissionService
from webhook.server.watching import Watching
from webhook.tasks.supervisor import FailingTask
from webhook.telemetry.metrics import Metrics

LONGEST: Final = 300
"""The most characters of a parameter: no Kubernetes name is longer."""

MOST_WAITING: Final = 16
_FOLLOWS: Final = ("standby", "replica")
"""Roles of a pod that has no opinion of its own."""

_Made = TypeVar("_Made")
_Item = TypeVar("_Item")


class PageError(Exception):
    """A page that is not shown; the message says why."""

    status = HTTPStatus.BAD_REQUEST
    title = "Invalid request"


class BadQueryError(PageError, ValueError):
    """URL parameters that are not valid."""


class MissingError(PageError):
    """The requested object is not known; the message says possible reasons."""

    status = HTTPStatus.NOT_FOUND
    title = "Not found"


class BusyError(PageError):
    """Too many requests for pages wait already."""

    status = HTTPStatus.SERVICE_UNAVAILABLE
    title = "Busy"


_MARK: Final = "Genguard-Forwarded"
"""A request that has made its hop."""
_SECONDS: Final = 5.0
_MOST_BYTES: Final = 32 << 20
_PASSED: Final = ("Authorization", "Accept")
_ANSWERS: Final = frozenset({HTTPStatus.OK, HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND})

Address = tuple[str, int]


class Forwarding:
    """The way to the ops port of the active pod: a standby has no opinion of its own.

    Reads are passed on alone, with the caller's own authorization, over one hop, with a deadline
    and a bound. With --ops-tls the active pod must show the certificate that this one serves: both
    have it from one Secret. Where it does not answer, or refuses (without --ops-auth a pod shows
    its pages within itself alone), the caller shows what was saved.
    """

    def __init__(self, active: Callable[[], Address | None], *, tls: bool) -> None:
        """`active` returns host and port; None where nobody is known to be active."""
        self._active: Final = active
        self._tls: Final = tls

    async def ask(self, request: web.Request, fingerprint: str) -> web.Response | None:
        """Return the answer of the active pod to the same request; None where it gives none.

        fingerprint  SHA-256 of the certificate that it must show
        """
        address = self._active()
        if address is None or _MARK in request.headers:
            return None
        host, port = address
        headers = {name: request.headers[name] for name in _PASSED if name in request.headers}
        shown = f"[{host}]" if ":" in host else host
        url = f"{'https' if self._tls else 'http'}://{shown}:{port}{request.path_qs}"
        trust = aiohttp.Fingerprint(bytes.fromhex(fingerprint)) if self._tls else True
        try:
            async with (
                asyncio.timeout(_SECONDS),
                aiohttp.ClientSession(headers=headers | {_MARK: "1"}) as session,
                session.get(url, ssl=trust, allow_redirects=False) as answer,
            ):
                body = bytearray()
                async for chunk in answer.content.iter_any():
                    body += chunk
                    if len(body) > _MOST_BYTES:
                        return None
                if answer.status not in _ANSWERS:
                    return None
                kind = answer.headers.get("Content-Type", "")
                return web.Response(
                    status=answer.status, body=bytes(body), headers={"Content-Type": kind}
                )
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None


class Sources(NamedTuple):
    """The state that pages show.

    about    returns mode, version, store and instance as text; with --standby role and active pod
    enforce  returns the command that makes this installation enforcing; "" where none is known
    alertmanager  the URL of the Alertmanager in which a finding can be silenced; "" without one
    coverage  what findings can be about
    cluster   its name; "" where it is not known
    failing  returns which tasks of this server fail
    forwarding  the way to the active pod of a standby
    registrations  returns what is registered and why; nothing where this server does not keep it
    """

    detecting: Detecting
    mutators: Mutators
    watching: Watching
    metrics: Metrics
    about: Callable[[], Mapping[str, str]]
    connected: bool  # to a cluster
    enforce: Callable[[], str] = str
    alertmanager: str = ""
    failing: Callable[[], tuple[FailingTask, ...]] = tuple
    registrations: Callable[[], Registrations] = Registrations
    forwarding: Forwarding | None = None
    coverage: Coverage = Coverage()
    cluster: str = ""

    @property
    def stands_by_for(self) -> str:
        """The name of the pod that detects in place of this one; "" where this one does."""
        about = self.about()
        return about.get("active", "") if about.get("role") in _FOLLOWS else ""

    def saved_at(self, now: float) -> float:
        """Return the time of what is known of findings: on a standby, when they were saved."""
        return self.detecting.shown_at or now if self.stands_by_for else now


class PageQueue:
    """Handles one request at a time, since the dashboard shares a process with admission."""

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._one: Final = asyncio.Lock()
        self._left = most_waiting
        self._thread: Final = ThreadPoolExecutor(1, "dashboard")

    @asynccontextmanager
    async def wait_slot(self) -> AsyncIterator[None]:
        """Wait until earlier requests are done; raises BusyError if too many wait."""
        if not self._left:
            raise BusyError(
                "The server handles too many requests for pages. Try again in a few seconds."
            )
        self._left -= 1
        try:
            async with self._one:
                yield
        finally:
            self._left += 1

    async def in_thread(self, make: Callable[[], _Made]) -> _Made:
        """Run `make` in a thread, so that reviews are answered meanwhile.

        `make` must not use values that may change.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, make)

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)


class PageContext(NamedTuple):
    """The inputs of every page."""

    sources: Sources
    server: AdmissionService
    queue: PageQueue


class PageData(NamedTuple):
    """The data of a page: `model` is also its JSON; `values` are further template variables."""

    model: Any
    values: Mapping[str, Any]


def check_parameters(query: Mapping[str, str], names: Iterable[str]) -> None:
    """Raise BadQueryError for an unknown parameter or a value that is too long."""
    known = sorted(names)
    if unknown := sorted(set(query) - set(known)):
        raise BadQueryError(f"unknown parameter {unknown[0]!r}; known are {', '.join(known)}")
    for name, value in query.items():
        if len(value) > LONGEST:
            raise BadQueryError(f"{name} must have at most {LONGEST} characters")


def choice(query: Mapping[str, str], name: str, choices: Iterable[str], default: str = "") -> str:
    """Return a parameter with fixed choices, or the default if it is absent or empty."""
    found = query.get(name) or default
    if found and found not in (known := tuple(choices)):
        raise BadQueryError(f"{name} must be one of {', '.join(known)}")
    return found


def number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    """Return a parameter that is a number from 1 to `most`."""
    text = query.get(name) or str(default)
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:9]) <= most:
        raise BadQueryError(f"{name} must be a number from 1 to {most}")
    return int(text)


RANGES: Final = ("5m", "15m", "1h", "6h", "24h", "7d")
"""Time ranges that pages offer; a URL may have any other number of s, m, h or d."""
_DURATION: Final = re.compile(r"([0-9]{1,6})([smhd])")
_SECONDS_OF: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def time_range(query: Mapping[str, str]) -> str:
    """Return the parameter `since`, such as 24h; "" for any time."""
    since = query.get("since", "").strip()
    if since and _DURATION.fullmatch(since) is None:
        raise BadQueryError("since must be a number with s, m, h or d, such as 24h")
    return since


def begin_of_range(since: str, now: float) -> float:
    """Return when a time range begins; long ago for any time."""
    found = _DURATION.fullmatch(since)
    return now - int(found[1]) * _SECONDS_OF[found[2]] if found else float("-inf")


def ranges(since: str) -> tuple[str, ...]:
    """Return the choices of a page on which one is chosen."""
    return RANGES if since in ("", *RANGES) else (*RANGES, since)


def has_words(words: Iterable[str], texts: Iterable[str]) -> bool:
    """Whether all words, in lower case, are in these texts."""
    text = " ".join(texts).casefold()
    return all(word in text for word in words)


def part_of(items: Sequence[_Item], page: int, size: int) -> tuple[Sequence[_Item], int, int]:
    """Return what is on one page, the number of this page, and how many there are.

    A page after the last one is the last one.
    """
    pages = max(1, -(-len(items) // size))
    page = min(page, pages)
    return items[(page - 1) * size : page * size], page, pages


def json_answer(content: object, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Return an answer for programs."""
    body = json_line(content).encode()
    return web.Response(status=status, body=body, content_type="application/json")


def link(path: str, query: Mapping[str, object], **changed: object) -> str:
    """Return the URL of a page, without empty parameters."""
    values = {name: value for name, value in {**query, **changed}.items() if value}
    return f"{path}?{urlencode(values)}" if values else path
