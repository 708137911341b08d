"""Whether an object is there, by its metadata alone: no contents are asked for."""

from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import msgspec

from webhook.cluster.rest import UNREACHED, RefusedError, Rest
from webhook.detection.finding import FoundObject
from webhook.telemetry.logs import LOGGER

_ELSEWHERE: Final = frozenset({".", ".."})
"""No name of anything, and in a path a way out of it."""


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Partial(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class Existing:
    """The Lookup of alerts.verified. Needs the right to `get` what findings are about."""

    def __init__(self, rest: Rest) -> None:
        """`rest` is a connection."""
        self._rest: Final = rest
        self._refused: set[tuple[str, str]] = set()

    async def look(self, thing: FoundObject) -> bool | None:
        """True with the uid that was seen; None where the API cannot say."""
        if not thing.name:
            return None
        path = object_path(thing)
        if path is None:
            return False
        try:
            found = msgspec.json.decode(await self._rest.partial(path), type=_Partial)
        except RefusedError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return False
            self._tell(thing, error.status)
            return None
        except (msgspec.MsgspecError, *UNREACHED):
            return None
        return found.metadata.uid == thing.uid or not thing.uid

    def _tell(self, thing: FoundObject, status: int) -> None:
        """Once for each resource: it is a right that is not granted."""
        resource = (thing.group, thing.resource)
        if resource not in self._refused:
            self._refused.add(resource)
            facts = {"group": thing.group, "resource": thing.resource, "status": status}
            LOGGER.info("findings stay unverified", extra={"facts": facts})


def object_path(thing: FoundObject) -> str | None:
    """The URL path of an object; None where a part of it would lead elsewhere."""
    if _ELSEWHERE & {thing.group, thing.version, thing.namespace, thing.resource, thing.name}:
        return None
    group = ("apis", thing.group) if thing.group else ("api",)
    where = ("namespaces", thing.namespace) if thing.namespace else ()
    # Whoever forges a review chooses every part: none may lead elsewhere.
    parts = (*group, thing.version, *where, thing.resource, thing.name)
    return "".join(f"/{quote(part, safe='')}" for part in parts)
