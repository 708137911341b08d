"""Conditions that are one value: two writers with server-side apply overwrite each other."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import DefinitionCheck, Level, Problem
from genguard.linting.definition import DefinedVersion

_KEYS: Final = "x-kubernetes-list-map-keys"
_LIST_TYPE: Final = "x-kubernetes-list-type"


def find_problems(version: DefinedVersion) -> Iterator[Problem]:
    """Report conditions whose list is no map with the key `type`."""
    conditions = version.conditions
    if conditions is None:
        return
    if conditions.get(_LIST_TYPE) != "map":
        yield Problem(
            Level.WARNING,
            conditions.path,
            "is a list without keys: who applies one condition (server-side apply) removes those "
            f"of all others: add `{_LIST_TYPE}: map` and `{_KEYS}: [type]`",
        )
    elif conditions.get(_KEYS) != ["type"]:
        yield Problem(
            Level.WARNING,
            conditions.path,
            "has other keys than type: several conditions of one type can be stored, and readers "
            f"take the first: set `{_KEYS}: [type]`",
        )


CHECK: Final = DefinitionCheck(
    "conditions-not-map",
    "API conventions, Typical status properties: conditions are a map with the key type; "
    "server-side apply merges lists by x-kubernetes-list-map-keys, and replaces others as a whole",
    find_problems,
)
