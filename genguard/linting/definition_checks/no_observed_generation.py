"""A status that cannot say for which generation it holds."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import DefinitionCheck, Level, Problem
from genguard.linting.definition import DefinedVersion, Schema

_FIELD: Final = "observedGeneration"
_NUMBERS: Final = ("integer", "number", None)
"""None: with x-kubernetes-int-or-string, or with unknown fields preserved, a number is stored."""


def find_problems(version: DefinedVersion) -> Iterator[Problem]:
    """Report a status schema without status.observedGeneration, or with one that is no integer."""
    status = version.status
    if status is None:
        if version.has_subresource and not version.schema.is_open:
            yield Problem(
                Level.WARNING,
                version.schema.path,
                f"{version.name} has a status subresource, but its schema has no status: the API "
                "server drops every field of a status: add status, with observedGeneration",
            )
        return
    observed = status.field(_FIELD)
    if observed is not None:
        if observed.get("type") not in _NUMBERS:
            yield Problem(
                Level.WARNING,
                observed.path,
                "is no integer: kstatus, and the tools built on it, end with an error: declare it "
                "as `{type: integer, format: int64}`",
            )
    elif not status.is_open:
        yield _absent(version, status)


def _absent(version: DefinedVersion, status: Schema) -> Problem:
    conditions = version.conditions
    item = None if conditions is None else conditions.items
    if item is not None and (item.field(_FIELD) is not None or item.is_open):
        return Problem(
            Level.INFO,
            status.path,
            "only conditions have an observedGeneration: before the first condition nobody can "
            "tell whether the status is old: add status.observedGeneration",
        )
    return Problem(
        Level.WARNING,
        status.path,
        "has no observedGeneration, neither of its own nor in conditions: after a change of spec "
        "nobody can tell whether the status is old, and tools that wait are ready too early: add "
        "`observedGeneration: {type: integer, format: int64}`",
    )


CHECK: Final = DefinitionCheck(
    "no-observed-generation",
    "API conventions, Typical status properties: status.observedGeneration is the generation that "
    "the controller has acted on; kstatus, kubectl wait and Argo CD compare it",
    find_problems,
)
