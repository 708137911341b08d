"""Asks a running `genguard serve`, by the JSON of its dashboard on the ops port.

All verbs reach it in the same way: by the URL of --server; without it, the genguard that is
installed in the cluster, by a forwarded port (webhook/cluster/port_forward.py).
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from genguard.blame.report import Seen
from genguard.detection.finding import Finding, FoundObject
from genguard.objects.shown import printable
from webhook.cli.errors import why_it_ended
from webhook.cli.options import USUAL_SERVER, Access
from webhook.cluster.port_forward import Forward, OpsPort, find_ops_port, forwarded
from webhook.cluster.rest import UNREACHED, RefusedError, Rest, if_there
from webhook.manifest.documents import NAMESPACE

_SECONDS: Final = 15.0
_UNASKED_SECONDS: Final = 3.0
"""How long a server that nobody named may take."""
_LONGEST_REASON: Final = 200
_Answer = TypeVar("_Answer")


class NoServerError(Exception):
    """The server does not answer as a genguard does; the message says what to do."""


class NotInstalledError(NoServerError):
    """No pod of genguard is ready in the namespace where it would be."""


class FindingsAnswer(msgspec.Struct):
    """Findings, and why there can be none of what was asked about; "" where there could be."""

    findings: tuple[Finding, ...] = ()
    note: str = ""


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

    @property
    def rest(self) -> Rest | None:
        """The cluster in which it was found; None for the server of a URL."""
        return self._forward.rest if self._forward else None

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

    async def findings(self, query: Mapping[str, str]) -> tuple[Finding, ...]:
        """Return the findings that a query chooses."""
        return (await self.page(query)).findings

    async def page(self, query: Mapping[str, str]) -> FindingsAnswer:
        """Return the same, and why there can be none."""
        return await self.ask("/api/findings", query, FindingsAnswer) or FindingsAnswer()

    async def finding(self, name: str) -> Finding:
        """Return a finding by its id; it must be there."""
        found = await self.ask(f"/api/findings/{name}", {}, Finding)
        if found is None:
            raise NoServerError(
                f"the server has no finding {name}: it may be another replica's, or be forgotten; "
                "genguard findings --state all lists them"
            )
        return found

    async def seen(self, where: FoundObject) -> Seen:
        """Ask for what it saw of an object."""
        about = {"group": where.group, "resource": where.resource, "name": where.name}
        about["namespace"] = where.namespace
        return await self.ask("/api/object", {**about, "uid": where.uid}, Seen) or Seen()

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
async def server_of(access: Access, rest: Rest | None = None) -> AsyncIterator[Server]:
    """Reach the server that is meant: by its URL, else in the cluster.

    rest  the client of a verb that is connected to a cluster

    Raises NoServerError; without `rest` also NoClusterError, RefusedError or UNREACHED.
    """
    async with AsyncExitStack() as opened:
        url, connector, forward = access.server or "", None, None
        base, name = url.rstrip("/"), f"--server {url}"
        if "://" not in url:
            try:
                known = nullcontext(rest) if rest else access.connected()
                api = await opened.enter_async_context(known)
                found = await ops_port(access.server, api)
            except (RefusedError, *UNREACHED) as error:
                if rest is None:
                    raise
                where = f"genguard in namespace {access.server or NAMESPACE}"
                raise NoServerError(f"{where}: {why_it_ended(error)[1]}") from error
            forward = await opened.enter_async_context(forwarded(api, found))
            base = f"https://127.0.0.1:{forward.near}" if found.tls else "http://localhost"
            connector, name = _connector(forward), str(found)
        elif not urlsplit(url).hostname:
            raise NoServerError(f"--server {url}: no URL such as {USUAL_SERVER}")
        headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
        session = aiohttp.ClientSession(connector=connector, headers=headers)
        yield Server(await opened.enter_async_context(session), base, name, forward)


async def ops_port(namespace: str | None, rest: Rest) -> OpsPort:
    """Find the ops port of an installation, None: the usual one.

    Raises NotInstalledError, RefusedError or UNREACHED.
    """
    where = namespace or NAMESPACE
    found = await find_ops_port(rest, where)
    if found is None:
        is_there = True  # unless the API server says that it is not
        with suppress(RefusedError):
            deployment = f"/apis/apps/v1/namespaces/{where}/deployments/genguard"
            is_there = await if_there(rest.get(deployment)) is not None
        why = "no pod of genguard is ready" if is_there else "not installed"
        step = (
            f"genguard doctor -n {where} says why" if is_there else "`genguard scan` needs nothing"
        )
        raise NotInstalledError(f"{why} in namespace {where}: {step}")
    return found


async def answer_of(
    access: Access, rest: Rest, ask: Callable[[Server], Awaitable[_Answer]]
) -> tuple[_Answer | None, str]:
    """Return what the server answers; of one that nobody named, why there is no answer.

    Raises NoServerError for a server that is named.
    """
    try:
        async with asyncio.timeout(None if access.server else _UNASKED_SECONDS):
            async with access.reached(rest) as server:
                return await ask(server), ""
    except NoServerError as error:
        if access.server:
            raise
        return None, str(error)
    except TimeoutError:
        return None, f"no answer within {_UNASKED_SECONDS:g} s; give --server URL"


def _connector(forward: Forward) -> aiohttp.BaseConnector:
    if isinstance(forward.near, Path):
        return aiohttp.UnixConnector(path=str(forward.near))
    # Nobody sits within the tunnel: the API server has checked the node, and this the API server.
    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    return aiohttp.TCPConnector(ssl=unchecked)
