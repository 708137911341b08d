"""Checks of CustomResourceDefinitions: what the schema lets a status say, and what it drops."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Level, Problem, definition_check
from genguard.linting.definition import PRESERVES, DefinedVersion, Schema

_NUMBERS: Final = ("integer", "number", None)
"""None: with x-kubernetes-int-or-string, or with unknown fields preserved, a number is stored."""
_FIRST: Final = 1
"""The lowest metadata.generation of a custom resource."""
_HIGHEST: Final = 2**31 - 1
"""What format int32 takes: a schema that takes these will do for every real object."""


@definition_check
def conditions_not_map(version: DefinedVersion) -> Iterator[Problem]:
    """Report conditions whose list is no map with the key `type`."""
    conditions = version.conditions
    if conditions is None:
        return
    if conditions.body.get("x-kubernetes-list-type") != "map":
        yield Problem(Level.WARNING, conditions.path, "list")
    elif conditions.body.get("x-kubernetes-list-map-keys") != ["type"]:
        yield Problem(Level.WARNING, conditions.path, "keys")


@definition_check
def conditions_refuse_observed(version: DefinedVersion) -> Iterator[Problem]:
    """Report conditions[].observedGeneration that is not specified, or not as a generation is."""
    item = version.condition
    if item is None:
        return
    observed = item.field("observedGeneration")
    if observed is None:
        if not item.is_open:
            yield Problem(Level.WARNING, item.path, "dropped")
    elif keyword := _refusing(observed):
        at = f"{observed.path}.{keyword}" if keyword in observed.body else observed.path
        yield Problem(Level.ERROR, at, "refused")


def _refusing(observed: Schema) -> str:
    """Return the keyword that refuses a generation between _FIRST and _HIGHEST; "" if none does.

    Only keywords that stand at the field are evaluated; rules in CEL and combined schemas are not.
    """
    if observed.body.get("x-kubernetes-int-or-string") is True:
        return ""
    if observed.body.get("type") not in _NUMBERS:
        return "type"
    if observed.body.get("enum") is not None:
        return "enum"
    lowest, highest = observed.body.get("minimum"), observed.body.get("maximum")
    if isinstance(lowest, int | float) and lowest > _FIRST:
        return "minimum"
    return "maximum" if isinstance(highest, int | float) and highest < _HIGHEST else ""


@definition_check
def no_conditions(version: DefinedVersion) -> Iterator[Problem]:
    """Report a status schema without conditions, neither in status nor in status.meta."""
    status = version.status
    if status is None or status.is_open:
        return
    sections = filter(None, (status, status.field("meta")))
    if not any(section.is_open or section.field("conditions") is not None for section in sections):
        yield Problem(Level.INFO, status.path, "none")


@definition_check
def no_observed_generation(version: DefinedVersion) -> Iterator[Problem]:
    """Report a status schema without status.observedGeneration, or with one that is no integer."""
    status = version.status
    if status is None:
        if version.has_subresource and not version.schema.is_open:
            named = {"version": version.name}
            yield Problem(Level.WARNING, version.schema.path, "no-status", named)
        return
    observed, item = status.field("observedGeneration"), version.condition
    if observed is not None:
        if observed.body.get("type") not in _NUMBERS:
            yield Problem(Level.WARNING, observed.path, "no-integer")
    elif status.is_open:
        return
    elif item is not None and (item.field("observedGeneration") is not None or item.is_open):
        yield Problem(Level.INFO, status.path, "in-conditions")
    else:
        yield Problem(Level.WARNING, status.path, "none")


@definition_check
def status_no_subresource(version: DefinedVersion) -> Iterator[Problem]:
    """Report a version whose schema has a status, but which has no status subresource."""
    if version.status is not None and not version.has_subresource:
        named = {"version": version.name}
        yield Problem(Level.WARNING, version.field("subresources.status"), "missing", named)


@definition_check
def status_unknown_fields(version: DefinedVersion) -> Iterator[Problem]:
    """Report x-kubernetes-preserve-unknown-fields on status, or above it where it is open."""
    section = version.schema if version.status is None else version.status
    what = "the object, status too," if version.status is None else "status"
    if section.body.get(PRESERVES) is True:
        yield Problem(Level.INFO, f"{section.path}.{PRESERVES}", "takes", {"what": what})
