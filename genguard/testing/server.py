"""The HTTP side of the fake API server: paths, discovery, lists, watches and bodies."""

import contextlib
import itertools
import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import yaml

from genguard.testing.cluster import Cluster
from genguard.testing.patches import APPLY_PATCH
from genguard.testing.preparing import Document
from genguard.testing.refusals import (
    RequestRefusedError,
    bad_request,
    no_such_path,
    not_allowed,
    not_implemented,
)
from genguard.testing.resources import Resource
from genguard.testing.selecting import Match, parse_selectors
from genguard.testing.writes import Answer, Call, Event, Target

_LARGEST_BODY: Final = 3 * 1024 * 1024
"""As of a real API server."""
_PIECE: Final = 64 * 1024
_LONGEST_LINE: Final = 8 * 1024
_BOOKMARK_SECONDS: Final = 1.0
_LONGEST_WATCH: Final = 3_600.0
_STOP_SECONDS: Final = 0.02
"""How soon the thread that accepts connections sees that it must end."""
_LAST_SECONDS: Final = 0.1
"""What a client has to read the end of its answer, when the server stops."""
_ACCESS: Final = frozenset({"selfsubjectaccessreviews", "subjectaccessreviews"})
_HEALTH: Final = frozenset({"healthz", "readyz", "livez"})
_NOT_IMITATED: Final = frozenset({"log", "exec", "attach", "token", "proxy"})
_BEARER: Final = "Bearer "
_INITIAL_END: Final = "k8s.io/initial-events-end"
_JSON: Final = "application/json; charset=utf-8"
_TEXT: Final = "text/plain; charset=utf-8"

_Shown = tuple[str, Document]
"""What a watch sends: the type of an event, and an object."""


class HttpServer(ThreadingTCPServer):
    """Serves a Cluster on a port of 127.0.0.1, with a thread for each connection.

    It is no ThreadingHTTPServer: that one looks up the name of the host, which can take seconds.
    """

    request_queue_size = 128

    def __init__(self, cluster: Cluster, user: str) -> None:
        """Open the port; `user` is who writes where a request does not say it."""
        super().__init__(("127.0.0.1", 0), _Connection)
        self.cluster: Final = cluster
        self.user: Final = user
        self._connections: list[tuple[socket.socket, threading.Thread]] = []
        self._thread: Final = threading.Thread(
            target=self.serve_forever, args=(_STOP_SECONDS,), name="fake-api", daemon=True
        )
        self._thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread for which stop() can wait."""
        thread = threading.Thread(
            target=self.process_request_thread,
            args=(request, client_address),
            name="fake-api connection",
            daemon=True,
        )
        self._connections = [
            connection for connection in self._connections if connection[1].is_alive()
        ]
        thread.start()
        self._connections.append((request, thread))

    def stop(self) -> None:
        """End watches, close the port and every connection, and wait for the threads."""
        self.shutdown()
        self._thread.join()
        self.server_close()
        self.cluster.close()
        for connection, _ in self._connections:
            _end(connection, socket.SHUT_RD)  # requests end, and answers are sent
        for connection, thread in self._connections:
            thread.join(_LAST_SECONDS)
            _end(connection, socket.SHUT_RDWR)  # of a client that does not read its answer
            thread.join()


def _end(connection: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):  # it has ended already
        connection.shutdown(how)


class _Connection(BaseHTTPRequestHandler):
    """The requests of one connection, one after another."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: HttpServer

    def handle(self) -> None:
        """Answer requests until the client leaves or the server stops."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def log_message(self, *_: object) -> None:
        """Write no access log."""

    def answer(self) -> None:
        """Answer one request."""
        try:
            content = self._read_body()
        except ValueError:
            self.send_error(400, "the length of the body cannot be read")
            return
        try:
            found = self._route(content)
        except RequestRefusedError as error:
            self._send(error.status, error.body)
        except Exception as error:
            self.close_connection = True
            self._send(500, RequestRefusedError(500, "InternalError", repr(error)).body)
            raise
        else:
            match found:
                case str():
                    self._send(200, found)
                case Answer():
                    self._send(*found)
                case _:
                    self._send_events(found)
        self.close_connection |= self.server.cluster.is_closed

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = answer  # noqa: N815 - names of http.server
    do_DELETE = do_OPTIONS = do_TRACE = answer  # noqa: N815

    def _read_body(self) -> bytes:
        """Return the body; of one that is too large, one byte more than is allowed."""
        content = bytearray()
        for piece in self._pieces():
            content += piece[: _LARGEST_BODY + 1 - len(content)]
        return bytes(content)

    def _pieces(self) -> Iterator[bytes]:
        """Yield the body as it comes. Raise ValueError where its length cannot be read."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            yield from self._take(int(self.headers.get("Content-Length", "0")))
            return
        while size := int(self.rfile.readline(_LONGEST_LINE).partition(b";")[0], 16):
            yield from self._take(size)
            self.rfile.readline(_LONGEST_LINE)
        while self.rfile.readline(_LONGEST_LINE).strip():
            continue  # headers that stand behind the body

    def _take(self, size: int) -> Iterator[bytes]:
        while size > 0:
            piece = self.rfile.read(min(size, _PIECE))
            if not piece:
                raise ConnectionError("the body has no end")
            size -= len(piece)
            yield piece

    def _send(self, status: int, body: Document | str, warnings: Iterable[str] = ()) -> None:
        content = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", _TEXT if isinstance(body, str) else _JSON)
        self.send_header("Content-Length", str(len(content)))
        for text in warnings:
            self.send_header("Warning", f'299 - "{_quoted(text)}"')
        self._end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _end_headers(self) -> None:
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def _send_events(self, batches: Iterator[list[_Shown]]) -> None:
        """Answer a watch: one line for each event, in chunks where the client knows them."""
        chunked = self.request_version != "HTTP/1.0"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.close_connection = True
        self._end_headers()
        for batch in filter(None, batches):
            lines = [json.dumps({"type": kind, "object": shown}) + "\n" for kind, shown in batch]
            text = "".join(lines).encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(text), text) if chunked else text)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _route(self, content: bytes) -> Answer | str | Iterator[list[_Shown]]:
        """Return the answer, or what a watch sends. Raise RequestRefusedError."""
        path, _, query = self.path.partition("?")
        parts = [part for part in unquote(path).split("/") if part]
        if parts and parts[0] in _HEALTH:
            return "ok"
        found = self._discover(parts)
        if found is not None:
            return Answer(200, found)
        target, params = self._target(parts), _Params(query)
        if self.command != "GET":
            return self._write(target, params, self._decode(content))
        if target.name:
            return Answer(200, self.server.cluster.get(target))
        if params.is_set("watch"):
            return self._watch(target, params)
        return Answer(200, self._list(target, params))

    def _decode(self, content: bytes) -> Any:
        if len(content) > _LARGEST_BODY:
            message = f"Maximum request body size {_LARGEST_BODY} exceeded."
            raise RequestRefusedError(413, "RequestEntityTooLarge", message)
        try:
            if "yaml" in self.headers.get_content_type():
                return yaml.safe_load(content)
            return json.loads(content) if content else None
        except (ValueError, yaml.YAMLError) as error:
            raise bad_request(f"the body of the request cannot be decoded: {error}") from error

    # What does not depend on objects.

    def _discover(self, parts: list[str]) -> Document | None:
        """Return the answer to a path that names no object; None for one that does."""
        match parts:
            case ["version"]:
                return self._version()
            case ["api"]:
                return {"kind": "APIVersions", "versions": ["v1"]}
            case ["apis"]:
                names = self.server.cluster.catalogue.groups()
                groups = [self._group(name) for name in names if name]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["apis", group]:
                return {**self._group(group), "kind": "APIGroup", "apiVersion": "v1"}
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group, version]:
                return self._resources(group, version)
            case ["api" | "apis", *_]:
                return None
        raise no_such_path()

    def _version(self) -> dict[str, str]:
        major, minor = self.server.cluster.server_version.removeprefix("v").split(".")[:2]
        git = f"v{major}.{minor.rstrip('+')}.0"
        return {"major": major, "minor": minor, "gitVersion": git, "platform": "fake/genguard"}

    def _group(self, name: str) -> Document:
        versions = self.server.cluster.catalogue.groups().get(name)
        if not versions:
            raise no_such_path()
        found = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
        return {"name": name, "versions": found, "preferredVersion": found[0]}

    def _resources(self, group: str, version: str) -> Document:
        found = [
            entry
            for resource in self.server.cluster.catalogue
            if (resource.group, resource.version) == (group, version)
            for entry in resource.discovered()
        ]
        if not found:
            raise no_such_path()
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": found,
        }

    def _target(self, parts: list[str]) -> Target:
        """Read a path such as /apis/apps/v1/namespaces/shop/deployments/web/status."""
        group, version, rest = (
            ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
        )
        namespace = ""
        match rest:
            case ["namespaces", _, "status" | "finalize"]:
                pass  # of the namespace itself
            case ["namespaces", space, *inside] if inside:
                namespace, rest = space, inside
        resource = self.server.cluster.catalogue.find(group, version, rest[0])
        name = rest[1] if len(rest) > 1 else ""
        subresource = "/".join(rest[2:])
        if resource is None or (name and resource.namespaced is not bool(namespace)):
            raise no_such_path()
        if subresource and subresource not in resource.subresources:
            if not resource.is_custom and subresource in _NOT_IMITATED:
                raise not_implemented(f"{resource.name}/{subresource}")
            raise no_such_path()
        return Target(resource, namespace, name, subresource)

    # Objects.

    def _list(self, target: Target, params: "_Params") -> Document:
        matches = params.matches(target.resource)
        with self.server.cluster.lock:
            version = self.server.cluster.version
            found = self.server.cluster.select(target.resource, target.namespace)
        found = [document for document in found if matches(document)]
        metadata: Document = {"resourceVersion": str(version)}
        begin, limit = params.number("continue"), params.number("limit")
        if limit and len(found) > begin + limit:
            metadata["continue"] = str(begin + limit)
            metadata["remainingItemCount"] = len(found) - begin - limit
        found = found[begin : begin + limit] if limit else found[begin:]
        for document in found:  # the items of a list have no type of their own
            document.pop("kind")
            document.pop("apiVersion")
        resource = target.resource
        return {
            "kind": resource.list_kind,
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "items": found,
        }

    def _write(self, target: Target, params: "_Params", body: Any) -> Answer:
        call, cluster = self._call(params), self.server.cluster
        match self.command:
            case "POST" if not target.name or target.subresource:
                if not target.resource.persisted:
                    return _review_access(target.resource, body)
                if target.resource.namespaced and not target.namespace:
                    raise not_allowed("give a namespace")
                return cluster.create(target, body, call)
            case "PUT" if target.name:
                return cluster.update(target, body, call)
            case "PATCH" if target.name:
                return cluster.patch(target, body, self.headers.get_content_type(), call)
            case "DELETE" if target.name:
                return cluster.delete(target, {**params.delete_options, **(body or {})}, call)
            case "DELETE":
                return self._delete_all(target, params, body or {}, call)
        raise not_allowed("the server does not allow this method on the requested resource")

    def _delete_all(
        self, target: Target, params: "_Params", options: Mapping[str, Any], call: Call
    ) -> Answer:
        matches = params.matches(target.resource)
        with self.server.cluster.lock:
            found = self.server.cluster.select(target.resource, target.namespace)
            for document in filter(matches, found):
                metadata = document["metadata"]
                each = target._replace(
                    namespace=metadata.get("namespace", ""), name=metadata["name"]
                )
                self.server.cluster.delete(each, {**params.delete_options, **options}, call)
        return Answer(200, self._list(target, params))

    def _call(self, params: "_Params") -> Call:
        user = self.headers.get("Impersonate-User", "")
        given = self.headers.get("Authorization", "")
        if not user and given.startswith(_BEARER):
            user = given.removeprefix(_BEARER)
        agent = self.headers.get("User-Agent", "unknown").partition("/")[0][:128]
        is_applied = self.headers.get_content_type() == APPLY_PATCH
        return Call(
            user or self.server.user,
            params.text("fieldManager") or ("" if is_applied else agent),
            params.text("dryRun") == "All",
            params.text("fieldValidation") or "Warn",
            params.is_set("force") if params.text("force") else None,
        )

    # Watches.

    def _watch(self, target: Target, params: "_Params") -> Iterator[list[_Shown]]:
        """Return what a watch sends. Raise RequestRefusedError for one that cannot begin."""
        cluster = self.server.cluster
        matches = params.matches(target.resource)
        seconds = params.number("timeoutSeconds") or _LONGEST_WATCH
        sends_first = params.is_set("sendInitialEvents")
        given = params.text("resourceVersion")
        if given and not given.isdecimal():
            raise bad_request(f"invalid resource version: {given!r}")
        with cluster.lock:
            first: list[Document] = []
            version = int(given or 0)
            if sends_first or not version:
                first = cluster.select(target.resource, target.namespace)
                version = cluster.version
            cluster.events_since(version)  # refuses one that is too old
        sent = [("ADDED", document) for document in first if matches(document)]
        marks = params.is_set("allowWatchBookmarks")
        if sends_first and marks:
            marked = _bookmark(target.resource, version)
            marked["metadata"]["annotations"] = {_INITIAL_END: "true"}
            sent.append(("BOOKMARK", marked))
        streamed = self._stream(target, version, matches, seconds, marks=marks)
        return itertools.chain([sent], streamed)

    def _stream(
        self, target: Target, version: int, matches: Match, seconds: float, *, marks: bool
    ) -> Iterator[list[_Shown]]:
        """Yield changes until the time of the watch is over or the server stops."""
        cluster = self.server.cluster
        left, end, marked = seconds, time.monotonic() + seconds, version
        while left > 0 and not cluster.is_closed:
            try:
                events = cluster.events_since(version, wait=min(left, _BOOKMARK_SECONDS))
            except RequestRefusedError as error:
                yield [("ERROR", error.body)]
                return
            yield [shown for event in events for shown in _seen(event, target, matches)]
            if events:
                version = events[-1].version
            elif marks and marked != version:
                marked = version
                yield [("BOOKMARK", _bookmark(target.resource, version))]
            left = end - time.monotonic()


class _Params:
    """The query of a request."""

    def __init__(self, query: str) -> None:
        self._given: Final = parse_qs(query, keep_blank_values=True)

    def text(self, name: str) -> str:
        return self._given.get(name, [""])[-1]

    def is_set(self, name: str) -> bool:
        return self.text(name).lower() in ("true", "1")

    def number(self, name: str) -> int:
        text = self.text(name) or "0"
        if not text.isdecimal():
            raise bad_request(f"{name} must be a number: {text!r}")
        return int(text)

    @property
    def delete_options(self) -> Document:
        """Options of a delete that stand in the query."""
        found: Document = {}
        if self.text("gracePeriodSeconds"):
            found["gracePeriodSeconds"] = self.number("gracePeriodSeconds")
        if self.text("propagationPolicy"):
            found["propagationPolicy"] = self.text("propagationPolicy")
        return found

    def matches(self, resource: Resource) -> Match:
        return parse_selectors(resource, self.text("labelSelector"), self.text("fieldSelector"))


def _review_access(resource: Resource, body: Any) -> Answer:
    """Allow everything: the fake has no authorization."""
    if resource.plural not in _ACCESS or not isinstance(body, dict):
        raise not_implemented(f"a POST to {resource.name}")
    kind = {"kind": resource.kind, "apiVersion": resource.api_version}
    return Answer(201, {**kind, **body, "status": {"allowed": True}})


def _seen(event: Event, target: Target, matches: Match) -> list[_Shown]:
    """Return what a watch is told: an object that is selected no longer is deleted to it."""
    changed = event.target
    if changed.resource.key != target.resource.key:
        return []
    if target.namespace and changed.namespace != target.namespace:
        return []
    was = event.before is not None and matches(event.before)
    is_selected = matches(event.object) and event.type != "DELETED"
    if not (was or is_selected):
        return []
    kind = "MODIFIED" if was and is_selected else ("ADDED" if is_selected else "DELETED")
    shown = {**event.object, "apiVersion": target.resource.api_version}
    return [(kind, shown)]


def _bookmark(resource: Resource, version: int) -> Document:
    metadata: Document = {"resourceVersion": str(version), "creationTimestamp": None}
    return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}


def _quoted(text: str) -> str:
    """Return a text as a header has it: in one line, and UTF-8 that is taken for Latin-1."""
    line = " ".join(text.splitlines()).replace("\\", "\\\\").replace('"', '\\"')
    return line.encode().decode("latin-1")
