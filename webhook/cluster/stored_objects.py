"""Looks up and reads stored objects, patches their status, and creates Events about them."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import msgspec

from genguard.detection.finding import FoundObject
from genguard.formats.nesting import decode_cut
from webhook.cluster.event import CreateEvent
from webhook.cluster.rest import JSON_PATCH, UNREACHED, RefusedError, Rest
from webhook.tasks.threads import in_thread
from webhook.telemetry.logs import LOGGER

_LARGE_BYTES: Final = 256 * 1024
"""A larger object is decoded in a thread: admission answers must not wait for it."""
_MANAGER: Final = "genguard"
_ELSEWHERE: Final = frozenset({".", ".."})
"""Not the name of anything; in a path they lead elsewhere."""
_EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/{}/events"


class StoredObjects:
    """Reads objects and patches their status. Needs the rights to `get` and `patch` them."""

    def __init__(self, calls: Rest) -> None:
        self._calls: Final = calls

    async def read(self, thing: FoundObject) -> dict[str, Any] | None:
        """Return the whole object, decoded; None when it is gone or was recreated with another uid.

        What is nested too deep to decode is null.

        Raises RefusedError, one of UNREACHED, or msgspec.MsgspecError.
        """
        path = object_path(thing)
        if path is None or not thing.name:
            return None
        try:
            content = await self._calls.read(path)
        except RefusedError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise
        if len(content) > _LARGE_BYTES:
            found = await in_thread(_decode, content)
        else:
            found = _decode(content)
        is_same = not thing.uid or found.get("metadata", {}).get("uid") == thing.uid
        return found if is_same else None

    async def patch_status(
        self, thing: FoundObject, operations: Sequence[dict[str, Any]]
    ) -> dict[str, Any]:
        """Apply a JSON Patch (RFC 6902) to the subresource status; return the stored object.

        Raises RefusedError or one of UNREACHED.
        """
        found: dict[str, Any] = await self._calls.call(
            "PATCH",
            f"{object_path(thing)}/status",
            list(operations),
            params={"fieldManager": _MANAGER},
            content_type=JSON_PATCH,
        )
        return found


def _decode(content: bytes) -> dict[str, Any]:
    found: dict[str, Any] = decode_cut(content, dict[str, Any])
    return found


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Partial(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class ObjectLookup:
    """The Lookup of alerts.pipeline: reads metadata alone. Needs the right to `get` objects."""

    def __init__(self, rest: Rest) -> None:
        """`rest` may be shared with others."""
        self._rest: Final = rest
        self._refused: set[tuple[str, str]] = set()

    async def exists(self, thing: FoundObject) -> bool | None:
        """Return whether the object exists with this uid; None where the API cannot say."""
        if not thing.name:
            return None
        path = object_path(thing)
        if path is None:
            return False
        try:
            found: _Partial = decode_cut(await self._rest.partial(path), _Partial)
        except RefusedError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return False
            self._log_refusal(thing, error.status)
            return None
        except (msgspec.MsgspecError, *UNREACHED):
            return None
        return found.metadata.uid == thing.uid or not thing.uid

    def _log_refusal(self, thing: FoundObject, status: int) -> None:
        """Log once for each resource that a right is missing."""
        resource = (thing.group, thing.resource)
        if resource not in self._refused:
            self._refused.add(resource)
            facts = {"group": thing.group, "resource": thing.resource, "status": status}
            LOGGER.info("findings stay unverified", extra={"facts": facts})


def object_path(thing: FoundObject) -> str | None:
    """Return the URL path of an object; None where a part of it would lead elsewhere."""
    if _ELSEWHERE & {thing.group, thing.version, thing.namespace, thing.resource, thing.name}:
        return None
    group = ("apis", thing.group) if thing.group else ("api",)
    where = ("namespaces", thing.namespace) if thing.namespace else ()
    # A forged review may contain any text in each part: none may lead elsewhere.
    parts = (*group, thing.version, *where, thing.resource, thing.name)
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def event_creator(rest: Rest) -> CreateEvent:
    """Return a function that creates an events.k8s.io/v1 Event in a namespace."""

    async def create(namespace: str, event: dict[str, Any]) -> None:
        await rest.call("POST", _EVENTS.format(quote(namespace, safe="")), event)

    return create
