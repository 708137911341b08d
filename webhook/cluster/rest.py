"""Sends plain JSON calls to the API server, for kinds that are known only at run time."""

import asyncio
import os
import re
from http import HTTPStatus
from http.client import responses
from typing import Any, Final, NamedTuple, Protocol

import aiohttp
import msgspec
from kubernetes.aio import client

from genguard.formats.nesting import decode_cut

_SECONDS: Final = 15.0
_LONG_SECONDS: Final = 60.0  # the API server's own --request-timeout
APPLY_PATCH: Final = "application/apply-patch+yaml"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
_PARTIAL: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_LACKING: Final = re.compile(
    r'cannot (?P<verb>\S+) resource "(?P<resource>[^"/]+)(?:/(?P<subresource>[^"]+))?" '
    r'in API group "(?P<group>[^"]*)"(?: in the namespace "(?P<namespace>[^"]+)")?'
)
"""How the API server names a right (apiserver pkg/endpoints/handlers/responsewriters/errors.go)."""
UNREACHED: Final = (aiohttp.ClientError, TimeoutError, OSError)
"""The errors of a call that the API server did not answer."""
_MARKS: Final = frozenset({"kind", "gitVersion"})
"""Each answer of an API server has a kind, but for that about its version."""


class RefusedError(Exception):
    """The API server refused a call; the message is its own."""

    def __init__(self, status: int, message: str) -> None:
        # The API server lists each right that a new role would give on a line of its own.
        super().__init__(f"{' '.join(message.split())} ({status})")
        self.status = status

    @property
    def is_passing(self) -> bool:
        """Whether the same call may succeed later."""
        return self.status == HTTPStatus.TOO_MANY_REQUESTS or self.status >= 500  # noqa: PLR2004

    @property
    def missing_right(self) -> str:
        """The right that the user lacks, as `kubectl auth can-i` takes it; "" if it is not that."""
        found = _LACKING.search(str(self)) if self.status == HTTPStatus.FORBIDDEN else None
        if found is None:
            return ""
        verb, resource, subresource, group, namespace = found.groups()
        return " ".join(
            (
                verb,
                f"{resource}.{group}" if group else resource,
                *([f"--subresource={subresource}"] if subresource else ()),
                *(["-n", namespace] if namespace else ()),
            )
        )


class UnreadableError(RefusedError):
    """The API server answered, and the answer is nested too deep to decode."""


class RawAnswer(NamedTuple):
    """An answer or refusal: status, message of a refusal, warnings, the server's time as text."""

    status: int
    message: str
    warnings: tuple[str, ...]
    date: str


class Calls(Protocol):
    """How the parts of the server reach the API: a Rest, or in their tests a plain object.

    Each raises RefusedError, or one of UNREACHED.
    """

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """Send one request, and return the decoded answer."""

    async def read(self, path: str) -> bytes:
        """Read an object, undecoded."""

    async def metadata(self, path: str) -> Any:
        """Read a list, of which the server sends only the metadata."""


class Rest:
    """Sends requests by path, through a client of the Kubernetes API."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api: Final = api

    async def get(self, path: str, **params: str) -> Any:
        """Read an object, a list or a discovery document. Raises as `call` does."""
        return await self.call("GET", path, params=params)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """Send one request, and return the decoded answer. Raises RefusedError or UNREACHED."""
        async with asyncio.timeout(_SECONDS):
            response = await self._send(method, path, body, params or {}, content_type)
            return _decoded(response.status, await response.read())

    async def call_raw(
        self, method: str, path: str, body: Any = None, *, params: dict[str, str] | None = None
    ) -> RawAnswer:
        """Send one request, and return its answer even if it is a refusal. Raises UNREACHED."""
        async with asyncio.timeout(_SECONDS):
            response = await self._request(method, path, body, params or {}, "application/json")
            content = await response.read()
        warnings = tuple(map(_warning, response.headers.getall("Warning", ())))
        date = response.headers.get("Date", "")
        return RawAnswer(response.status, _message(content), warnings, date)

    async def read(self, path: str, **params: str) -> bytes:
        """Read a long answer, undecoded. Raises as `call` does."""
        async with asyncio.timeout(_LONG_SECONDS):
            return await (await self.stream(path, **params)).read()

    async def metadata(self, path: str) -> Any:
        """Read a list, of which the server sends only the metadata. Raises as `call` does.

        What is nested too deep to decode is null.
        """
        async with asyncio.timeout(_LONG_SECONDS):
            answer = await self._send("GET", path, None, {}, "application/json", accept=_METADATA)
            return decode_cut(await answer.read())

    async def partial(self, path: str) -> bytes:
        """Read an object's metadata, undecoded. Raises as `call` does."""
        async with asyncio.timeout(_SECONDS):
            answer = await self._send("GET", path, None, {}, "application/json", accept=_PARTIAL)
            return await answer.read()

    async def stream(self, path: str, **params: str) -> aiohttp.ClientResponse:
        """Begin to read an endless answer, which the caller closes. Raises as `call` does."""
        return await self._send("GET", path, None, params, "application/json")

    async def websocket(
        self, path: str, protocol: str, **params: str
    ) -> aiohttp.ClientWebSocketResponse:
        """Open a WebSocket, which the caller closes. Raises RefusedError or UNREACHED."""
        # The client of the Kubernetes API opens WebSockets in a second client alone.
        calls = self._api.rest_client
        if calls.pool_manager is None:
            _ = await self.get("/version")  # makes the session
        session = calls.pool_manager
        if session is None:
            raise RuntimeError("the client of the Kubernetes API keeps its session elsewhere")
        _, url, headers, _, _ = await self._api.param_serialize(
            "GET", path, query_params=list(params.items()), auth_settings=["BearerToken"]
        )
        name = self._api.configuration.tls_server_name
        try:
            async with asyncio.timeout(_SECONDS):
                opened: aiohttp.ClientWebSocketResponse = await session.ws_connect(
                    url,
                    protocols=(protocol,),
                    headers=headers,
                    proxy=calls.proxy,
                    proxy_headers=calls.proxy_headers,
                    server_hostname=name or None,
                )
        except aiohttp.WSServerHandshakeError as error:
            reason = responses.get(error.status, "no WebSocket")
            raise RefusedError(error.status, f"{path}: {reason}") from error
        return opened

    async def _send(
        self,
        method: str,
        path: str,
        body: Any,
        params: dict[str, str],
        content_type: str,
        *,
        accept: str = "application/json",
    ) -> aiohttp.ClientResponse:
        response = await self._request(method, path, body, params, content_type, accept=accept)
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise RefusedError(
                response.status, _message(await response.read()) or str(response.reason)
            )
        return response

    async def _request(
        self,
        method: str,
        path: str,
        body: Any,
        params: dict[str, str],
        content_type: str,
        *,
        accept: str = "application/json",
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": accept, "Content-Type": content_type}
        method, url, headers, body, _ = await self._api.param_serialize(
            method,
            path,
            query_params=list(params.items()),
            header_params=headers,
            body=body,
            auth_settings=["BearerToken"],
        )
        answer = await self._api.call_api(method, url, headers, body)
        response: aiohttp.ClientResponse = answer.response
        return response


def _decoded(status: int, content: bytes) -> Any:
    """Decode an answer; raises RefusedError where it is not of an API server."""
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    except RecursionError as error:
        raise UnreadableError(status, "unreadable: the answer is nested too deep") from error
    if not isinstance(found, dict) or not found.keys() & _MARKS:
        text = "who answers is no Kubernetes API server: look at `server` in the kubeconfig"
        raise RefusedError(status, text)
    return found


def unreached(error: BaseException) -> str:
    """Say of one of UNREACHED who does not answer, why, and what to look at."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = getattr(error.certificate_error, "verify_message", "") or "it cannot be verified"
        return (
            f"not reached: the certificate of {error.host}:{error.port} is not trusted ({why}): "
            "look at certificate-authority in the kubeconfig"
        )
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        at = f"{error.host}:{error.port}"
        return f"not reached: {at} refuses TLS: look at `server` in the kubeconfig"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno or 0  # of a name that is not found it is negative
        why = os.strerror(number) if number > 0 else str(error.os_error.strerror or error.os_error)
        return (
            f"not reached: {error.host}:{error.port}: {why}: is the cluster there, and `server` "
            "in the kubeconfig right?"
        )
    if isinstance(error, aiohttp.ClientError):
        why = str(error) or type(error).__name__
        return f"not reached: {why}: look at `server` in the kubeconfig"
    return f"not reached: {str(error) or type(error).__name__}"


def _warning(header: str) -> str:
    """Return the text of `299 - "text"`; apimachinery pkg/util/net/http.go:NewWarningHeader."""
    _, _, quoted = header.partition('"')
    return re.sub(r"\\(.)", r"\1", quoted.rpartition('"')[0])


def _message(content: bytes) -> str:
    """Return the message of a metav1.Status, "" for anything else."""
    try:
        status = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return ""
    return str(status.get("message", "")) if isinstance(status, dict) else ""
