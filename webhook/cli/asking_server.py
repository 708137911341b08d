"""Asks a running `genguard serve`, by the JSON of its dashboard on the ops port.

All verbs reach it in the same way: by the URL of --server; without it, the genguard that is
installed in the cluster, by a forwarded port (webhook/cluster/port_forward.py).
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from genguard.blame.report import BlamedObject, ObjectAnswer, Seen
from genguard.detection.finding import Finding
from genguard.objects.shown import printable
from webhook.cli.options import USUAL_SERVER
from webhook.cluster.connection import connected, default_kubeconfig
from webhook.cluster.kubeconfig import NoClusterError
from webhook.cluster.port_forward import Forward, OpsPort, find_ops_port, forwarded
from webhook.cluster.rest import UNREACHED, RefusedError, Rest, unreached
from webhook.manifest.documents import NAMESPACE

_SECONDS: Final = 15.0
_SILENT_SECONDS: Final = 30.0
"""An event stream says something every five seconds."""
_AGAIN_SECONDS: Final = 1.0
_PAGE: Final = "1000"
_LONGEST_REASON: Final = 200
_Answer = TypeVar("_Answer")


class NoServerError(Exception):
    """The server does not answer as a genguard does; the message says what to do."""


class NotInstalledError(NoServerError):
    """No pod of genguard is ready in the namespace where it would be."""


class ServerChoice(NamedTuple):
    """The flags that say which server to ask.

    server  the URL of its ops port, or the namespace in which it is installed; None: the usual one
    token   what the ops port takes with --ops-auth; "" for none
    """

    server: str | None
    token: str

    @property
    def url(self) -> str:
        """The URL; "" where a namespace is meant."""
        return self.server or "" if "://" in (self.server or "") else ""

    @property
    def namespace(self) -> str:
        """Where genguard is installed."""
        return self.server or NAMESPACE


class Memory(NamedTuple):
    """What a server remembers of one object."""

    reconciled_generation: int | None
    ready_flips: int


class _Object(msgspec.Struct, rename="camel"):
    uid: str
    reconciled_generation: int | None
    ready_flips: int


class _Page(msgspec.Struct, rename={"next": "continue"}):
    objects: tuple[_Object, ...]
    next: str


class _NotFound(msgspec.Struct):
    """How genguard says it: another server's 404 is an error."""

    error: str


class Server:
    """A server that answers. Every method raises NoServerError."""

    def __init__(
        self, session: aiohttp.ClientSession, base: str, name: str, forward: Forward | None = None
    ) -> None:
        """`name` is for messages; `base` is the URL before the path."""
        self._session: Final = session
        self._base: Final = base
        self._name: Final = name
        self._forward: Final = forward

    async def ask(self, path: str, query: Mapping[str, str], form: type[_Answer]) -> _Answer | None:
        """Return the answer to GET `path`; None where the server knows no such thing (404)."""
        given = {name: value for name, value in query.items() if value}
        try:
            async with (
                asyncio.timeout(_SECONDS),
                self._session.get(f"{self._base}{path}", params=given) as response,
            ):
                body = await response.read()
                if response.status == HTTPStatus.NOT_FOUND:
                    _ = msgspec.json.decode(body, type=_NotFound)
                    return None
                self._check(response, body)
                return msgspec.json.decode(body, type=form)
        except (aiohttp.ClientError, TimeoutError, ValueError, msgspec.MsgspecError) as error:
            raise self._no_answer(path, error) from error

    async def memories(self, namespace: str) -> Mapping[str, Memory]:
        """Read what it remembers of objects, by uid, of one namespace or with "" of all."""
        found: dict[str, Memory] = {}
        query = {"limit": _PAGE, "namespace": namespace}
        while page := await self.ask("/api/objects", query, _Page):
            for one in page.objects:
                found[one.uid] = Memory(one.reconciled_generation, one.ready_flips)
            if not page.next:
                break
            query["continue"] = page.next
        return found

    async def turns(self) -> AsyncIterator[None]:
        """Yield when findings may have changed, first at once; ends only by an error."""
        waits = aiohttp.ClientTimeout(total=None, sock_read=_SILENT_SECONDS, sock_connect=_SECONDS)
        while True:
            try:
                async with self._session.get(f"{self._base}/events", timeout=waits) as response:
                    if response.status != HTTPStatus.OK:
                        self._check(response, await response.read())
                    yield
                    async for line in response.content:
                        if line.strip() == b"event: turn":
                            yield
            except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                raise self._no_answer("/events", error) from error
            await asyncio.sleep(_AGAIN_SECONDS)  # the server ends each stream after a while

    def _check(self, response: aiohttp.ClientResponse, body: bytes) -> None:
        """Raise NoServerError for a refusal, in the words of the server."""
        if response.status == HTTPStatus.OK:
            return
        said = body.decode(errors="replace").partition("\n")[0].strip()[:_LONGEST_REASON]
        if response.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN) and said:
            more = "; give --token-file FILE" if response.status == HTTPStatus.UNAUTHORIZED else ""
            raise NoServerError(f"{self._name}: {printable(said.rstrip('.:'))}{more}")
        response.raise_for_status()
        raise ValueError(response.status)

    def _no_answer(self, path: str, error: Exception) -> NoServerError:
        if self._forward is None:
            return NoServerError(
                f"{self._name}: no answer from {path} ({type(error).__name__}); give the ops port "
                f"of genguard serve, such as {USUAL_SERVER}"
            )
        reason = printable(self._forward.trouble) or type(error).__name__
        return NoServerError(
            f"{self._name}: no answer by a forwarded port ({reason}); it takes the right to get "
            "and create pods/portforward, else give --server URL"
        )


@asynccontextmanager
async def server_beside(choice: ServerChoice, rest: Rest) -> AsyncIterator[Server]:
    """Reach the server that is meant, for a verb that is connected to a cluster by `rest`.

    Raises NoServerError.
    """
    if choice.url:
        async with _at(choice.url, choice.token) as server:
            yield server
        return
    namespace = choice.namespace
    try:
        found = await find_ops_port(rest, namespace)
    except RefusedError as error:
        raise NoServerError(f"genguard in namespace {namespace}: {error}") from error
    except UNREACHED as error:
        raise NoServerError(f"genguard in namespace {namespace}: {unreached(error)}") from error
    async with _in(choice, rest, found) as server:
        yield server


@asynccontextmanager
async def server_of(
    choice: ServerChoice, kubeconfig: str | None, context: str | None
) -> AsyncIterator[Server]:
    """Reach the server that is meant: by its URL, in the cluster, else on this host.

    On this host only where neither a server nor a cluster was named, and the usual cluster is
    missing or has no genguard. Raises NoServerError, NoClusterError, RefusedError or UNREACHED.
    """
    if choice.url:
        async with _at(choice.url, choice.token) as server:
            yield server
        return
    named = choice.server or kubeconfig or context
    try:
        async with connected(kubeconfig or default_kubeconfig(), context) as api:
            rest = Rest(api)
            found = await find_ops_port(rest, choice.namespace)
            async with _in(choice, rest, found) as server:
                yield server
                return
    except (NoClusterError, NotInstalledError) as error:
        if named:
            raise
        reason = str(error)
    async with _at(USUAL_SERVER, choice.token) as server:
        try:
            _ = await server.ask("/api/server", {}, msgspec.Raw)
        except NoServerError as error:
            raise NoServerError(
                f"{reason}; and none answers at {USUAL_SERVER}: give --server URL, or --kubeconfig"
            ) from error
        yield server


@asynccontextmanager
async def _at(url: str, token: str) -> AsyncIterator[Server]:
    if not urlsplit(url).hostname:
        raise NoServerError(f"--server {url}: no URL such as {USUAL_SERVER}")
    async with aiohttp.ClientSession(headers=_headers(token)) as session:
        yield Server(session, url.rstrip("/"), f"--server {url}")


@asynccontextmanager
async def _in(choice: ServerChoice, rest: Rest, found: OpsPort | None) -> AsyncIterator[Server]:
    if found is None:
        raise NotInstalledError(f"no pod of genguard is ready in namespace {choice.namespace}")
    async with (
        forwarded(rest, found) as forward,
        aiohttp.ClientSession(
            connector=_connector(forward), headers=_headers(choice.token)
        ) as session,
    ):
        base = f"https://127.0.0.1:{forward.near}" if found.tls else "http://localhost"
        yield Server(session, base, str(found), forward)


def _connector(forward: Forward) -> aiohttp.BaseConnector:
    if isinstance(forward.near, Path):
        return aiohttp.UnixConnector(path=str(forward.near))
    # Nobody sits within the tunnel: the API server has checked the node, and this the API server.
    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    return aiohttp.TCPConnector(ssl=unchecked)


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


async def finding_of(
    name: str, choice: ServerChoice, kubeconfig: str | None, context: str | None
) -> Finding:
    """Return a finding of a server by its id. Raises NoServerError where there is none."""
    async with server_of(choice, kubeconfig, context) as server:
        found = await server.ask(f"/api/findings/{name}", {}, Finding)
    if found is None:
        raise NoServerError(
            f"the server has no finding {name}: it may be another replica's, or be forgotten; "
            "genguard findings --state all lists them"
        )
    return found


class _Webhook(msgspec.Struct):
    configuration: str
    webhook: str
    role: str


class _Webhooks(msgspec.Struct):
    webhooks: tuple[_Webhook, ...] = ()


async def seen_by(server: Server, where: BlamedObject) -> Seen:
    """Ask a server for what it saw of an object; raises NoServerError."""
    query = {
        "group": where.group,
        "resource": where.resource,
        "namespace": where.namespace,
        "name": where.name,
        "uid": where.uid,
    }
    answer = await server.ask("/api/object", query, ObjectAnswer)
    called = {}
    for subresource in ("", "status"):
        query = {"resource": where.resource_name, "namespace": where.namespace}
        found = await server.ask("/api/webhooks", {**query, "subresource": subresource}, _Webhooks)
        called[subresource] = tuple(
            f"{one.configuration}/{one.webhook}"
            for one in (found.webhooks if found else ())
            if one.role == "suspect"
        )
    return Seen.of(answer or ObjectAnswer(), called)
