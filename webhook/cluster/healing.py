"""Looks at damaged objects again and again, and restores lost observedGeneration values in them.

A loop may end while its damage stays, and somebody may repair an object without a write that
genguard sees. So only the stored object shows whether a finding is over.

While genguard enforces, it repairs every write. An object that was damaged before stays damaged,
because its controller has no reason to write again. A value is restored only if genguard saw the
object's own writer send it, and only in the very object that was read.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from http import HTTPStatus
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from cachetools import LRUCache

from genguard.detection.damage import Damage, is_broken, still_lost
from genguard.detection.finding_state import FindingState
from genguard.detection.ledger import Ledger
from genguard.detection.write import ObjectKey
from genguard.objects.fields import fields_of, get
from genguard.objects.observed import NOTHING_OBSERVED, generation_number, read_observed
from webhook.cluster.event import naming, tell
from webhook.cluster.rest import UNREACHED, RefusedError
from webhook.cluster.stored_objects import StoredObjects
from webhook.election.leader import Leadership
from webhook.tasks.clock import CLOCK
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER

AGAIN_SECONDS: Final = 2.0
"""The pause between two reads of one object: the dashboard shows within 10 s that it is right."""
FRESH_SECONDS: Final = 5.0
"""An object is left alone for so long after its last signal: its writer is often about to write
again. Controllers answer a conflict or a change of their own within a second or two, and a value
that the writer itself sends needs no repair."""
MOST_READS: Final = 10
"""Reads in a second: genguard must not load the API server."""
_TICK_SECONDS: Final = 1.0
MOST_ATTEMPTS: Final = 5
"""A finding is left alone after so many undone patches, until its damage changes: a
webhook that clears the value each time must not end in a loop with genguard."""
FIRST_WAIT_SECONDS: Final = 30.0
"""The wait after the first patch that was undone; it doubles with each further one."""
HELD_SECONDS: Final = 600.0
"""A value that stayed for so long counts as restored, even if it is lost again later."""
REFUSED_SECONDS: Final = 300.0
"""The wait after a refusal: somebody may grant the missing right."""
_CALL_SECONDS: Final = 5.0
_MOST_REMEMBERED: Final = 10_000

Stored: TypeAlias = dict[str, Any]
"""A whole object as the API server stores it, decoded."""
Operations: TypeAlias = list[dict[str, Any]]
"""A JSON Patch (RFC 6902)."""
_FOR_EVER: Final = float("inf")


class Result(StrEnum):
    """The result of an attempt.

    healed    stored, and the value is there
    refused   the API server refused it: a right is missing, or a webhook or validation denied it
    conflict  the object was written meanwhile, or the value is not valid; it is tried again
    gone      the object was deleted meanwhile
    failed    no answer, or the value was cleared again in the same write
    """

    HEALED = "healed"
    REFUSED = "refused"
    CONFLICT = "conflict"
    GONE = "gone"
    FAILED = "failed"


_RESULTS: Final[dict[int, Result]] = {
    HTTPStatus.NOT_FOUND: Result.GONE,
    HTTPStatus.CONFLICT: Result.CONFLICT,
    # So it answers if a `test` of the patch fails, and for what is not valid:
    # apiserver pkg/endpoints/handlers/patch.go:applyJSPatch.
    HTTPStatus.UNPROCESSABLE_ENTITY: Result.CONFLICT,
}


class _Attempts(NamedTuple):
    """Undone attempts in a row for one finding: their number, time of the last, and wait."""

    damage: Damage
    number: int = 0
    at: float = float("-inf")
    wait: float = 0.0


@dataclass(slots=True)
class Healing:
    """The Healer of Rechecking. Rechecks are limited in number, and so are its patches.

    clock  gives monotonic seconds
    """

    objects: StoredObjects
    leadership: Leadership
    clock: Callable[[], float] = time.monotonic
    _attempts: LRUCache[str, _Attempts] = field(default_factory=lambda: LRUCache(_MOST_REMEMBERED))
    _counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(Result, 0)))

    def counts(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Yield the number of attempts by result."""
        for result, count in self._counts.items():
            yield (result,), count

    async def heal(self, state: FindingState, damage: Damage, stored: Stored) -> Stored | None:
        """Restore lost values, if that may be done now. Never raises."""
        if not self.leadership.is_leader or state.subresource != "status" or not state.object.uid:
            return None
        before, now = self._before(state.id, damage), self.clock()
        if before.number >= MOST_ATTEMPTS and before.wait < _FOR_EVER:
            self._attempts[state.id] = before._replace(wait=_FOR_EVER)
            told = {**_fields(state), "attempts": before.number}
            LOGGER.warning("status is not healed any more until it changes", extra={"fields": told})
            return None
        operations = repair_patch(damage, stored)
        if now < before.at + before.wait or not operations:
            return None
        # Before it is sent: a cancelled patch may have been stored.
        wait = FIRST_WAIT_SECONDS * 2.0**before.number
        self._attempts[state.id] = _Attempts(damage, before.number + 1, now, wait)
        healed: Stored | None = None
        reason = ""
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                healed = await self.objects.patch_status(state.object, operations)
        except (RefusedError, msgspec.MsgspecError, *UNREACHED) as error:
            status = error.status if isinstance(error, RefusedError) else 0
            reason = str(status or type(error).__name__)
            is_final = isinstance(error, RefusedError) and not error.is_passing
            result = _RESULTS.get(status, Result.REFUSED) if is_final else Result.FAILED
            self._attempts[state.id] = before  # nothing was stored
            if status == HTTPStatus.UNPROCESSABLE_ENTITY:
                self._attempts[state.id] = before._replace(
                    number=before.number + 1, at=now, wait=AGAIN_SECONDS
                )
            elif result is Result.REFUSED:
                self._attempts[state.id] = before._replace(at=now, wait=REFUSED_SECONDS)
        else:
            result = Result.FAILED if is_broken(damage, healed) else Result.HEALED
            reason = "cleared again at once"
        self._counts[result.value] += 1
        if result is Result.HEALED:
            await self._report(state, damage.writer, stored, operations)
        elif result in (Result.FAILED, Result.REFUSED):
            fields = {**_fields(state), "reason": reason}
            LOGGER.warning("status not healed", extra={"fields": fields})
        return healed

    def _before(self, finding: str, damage: Damage) -> _Attempts:
        """Return the attempts that still count."""
        none = _Attempts(damage)
        before = self._attempts.get(finding, none)
        has_held = self.clock() - before.at >= HELD_SECONDS and before.wait < HELD_SECONDS
        return none if before.damage != damage or has_held else before

    async def _report(
        self, state: FindingState, writer: str, stored: Stored, operations: Operations
    ) -> None:
        values = dict(_values(operations))
        fields = {**_fields(state), "writer": writer, "set": values}
        LOGGER.info("status healed", extra={"fields": fields})
        restored = ", ".join(f"{field}={value}" for field, value in values.items())
        await tell(
            self.objects.calls,
            datetime.now(UTC),
            "genguard.io/healing",
            action="Heal",
            reason="StatusHealed",
            is_good=True,
            note=f"Put back {restored}, as {writer} had sent it; finding {state.id}.",
            regarding=naming(stored["apiVersion"], stored["kind"], state.object),
            finding=state.id,
        )


@dataclass(slots=True)
class Rechecking:
    """Rechecks damaged objects, and those whose damage was prevented: a write may pass unseen.

    clock  gives the time of findings
    """

    findings: Ledger
    objects: StoredObjects
    healer: Healing | None = None
    clock: Callable[[], float] = CLOCK.now
    supervisor: Supervisor = field(default_factory=Supervisor)
    _read_at: dict[ObjectKey, float] = field(default_factory=dict)

    async def recheck(self) -> float:
        """Read the objects that are due: the damaged ones first, and who waits for longest.

        Raises one of UNREACHED.
        """
        damaged: dict[ObjectKey, list[FindingState]] = {}
        for state in self.findings.damaged():
            damaged.setdefault(state.object, []).append(state)
        # Times of objects that are no longer damaged are removed: memory is bounded by findings.
        self._read_at = {thing: at for thing, at in self._read_at.items() if thing in damaged}
        now = self.clock()
        due = [thing for thing, several in damaged.items() if self._is_due(thing, several, now)]
        undamaged = {thing: not any(each.damage for each in damaged[thing]) for thing in due}
        due.sort(key=lambda thing: (undamaged[thing], self._read_at.get(thing, 0.0)))
        for thing in due[:MOST_READS]:
            self._read_at[thing] = self.clock()
            unreached: Exception | None = None
            with self.supervisor.guard("damaged objects"):
                unreached = await self._recheck(thing, damaged[thing])
            if unreached is not None:
                raise unreached  # the next read would wait as long
        return _TICK_SECONDS

    def _is_due(self, thing: ObjectKey, damaged: list[FindingState], now: float) -> bool:
        if now - max(state.last for state in damaged) < FRESH_SECONDS:
            return False
        return now - self._read_at.get(thing, 0.0) >= AGAIN_SECONDS

    async def _recheck(self, thing: ObjectKey, damaged: list[FindingState]) -> Exception | None:
        """Read an object, and have it healed; return why the API server was not reached."""
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                stored = await self.objects.read(thing)
        except (RefusedError, msgspec.MsgspecError):
            return None
        except UNREACHED as error:
            return error
        self._look(thing, stored)
        for state in damaged:
            damage = state.possible_damage
            if not (self.healer and stored and damage and is_broken(damage, stored)):
                continue
            healed = await self.healer.heal(state, damage, stored)
            if healed is not None:
                stored = healed
                self._look(thing, stored)
        return None

    def _look(self, thing: ObjectKey, stored: Stored | None) -> None:
        def remains(damage: Damage) -> bool:
            return stored is not None and is_broken(damage, stored)

        self.findings.look(thing, remains, self.clock())


def _fields(state: FindingState) -> dict[str, Any]:
    names = ("group", "resource", "namespace", "name")
    return {"finding": state.id, **{name: getattr(state.object, name) for name in names}}


def repair_patch(damage: Damage, stored: Stored) -> Operations | None:
    """Return the patch that puts lost values back into a stored object.

    Its first operation tests the resourceVersion, so that it applies to this very object alone.
    None where nothing may be put back: nobody saw who sent the values, they are stored again, or
    they are ahead of the object's generation.
    """
    version = get(stored, "metadata", "resourceVersion")
    generation = get(stored, "metadata", "generation")
    is_known = isinstance(version, str) and type(generation) is int
    if not damage.writer or not is_known or stored.get("status") is None:
        return None
    operations = [_operation("test", "/metadata/resourceVersion", version)]
    observed = read_observed(fields_of({"status": stored["status"]})["status"]) or NOTHING_OBSERVED
    for value in still_lost(damage, observed):
        # Findings may come from a shared store: what is no generation is not put back.
        if not 0 < (generation_number(value.value) or 0) <= generation:
            continue
        where = "/status"
        if value.condition is not None:
            types = [condition.get("type", "") for condition in stored["status"]["conditions"]]
            where = f"/status/conditions/{types.index(value.condition)}"
            operations.append(_operation("test", f"{where}/type", value.condition))
        operations.append(_operation("add", f"{where}/observedGeneration", value.value))
    return operations if len(operations) > 1 else None


def _operation(op: str, path: str, value: object) -> dict[str, Any]:
    return {"op": op, "path": path, "value": value}


def _values(operations: Operations) -> Iterator[tuple[str, Any]]:
    """Yield each restored value by field, such as status.conditions[Ready].observedGeneration."""
    for before, operation in pairwise(operations):
        if operation["op"] == "add":
            is_in_condition = before["path"].endswith("/type")
            where = f"conditions[{before['value']}]." if is_in_condition else ""
            yield f"status.{where}observedGeneration", operation["value"]
