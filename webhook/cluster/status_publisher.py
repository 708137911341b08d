"""Writes Ready and Settled into opted-in custom resources: the controller of `publish-status`.

It writes only when a condition changes, at most once in SHORTEST_SECONDS for each object, by a
server-side apply without force. If somebody else writes one of the conditions, or removes it, it
says so once and leaves this condition of this object alone until the process ends.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

import msgspec

from genguard.objects.fields import get
from genguard.objects.metadata import version_number
from genguard.objects.served import Served
from genguard.status import published
from genguard.status.assessment import Assessment
from genguard.status.published import Document
from webhook.cluster.cluster_watch import DEFINITIONS
from webhook.cluster.event import tell
from webhook.cluster.rest import APPLY_PATCH, UNREACHED, RefusedError, Rest, if_there
from webhook.telemetry.logs import LOGGER

SHORTEST_SECONDS: Final = 5.0
"""Between two writes of one object: one that flaps must not become a storm of writes."""
REFUSED_SECONDS: Final = 300.0
"""The wait after a refusal: somebody may grant the missing right, or correct the schema."""
_FAILED_SECONDS: Final = 30.0
_NAMES: Final = ("name", "namespace", "uid")
_CONFLICT: Final = "Apply failed with"
"""How the message of a conflict of fields begins; a conflict of versions has another
(apimachinery pkg/util/managedfields/internal/conflict.go:NewConflictError)."""


@dataclass(slots=True)
class _Object:
    """What is remembered of one object that has opted in."""

    served: Served
    document: Document
    stored: published.StoredConditions
    ours: set[str] = field(default_factory=set)
    """The conditions that this process has seen as its own."""
    stopped: set[str] = field(default_factory=set)
    """The conditions that are left to another writer."""
    written: int = 0
    """The resourceVersion of the last write: an older state is not compared with it."""
    next_at: float = float("-inf")
    """Monotonic seconds; nothing is written before."""


@dataclass(slots=True)
class StatusPublisher:
    """Keeps the conditions of all objects that have opted in. It forgets those that are gone.

    clock  gives monotonic seconds, `now` the time in UTC
    """

    calls: Rest
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _schemas: dict[Served, frozenset[str]] = field(default_factory=dict)
    _objects: dict[str, _Object] = field(default_factory=dict)

    async def learn(self, served: Served) -> None:
        """Read what a kind's conditions may be.

        Raises NotPublishableError, RefusedError or one of UNREACHED.
        """
        definition = await if_there(self.calls.call("GET", f"{DEFINITIONS}/{served}"))
        if definition is None:
            text = "it is no custom resource: its own controller in Kubernetes writes its status"
            raise published.NotPublishableError(f"{served}: {text}")
        self._schemas[served] = published.read_schema(definition, served.version)

    def see(self, served: Served, uid: str, document: Document) -> None:
        """Remember the stored state of an object, before its own conditions are left out."""
        stored = published.read_stored(document)
        found = self._objects.setdefault(uid, _Object(served, document, stored))
        found.document, found.stored = document, stored

    async def publish(self, assessed: Assessment) -> None:
        """Write the conditions of an object, if they have changed. Never raises."""
        view = assessed.view
        found = self._objects.get(view.uid)
        if found is None or view.deleting or _version(found.document) < found.written:
            return
        if _version(assessed.document) != _version(found.document):
            return  # it has changed since: the next look evaluates the new state
        await self._leave_to_others(found)
        if self.clock() < found.next_at:
            return
        known = published.conditions_of(view).items()
        wanted = {name: condition for name, condition in known if name not in found.stopped}
        now = self.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        items = published.items_to_apply(found.stored, wanted, self._schemas[found.served], now)
        if items is not None and await self._apply(found, items):
            found.ours.update(wanted)
            said = {condition.type.lower(): condition.status for condition in wanted.values()}
            LOGGER.info("status published", extra={"fields": {**_fields(found), **said}})

    async def keep_only(self, uids: Collection[str]) -> None:
        """Forget objects that are gone or have opted out; remove the conditions of the latter."""
        for uid in [uid for uid in self._objects if uid not in uids]:
            found = self._objects.pop(uid)
            if found.ours:
                await self._release(found)

    async def _leave_to_others(self, found: _Object) -> None:
        """Stop writing the conditions that somebody else has written or removed."""
        for name in published.TYPES:
            if name in found.stopped:
                continue
            who = found.stored.who_else(name)
            if who is None and name in found.ours and name not in found.stored.items:
                who = "another writer of the status"
            if who is not None:
                await self._stop(found, name, who)
            elif name in found.stored.items:
                found.ours.add(name)

    async def _stop(self, found: _Object, name: str, who: str) -> None:
        found.stopped.add(name)
        owners = found.stored.owners.get(name)
        was_ours = name in found.ours or bool(owners and owners.mine)
        found.ours.discard(name)
        told = {**_fields(found), "condition": name, "writer": who}
        if not was_ours:
            LOGGER.info("condition is written by somebody else: left to it", extra={"fields": told})
            return
        LOGGER.warning("condition was changed back: not published any more", extra={"fields": told})
        metadata = found.document["metadata"]
        note = f"{who} changed the condition {name} back: genguard does not publish it any more."
        await tell(
            self.calls,
            self.now(),
            "genguard.io/publish-status",
            action="Publish",
            reason="StatusNotPublished",
            is_good=False,
            note=note,
            regarding=_typed(found) | {key: metadata[key] for key in _NAMES if key in metadata},
        )

    async def _apply(self, found: _Object, items: list[dict[str, Any]]) -> bool:
        """Apply conditions to the state that was evaluated; return whether they are stored."""
        wait = SHORTEST_SECONDS
        try:
            found.written = _version(await self._send(found, found.document, items))
        except (RefusedError, *UNREACHED) as error:
            wait = await self._wait_after(found, error)
            return False
        finally:
            found.next_at = self.clock() + wait
        return True

    async def _wait_after(self, found: _Object, error: Exception) -> float:
        """Return the seconds until the next attempt after a refusal, or without an answer."""
        status = error.status if isinstance(error, RefusedError) else 0
        if status == HTTPStatus.CONFLICT:
            if _CONFLICT not in str(error):
                return 0.0  # it was written meanwhile: the next look evaluates the new state
            for name in published.TYPES:
                if name not in found.stopped:
                    await self._stop(found, name, "another field manager")
            return REFUSED_SECONDS
        if status == HTTPStatus.NOT_FOUND:
            return _FAILED_SECONDS
        _warn("status not published", found, error)
        is_final = isinstance(error, RefusedError) and not error.is_passing
        return REFUSED_SECONDS if is_final else _FAILED_SECONDS

    async def _release(self, found: _Object) -> None:
        """Remove our conditions from an object that exists but has opted out."""
        try:
            document = await if_there(self.calls.call("GET", _path(found)))
            opted_in = get(document, "metadata", "labels", published.LABEL) == "true"
            uid = found.document["metadata"]["uid"]
            if document is None or get(document, "metadata", "uid") != uid or opted_in:
                return
            items = published.items_to_release(published.read_stored(document))
            if items is not None:
                _ = await self._send(found, document, items)
                LOGGER.info("published status removed", extra={"fields": _fields(found)})
        except (RefusedError, *UNREACHED) as error:
            _warn("published status not removed", found, error)

    async def _send(
        self, found: _Object, document: Document, items: list[dict[str, Any]]
    ) -> Document:
        """Apply to this very version of this very object; another one is a conflict."""
        metadata = {key: document["metadata"].get(key) for key in (*_NAMES, "resourceVersion")}
        body = {
            **_typed(found),
            "metadata": {key: value for key, value in metadata.items() if value},
            "status": {"conditions": items} if items else {},
        }
        return await self.calls.call(
            "PATCH",
            f"{_path(found)}/status",
            msgspec.to_builtins(body),
            params={"fieldManager": published.MANAGER},
            content_type=APPLY_PATCH,
        )


def _version(document: Document) -> int:
    return version_number(get(document, "metadata", "resourceVersion"))


def _typed(found: _Object) -> dict[str, Any]:
    return {key: found.document[key] for key in ("apiVersion", "kind")}


def _path(found: _Object) -> str:
    metadata = found.document["metadata"]
    return found.served.object_path(metadata.get("namespace", ""), metadata["name"])


def _fields(found: _Object) -> dict[str, Any]:
    metadata = found.document["metadata"]
    return {
        "group": found.served.group,
        "kind": found.served.kind,
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
    }


def _warn(text: str, found: _Object, error: Exception) -> None:
    reason = str(error.status) if isinstance(error, RefusedError) else type(error).__name__
    LOGGER.warning(text, extra={"fields": {**_fields(found), "reason": reason}})
