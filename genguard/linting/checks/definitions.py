"""Checks of CustomResourceDefinitions: what the schema lets a status say, and what it drops."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Level, Problem, definition_check
from genguard.linting.definition import PRESERVES, DefinedVersion, Schema

_OBSERVED: Final = "observedGeneration"
_NUMBERS: Final = ("integer", "number", None)
"""None: with x-kubernetes-int-or-string, or with unknown fields preserved, a number is stored."""
_FIRST: Final = 1
"""The lowest metadata.generation of a custom resource."""
_HIGHEST: Final = 2**31 - 1
"""What format int32 takes: a schema that takes these will do for every real object."""
_KEYS: Final = "x-kubernetes-list-map-keys"
_LIST_TYPE: Final = "x-kubernetes-list-type"
_WHY_SPECIFIED: Final = (
    "a misspelt observedGeneration, or one that is a text, is stored and found by nobody, and "
    "server-side apply knows no keys of lists: specify the fields, and remove it"
)


@definition_check(
    "conditions-not-map",
    "API conventions, Typical status properties: conditions are a map with the key type; "
    "server-side apply merges lists by x-kubernetes-list-map-keys, and replaces others as a whole",
)
def conditions_not_map(version: DefinedVersion) -> Iterator[Problem]:
    """Report conditions whose list is no map with the key `type`."""
    conditions = version.conditions
    if conditions is None:
        return
    if conditions.body.get(_LIST_TYPE) != "map":
        yield Problem(
            Level.WARNING,
            conditions.path,
            "is a list without keys: who applies one condition (server-side apply) removes those "
            f"of all others: add `{_LIST_TYPE}: map` and `{_KEYS}: [type]`",
        )
    elif conditions.body.get(_KEYS) != ["type"]:
        yield Problem(
            Level.WARNING,
            conditions.path,
            "has other keys than type: several conditions of one type can be stored, and readers "
            f"take the first: set `{_KEYS}: [type]`",
        )


@definition_check(
    "conditions-refuse-observed",
    "metav1.Condition has an observedGeneration of type int64; API conventions: a condition whose "
    "observedGeneration is behind metadata.generation is out of date",
)
def conditions_refuse_observed(version: DefinedVersion) -> Iterator[Problem]:
    """Report conditions[].observedGeneration that is not specified, or not as a generation is."""
    item = version.condition
    if item is None:
        return
    observed = item.field(_OBSERVED)
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
        yield Problem(
            Level.ERROR,
            f"{observed.path}.{keyword}" if keyword in observed.body else observed.path,
            "the API server refuses a condition with the observedGeneration of an object: the "
            "controller cannot write its status: declare it as `{type: integer, format: int64}`",
        )


def _refusing(observed: Schema) -> str:
    """Return the keyword that refuses a generation between _FIRST and _HIGHEST; "" if none does.

    Only keywords that stand at the field are judged; rules in CEL and combined schemas are not.
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


@definition_check(
    "no-conditions",
    "Improve .status, Standardizing Conditions: `.conditions` in all kinds; kubectl wait, kstatus "
    "and Argo CD read conditions of custom resources",
)
def no_conditions(version: DefinedVersion) -> Iterator[Problem]:
    """Report a status schema without conditions, neither in status nor in status.meta."""
    status = version.status
    if status is None or status.is_open:
        return
    places = filter(None, (status, status.field("meta")))
    if any(place.is_open or place.field("conditions") is not None for place in places):
        return
    yield Problem(
        Level.INFO,
        status.path,
        "has no conditions: tools that read any kind cannot tell whether an object is ready: add "
        "status.conditions, and let the controller set Ready, and Settled if it can",
    )


@definition_check(
    "no-observed-generation",
    "API conventions, Typical status properties: status.observedGeneration is the generation that "
    "the controller has acted on; kstatus, kubectl wait and Argo CD compare it",
)
def no_observed_generation(version: DefinedVersion) -> Iterator[Problem]:
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
    observed, item = status.field(_OBSERVED), version.condition
    if observed is not None:
        if observed.body.get("type") not in _NUMBERS:
            yield Problem(
                Level.WARNING,
                observed.path,
                "is no integer: kstatus, and the tools built on it, end with an error: declare it "
                "as `{type: integer, format: int64}`",
            )
    elif status.is_open:
        return
    elif item is not None and (item.field(_OBSERVED) is not None or item.is_open):
        yield Problem(
            Level.INFO,
            status.path,
            "only conditions have an observedGeneration: before the first condition nobody can "
            "tell whether the status is old: add status.observedGeneration",
        )
    else:
        yield Problem(
            Level.WARNING,
            status.path,
            "has no observedGeneration, neither of its own nor in conditions: after a change of "
            "spec nobody can tell whether the status is old, and tools that wait are ready too "
            "early: add `observedGeneration: {type: integer, format: int64}`",
        )


@definition_check(
    "status-no-subresource",
    "customresource/strategy.go:PrepareForUpdate: without the subresource, status counts for "
    "metadata.generation as spec does; kubernetes/autoscaler#5675, "
    "actions/actions-runner-controller#1643 (generation 50,597)",
)
def status_no_subresource(version: DefinedVersion) -> Iterator[Problem]:
    """Report a version whose schema has a status, but which has no status subresource."""
    if version.status is None or version.has_subresource:
        return
    yield Problem(
        Level.WARNING,
        version.field("subresources.status"),
        f"{version.name} has a status, but no status subresource: each write of status raises "
        "metadata.generation, so observedGeneration is always behind, and "
        "GenerationChangedPredicate lets status writes pass: add `subresources: {status: {}}`, "
        "and let the controller write to /status",
    )


@definition_check(
    "status-unknown-fields",
    "apiextensions.k8s.io/v1 JSONSchemaProps: x-kubernetes-preserve-unknown-fields stops the API "
    "server from dropping fields that are not specified; it does not validate them",
)
def status_unknown_fields(version: DefinedVersion) -> Iterator[Problem]:
    """Report x-kubernetes-preserve-unknown-fields on status, or above it where it is open."""
    place = version.schema if version.status is None else version.status
    what = "the object, status too," if version.status is None else "status"
    if place.body.get(PRESERVES) is True:
        message = f"{what} takes fields that the schema does not know: {_WHY_SPECIFIED}"
        yield Problem(Level.INFO, f"{place.path}.{PRESERVES}", message)
