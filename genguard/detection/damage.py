"""What a finding leaves wrong in a stored object, and whether it is still wrong there.

A loop may end while its damage stays: the Deployment controller writes status four times, a webhook
clears observedGeneration each time, and `kubectl rollout status` hangs for ever. Damage holds what
is needed to look again: numbers, types of conditions and digests, never a value of the object.
"""

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from genguard.detection.changes import changes
from genguard.detection.finding import FoundObject
from genguard.detection.values import Digest
from genguard.detection.write import Write
from genguard.objects.fields import Path, get, to_pointer
from genguard.objects.observed import (
    NOTHING_OBSERVED,
    Generation,
    Observed,
    generation_number,
    read_observed,
)

MOST_LOST: Final = 20
"""Values and fields kept for one finding: more say nothing new about the object."""
_STATUS: Final = "status"


class LostValue(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An observedGeneration that its writer sent and that is not stored.

    condition  the type of the condition that it belongs to; None for status.observedGeneration
    value      what the writer sent
    left       what was stored in its place; None where it was cleared
    """

    condition: str | None
    value: Generation
    left: Generation | None = None


class LostField(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A field of status that another webhook changed or removed.

    key   the field, list items by identity (genguard/detection/changes.py)
    left  digest of what was stored in its place; None where the field is absent
    """

    key: Path
    left: Digest | None


class Damage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is wrong with a stored object because of a finding.

    lost     observedGeneration values that are not stored
    writer   the user who sent them, as seen at /intent; "" where nobody saw who did: such values
             are never put back
    fields   other fields of status that were changed or removed
    behind   status.observedGeneration is lower than generation, by more than this; None: not meant
    ahead    status.observedGeneration is higher than generation
    """

    lost: tuple[LostValue, ...] = ()
    writer: str = ""
    fields: tuple[LostField, ...] = ()
    behind: int | None = None
    ahead: bool = False

    def __bool__(self) -> bool:
        return bool(self.lost or self.fields or self.ahead) or self.behind is not None


def lost_values(sent: Observed, stored: Observed) -> tuple[LostValue, ...]:
    """The observedGeneration values of `sent` that `stored` has cleared.

    Of status.observedGeneration itself also one that is stored lower than it was sent: another
    replica had only the older value to put back.
    """
    wanted, found = _values(sent), []
    for condition, value in _values(stored).items():
        lost = wanted.get(condition)
        is_lower = condition is None and type(value) is type(lost) is int and value < lost
        if lost and (value is None or is_lower):
            found.append(LostValue(condition, lost, value))
    return tuple(found[:MOST_LOST])


def is_broken(damage: Damage, stored: Mapping[str, Any]) -> bool:
    """Whether the damage is still there in an object as the API server has it, decoded.

    A value that is neither the lost one nor what was left in its place is somebody's later write:
    then it is no damage any more.
    """
    generation, status = get(stored, "metadata", "generation"), _raw_status(stored)
    observed = read_observed(status)
    if observed is None:
        return False  # what cannot be read as a status is no longer what was damaged
    raw = {} if status is None or not damage.fields else {_STATUS: status}
    values = {one.key: one.after for one in changes({}, raw)}
    number = generation if type(generation) is int else 0
    return _is_left(damage, number, observed, lambda one: values.get(one.key))


def survives(damage: Damage, write: Write) -> bool:
    """Whether the damage is still there after a write of status, as far as the write shows it."""
    made = {one.key: one.after for one in write.content.admitted if damage.fields}
    number, observed = write.generation_after, write.observed_after
    return _is_left(damage, number, observed, lambda one: made.get(one.key, one.left))


def _is_left(
    damage: Damage,
    generation: int,
    observed: Observed,
    value_of: Callable[[LostField], Digest | None],
) -> bool:
    own = generation_number(observed.own) or 0
    return (
        any(_lost_still(damage, observed))
        or (damage.ahead and 0 < generation < own)
        or (damage.behind is not None and own + damage.behind < generation)
        or any(value_of(one) == one.left for one in damage.fields)
    )


def repair_patch(damage: Damage, stored: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The JSON Patch (RFC 6902) that puts lost values back into a stored object, decoded.

    Its first operation tests the resourceVersion, so that it applies to this very object alone.
    None where nothing may be put back: nobody saw who sent the values, they are stored again, or
    they are ahead of the object's generation.
    """
    version = get(stored, "metadata", "resourceVersion")
    generation = get(stored, "metadata", "generation")
    is_known = isinstance(version, str) and type(generation) is int
    if not damage.writer or not is_known or stored.get(_STATUS) is None:
        return None
    operations = [_operation("test", ("metadata", "resourceVersion"), version)]
    for one in _lost_still(damage, read_observed(_raw_status(stored)) or NOTHING_OBSERVED):
        # Findings may come from a shared store: what is no generation is not put back.
        if not 0 < (generation_number(one.value) or 0) <= generation:
            continue
        where: Path = (_STATUS,)
        if one.condition is not None:
            types = [condition.get("type", "") for condition in stored[_STATUS]["conditions"]]
            where = (_STATUS, "conditions", types.index(one.condition))
            operations.append(_operation("test", (*where, "type"), one.condition))
        operations.append(_operation("add", (*where, "observedGeneration"), one.value))
    return operations if len(operations) > 1 else None


def _lost_still(damage: Damage, stored: Observed) -> Iterator[LostValue]:
    values = _values(stored)
    return (one for one in damage.lost if values.get(one.condition, one.value) == one.left)


def _values(observed: Observed) -> dict[str | None, Generation | None]:
    """By the type of the condition, None for the status itself.

    Conditions without a type, or with a repeated one, cannot be told apart.
    """
    kinds = Counter(one.type for one in observed.conditions)
    told = (one for one in observed.conditions if one.type is not None and kinds[one.type] == 1)
    return {None: observed.own, **{one.type: one.observed for one in told}}


def _raw_status(stored: Mapping[str, Any]) -> msgspec.Raw | None:
    status = stored.get(_STATUS)
    return None if status is None else msgspec.Raw(msgspec.json.encode(status))


def _operation(op: str, path: Path, value: object) -> dict[str, Any]:
    return {"op": op, "path": to_pointer(path), "value": value}


def repair_command(where: FoundObject, subresource: str, damage: Damage) -> str:
    """A command line for a shell that puts lost values back into an object's status.

    "" where nothing is to be put back, or nobody saw whose the values were. `subresource` is the
    one that the object was written by: "status", or "" for the object itself.

    A JSON Patch names a condition by its index, which may be another one by now. So conditions
    are found by their type, by jq, and the object is replaced with the resourceVersion it had.
    """
    # Whoever forges a review chooses names: none may be a flag, or steer a terminal.
    names = (where.group, where.resource, where.namespace, where.name)
    is_safe = all(part.isprintable() and not part.startswith("-") for part in names)
    lost = [one for one in damage.lost if generation_number(one.value) is not None]
    if not damage.writer or not lost or not is_safe:
        return ""
    namespace = ("-n", where.namespace) if where.namespace else ()
    target = [where.resource_name, where.name, *namespace]
    flags = ["--subresource=status"] if subresource else []
    if [one.condition for one in lost] == [None]:
        patch = json.dumps({"status": {"observedGeneration": lost[0].value}}, separators=(",", ":"))
        return shlex.join(["kubectl", "patch", *target, *flags, "--type=merge", "-p", patch])
    filters = " | ".join(f"{_field(one.condition)} = {json.dumps(one.value)}" for one in lost)
    return (
        f"{shlex.join(['kubectl', 'get', *target, '-o', 'json'])} | {shlex.join(['jq', filters])}"
        f" | {shlex.join(['kubectl', 'replace', *flags, '-f', '-'])}"
    )


def _field(condition: str | None) -> str:
    """In JSON, which jq reads as what it says: no type of a condition becomes a filter."""
    if condition is None:
        return ".status.observedGeneration"
    return f"(.status.conditions[] | select(.type == {json.dumps(condition)})).observedGeneration"
