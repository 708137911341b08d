"""Writes Ready and Settled into opted-in custom resources: the controller of `publish-status`.

It writes only when a verdict changes, at most once in SHORTEST_SECONDS for each object, by a
server-side apply without force. If somebody else writes one of the conditions, or removes it, it
says so once and leaves this condition of this object alone until the process ends.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import msgspec

from genguard.objects.fields import get
from genguard.objects.metadata import version_number
from genguard.objects.served import Served
from genguard.status.assessment import Assessment
from genguard.status.published import (
    LABEL,
    MANAGER,
    TYPES,
    ConditionSchema,
    Document,
    NotPublishableError,
    StoredConditions,
    items_to_apply,
    items_to_release,
    read_schema,
    read_stored,
    verdicts,
)
from webhook.cluster.event import CreateEvent, event, tell
from webhook.cluster.rest import APPLY_PATCH, UNREACHED, RefusedError, Rest, if_there
from webhook.telemetry.logs import LOGGER

SHORTEST_SECONDS: Final = 5.0
"""Between two writes of one object: one that flaps must not become a storm of writes."""
REFUSED_SECONDS: Final = 300.0
"""The wait after a refusal: somebody may grant the missing right, or correct the schema."""
_FAILED_SECONDS: Final = 30.0
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CONFLICT: Final = "Apply failed with"
"""How the message of a conflict of fields begins; a conflict of versions has another
(apimachinery pkg/util/managedfields/internal/conflict.go:NewConflictError)."""


@dataclass(slots=True)
class _Object:
    """What is remembered of one object that has opted in."""

    served: Served
    namespace: str
    name: str
    stored: StoredConditions
    version: int
    """The resourceVersion of `stored`."""
    api_version: str = ""
    kind: str = ""
    ours: set[str] = field(default_factory=set)
    """The conditions that this process has seen as its own."""
    stopped: set[str] = field(default_factory=set)
    """The conditions that are left to another writer."""
    written: int = 0
    """The resourceVersion of the last write: an older state is not compared with it."""
    next_at: float = float("-inf")
    """Monotonic seconds; nothing is written before."""


class StatusPublisher:
    """Keeps the conditions of all objects that have opted in. It forgets those that are gone."""

    def __init__(
        self,
        calls: Rest,
        create: CreateEvent,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`create` creates an Event; `clock` gives monotonic seconds, `now` the time in UTC."""
        self._calls: Final = calls
        self._create: Final = create
        self._clock: Final = clock
        self._now: Final = now
        self._schemas: Final[dict[Served, ConditionSchema]] = {}
        self._objects: Final[dict[str, _Object]] = {}

    async def learn(self, served: Served) -> None:
        """Read what a kind's conditions may be.

        Raises NotPublishableError, RefusedError or one of UNREACHED.
        """
        path = f"{_DEFINITIONS}/{served}"
        definition = await if_there(self._calls.call("GET", path))
        if definition is None:
            text = "it is no custom resource: its own controller in Kubernetes writes its status"
            raise NotPublishableError(f"{served}: {text}")
        self._schemas[served] = read_schema(definition, served.version)

    def see(self, served: Served, uid: str, document: Document) -> None:
        """Remember the stored state of an object, before its own conditions are left out."""
        metadata = document["metadata"]
        stored, version = read_stored(document), version_number(metadata.get("resourceVersion"))
        found = self._objects.get(uid)
        if found is None:
            namespace = metadata.get("namespace") or ""
            found = _Object(served, namespace, metadata["name"], stored, version)
            self._objects[uid] = found
        found.stored, found.version = stored, version
        found.api_version, found.kind = document["apiVersion"], document["kind"]

    async def publish(self, judged: Assessment) -> None:
        """Write the conditions of an object, if its verdict has changed. Never raises."""
        view = judged.view
        found = self._objects.get(view.uid)
        if found is None or found.version < found.written or view.deleting:
            return
        if version_number(get(judged.document, "metadata", "resourceVersion")) != found.version:
            return  # it has changed since: the next look judges the new state
        await self._leave_to_others(view.uid, found)
        if self._clock() < found.next_at:
            return
        wanted = {
            name: verdict for name, verdict in verdicts(view).items() if name not in found.stopped
        }
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        items = items_to_apply(found.stored, wanted, self._schemas[found.served], now)
        if items is not None and await self._apply(view.uid, found, items):
            found.ours.update(wanted)
            said = {one.type.lower(): one.status for one in wanted.values()}
            LOGGER.info("status published", extra={"facts": {**_facts(found), **said}})

    async def keep_only(self, uids: Collection[str]) -> None:
        """Forget objects that are gone or have opted out; remove the conditions of the latter."""
        for uid in [one for one in self._objects if one not in uids]:
            found = self._objects.pop(uid)
            if found.ours:
                await self._release(uid, found)

    async def _leave_to_others(self, uid: str, found: _Object) -> None:
        """Stop writing the conditions that somebody else has written or removed."""
        for name in TYPES:
            if name in found.stopped:
                continue
            who = found.stored.who_else(name)
            if who is None and name in found.ours and name not in found.stored.items:
                who = "another writer of the status"
            if who is not None:
                await self._stop(uid, found, name, who)
            elif name in found.stored.items:
                found.ours.add(name)

    async def _stop(self, uid: str, found: _Object, name: str, who: str) -> None:
        found.stopped.add(name)
        was_ours = name in found.ours or bool(_own_leaves(found.stored, name))
        found.ours.discard(name)
        facts = {**_facts(found), "condition": name, "writer": who}
        if not was_ours:
            LOGGER.info("condition is written by somebody else: left to it", extra={"facts": facts})
            return
        LOGGER.warning("condition was changed back: not published any more", extra={"facts": facts})
        note = f"{who} changed the condition {name} back: genguard does not publish it any more."
        body = event(
            self._now(),
            "genguard.io/publish-status",
            action="Publish",
            reason="StatusNotPublished",
            is_good=False,
            note=note,
            regarding={
                "apiVersion": found.api_version,
                "kind": found.kind,
                "namespace": found.namespace,
                "name": found.name,
                "uid": uid,
            },
        )
        await tell(self._create, found.namespace, body)

    async def _apply(self, uid: str, found: _Object, items: list[dict[str, Any]]) -> bool:
        """Apply conditions to the state that was judged; return whether they are stored."""
        found.next_at = self._clock() + SHORTEST_SECONDS
        try:
            stored = await self._send(uid, found, items, found.version)
        except (RefusedError, *UNREACHED) as error:
            found.next_at = self._clock() + await self._wait_after(uid, found, error)
            return False
        found.written = version_number(get(stored, "metadata", "resourceVersion"))
        return True

    async def _wait_after(self, uid: str, found: _Object, error: Exception) -> float:
        """Return the seconds until the next attempt after a refusal, or without an answer."""
        status = error.status if isinstance(error, RefusedError) else 0
        if status == HTTPStatus.CONFLICT:
            if _CONFLICT not in str(error):
                return 0.0  # it was written meanwhile: the next look judges the new state
            for name in TYPES:
                if name not in found.stopped:
                    await self._stop(uid, found, name, "another field manager")
            return REFUSED_SECONDS
        if status != HTTPStatus.NOT_FOUND:
            facts = {**_facts(found), "reason": str(status or type(error).__name__)}
            LOGGER.warning("status not published", extra={"facts": facts})
        is_final = isinstance(error, RefusedError) and not error.is_passing
        return REFUSED_SECONDS if is_final and status != HTTPStatus.NOT_FOUND else _FAILED_SECONDS

    async def _release(self, uid: str, found: _Object) -> None:
        """Remove our conditions from an object that exists but has opted out."""
        try:
            document = await if_there(self._calls.call("GET", _path(found)))
            opted_in = get(document, "metadata", "labels", LABEL) == "true"
            if document is None or get(document, "metadata", "uid") != uid or opted_in:
                return
            items = items_to_release(read_stored(document))
            if items is not None:
                version = version_number(document["metadata"].get("resourceVersion"))
                _ = await self._send(uid, found, items, version)
                LOGGER.info("published status removed", extra={"facts": _facts(found)})
        except (RefusedError, *UNREACHED) as error:
            facts = {**_facts(found), "reason": type(error).__name__}
            LOGGER.warning("published status not removed", extra={"facts": facts})

    async def _send(
        self, uid: str, found: _Object, items: list[dict[str, Any]], version: int
    ) -> Mapping[str, Any]:
        """Apply to this very version of this very object; another one is a conflict."""
        metadata = {"name": found.name, "uid": uid, "resourceVersion": str(version)}
        if found.namespace:
            metadata["namespace"] = found.namespace
        body = {
            "apiVersion": found.api_version,
            "kind": found.kind,
            "metadata": metadata,
            "status": {"conditions": items} if items else {},
        }
        stored: Mapping[str, Any] = await self._calls.call(
            "PATCH",
            f"{_path(found)}/status",
            msgspec.to_builtins(body),
            params={"fieldManager": MANAGER},
            content_type=APPLY_PATCH,
        )
        return stored


def _own_leaves(stored: StoredConditions, name: str) -> frozenset[str]:
    owners = stored.owners.get(name)
    return owners.mine if owners is not None else frozenset()


def _path(found: _Object) -> str:
    return f"{found.served.path(found.namespace)}/{quote(found.name, safe='')}"


def _facts(found: _Object) -> dict[str, Any]:
    return {
        "group": found.served.group,
        "kind": found.served.kind,
        "namespace": found.namespace,
        "name": found.name,
    }
