"""Who may use the ops port: clients on this host alone, or those with a token.

The probes are for everybody: a kubelet has no token. The rest is of two parts. METRICS names
no object, unless `--object-metrics` is given, and no namespace or application, unless
`--summary-metrics` is; without tokens it is for everybody, too, since it is scraped over the
network. OBSERVED is the dashboard and /api, which name objects, webhooks and users: without tokens
it is for connections within this host, or within this pod. Nothing can be
changed there.

`kubectl port-forward` comes from within the pod: containerd and CRI-O dial localhost in its network
namespace (containerd internal/cri/server/sandbox_portforward_linux.go), for people whom Kubernetes
lets forward ports there.
"""

import base64
from enum import StrEnum
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple, Protocol

from aiohttp import web


class Part(StrEnum):
    """A part of the ops port."""

    METRICS = "metrics"
    OBSERVED = "observed"


class Refusal(NamedTuple):
    """Why a request is refused, and what to do; `asks`: a token may help."""

    status: int
    why: str
    asks: bool = False


class Access(Protocol):
    """Decides who may read what."""

    async def refuses(self, request: web.BaseRequest, part: Part) -> Refusal | None:
        """None where the request may be answered. Never raises."""


class Tokens(Protocol):
    """Decides about tokens."""

    async def refuses(self, token: str, part: Part) -> Refusal | None:
        """None where the user of the token may see that part. Never raises."""


class WithinHost:
    """An Access without tokens: metrics for all, the rest for loopback connections."""

    async def refuses(self, request: web.BaseRequest, part: Part) -> Refusal | None:
        """Both ends of the connection count, and so does the name that was dialled.

        A page of another site can have its own name lead to 127.0.0.1 and so read these pages
        (DNS rebinding), but it cannot make the browser say another Host.
        """
        if part is Part.METRICS:
            return None
        transport = request.transport
        ends = ("peername", "sockname")
        if transport is None or not all(_loops(transport.get_extra_info(end)) for end in ends):
            return Refusal(403, _ELSEWHERE)
        if not _is_local_name(request.headers.get("Host", "")):
            return Refusal(403, _OTHER_NAME)
        return None


class ByToken:
    """An Access for which everything but the probes takes a token, loopback included."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens: Final = tokens

    async def refuses(self, request: web.BaseRequest, part: Part) -> Refusal | None:
        """None for a good token; without a token the refusal says which kinds there are."""
        token = bearer(request.headers.get("Authorization", ""))
        if not token:
            return Refusal(401, _TAKES_ONE, asks=True)
        if not _is_text(token):
            return Refusal(401, _NO_TEXT, asks=True)
        return await self._tokens.refuses(token, part)


def bearer(authorization: str) -> str:
    """The token of `Bearer TOKEN`, or the password of Basic credentials; "" for anything else.

    A browser asks its user for Basic credentials by itself, keeps them for this origin until it is
    closed, and sends them with server-sent events, too: no cookie is needed.
    """
    scheme, _, value = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
    except ValueError:  # no base64, or no UTF-8
        return ""


def _is_text(token: str) -> bool:
    """Whether it was UTF-8; aiohttp decodes other bytes to characters that cannot be encoded."""
    return not any("\ud800" <= one <= "\udfff" for one in token)


def _loops(end: object) -> bool:
    return isinstance(end, tuple) and bool(end) and is_loopback(str(end[0]))


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


def _is_local_name(host: str) -> bool:
    """Whether a Host header can only mean this host (RFC 6761 section 6.3 of `localhost`)."""
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        port = port.removeprefix(":") if bracket else "?"
    else:
        name, _, port = host.partition(":")
    if port and not (port.isascii() and port.isdecimal()):
        return False
    return is_loopback(name)


_ELSEWHERE: Final = """\
genguard: findings, objects and the dashboard are shown within this host alone.

They name objects, webhooks and users, and this connection comes from elsewhere.

In a cluster:  kubectl -n genguard-system port-forward deployment/genguard 8080
               and then http://localhost:8080
For others:    genguard serve --ops-auth kubernetes, or --ops-auth token-file=FILE
"""
_OTHER_NAME: Final = """\
genguard: this name is not one of this host.

A page of another site could otherwise read what is shown here.
Dial http://localhost or http://127.0.0.1, with the same port.
"""
_NO_TEXT: Final = "genguard: this token is no UTF-8 text; no token has such bytes.\n"
_TAKES_ONE: Final = """\
genguard: this takes a token.

Programs:  Authorization: Bearer TOKEN
Browsers:  any user name, and the token as password

With --ops-auth kubernetes it is a token of the cluster, such as
  kubectl -n NAMESPACE create token SERVICEACCOUNT
of somebody who may get the non-resource URL /genguard (for /metrics: /metrics).
With --ops-auth token-file=FILE it is what the file holds.
"""
