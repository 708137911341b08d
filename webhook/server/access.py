"""Who may use the ops port: clients on this host alone, or those with a token.

The probes are for everybody: a kubelet has no token. The rest is of two parts. METRICS names
no object, unless `--object-metrics` is given, and no namespace or application, unless
`--summary-metrics` is; without tokens it is for everybody, too, since it is scraped over the
network. OBSERVED is the dashboard and /api, which name objects, webhooks and users: without tokens
it is for connections within this host, or within this pod, from where `kubectl port-forward` comes.

A token is one of a cluster, or the one in a file. A cluster is asked as kube-rbac-proxy asks it:
TokenReview, then SubjectAccessReview of a non-resource URL. The path is /metrics for metrics, which
the usual roles of Prometheus grant, and /genguard for all the rest: a right to `/*` would open
pages of the API server itself.
"""

import asyncio
import base64
import hashlib
import hmac
import os
import re
import stat
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import StrEnum
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final, NamedTuple

from aiohttp import web
from cachetools import TLRUCache

from genguard.shipped import shipped

ALLOWED_SECONDS: Final = 60.0
REFUSED_SECONDS: Final = 10.0
MOST_KEPT: Final = 1_000
_HOST: Final = re.compile(r"(?:\[([^]]+)\]|([^:\[@]+))(?::[0-9]*)?")
MOST_ASKED: Final = 4
"""Questions at once: clients with made-up tokens must not have genguard flood the API server."""
REFUSALS: Final = shipped("webhook.server", "refusals.yaml", dict[str, str])
"""What is told who is refused, by why."""


class Part(StrEnum):
    """A part of the ops port: the non-resource URL that its users must be allowed to get."""

    METRICS = "/metrics"
    OBSERVED = "/genguard"


class AccessDenied(NamedTuple):
    """Why a request is refused, and what to do; `asks`: a token may help."""

    status: int
    why: str
    asks: bool = False


Access = Callable[[web.BaseRequest, Part], Awaitable[AccessDenied | None]]
"""Decides which requests may be answered. Never raises."""


async def within_host(request: web.BaseRequest, part: Part) -> AccessDenied | None:
    """Show metrics to all, and the rest to loopback connections; without tokens.

    Both ends of the connection count, and so does the name that was dialled. A page of another site
    can have its own name lead to 127.0.0.1 and so read these pages (DNS rebinding), but it cannot
    make the browser say another Host.
    """
    if part is Part.METRICS:
        return None
    transport = request.transport
    ends = transport and map(transport.get_extra_info, ("peername", "sockname"))
    if not ends or not all(isinstance(end, tuple) and is_loopback(end[0]) for end in ends):
        return AccessDenied(403, REFUSALS["elsewhere"])
    host = _HOST.fullmatch(request.headers.get("Host", ""))
    # That it can only mean this host: RFC 6761 section 6.3 of `localhost`.
    is_own = host is not None and is_loopback(host[1] or host[2])
    return None if is_own else AccessDenied(403, REFUSALS["other name"])


def bearer(authorization: str) -> str:
    """The token of `Bearer TOKEN`, or the password of Basic credentials; "" for anything else.

    A browser asks its user for Basic credentials by itself, keeps them for this origin until it is
    closed, and sends them with what a page asks for, too: no cookie is needed.
    """
    scheme, _, value = authorization.strip().partition(" ")
    with suppress(ValueError):  # no base64, or no UTF-8
        if scheme.lower() == "bearer":
            return value.strip().encode().decode()  # aiohttp keeps what is no UTF-8 as surrogates
        if scheme.lower() == "basic":
            return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
    return ""


def is_loopback(text: str) -> bool:
    """Whether an address, or the name localhost, is reached from this host alone."""
    if text.lower() == "localhost":
        return True
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback


_NONE: Final = AccessDenied(200, "")
_NO_TOKEN: Final = AccessDenied(401, REFUSALS["takes a token"], asks=True)
_UNREACHED: Final = AccessDenied(503, REFUSALS["unreached"])
_UNKNOWN: Final = AccessDenied(401, REFUSALS["unknown"], asks=True)


Review = Callable[[str, str, str], Awaitable[tuple[str, bool] | None]]
"""Asks the API server for the user of a token, and whether that user may do this at a URL.

None where the API server does not answer. Never raises.
"""


class Tokens:
    """Everything but the probes takes a token, loopback included. Never raises."""

    async def __call__(self, request: web.BaseRequest, part: Part) -> AccessDenied | None:
        """Decide by the token of a request."""
        token = bearer(request.headers.get("Authorization", ""))
        # Without one, in UTF-8, the refusal says which kinds there are.
        return await self.refuses(token, part) if token else _NO_TOKEN

    async def refuses(self, token: str, part: Part) -> AccessDenied | None:
        """None where the user of the token may see that part."""
        raise NotImplementedError


class ReviewedTokens(Tokens):
    """The Tokens of a cluster."""

    def __init__(self, review: Review, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` in seconds."""
        self._review: Final = review
        self._kept: Final[TLRUCache[tuple[bytes, Part], AccessDenied]] = TLRUCache(
            MOST_KEPT,
            lambda _, kept, now: now + (ALLOWED_SECONDS if kept is _NONE else REFUSED_SECONDS),
            clock,
        )
        self._slots: Final = asyncio.Semaphore(MOST_ASKED)

    async def refuses(self, token: str, part: Part) -> AccessDenied | None:
        """None where the user of the token may see that part."""
        key = hashlib.sha256(token.encode()).digest(), part
        known = self._kept.get(key)
        if known is None:
            async with self._slots:
                known = self._kept.get(key) or await self._ask(token, part)
            if known is not _UNREACHED:
                self._kept[key] = known
        return None if known is _NONE else known

    async def _ask(self, token: str, part: Part) -> AccessDenied:
        found = await self._review(token, "get", part)
        if found is None:
            return _UNREACHED
        user, is_allowed = found
        if is_allowed:
            return _NONE
        if not user:
            return _UNKNOWN
        return AccessDenied(403, REFUSALS["not allowed"].format(user=user, part=part))


SHORTEST_TOKEN: Final = 16
"""Characters; shorter ones can be tried out."""
_MOST_BYTES: Final = 8_192
_WRONG: Final = AccessDenied(401, REFUSALS["wrong"], asks=True)


class BadTokenFileError(ValueError):
    """The file is of no use; the message says which, why, and what to do."""


class TokenFile(Tokens):
    """The Tokens of a file, which is read once."""

    def __init__(self, path: Path) -> None:
        """Raise BadTokenFileError when there is no usable token."""
        try:
            with path.open("rb") as file:
                mode, content = os.fstat(file.fileno()).st_mode, file.read(_MOST_BYTES + 1)
        except OSError as error:
            raise BadTokenFileError(f"{path}: {error.strerror}") from error
        if mode & stat.S_IRWXO:
            raise BadTokenFileError(
                f"{path}: everybody on this machine can read it; chmod o= {path}, or "
                "defaultMode: 0440 of a mounted Secret"
            )
        token = content.decode(errors="replace").strip()
        is_long_enough = SHORTEST_TOKEN <= len(token) <= len(content) <= _MOST_BYTES
        if not is_long_enough or "\ufffd" in token or not token.isprintable():
            raise BadTokenFileError(
                f"{path}: it must hold one token of {SHORTEST_TOKEN} characters at least; "
                "make one with: openssl rand -hex 32"
            )
        self._token: Final = token.encode()

    async def refuses(self, token: str, part: Part) -> AccessDenied | None:
        """None for the token of the file, which is good for everything."""
        del part
        return None if hmac.compare_digest(token.encode(), self._token) else _WRONG
