"""A sound CustomResourceDefinition, and what a case changes in it."""

import copy
from typing import Any

OBSERVED: dict[str, Any] = {"type": "integer", "format": "int64", "minimum": 0}
CONDITION: dict[str, Any] = {
    "type": "object",
    "required": ["type", "status"],
    "properties": {
        "type": {"type": "string"},
        "status": {"type": "string"},
        "observedGeneration": OBSERVED,
    },
}
CONDITIONS: dict[str, Any] = {
    "type": "array",
    "items": CONDITION,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
}
STATUS: dict[str, Any] = {
    "type": "object",
    "properties": {"observedGeneration": OBSERVED, "conditions": CONDITIONS},
}


def definition(case: Any = None, plural: str = "widgets") -> dict[str, Any]:
    """A definition of one version: sound but for what a case gives.

    version     keys of the version; null takes one away
    status      the schema of status
    conditions  the schema of status.conditions
    observed    the schema of a condition's observedGeneration; null takes it away
    """
    given = {} if case is None else case
    status = copy.deepcopy(given.get("status") or STATUS)
    if "conditions" in given:
        status["properties"]["conditions"] = copy.deepcopy(given["conditions"])
    if "observed" in given:
        properties = status["properties"]["conditions"]["items"]["properties"]
        del properties["observedGeneration"]
        if given["observed"] is not None:
            properties["observedGeneration"] = given["observed"]
    spec = {"type": "object", "properties": {"size": {"type": "integer"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}
        },
    }
    for key, value in given.get("version", {}).items():
        version.pop(key)
        if value is not None:
            version[key] = value
    kind = plural.removesuffix("s").capitalize()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "singular": kind.lower()},
            "versions": [version],
        },
    }
