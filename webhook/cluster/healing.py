"""Restores lost observedGeneration values in stored objects, on the replica that leads.

While genguard enforces, it repairs every write. An object that was damaged before stays damaged,
because its controller has no reason to write again. A value is restored only if genguard saw the
object's own writer send it, and only in the very object that was read.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec
from cachetools import LRUCache

from genguard.detection.damage import Damage, is_broken, repair_patch
from genguard.detection.finding import FoundObject
from genguard.detection.ledger import Damaged
from webhook.cluster.event import CreateEvent, event, tell
from webhook.cluster.rechecking import Stored
from webhook.cluster.rest import UNREACHED, RefusedError
from webhook.election.leader import Leadership
from webhook.telemetry.logs import LOGGER

MOST_ATTEMPTS: Final = 5
"""After so many patches that were undone, a finding is left alone until its damage changes: a
webhook that clears the value each time must not end in a loop with genguard."""
FIRST_WAIT_SECONDS: Final = 30.0
"""The wait after the first patch that was undone; it doubles with each further one."""
HELD_SECONDS: Final = 600.0
"""A value that stayed for so long counts as restored, even if it is lost again later."""
REFUSED_SECONDS: Final = 300.0
"""The wait after a refusal: somebody may grant the missing right."""
_CALL_SECONDS: Final = 5.0
_MOST_REMEMBERED: Final = 10_000
_STATUS: Final = "status"

Operations: TypeAlias = list[dict[str, Any]]
"""A JSON Patch (RFC 6902)."""
_FOR_EVER: Final = float("inf")


class Result(StrEnum):
    """The result of an attempt.

    healed    stored, and the value is there
    refused   the API server refused it: a right is missing, or a webhook or validation denied it
    conflict  the object was written meanwhile; the next recheck tries again
    gone      the object was deleted meanwhile
    failed    no answer, or the value was cleared again in the same write
    """

    HEALED = "healed"
    REFUSED = "refused"
    CONFLICT = "conflict"
    GONE = "gone"
    FAILED = "failed"


class Objects(Protocol):
    """Stored objects; see StoredObjects."""

    async def read(self, thing: FoundObject) -> Stored | None:
        """Return the whole object, None when it is gone."""

    async def patch_status(self, thing: FoundObject, operations: Operations) -> Stored:
        """Patch, and return the stored object; raises RefusedError or one of UNREACHED."""


class _Attempts(NamedTuple):
    """Undone attempts in a row for one finding: their number, time of the last, and wait."""

    damage: Damage | None
    attempts: int
    at: float
    wait: float


_NONE: Final = _Attempts(None, 0, float("-inf"), 0.0)


class Healing:
    """The Healer of Rechecking. Rechecks are limited in number, and so are its patches."""

    def __init__(
        self,
        objects: Objects,
        leadership: Leadership,
        create: CreateEvent,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`create` creates an Event; `clock` gives monotonic seconds."""
        self._objects: Final = objects
        self._leadership: Final = leadership
        self._create: Final = create
        self._clock: Final = clock
        self._attempts: Final[LRUCache[str, _Attempts]] = LRUCache(_MOST_REMEMBERED)
        self._counts: Final[Counter[str]] = Counter({one.value: 0 for one in Result})

    def counts(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Yield the number of attempts by result."""
        for result, count in self._counts.items():
            yield (result,), count

    async def heal(self, one: Damaged, stored: Stored) -> Stored | None:
        """Restore lost values, if that may be done now. Never raises."""
        if not self._leadership.is_leader or one.subresource != _STATUS or not one.object.uid:
            return None
        before, now = self._before(one), self._clock()
        if before.attempts >= MOST_ATTEMPTS and before.wait < _FOR_EVER:
            self._note(one, before._replace(wait=_FOR_EVER))
            facts = {**_facts(one), "attempts": before.attempts}
            LOGGER.warning("status is not healed any more until it changes", extra={"facts": facts})
            return None
        if now < before.at + before.wait:
            return None
        operations = repair_patch(one.damage, stored)
        if not operations:
            return None
        # Before it is sent: a cancelled patch may have been stored.
        wait = FIRST_WAIT_SECONDS * 2.0**before.attempts
        self._note(one, _Attempts(one.damage, before.attempts + 1, now, wait))
        healed: Stored | None = None
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                healed = await self._objects.patch_status(one.object, operations)
        except RefusedError as error:
            result = await self._refused(one, stored, error, before)
        except (msgspec.MsgspecError, *UNREACHED) as error:
            self._note(one, before)
            result = self._failed(one, type(error).__name__)
        else:
            is_lost = is_broken(one.damage, healed)
            result = self._failed(one, "cleared again at once") if is_lost else Result.HEALED
        self._counts[result.value] += 1
        if result is Result.HEALED:
            await self._report(one, stored, operations)
        return healed

    def _before(self, one: Damaged) -> _Attempts:
        """Return the attempts that still count."""
        before = self._attempts.get(one.finding, _NONE)
        has_held = self._clock() - before.at >= HELD_SECONDS and before.wait < HELD_SECONDS
        return _NONE if before.damage != one.damage or has_held else before

    def _note(self, one: Damaged, attempts: _Attempts) -> None:
        self._attempts[one.finding] = attempts

    async def _refused(
        self, one: Damaged, stored: Stored, error: RefusedError, before: _Attempts
    ) -> Result:
        """Return what a refusal means. It does not count as an attempt: nothing was stored."""
        self._note(one, before)
        if error.status == HTTPStatus.NOT_FOUND:
            return Result.GONE
        if error.status == HTTPStatus.CONFLICT:
            return Result.CONFLICT
        if error.is_passing:
            return self._failed(one, f"{error.status}")
        # A `test` of the patch that fails is answered like an object that is not valid (422):
        # apiserver pkg/endpoints/handlers/patch.go:applyJSPatch.
        if error.status == HTTPStatus.UNPROCESSABLE_ENTITY and await self._was_written(one, stored):
            return Result.CONFLICT
        self._note(one, _Attempts(one.damage, before.attempts, self._clock(), REFUSED_SECONDS))
        facts = {**_facts(one), "status": error.status}
        LOGGER.warning("status not healed: the API server refused", extra={"facts": facts})
        return Result.REFUSED

    async def _was_written(self, one: Damaged, stored: Stored) -> bool:
        """Whether the object was written since it was read, as far as is known."""
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                now = await self._objects.read(one.object)
        except (RefusedError, msgspec.MsgspecError, *UNREACHED):
            return True  # the next recheck decides
        return now is None or _version(now) != _version(stored)

    def _failed(self, one: Damaged, reason: str) -> Result:
        LOGGER.warning("status not healed", extra={"facts": {**_facts(one), "reason": reason}})
        return Result.FAILED

    async def _report(self, one: Damaged, stored: Stored, operations: Operations) -> None:
        values = dict(_values(stored, operations))
        facts = {**_facts(one), "writer": one.damage.writer, "set": values}
        LOGGER.info("status healed", extra={"facts": facts})
        restored = ", ".join(f"{field}={value}" for field, value in values.items())
        body = event(
            datetime.now(UTC),
            "genguard.io/healing",
            action="Heal",
            reason="StatusHealed",
            is_good=True,
            note=f"Put back {restored}, as {one.damage.writer} had sent it; finding {one.finding}.",
            regarding=_regarding(one.object, stored),
        )
        await tell(self._create, one.object.namespace, body, finding=one.finding)


def _facts(one: Damaged) -> dict[str, Any]:
    where = one.object
    return {
        "finding": one.finding,
        "group": where.group,
        "resource": where.resource,
        "namespace": where.namespace,
        "name": where.name,
    }


def _values(stored: Stored, operations: Operations) -> Iterator[tuple[str, Any]]:
    """Yield each restored value by field, such as status.conditions[Ready].observedGeneration."""
    for one in operations:
        if one["op"] == "test":
            continue
        _, _, *parents, last = one["path"].split("/")
        if parents:
            condition = stored["status"]["conditions"][int(parents[-1])]
            yield f"status.conditions[{condition.get('type')}].{last}", one["value"]
        else:
            yield f"status.{last}", one["value"]


def _version(stored: Stored) -> Any:
    return stored["metadata"].get("resourceVersion")


def _regarding(thing: FoundObject, stored: Mapping[str, Any]) -> dict[str, str]:
    return {
        "apiVersion": str(stored.get("apiVersion", "")),
        "kind": str(stored.get("kind", "")),
        "namespace": thing.namespace,
        "name": thing.name,
        "uid": thing.uid,
    }
