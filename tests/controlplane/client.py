"""A small synchronous JSON client of the API server, for tests that look at the raw wire."""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from tests.controlplane.discovery import ServedResource, parse_resources
from tests.waiting import PATIENCE

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_POD_NAME = "Impersonate-Extra-authentication.kubernetes.io%2Fpod-name"

Params = Mapping[str, str | int | bool]
T = TypeVar("T")


class Response(NamedTuple):
    """An HTTP status and the parsed body: JSON, or text where the server sent none."""

    status: int
    body: Any


class WatchEvent(NamedTuple):
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and its object."""

    type: str
    object: Any


class ApiError(Exception):
    """The API server refused a request; `status`, `reason` and `body` say how."""

    def __init__(self, method: str, path: str, response: Response) -> None:
        self.status = response.status
        self.body = response.body
        known = response.body if isinstance(response.body, dict) else {}
        self.reason: str = known.get("reason", "")
        self.message: str = known.get("message", str(response.body))
        super().__init__(f"{method} {path}: {self.status} {self.reason}: {self.message}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the API server listens, whose signature it has (PEM) and the token to show it."""

    host: str
    port: int
    ca: str
    token: str


@dataclass(frozen=True, slots=True)
class User:
    """Whom to impersonate, and from which pod; the token's own user must be allowed to."""

    name: str
    groups: tuple[str, ...] = ()
    pod: str = ""


class _Connection(http.client.HTTPSConnection):
    """Closes itself when the thread that kept it is gone; otherwise that is a ResourceWarning."""

    def __del__(self) -> None:
        self.close()


class Client:
    """Thread-safe: every thread keeps one connection alive."""

    def __init__(self, endpoint: Endpoint, user: User | None = None) -> None:
        self._endpoint = endpoint
        self._user = user
        self._tls = ssl.create_default_context(cadata=endpoint.ca)
        self._local = threading.local()

    @property
    def port(self) -> int:
        """Where the API server listens."""
        return self._endpoint.port

    def as_user(self, name: str, groups: Sequence[str] = (), pod: str = "") -> "Client":
        """The same API server, seen by another user; connections are shared."""
        other = Client(self._endpoint, User(name, tuple(groups), pod))
        other._local = self._local
        return other

    def get(self, path: str, *, params: Params | None = None, check: bool = True) -> Response:
        """Reads an object, a list or any other path."""
        return self.request("GET", path, params=params, check=check)

    def post(
        self, path: str, body: Any, *, params: Params | None = None, check: bool = True
    ) -> Response:
        """Creates an object."""
        return self.request("POST", path, body, params=params, check=check)

    def put(
        self, path: str, body: Any, *, params: Params | None = None, check: bool = True
    ) -> Response:
        """Replaces an object."""
        return self.request("PUT", path, body, params=params, check=check)

    def patch(
        self,
        path: str,
        body: Any,
        *,
        content_type: str | None = None,
        params: Params | None = None,
        check: bool = True,
    ) -> Response:
        """Patches an object; a list is a JSON Patch and a mapping a merge patch unless told."""
        kind = content_type or (JSON_PATCH if isinstance(body, list) else MERGE_PATCH)
        return self.request("PATCH", path, body, content_type=kind, params=params, check=check)

    def delete(
        self, path: str, body: Any = None, *, params: Params | None = None, check: bool = True
    ) -> Response:
        """Deletes an object; the body is a DeleteOptions."""
        return self.request("DELETE", path, body, params=params, check=check)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        params: Params | None = None,
        check: bool = True,
    ) -> Response:
        """Sends one request; `check` turns a status of 400 and above into ApiError."""
        # Compact, as Go clients write: in RawExtension fields spaces would count as a change.
        content = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        raw = self._exchange(method, _target(path, params), content, content_type)
        response = Response(raw.status, _parsed(raw, raw.read()))
        if check and response.status >= 400:
            raise ApiError(method, path, response)
        return response

    def discover(self) -> tuple[ServedResource, ...]:
        """Every resource served, each version on its own, with its subresources."""
        groups = self.get("/apis").body["groups"]
        versions = [version["groupVersion"] for group in groups for version in group["versions"]]
        lists = [self.get("/api/v1").body] + [self.get(f"/apis/{v}").body for v in versions]
        return tuple(resource for each in lists for resource in parse_resources(each))

    def watch(
        self, path: str, *, params: Params | None = None, timeout: float = 30.0
    ) -> Generator[WatchEvent, None, None]:
        """Yields the events of a collection until the timeout; closing the generator ends it."""
        asked = {**(params or {}), "watch": True, "timeoutSeconds": max(1, round(timeout))}
        connection = self._connect(timeout + 5)
        try:
            raw = self._send(connection, "GET", _target(path, asked), None, JSON)
            if raw.status >= 400:
                raise ApiError("GET", path, Response(raw.status, _parsed(raw, raw.read())))
            for line in raw:
                event = json.loads(line)
                yield WatchEvent(event["type"], event["object"])
        finally:
            connection.close()

    def close(self) -> None:
        """Closes the connection of the calling thread."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _exchange(
        self, method: str, target: str, content: bytes | None, content_type: str
    ) -> http.client.HTTPResponse:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            try:
                return self._send(connection, method, target, content, content_type)
            except (ConnectionError, ssl.SSLEOFError, http.client.HTTPException):
                # The server may close an idle connection at any time; a new one tells for sure.
                connection.close()
        connection = self._local.connection = self._connect(120.0)
        return self._send(connection, method, target, content, content_type)

    def _send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        target: str,
        content: bytes | None,
        content_type: str,
    ) -> http.client.HTTPResponse:
        connection.putrequest(method, target, skip_accept_encoding=True)
        connection.putheader("Authorization", f"Bearer {self._endpoint.token}")
        connection.putheader("Accept", JSON)
        connection.putheader("User-Agent", "genguard-tests")
        if self._user is not None:
            connection.putheader("Impersonate-User", self._user.name)
            for group in self._user.groups:
                connection.putheader("Impersonate-Group", group)
            if self._user.pod:
                connection.putheader(_POD_NAME, self._user.pod)
        if content is not None:
            connection.putheader("Content-Type", content_type)
            connection.putheader("Content-Length", str(len(content)))
        connection.endheaders(content)
        return connection.getresponse()

    def _connect(self, timeout: float) -> http.client.HTTPSConnection:
        at = self._endpoint
        return _Connection(at.host, at.port, timeout=timeout, context=self._tls)


def wait_until(
    ready: Callable[[], T | None], timeout: float = PATIENCE, *, every: float = 0.05, what: str = ""
) -> T:
    """Calls until the answer is true and returns it; refusals and failed asserts mean not yet."""
    end = time.monotonic() + timeout
    while True:
        last: object
        try:
            last = answer = ready()
            if answer:
                return answer
        except (ApiError, AssertionError) as error:
            last = error
        if time.monotonic() >= end:
            raise TimeoutError(f"{what or ready} not true within {timeout:g} s; last: {last!r}")
        time.sleep(every)


def _target(path: str, params: Params | None) -> str:
    if not params:
        return path
    texts = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in params.items()}
    return f"{path}?{urlencode(texts)}"


def _parsed(raw: http.client.HTTPResponse, content: bytes) -> Any:
    if raw.headers.get_content_type() == JSON:
        return json.loads(content)
    return content.decode(errors="replace")
