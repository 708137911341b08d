"""A status that has no place for conditions."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import DefinitionCheck, Level, Problem
from genguard.linting.definition import DefinedVersion


def find_problems(version: DefinedVersion) -> Iterator[Problem]:
    """Report a status schema without conditions, neither in status nor in status.meta."""
    status = version.status
    if status is None or status.is_open:
        return
    meta = status.field("meta")
    places = (status, meta) if meta is not None else (status,)
    if any(place.is_open or place.field("conditions") is not None for place in places):
        return
    yield Problem(
        Level.INFO,
        status.path,
        "has no conditions: tools that read any kind cannot tell whether an object is ready: add "
        "status.conditions, and let the controller set Ready, and Settled if it can",
    )


CHECK: Final = DefinitionCheck(
    "no-conditions",
    "Improve .status, Standardizing Conditions: `.conditions` in all kinds; kubectl wait, kstatus "
    "and Argo CD read conditions of custom resources",
    find_problems,
)
