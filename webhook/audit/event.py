"""Events of audit.k8s.io/v1: what is needed of them, the objects left undecoded.

Source: apiserver pkg/apis/audit/v1/types.go. An event has as much as its level allows: Metadata
no objects, Request what was sent, RequestResponse what was stored as well.
"""

from collections.abc import Iterator
from datetime import datetime
from sys import intern
from typing import Final
from urllib.parse import parse_qs, urlsplit

import msgspec

API_VERSION: Final = "audit.k8s.io/v1"
KINDS: Final = frozenset({"Event", "EventList"})
NO_OBJECT: Final = msgspec.Raw()
_REFUSED: Final = 400


class User(msgspec.Struct):
    """Who sent a request."""

    username: str = ""


class ObjectReference(msgspec.Struct, rename="camel"):
    """What a request was about."""

    resource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""
    api_version: str = ""
    subresource: str = ""


class ResponseStatus(msgspec.Struct):
    """How it ended."""

    code: int = 0


class Event(msgspec.Struct, rename="camel"):
    """One stage of one request."""

    level: str = ""
    stage: str = ""
    verb: str = ""
    request_uri: str = msgspec.field(default="", name="requestURI")
    user: User | None = None
    impersonated_user: User | None = None
    user_agent: str = ""
    object_ref: ObjectReference | None = None
    response_status: ResponseStatus | None = None
    stage_timestamp: datetime | None = None
    annotations: dict[str, str] | None = None
    request_object: msgspec.Raw = NO_OBJECT
    response_object: msgspec.Raw = NO_OBJECT

    @property
    def time(self) -> float:
        """Seconds since the epoch; events stand in the order of this in a log."""
        return self.stage_timestamp.timestamp() if self.stage_timestamp else 0.0

    @property
    def username(self) -> str:
        """Who acted, which is the impersonated user where there is one."""
        user = self.impersonated_user or self.user
        return intern(user.username) if user else ""

    @property
    def manager(self) -> str:
        """The field manager as the API server determines it: as given, else of the user agent."""
        given = self._query.get("fieldManager")
        return intern(given[0] if given else self.user_agent.partition("/")[0])

    @property
    def is_update(self) -> bool:
        """An update that went through and was meant to be stored, of an object with a name."""
        status, reference = self.response_status, self.object_ref
        return (
            self.verb in ("update", "patch")
            and reference is not None
            and reference.name != ""
            and (status is None or status.code < _REFUSED)
            and "dryRun" not in self._query
        )

    @property
    def _query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.request_uri).query) if "?" in self.request_uri else {}


class _List(msgspec.Struct):
    items: list[msgspec.Raw] = []


_events: Final = msgspec.json.Decoder(Event)
_lists: Final = msgspec.json.Decoder(_List)


def is_audit(kind: str, api_version: str) -> bool:
    """Whether a document is an audit event or a list of them."""
    return api_version == API_VERSION and kind in KINDS


def read_events(document: bytes, kind: str) -> Iterator[Event]:
    """The events of one document, finished or not.

    Raises msgspec.MsgspecError; the path in its message is one inside the document.
    """
    if kind == "Event":
        yield _events.decode(document)
        return
    for item in _lists.decode(document).items:
        yield _events.decode(item)
