"""The HTTP side of the fake API server: paths, discovery, lists, watches and bodies."""

import asyncio
import json
import threading
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs

import yaml
from aiohttp import web

from genguard.testing.cluster import Answer, Call, Cluster, Event, Place
from genguard.testing.patches import APPLY_PATCH
from genguard.testing.refusals import (
    RequestRefusedError,
    bad_request,
    no_such_path,
    not_implemented,
)
from genguard.testing.resources import Resource
from genguard.testing.selecting import Match, parse_selectors

_LARGEST_BODY: Final = 3 * 1024 * 1024
"""As of a real API server."""
_BOOKMARK_SECONDS: Final = 1.0
_LONGEST_WATCH: Final = 3_600.0
_START_SECONDS: Final = 10.0
_ACCESS: Final = frozenset({"selfsubjectaccessreviews", "subjectaccessreviews"})
_BEARER: Final = "Bearer "
_INITIAL_END: Final = "k8s.io/initial-events-end"


class HttpServer:
    """Serves a Cluster on a port of 127.0.0.1, in a thread of its own."""

    def __init__(self, cluster: Cluster, user: str) -> None:
        """`user` is who writes where a request does not say it."""
        self._cluster: Final = cluster
        self._user: Final = user
        self._thread: Final = threading.Thread(target=self._run, name="fake-api", daemon=True)
        self._started: Final = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._changed: asyncio.Event | None = None
        self.port = 0

    def start(self) -> None:
        """Return once the port is open."""
        self._thread.start()
        if not self._started.wait(_START_SECONDS):
            raise RuntimeError("the fake API server did not start")

    def stop(self) -> None:
        """End watches, close the port and wait for the thread."""
        if self._thread.is_alive() and self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping, self._changed = asyncio.Event(), asyncio.Event()
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        self._cluster.listeners.append(self._wake)
        self._started.set()
        try:
            await self._stopping.wait()
        finally:
            self._cluster.listeners.remove(self._wake)
            self._notice()
            await runner.cleanup()

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._notice)

    def _notice(self) -> None:
        """Wake every watch; those that begin to wait after it wait for the next change."""
        changed, self._changed = self._changed, asyncio.Event()
        if changed is not None:
            changed.set()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._route(request)
        except RequestRefusedError as error:
            return web.json_response(error.body, status=error.status)

    async def _route(self, request: web.Request) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        found = self._fixed(parts)
        if found is not None:
            return found
        place = self._place(parts)
        params = _Params(request)
        if request.method == "GET" and not place.name:
            if params.is_set("watch"):
                return await self._watch(request, place, params)
            return web.json_response(self._list(place, params))
        if request.method == "GET":
            return web.json_response(self._get(place))
        body = await _read_body(request)
        answer = self._write(request, place, params, body)
        headers = [("Warning", f'299 - "{_quoted(text)}"') for text in answer.warnings]
        return web.Response(
            status=answer.status,
            text=json.dumps(answer.body),
            content_type="application/json",
            headers=headers,
        )

    # What does not depend on objects.

    def _fixed(self, parts: list[str]) -> web.Response | None:
        """Return the answer to a path that names no object; None for one that does."""
        match parts:
            case ["healthz" | "readyz" | "livez", *_]:
                return web.Response(text="ok")
            case ["version"]:
                found: dict[str, Any] = self._version()
            case ["api"]:
                found = {"kind": "APIVersions", "versions": ["v1"]}
            case ["apis"]:
                groups = [self._group(name) for name in self._cluster.catalogue.groups() if name]
                found = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["apis", group]:
                found = {**self._group(group), "kind": "APIGroup", "apiVersion": "v1"}
            case ["api", version]:
                found = self._resources("", version)
            case ["apis", group, version]:
                found = self._resources(group, version)
            case ["api" | "apis", *_]:
                return None
            case _:
                raise no_such_path()
        return web.json_response(found)

    def _version(self) -> dict[str, str]:
        major, minor = self._cluster.server_version.removeprefix("v").split(".")[:2]
        git = f"v{major}.{minor.rstrip('+')}.0"
        return {"major": major, "minor": minor, "gitVersion": git, "platform": "fake/genguard"}

    def _group(self, name: str) -> dict[str, Any]:
        versions = self._cluster.catalogue.groups().get(name)
        if not versions:
            raise no_such_path()
        found = [{"groupVersion": f"{name}/{one}", "version": one} for one in versions]
        return {"name": name, "versions": found, "preferredVersion": found[0]}

    def _resources(self, group: str, version: str) -> dict[str, Any]:
        found = [
            entry
            for one in self._cluster.catalogue
            if (one.group, one.version) == (group, version)
            for entry in one.discovered()
        ]
        if not found:
            raise no_such_path()
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": found,
        }

    def _place(self, parts: list[str]) -> Place:
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
        resource = self._cluster.catalogue.find(group, version, rest[0])
        name = rest[1] if len(rest) > 1 else ""
        subresource = "/".join(rest[2:])
        if resource is None or (name and resource.namespaced is not bool(namespace)):
            raise no_such_path()
        if subresource and subresource not in resource.subresources:
            if not resource.is_custom and subresource in (
                "log",
                "exec",
                "attach",
                "token",
                "proxy",
            ):
                raise not_implemented(f"{resource.name}/{subresource}")
            raise no_such_path()
        return Place(resource, namespace, name, subresource)

    # Objects.

    def _get(self, place: Place) -> dict[str, Any]:
        return self._cluster.get(place)

    def _list(self, place: Place, params: "_Params") -> dict[str, Any]:
        matches = params.matches(place.resource)
        with self._cluster.lock:
            version = self._cluster.version
            found = self._cluster.select(place.resource, place.namespace)
        found = [one for one in found if matches(one)]
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        begin, limit = params.position, params.limit
        if limit and len(found) > begin + limit:
            metadata["continue"] = str(begin + limit)
            metadata["remainingItemCount"] = len(found) - begin - limit
        found = found[begin : begin + limit] if limit else found[begin:]
        for one in found:  # the items of a list have no type of their own
            one.pop("kind")
            one.pop("apiVersion")
        resource = place.resource
        return {
            "kind": resource.list_kind,
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "items": found,
        }

    def _write(self, request: web.Request, place: Place, params: "_Params", body: Any) -> Answer:
        call = self._call(request, params)
        cluster = self._cluster
        match request.method:
            case "POST" if not place.name or place.subresource:
                if not place.resource.persisted:
                    return _review_access(place.resource, body)
                if place.resource.namespaced and not place.namespace:
                    raise RequestRefusedError(405, "MethodNotAllowed", "give a namespace")
                return cluster.create(place, body, call)
            case "PUT" if place.name:
                return cluster.update(place, body, call)
            case "PATCH" if place.name:
                return cluster.patch(place, body, request.content_type, call)
            case "DELETE" if place.name:
                return cluster.delete(place, {**params.delete_options, **(body or {})}, call)
            case "DELETE":
                return self._delete_all(place, params, body or {}, call)
        message = "the server does not allow this method on the requested resource"
        raise RequestRefusedError(405, "MethodNotAllowed", message)

    def _delete_all(
        self, place: Place, params: "_Params", options: Mapping[str, Any], call: Call
    ) -> Answer:
        matches = params.matches(place.resource)
        with self._cluster.lock:
            found = self._cluster.select(place.resource, place.namespace)
            for one in filter(matches, found):
                metadata = one["metadata"]
                each = place._replace(
                    namespace=metadata.get("namespace", ""), name=metadata["name"]
                )
                self._cluster.delete(each, {**params.delete_options, **options}, call)
        return Answer(200, self._list(place, params))

    def _call(self, request: web.Request, params: "_Params") -> Call:
        user = request.headers.get("Impersonate-User", "")
        given = request.headers.get("Authorization", "")
        if not user and given.startswith(_BEARER):
            user = given.removeprefix(_BEARER)
        agent = request.headers.get("User-Agent", "unknown").partition("/")[0][:128]
        is_applied = request.content_type == APPLY_PATCH
        return Call(
            user or self._user,
            params.text("fieldManager") or ("" if is_applied else agent),
            params.text("dryRun") == "All",
            params.text("fieldValidation") or "Warn",
            params.is_set("force") if params.text("force") else None,
        )

    # Watches.

    async def _watch(
        self, request: web.Request, place: Place, params: "_Params"
    ) -> web.StreamResponse:
        matches = params.matches(place.resource)
        sends_first = params.is_set("sendInitialEvents")
        with self._cluster.lock:
            given = params.text("resourceVersion")
            if given and not given.isdecimal():
                raise bad_request(f"invalid resource version: {given!r}")
            first = []
            version = int(given or 0)
            if sends_first or not version:
                first = self._cluster.select(place.resource, place.namespace)
                version = self._cluster.version
            self._cluster.events_since(version)  # refuses one that is too old
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        sent = [("ADDED", one) for one in first if matches(one)]
        if sends_first and params.is_set("allowWatchBookmarks"):
            marked = _bookmark(place.resource, version)
            marked["metadata"]["annotations"] = {_INITIAL_END: "true"}
            sent.append(("BOOKMARK", marked))
        await _send(response, sent)
        await self._follow(response, place, version, matches, params)
        return response

    async def _follow(
        self,
        response: web.StreamResponse,
        place: Place,
        version: int,
        matches: Match,
        params: "_Params",
    ) -> None:
        """Send changes until the time of the watch is over, the client leaves or the test ends."""
        end = time.monotonic() + params.seconds
        marks = params.is_set("allowWatchBookmarks")
        marked = version
        while self._stopping is not None and not self._stopping.is_set():
            changed = self._changed
            try:
                events = self._cluster.events_since(version)
            except RequestRefusedError as error:
                await _send(response, [("ERROR", error.body)])
                return
            shown = [one for event in events for one in _seen(event, place, matches)]
            await _send(response, shown)
            version = events[-1].version if events else version
            left = end - time.monotonic()
            if left <= 0:
                return
            if events or changed is None:
                continue
            try:
                await asyncio.wait_for(changed.wait(), min(left, _BOOKMARK_SECONDS))
            except TimeoutError:
                if marks and marked != version:
                    marked = version
                    await _send(response, [("BOOKMARK", _bookmark(place.resource, version))])


class _Params:
    """The query of a request."""

    def __init__(self, request: web.Request) -> None:
        self._given: Final = parse_qs(request.query_string, keep_blank_values=True)

    def text(self, name: str) -> str:
        return self._given.get(name, [""])[-1]

    def is_set(self, name: str) -> bool:
        return self.text(name).lower() in ("true", "1")

    def _number(self, name: str) -> int:
        text = self.text(name) or "0"
        if not text.isdecimal():
            raise bad_request(f"{name} must be a number: {text!r}")
        return int(text)

    @property
    def limit(self) -> int:
        return self._number("limit")

    @property
    def position(self) -> int:
        return self._number("continue")

    @property
    def seconds(self) -> float:
        return float(self._number("timeoutSeconds")) or _LONGEST_WATCH

    @property
    def delete_options(self) -> dict[str, Any]:
        """Options of a delete that stand in the query."""
        found: dict[str, Any] = {}
        if self.text("gracePeriodSeconds"):
            found["gracePeriodSeconds"] = self._number("gracePeriodSeconds")
        if self.text("propagationPolicy"):
            found["propagationPolicy"] = self.text("propagationPolicy")
        return found

    def matches(self, resource: Resource) -> Match:
        return parse_selectors(resource, self.text("labelSelector"), self.text("fieldSelector"))


async def _read_body(request: web.Request) -> Any:
    content = await request.read()
    if not content:
        return None
    try:
        if "yaml" in request.content_type:
            return yaml.safe_load(content)
        return json.loads(content)
    except (ValueError, yaml.YAMLError) as error:
        raise bad_request(f"the body of the request cannot be decoded: {error}") from error


def _review_access(resource: Resource, body: Any) -> Answer:
    """Allow everything: the fake has no authorization."""
    if resource.plural not in _ACCESS or not isinstance(body, dict):
        raise not_implemented(f"a POST to {resource.name}")
    kind = {"kind": resource.kind, "apiVersion": resource.api_version}
    return Answer(201, {**kind, **body, "status": {"allowed": True}})


def _seen(event: Event, place: Place, matches: Match) -> list[tuple[str, dict[str, Any]]]:
    """Return what a watch is told: an object that is selected no longer is deleted to it."""
    told = event.place
    if told.resource.key != place.resource.key:
        return []
    if place.namespace and told.namespace != place.namespace:
        return []
    was = event.before is not None and matches(event.before)
    is_selected = matches(event.object) and event.type != "DELETED"
    if not (was or is_selected):
        return []
    kind = "MODIFIED" if was and is_selected else ("ADDED" if is_selected else "DELETED")
    shown = {**event.object, "apiVersion": place.resource.api_version}
    return [(kind, shown)]


def _bookmark(resource: Resource, version: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
    return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}


async def _send(response: web.StreamResponse, events: list[tuple[str, dict[str, Any]]]) -> None:
    if events:
        lines = [json.dumps({"type": kind, "object": shown}) + "\n" for kind, shown in events]
        await response.write("".join(lines).encode())


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
