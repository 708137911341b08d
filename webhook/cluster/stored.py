"""Reads a whole object as the API server has it, and patches its status."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final, Protocol

import msgspec

from webhook.cluster.existing import object_path
from webhook.cluster.rest import JSON_PATCH, RefusedError
from webhook.detection.finding import FoundObject
from webhook.threads import in_thread

_LARGE_BYTES: Final = 256 * 1024
"""What is larger is decoded in a thread: admission answers must not wait for it."""
_MANAGER: Final = "genguard"


class Calls(Protocol):
    """What a Rest does."""

    async def read(self, path: str) -> bytes:
        """One object, undecoded; raises RefusedError, or one of UNREACHED."""

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """One request; raises RefusedError, or one of UNREACHED."""


class StoredObjects:
    """Needs the right to `get` objects, and to `patch` the status of those that are patched."""

    def __init__(self, calls: Calls) -> None:
        self._calls: Final = calls

    async def read(self, thing: FoundObject) -> dict[str, Any] | None:
        """The whole object, decoded; None when it is gone, or was made again with another uid.

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
        """Apply a JSON Patch (RFC 6902) to the subresource status; the object as it is stored then.

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
    return msgspec.json.decode(content, type=dict[str, Any])
