"""The observedGeneration values of a status: its own and those of its conditions."""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from genguard.objects.fields import Path

Generation = int | str
"""Most kinds write a number; Argo Rollouts writes it as a string of digits."""
_DIGITS: Final = re.compile(r"-?[0-9]{1,19}")
_INT64: Final = range(-(2**63), 2**63)
_MOST_CONDITIONS: Final = 1_000
"""No kind has nearly as many: more are not worth the time, the patch and the memory."""
_LONGEST_TYPE: Final = 316
"""Characters (apimachinery pkg/apis/meta/v1/types.go:Condition, MaxLength of type)."""
_BYTES_OF_OBSERVED: Final = 120
_BYTES_OF_CONDITION: Final = 100


def generation_number(value: Any) -> int | None:
    """Return an observedGeneration as a number; None where it is cleared, or is none."""
    if type(value) is str and _DIGITS.fullmatch(value):
        return int(value)
    return value if type(value) is int else None


class Condition(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One entry of status.conditions; `observed` is None when cleared.

    `type` is None where it is absent, null, not a text or longer than a type may be: nothing tells
    such a condition from others, so it is left alone.
    """

    type: str | None
    observed: Generation | None


class Observed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Every observedGeneration in one status; `own` is None when cleared.

    is_zero  its own is there, and cleared
    """

    own: Generation | None
    conditions: tuple[Condition, ...]
    is_zero: bool = False

    @property
    def has_own(self) -> bool:
        """The status has one of its own, be it 0."""
        return self.is_zero or self.own is not None

    @property
    def complete(self) -> bool:
        """No value is cleared."""
        if self.own is None:
            return False
        return None not in [
            condition.observed for condition in self.conditions if condition.type is not None
        ]

    @property
    def anything(self) -> bool:
        """Some value is set."""
        if self.own is not None:
            return True
        return any(
            condition.observed is not None
            for condition in self.conditions
            if condition.type is not None
        )

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes, at four a character of a type."""
        size = _BYTES_OF_OBSERVED
        for condition in self.conditions:
            size += _BYTES_OF_CONDITION + (4 * len(condition.type) if condition.type else 0)
        return size


NOTHING_OBSERVED: Final = Observed(None, ())
# A value that is neither a generation nor a cleared one: never restored, never restored over.
_FOREIGN: Final = ""
_MOST_SEEN: Final = 500
_LARGE: Final = 8 * 1024
"""Bytes in memory: larger ones are not kept here, so that made-up names fill 4 MiB at most."""


class _Condition(msgspec.Struct, rename="camel", gc=False):
    type: Any = None
    observed_generation: Any = None


class _Status(msgspec.Struct, rename="camel"):
    observed_generation: Any = None
    conditions: msgspec.Raw = msgspec.Raw(b"null")


# One pass, and hardly a value left to look at.
_status_decoder: Final = msgspec.json.Decoder(_Status | None)
_conditions_decoder: Final = msgspec.json.Decoder(list[_Condition] | None)


def read_observed(status: msgspec.Raw | None) -> Observed | None:
    """Read a raw status; absent and null read as nothing observed, a wrong type as None.

    A `conditions` that is no list of objects, or of very many, reads as no conditions: nothing in
    it is touched.
    Raises msgspec.DecodeError when the bytes are no JSON.
    """
    conditions: list[_Condition] = []
    try:
        read = None if status is None else _status_decoder.decode(status)
    except msgspec.ValidationError:
        return None
    if read is None:
        return NOTHING_OBSERVED
    with suppress(msgspec.ValidationError):
        conditions = _conditions_decoder.decode(read.conditions) or conditions
    own = _generation(read.observed_generation)
    is_zero = own is None and read.observed_generation is not None
    if len(conditions) > _MOST_CONDITIONS:
        return Observed(own, (), is_zero)
    found = Observed(
        own,
        tuple(
            [
                Condition(_type(condition.type), _generation(condition.observed_generation))
                for condition in conditions
            ]
        ),
        is_zero,
    )
    return found if found.size > _LARGE else _once(found)


@lru_cache(_MOST_SEEN)
def _once(found: Observed) -> Observed:
    """Each value once: thousands of objects have the same, and it is remembered of each."""
    return found


def _type(value: Any) -> str | None:
    return value if isinstance(value, str) and len(value) <= _LONGEST_TYPE else None


def _generation(value: Any) -> Generation | None:
    """0, null, absent and "" are cleared (KEP-5067, requests to update observedGeneration)."""
    if value is None or value == "":
        return None
    if type(value) is int:
        return (value or None) if value in _INT64 else _FOREIGN
    # Other texts may be contents, and what is restored is told in logs and audit annotations.
    return value if type(value) is str and _DIGITS.fullmatch(value) else _FOREIGN


def could_be_read(observed: Observed) -> tuple[bool, bool]:
    """Whether a status could have its own value, and these conditions, as read_observed gives them.

    Others than read_observed make an Observed too: replicas share it.
    """
    values = [condition.observed for condition in observed.conditions]
    own, *others = (value in (_FOREIGN, _generation(value)) for value in (observed.own, *values))
    return own, len(values) <= _MOST_CONDITIONS and all(others)


class Restoration(NamedTuple):
    """One path in the object, and the value that belongs there."""

    path: Path
    value: Generation


def restorations(wanted: Observed, found: Observed) -> Iterator[Restoration]:
    """What `wanted` has and `found` has cleared; conditions are paired k-th with k-th of a type.

    Source: kubernetes pkg/registry/core/pod/strategy.go:preserveOldObservedGeneration.
    """
    if wanted is found or not wanted.anything or found.complete:
        return
    if found.own is None and wanted.own:
        yield Restoration(("status", "observedGeneration"), wanted.own)
    queues: dict[str, list[Generation | None]] = {}
    for condition in wanted.conditions:
        if condition.type is not None:
            queues.setdefault(condition.type, []).append(condition.observed)
    for index, condition in enumerate(found.conditions):
        queue = None if condition.type is None else queues.get(condition.type)
        value = queue.pop(0) if queue else None
        if condition.observed is None and value:
            yield Restoration(("status", "conditions", index, "observedGeneration"), value)
