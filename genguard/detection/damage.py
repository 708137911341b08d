"""What a finding leaves wrong in a stored object, and whether it is still wrong there.

A loop may end while its damage stays: the Deployment controller writes status four times, a webhook
clears observedGeneration each time, and `kubectl rollout status` hangs for ever. Damage holds what
is needed to look again: numbers, types of conditions and digests, never a value of the object.
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
    found = []
    if sent.own and (stored.own is None or _is_lower(stored.own, sent.own)):
        found.append(LostValue(None, sent.own, stored.own))
    wanted = _of_conditions(sent)
    for kind, value in _of_conditions(stored).items():
        lost = wanted.get(kind)
        if value is None and lost:
            found.append(LostValue(kind, lost))
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
    if _is_wrong(damage, generation if type(generation) is int else 0, observed):
        return True
    digests: dict[Path, Digest | None] = {}
    if damage.fields:
        raw = {} if status is None else {_STATUS: status}
        digests = {one.key: one.after for one in changes({}, raw)}
    return any(digests.get(one.key) == one.left for one in damage.fields)


def survives(damage: Damage, write: Write) -> bool:
    """Whether the damage is still there after a write of status, as far as the write shows it."""
    if _is_wrong(damage, write.generation_after, write.observed_after):
        return True
    if not damage.fields:
        return False
    made = {change.key: change.after for change in write.content.admitted}
    return any(made.get(one.key, one.left) == one.left for one in damage.fields)


def _is_wrong(damage: Damage, generation: int, observed: Observed) -> bool:
    """Whether an observedGeneration is lost, behind or ahead."""
    if any(_is_lost(one, observed) for one in damage.lost):
        return True
    own = generation_number(observed.own) or 0
    if damage.ahead and generation and own > generation:
        return True
    return damage.behind is not None and own + damage.behind < generation


def repair_patch(damage: Damage, stored: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The JSON Patch (RFC 6902) that puts lost values back into a stored object, decoded.

    Its first operation tests the resourceVersion, so that it applies to this very object alone.
    None where nothing may be put back: nobody saw who sent the values, they are stored again, or
    they are ahead of the object's generation.
    """
    version = get(stored, "metadata", "resourceVersion")
    generation = get(stored, "metadata", "generation")
    if not damage.writer or not isinstance(version, str) or type(generation) is not int:
        return None
    if stored.get(_STATUS) is None:
        return None
    operations: list[dict[str, Any]] = []
    observed = read_observed(_raw_status(stored)) or NOTHING_OBSERVED
    for one in damage.lost:
        # Findings may come from a shared store: what is no generation is not put back.
        if not _is_lost(one, observed) or not 0 < (generation_number(one.value) or 0) <= generation:
            continue
        where: Path = (_STATUS,)
        if one.condition is not None:
            types = [condition.get("type", "") for condition in stored[_STATUS]["conditions"]]
            where = (_STATUS, "conditions", types.index(one.condition))
            operations.append(_operation("test", (*where, "type"), one.condition))
        operations.append(_operation("add", (*where, "observedGeneration"), one.value))
    if not operations:
        return None
    return [_operation("test", ("metadata", "resourceVersion"), version), *operations]


def _is_lost(one: LostValue, stored: Observed) -> bool:
    if one.condition is None:
        return stored.own == one.left
    return _of_conditions(stored).get(one.condition, one.value) is None


def _is_lower(one: Generation, other: Generation) -> bool:
    return type(one) is int and type(other) is int and one < other


def _of_conditions(observed: Observed) -> dict[str, Generation | None]:
    """By type; conditions without a type, or with a repeated one, cannot be told apart."""
    kinds = Counter(one.type for one in observed.conditions)
    return {
        one.type: one.observed
        for one in observed.conditions
        if one.type is not None and kinds[one.type] == 1
    }


def _raw_status(stored: Mapping[str, Any]) -> msgspec.Raw | None:
    status = stored.get(_STATUS)
    return None if status is None else msgspec.Raw(msgspec.json.encode(status))


def _operation(op: str, path: Path, value: object) -> dict[str, Any]:
    return {"op": op, "path": to_pointer(path), "value": value}


_DIGITS: Final = re.compile(r"[0-9]{1,19}")
_TYPE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,314}[A-Za-z0-9])?")
"""The type of a condition, as apimachinery pkg/apis/meta/v1/types.go:Condition allows it."""


def repair_command(where: FoundObject, subresource: str, damage: Damage) -> str:
    """A command line for a shell that puts lost values back into an object's status.

    "" where nothing is to be put back, or nobody saw whose the values were. `subresource` is the
    one that the object was written by: "status", or "" for the object itself.

    A JSON Patch names a condition by its index, which may be another one by now. So conditions
    are found by their type, by jq, and the object is replaced with the resourceVersion it had.
    """
    values = list(_values(damage.lost))
    if not damage.writer or not values or not _is_pasted_safely(where):
        return ""
    target = [
        where.resource_name,
        where.name,
        *(("-n", where.namespace) if where.namespace else ()),
    ]
    flags = ["--subresource=status"] if subresource else []
    if [condition for condition, _ in values] == [None]:
        patch = json.dumps({"status": {"observedGeneration": values[0][1]}}, separators=(",", ":"))
        return shlex.join(["kubectl", "patch", *target, *flags, "--type=merge", "-p", patch])
    filters = " | ".join(
        f"{_field(condition)} = {json.dumps(value)}" for condition, value in values
    )
    return (
        f"{shlex.join(['kubectl', 'get', *target, '-o', 'json'])} | {shlex.join(['jq', filters])}"
        f" | {shlex.join(['kubectl', 'replace', *flags, '-f', '-'])}"
    )


def _values(lost: Sequence[LostValue]) -> Iterator[tuple[str | None, int | str]]:
    """Conditions and values that may stand in a command: numbers and digits, nothing else."""
    for one in lost:
        is_number = type(one.value) is int or _DIGITS.fullmatch(str(one.value)) is not None
        if is_number and (one.condition is None or _TYPE.fullmatch(one.condition)):
            yield one.condition, one.value


def _field(condition: str | None) -> str:
    if condition is None:
        return ".status.observedGeneration"
    return f'(.status.conditions[] | select(.type == "{condition}")).observedGeneration'


def _is_pasted_safely(where: FoundObject) -> bool:
    """Whoever forges a review chooses names: none may be a flag, or steer a terminal."""
    parts = (where.group, where.resource, where.namespace, where.name)
    return all(part.isprintable() and not part.startswith("-") for part in parts)
