"""Looks up and reads stored objects, and patches their status."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import msgspec

from genguard.detection.write import ObjectKey
from genguard.formats.nesting import decode_cut
from webhook.cluster.rest import JSON_PATCH, PARTIAL, UNREACHED, RefusedError, Rest, if_there
from webhook.tasks.threads import in_thread
from webhook.telemetry.logs import LOGGER

_ELSEWHERE: Final = frozenset({".", ".."})
"""Not the name of anything; in a path they lead elsewhere."""


@dataclass(slots=True)
class StoredObjects:
    """Reads objects and patches their status. Needs the rights to `get` and `patch` them."""

    calls: Rest
    _refused: set[tuple[str, str]] = field(default_factory=set)

    async def exists(self, thing: ObjectKey) -> bool | None:
        """Return whether the object exists with this uid; None where the API cannot say.

        The Lookup of alerts.pipeline: metadata alone is read.
        """
        if not thing.name:
            return None
        try:
            return await self.read(thing, accept=PARTIAL) is not None
        except (RefusedError, msgspec.MsgspecError, *UNREACHED):
            return None

    async def read(self, thing: ObjectKey, **asked: str) -> dict[str, Any] | None:
        """Return the whole object, decoded; None when it is gone or was recreated with another uid.

        What is nested too deep to decode is null.

        Raises RefusedError, one of UNREACHED, or msgspec.MsgspecError.
        """
        path = object_path(thing)
        if path is None:
            return None
        try:
            content = await if_there(self.calls.read(path, **asked))
        except RefusedError as error:
            resource = (thing.group, thing.resource)
            if not error.is_passing and resource not in self._refused:  # told once for each
                self._refused.add(resource)
                fields = {"group": thing.group, "resource": thing.resource, "status": error.status}
                LOGGER.info("objects may not be read", extra={"fields": fields})
            raise
        if content is None:
            return None
        # In a thread: admission answers must not wait for a large one.
        found: dict[str, Any] = await in_thread(decode_cut, content, dict[str, Any])
        is_same = not thing.uid or (found.get("metadata") or {}).get("uid") == thing.uid
        return found if is_same else None

    async def patch_status(
        self, thing: ObjectKey, operations: Sequence[dict[str, Any]]
    ) -> dict[str, Any]:
        """Apply a JSON Patch (RFC 6902) to the subresource status; return the stored object.

        Raises RefusedError or one of UNREACHED.
        """
        return await self.calls.call(
            "PATCH",
            f"{object_path(thing)}/status",
            list(operations),
            params={"fieldManager": "genguard"},
            content_type=JSON_PATCH,
        )


def object_path(thing: ObjectKey) -> str | None:
    """Return the URL path of an object; None where a part of it would lead elsewhere."""
    name = thing.name or "."
    if _ELSEWHERE & {thing.group, thing.version, thing.namespace, thing.resource, name}:
        return None
    group = ("apis", thing.group) if thing.group else ("api",)
    where = ("namespaces", thing.namespace) if thing.namespace else ()
    # A forged review may contain any text in each part: none may lead elsewhere.
    parts = (*group, thing.version, *where, thing.resource, thing.name)
    return "".join(f"/{quote(part, safe='')}" for part in parts)
