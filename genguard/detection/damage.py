"""What a finding leaves wrong in a stored object, and whether it is still wrong there.

A loop may end while its damage stays: the Deployment controller writes status four times, a webhook
clears observedGeneration each time, and `kubectl rollout status` hangs for ever. Damage holds what
is needed to look again: numbers, types of conditions and digests, never a value of the object.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from genguard.detection.changes import changes
from genguard.detection.values import Digest
from genguard.detection.write import Write
from genguard.objects.fields import Path, fields_of, get
from genguard.objects.observed import Generation, Observed, generation_number, read_observed

MOST_LOST: Final = 20
"""Values and fields kept for one finding: more say nothing new about the object."""


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

    A status.observedGeneration that is stored lower than it was sent is among them: another replica
    had only the older value to put back.
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
    status = fields_of({"status": stored.get("status")})
    observed = read_observed(status["status"])
    if observed is None:
        return False  # what cannot be read as a status is no longer what was damaged
    generation = get(stored, "metadata", "generation")
    values = {change.key: change.after for change in changes({}, status if damage.fields else {})}
    return _is_left(damage, generation if type(generation) is int else 0, observed, values)


def survives(damage: Damage, write: Write) -> bool:
    """Whether the damage is still there after a write of status, as far as the write shows it."""
    left = {field.key: field.left for field in damage.fields}
    made = {change.key: change.after for change in write.content.admitted if left}
    return _is_left(damage, write.generation_after, write.observed_after, left | made)


def _is_left(
    damage: Damage, generation: int, observed: Observed, values: Mapping[Path, Digest | None]
) -> bool:
    own = generation_number(observed.own) or 0
    return (
        any(still_lost(damage, observed))
        or (damage.ahead and 0 < generation < own)
        or (damage.behind is not None and own + damage.behind < generation)
        or any(values.get(field.key) == field.left for field in damage.fields)
    )


def still_lost(damage: Damage, stored: Observed) -> Iterator[LostValue]:
    """The values of the damage that are lost in what is stored."""
    values = _values(stored)
    return (lost for lost in damage.lost if values.get(lost.condition, lost.value) == lost.left)


def _values(observed: Observed) -> dict[str | None, Generation | None]:
    """By the type of the condition, None for the status itself.

    Conditions without a type, or with a repeated one, cannot be told apart.
    """
    kinds = Counter(condition.type for condition in observed.conditions)
    told = (
        condition
        for condition in observed.conditions
        if condition.type is not None and kinds[condition.type] == 1
    )
    return {None: observed.own, **{condition.type: condition.observed for condition in told}}
