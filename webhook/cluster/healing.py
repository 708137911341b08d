"""Puts lost observedGeneration values back into stored objects, on the replica that leads.

While genguard enforces, it repairs a write on its way. What hung before that still hangs, because
its controller has no reason to write again. A value is put back only if genguard saw its own
writer send it, and only into the very object that was looked at.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from webhook.alerts.event import CLUSTER_NAMESPACE, CreateEvent, event
from webhook.alerts.leader import Leadership
from webhook.cluster.rechecking import Stored
from webhook.cluster.rest import UNREACHED, RefusedError
from webhook.detection.damage import Damage, is_broken, repair_patch
from webhook.detection.finding import FoundObject
from webhook.detection.ledger import Damaged
from webhook.telemetry.logs import LOGGER

MOST_ATTEMPTS: Final = 5
"""So many patches that did not hold, and a finding is left alone until its damage changes: a
webhook that clears the value each time must not become a loop between genguard and itself."""
FIRST_WAIT_SECONDS: Final = 30.0
"""After the first attempt that did not hold; twice as long after each further one."""
HELD_SECONDS: Final = 600.0
"""A value that stayed for so long did hold, though it was lost again later."""
REFUSED_SECONDS: Final = 300.0
"""Until what was refused is tried again: somebody may have granted the right."""
_CALL_SECONDS: Final = 5.0
_MOST_REMEMBERED: Final = 10_000
_STATUS: Final = "status"

Operations: TypeAlias = list[dict[str, Any]]
"""A JSON Patch (RFC 6902)."""


class Result(StrEnum):
    """What became of an attempt.

    healed    stored, and the value is there
    refused   the API server did not take it: a right is missing, a webhook or validation denied it
    conflict  the object was written meanwhile; the next look tries again
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
        """The whole object, None when it is gone."""

    async def patch_status(self, thing: FoundObject, operations: Operations) -> Stored:
        """The object as it is stored after the patch; raises RefusedError or one of UNREACHED."""


class _Tried(NamedTuple):
    """The attempts in a row for one finding that did not hold, and when it may be tried again."""

    damage: Damage | None
    attempts: int
    at: float
    wait: float


_FOR_EVER: Final = float("inf")
_NONE: Final = _Tried(None, 0, float("-inf"), 0.0)


class Healing:
    """A Healer. The looks that come before its patches are few, and so are the patches."""

    def __init__(
        self,
        objects: Objects,
        leadership: Leadership,
        create: CreateEvent,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`create` makes an Event; `clock` gives seconds."""
        self._objects: Final = objects
        self._leadership: Final = leadership
        self._create: Final = create
        self._clock: Final = clock
        self._tried: Final[OrderedDict[str, _Tried]] = OrderedDict()
        self._led = False
        self._counts: Final[Counter[str]] = Counter({one.value: 0 for one in Result})

    def begins(self) -> bool:
        """Whether this replica has come to lead since it was asked last."""
        led, self._led = self._led, self._leadership.is_leader
        return self._led and not led

    def counts(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Attempts by result."""
        for result, count in self._counts.items():
            yield (result,), count

    async def heal(self, one: Damaged, stored: Stored) -> Stored | None:
        """Put back what is lost, if that may be done now; never raises."""
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
        # Before it is sent: what is cancelled halfway may have been stored.
        wait = FIRST_WAIT_SECONDS * 2.0**before.attempts
        self._note(one, _Tried(one.damage, before.attempts + 1, now, wait))
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
            await self._tell(one, stored, operations)
        return healed

    def _before(self, one: Damaged) -> _Tried:
        """The attempts that are still of interest."""
        before = self._tried.get(one.finding, _NONE)
        has_held = self._clock() - before.at >= HELD_SECONDS and before.wait < HELD_SECONDS
        return _NONE if before.damage != one.damage or has_held else before

    def _note(self, one: Damaged, tried: _Tried) -> None:
        self._tried[one.finding] = tried
        self._tried.move_to_end(one.finding)
        if len(self._tried) > _MOST_REMEMBERED:
            self._tried.popitem(last=False)

    async def _refused(
        self, one: Damaged, stored: Stored, error: RefusedError, before: _Tried
    ) -> Result:
        """What a refusal means. It does not count as an attempt: nothing was stored."""
        self._note(one, before)
        if error.status == HTTPStatus.NOT_FOUND:
            return Result.GONE
        if error.status == HTTPStatus.CONFLICT:
            return Result.CONFLICT
        if error.is_passing:
            return self._failed(one, f"{error.status}")
        # A `test` of the patch that fails is answered like an object that is not valid (422):
        # apiserver pkg/endpoints/handlers/patch.go:applyJSPatch.
        if error.status == HTTPStatus.UNPROCESSABLE_ENTITY and await self._is_other(one, stored):
            return Result.CONFLICT
        self._note(one, _Tried(one.damage, before.attempts, self._clock(), REFUSED_SECONDS))
        facts = {**_facts(one), "status": error.status}
        LOGGER.warning("status not healed: the API server refused", extra={"facts": facts})
        return Result.REFUSED

    async def _is_other(self, one: Damaged, stored: Stored) -> bool:
        """Whether the object was written since it was read."""
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                now = await self._objects.read(one.object)
        except (RefusedError, msgspec.MsgspecError, *UNREACHED):
            return True  # then the next look decides
        return now is None or _version(now) != _version(stored)

    def _failed(self, one: Damaged, reason: str) -> Result:
        LOGGER.warning("status not healed", extra={"facts": {**_facts(one), "reason": reason}})
        return Result.FAILED

    async def _tell(self, one: Damaged, stored: Stored, operations: Operations) -> None:
        values = dict(_values(stored, operations))
        facts = {**_facts(one), "writer": one.damage.writer, "set": values}
        LOGGER.info("status healed", extra={"facts": facts})
        told = ", ".join(f"{field}={value}" for field, value in values.items())
        made = event(
            datetime.now(UTC),
            "genguard.io/healing",
            action="Heal",
            reason="StatusHealed",
            is_good=True,
            note=f"Put back {told}, as {one.damage.writer} had sent it; finding {one.finding}.",
            regarding=_regarding(one.object, stored),
        )
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                await self._create(one.object.namespace or CLUSTER_NAMESPACE, made)
        except Exception as error:  # noqa: BLE001 - whatever the client raises, healing goes on
            facts = {"finding": one.finding, "reason": type(error).__name__}
            LOGGER.warning("event not created", extra={"facts": facts})


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
    """Each value that is put back, by field: status.conditions[Ready].observedGeneration."""
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
