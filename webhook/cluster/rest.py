"""Sends plain JSON calls to the API server, for kinds that are known only at run time.

A call that the API server puts off (429, or 5xx with Retry-After) is sent again after that time,
within the deadline of the call (client-go rest/with_retry.go). A list is read in pages. An answer
has a bound, and each object is of the kind that was asked for and has a name: the rest of the code
may rely on it.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from http.client import responses
from types import MappingProxyType
from typing import Any, Final, TypeVar

import aiohttp
import msgspec
from kubernetes.aio import client

from genguard.formats.nesting import cut_deep, decode_cut
from genguard.objects.fields import Fields, fields_of, get
from webhook.tasks.threads import in_thread

T = TypeVar("T")

_SECONDS: Final = 15.0
_LONG_SECONDS: Final = 60.0  # the API server's own --request-timeout
PAGE: Final = 250
"""Objects in a page of a list; a page of pods has some 4 MiB."""
_MOST_BYTES: Final = 64 << 20
"""Bytes of one answer. A longer page is asked for in halves."""
APPLY_PATCH: Final = "application/apply-patch+yaml"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
JSON: Final = "application/json"
PARTIAL: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA: Final = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_LACKING: Final = re.compile(
    r'cannot (?P<verb>\S+) resource "(?P<resource>[^"/]+)(?:/(?P<subresource>[^"]+))?" '
    r'in API group "(?P<group>[^"]*)"(?: in the namespace "(?P<namespace>[^"]+)")?'
)
"""How the API server names a right (apiserver pkg/endpoints/handlers/responsewriters/errors.go)."""
UNREACHED: Final = (aiohttp.ClientError, TimeoutError, OSError)
"""The errors of a call that the API server did not answer."""
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
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
    """The answer is not what was asked for; the message says what is wrong."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(HTTPStatus.OK, "")
        self.args = (f"the answer to {path} cannot be read: {reason}",)


class TooLongError(UnreadableError):
    """An answer is too long to be read."""

    def __init__(self, path: str, most: int = _MOST_BYTES) -> None:
        super().__init__(path, f"it is longer than {most >> 20} MiB")


async def if_there(answer: Awaitable[T]) -> T | None:
    """Await an answer of the API server; None where it has no such thing. Raises as `call` does."""
    try:
        return await answer
    except RefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None


class Rest:
    """Sends requests by path, through a client of the Kubernetes API."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api: Final = api

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return str(self._api.configuration.host)

    @property
    def cluster(self) -> str:
        """What the kubeconfig calls the cluster; "" in a pod."""
        return str(getattr(self._api, "cluster", ""))

    async def get(self, path: str, *, kind: str = "") -> dict[str, Any]:
        """Read an object of this kind, or a discovery document. Raises as `call` does."""
        found = await self.call("GET", path)
        if kind and (
            found.get("kind") != kind or not isinstance(get(found, "metadata", "name"), str)
        ):
            raise UnreadableError(path, f"it is no {kind} with a name")
        return found

    async def list_all(
        self,
        path: str,
        params: Mapping[str, str] = _NOTHING,
        *,
        kind: str = "",
        only_metadata: bool = False,
    ) -> list[dict[str, Any]]:
        """Read every object of a collection, each with its kind, page by page.

        What is nested too deep to decode is null. Raises as `call` does.
        """
        accept = _METADATA if only_metadata else JSON
        return [
            {key: decode_cut(raw) for key, raw in item.items()}
            async for page, _ in self.pages(path, params, kind=kind, accept=accept)
            for item in page.objects
        ]

    async def try_list(self, path: str, params: Mapping[str, str] = _NOTHING, *, kind: str) -> None:
        """Read one object of a collection, to raise at once what `list_all` would."""
        async for _ in self.pages(path, params, kind=kind, most=1):
            return

    async def pages(
        self,
        path: str,
        params: Mapping[str, str] = _NOTHING,
        *,
        kind: str = "",
        accept: str = JSON,
        most: int = PAGE,
    ) -> "AsyncIterator[tuple[Page, frozenset[int]]]":
        """Yield the pages of a list, each with the indexes of its objects that were cut.

        kind  of the objects, where it is known
        most  objects in a page
        Raises as `call` does.
        """
        next_page = ""
        while True:
            asked = {**params, "limit": str(most), "continue": next_page}
            try:
                text = await self.read(path, accept=accept, **asked)
            except TooLongError:
                if most == 1:
                    raise
                most //= 2
                continue
            try:
                page, cut = await decode(path, text, Page)
            except UnreadableError:
                _decoded(path, text)  # says if it is no answer of an API server at all
                raise
            roots = (f"/apis/{page.api_version}/", f"/api/{page.api_version}/")
            if accept == JSON and not path.startswith(roots):
                raise UnreadableError(path, f"it is a list of {page.api_version!r:.80}")
            for item in page.objects:
                metadata_of(path, item, kind)
            yield page, cut
            next_page = page.metadata.next_page
            if not next_page:
                return

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, str] | None = None,
        content_type: str = JSON,
    ) -> dict[str, Any]:
        """Send one request, and return the decoded answer. Raises RefusedError or UNREACHED."""
        async with asyncio.timeout(_SECONDS):
            response = await self._granted(
                method, path, body, params or {}, content_type=content_type
            )
            return _decoded(path, await _content(response, path))

    async def call_raw(
        self, method: str, path: str, body: Any, params: dict[str, str]
    ) -> tuple[int, str, tuple[str, ...]]:
        """Send one request; return its status, the message of a refusal, and warnings.

        Raises UNREACHED.
        """
        async with asyncio.timeout(_SECONDS):
            response = await self._send(method, path, body, params)
            message = await _message(response, path)
        warnings = tuple(map(_warning, response.headers.getall("Warning", ())))
        return response.status, message, warnings

    async def read(self, path: str, *, accept: str = JSON, **params: str) -> bytes:
        """Read a long answer, undecoded. Raises as `call` does."""
        async with asyncio.timeout(_LONG_SECONDS):
            response = await self._granted("GET", path, None, params, accept=accept)
            return await _content(response, path)

    @asynccontextmanager
    async def stream(self, path: str, **params: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """Read an endless answer while the context is entered. Raises as `call` does."""
        async with asyncio.timeout(_SECONDS):
            response = await self._granted("GET", path, None, params)
        try:
            yield response
        finally:
            response.close()

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

    async def _granted(
        self, method: str, path: str, body: Any, params: dict[str, str], **kinds: str
    ) -> aiohttp.ClientResponse:
        response = await self._send(method, path, body, params, **kinds)
        if response.status >= HTTPStatus.BAD_REQUEST:
            message = await _message(response, path) or str(response.reason)
            raise RefusedError(response.status, message)
        return response

    async def _send(
        self,
        method: str,
        path: str,
        body: Any,
        params: dict[str, str],
        *,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> aiohttp.ClientResponse:
        """Send a request, and again as long as it is put off and the deadline is not near."""
        loop = asyncio.get_running_loop()
        end = loop.time() + _SECONDS - 1
        serialized = await self._api.param_serialize(
            method,
            path,
            query_params=list(params.items()),
            header_params={"Accept": accept, "Content-Type": content_type},
            body=body,
            auth_settings=["BearerToken"],
        )
        while True:
            answer = await self._api.call_api(*serialized[:4])
            response: aiohttp.ClientResponse = answer.response
            wait = _put_off(response)
            if wait is None or loop.time() + wait > end:
                return response
            response.release()
            await asyncio.sleep(wait)


async def ask(rest: Rest, kind: str, spec: Mapping[str, Any] | None = None) -> Any:
    """Return the status with which the API server answers a review, such as a TokenReview.

    Raises as `call` does.
    """
    group = f"{'authorization' if kind.endswith('AccessReview') else 'authentication'}.k8s.io"
    review = {"apiVersion": f"{group}/v1", "kind": kind} | ({"spec": spec} if spec else {})
    return (await rest.call("POST", f"/apis/{group}/v1/{kind.lower()}s", review))["status"]


def _put_off(response: aiohttp.ClientResponse) -> float | None:
    """Return the seconds after which the same call is to be sent again; None: it is answered."""
    asks = response.headers.get("Retry-After", "")
    is_passing = response.status == HTTPStatus.TOO_MANY_REQUESTS or response.status >= 500  # noqa: PLR2004
    return float(asks) if is_passing and asks.isascii() and asks.isdecimal() else None


async def _content(response: aiohttp.ClientResponse, path: str) -> bytes:
    """Read an answer to its end; raises TooLongError."""
    found = bytearray()
    async for chunk in response.content.iter_any():
        found += chunk
        if len(found) > _MOST_BYTES:
            response.close()
            raise TooLongError(path)
    return bytes(found)


def _decoded(path: str, content: bytes) -> dict[str, Any]:
    """Decode an answer; raises RefusedError where it is not of an API server."""
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    except RecursionError as error:
        raise UnreadableError(path, "it is nested too deep") from error
    if not isinstance(found, dict) or not found.keys() & _MARKS:
        text = "who answers is no Kubernetes API server: look at `server` in the kubeconfig"
        raise RefusedError(HTTPStatus.OK, text)
    return found


class Metadata(msgspec.Struct, rename="camel"):
    """The metadata that is read of each object."""

    name: str
    resource_version: str = ""
    uid: str = ""


_metadata: Final = msgspec.json.Decoder(Metadata)


class _ListMeta(msgspec.Struct, rename={"version": "resourceVersion", "next_page": "continue"}):
    version: str = ""
    next_page: str = ""


class Page(msgspec.Struct, rename="camel"):
    """A page of a list. The API server leaves the kind out of the items of built-in lists."""

    api_version: str
    kind: str
    metadata: _ListMeta
    items: tuple[Fields, ...] | None

    @property
    def objects(self) -> Iterator[Fields]:
        """Yield each object, undecoded, with its kind."""
        typed = {"apiVersion": self.api_version, "kind": self.kind.removesuffix("List")}
        return (fields_of(typed) | item for item in self.items or ())


def metadata_of(path: str, found: Fields, kind: str = "") -> Metadata:
    """Return the metadata of an object; raises UnreadableError for another kind, or no name."""
    if kind and decode_cut(found.get("kind", b"null")) != kind:
        raise UnreadableError(path, f"it has an object that is no {kind}")
    try:
        return _metadata.decode(found.get("metadata", b"{}"))
    except msgspec.MsgspecError as error:
        raise UnreadableError(path, f"an object has bad metadata: {error}") from error


async def decode(path: str, text: bytes | msgspec.Raw, form: type[T]) -> tuple[T, frozenset[int]]:
    """Decode a page or an event; return the indexes of its objects that were cut, too.

    What is nested too deep is null. Raises UnreadableError.
    """
    try:
        try:
            return msgspec.json.decode(text, type=form), frozenset()
        except RecursionError:
            cut = await in_thread(cut_deep, bytes(text))
            return msgspec.json.decode(cut.text, type=form), cut.items
    except msgspec.MsgspecError as error:
        raise UnreadableError(path, str(error)) from error


def unreached(error: BaseException) -> str:
    """Say who does not answer, why, and what to look at; `error` is one of UNREACHED."""
    why = str(error) or type(error).__name__
    look = ": is the cluster there, and `server` in the kubeconfig right?"
    return f"not reached: {why}{look if isinstance(error, aiohttp.ClientError) else ''}"


def _warning(header: str) -> str:
    """Return the text of `299 - "text"`; apimachinery pkg/util/net/http.go:NewWarningHeader."""
    _, _, quoted = header.partition('"')
    return re.sub(r"\\(.)", r"\1", quoted.rpartition('"')[0])


async def _message(response: aiohttp.ClientResponse, path: str) -> str:
    """Return the message of a metav1.Status, "" for anything else."""
    try:
        status = msgspec.json.decode(await _content(response, path))
    except msgspec.DecodeError:
        return ""
    return str(status.get("message", "")) if isinstance(status, dict) else ""
