"""Conditions whose schema drops or refuses an observedGeneration.

Only keywords that stand at the field are judged; rules in CEL and combinations of schemas are not.
"""

from collections.abc import Iterator
from typing import Any, Final

from genguard.linting.check import DefinitionCheck, Level, Problem
from genguard.linting.definition import DefinedVersion, Schema

_FIRST: Final = 1
"""The lowest metadata.generation of a custom resource."""
_HIGHEST: Final = 2**31 - 1
"""What format int32 takes: a schema that takes these will do for every real object."""


def find_problems(version: DefinedVersion) -> Iterator[Problem]:
    """Report conditions[].observedGeneration that is not specified, or not as a generation is."""
    conditions = version.conditions
    item = None if conditions is None else conditions.items
    if item is None:
        return
    observed = item.field("observedGeneration")
    if observed is None:
        if not item.is_open:
            yield Problem(
                Level.WARNING,
                item.path,
                "a condition has no observedGeneration: the API server drops it from each write, "
                "so a controller that sets it finds a difference each time and writes again: add "
                "`observedGeneration: {type: integer, format: int64}`",
            )
        return
    keyword = _refusing(observed)
    if keyword:
        where = f"{observed.path}.{keyword}" if keyword in observed.body else observed.path
        yield Problem(
            Level.ERROR,
            where,
            "the API server refuses a condition with the observedGeneration of an object: the "
            "controller cannot write its status: declare it as `{type: integer, format: int64}`",
        )


def _refusing(observed: Schema) -> str:
    """Return the keyword that refuses a generation between _FIRST and _HIGHEST; "" if none does."""
    if observed.get("x-kubernetes-int-or-string") is True:
        return ""
    # Without a type there is only x-kubernetes-preserve-unknown-fields, which takes anything.
    if observed.get("type") not in ("integer", "number", None):
        return "type"
    if observed.get("enum") is not None:
        return "enum"
    lowest, highest = observed.get("minimum"), observed.get("maximum")
    if _is_number(lowest) and lowest + (observed.get("exclusiveMinimum") is True) > _FIRST:
        return "minimum"
    if _is_number(highest) and highest - (observed.get("exclusiveMaximum") is True) < _HIGHEST:
        return "maximum"
    step = observed.get("multipleOf")
    return "multipleOf" if _is_number(step) and _FIRST % (step or _FIRST) != 0 else ""


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


CHECK: Final = DefinitionCheck(
    "conditions-refuse-observed",
    "metav1.Condition has an observedGeneration of type int64; API conventions: a condition whose "
    "observedGeneration is behind metadata.generation is out of date",
    find_problems,
)
