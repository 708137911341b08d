"""Statuses as a controller might report them, for objects that no controller has seen yet.

Each has every field that the kind's schema declares, so that what a webhook takes away shows. Two
are made with different values: a webhook that acts once, or on one value alone, is no loop.

Source: OpenAPI v3 schemas, as CustomResourceDefinitions and /openapi/v3 of an API server have them
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

Resolve = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Returns the schema that a `$ref` names."""
_DEEPEST: Final = 8
_TIME: Final = "2026-01-01T00:00:00Z"
_TIMES: Final = ("time", "timestamp")
_STATUSES: Final = ("True", "False")
_TEXTS: Final = ("Example", "Another")
_OBSERVED: Final = "observedGeneration"


def status_samples(
    schema: Mapping[str, Any], generation: int, resolve: Resolve = lambda node: node
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two statuses of a kind by the schema of its status, {} where it declares nothing."""
    first, second = (_Sample(generation, side, resolve).object(schema, 0) for side in (0, 1))
    return first, second


class _Sample:
    """Makes the values of one status; `side` 0 or 1 says which of two values each has."""

    def __init__(self, generation: int, side: int, resolve: Resolve) -> None:
        self._generation: Final = generation
        self._side: Final = side
        self._resolve: Final = resolve

    def object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """Return an object with all fields that are declared, and one key where any may be."""
        schema, found = self._resolved(schema), {}
        for key, inner in (schema.get("properties") or {}).items():
            value = self._value(inner, key, depth + 1)
            if value is not None:
                found[key] = value
        of_each = schema.get("additionalProperties")
        if isinstance(of_each, Mapping) and not found:
            value = self._value(of_each, "", depth + 1)
            if value is not None:
                found["example"] = value
        if schema.get("x-kubernetes-preserve-unknown-fields") and depth == 0:
            return self._usual() | found
        return found

    def _usual(self) -> dict[str, Any]:
        """Return what most controllers report, where any field may be (KEP-1623)."""
        condition = {
            "type": "Ready",
            "status": _STATUSES[self._side],
            _OBSERVED: self._generation,
            "lastTransitionTime": _TIME,
            "reason": _TEXTS[self._side],
            "message": _TEXTS[self._side],
        }
        return {_OBSERVED: self._generation, "phase": _TEXTS[self._side], "conditions": [condition]}

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a schema refers to: Kubernetes wraps a reference that has a default."""
        for part in (schema, *(schema.get("allOf") or ())):
            if "$ref" in part:
                return self._resolve(part)
        return schema

    def _value(self, schema: Mapping[str, Any], name: str, depth: int) -> Any:
        """Return a value; None where nothing says what one is."""
        schema = self._resolved(schema)
        if depth > _DEEPEST:
            return None
        if values := [value for value in schema.get("enum") or () if value]:
            return values[self._side % len(values)]
        if schema.get("type") == "object" or "properties" in schema:
            return self.object(schema, depth)
        if schema.get("type") == "array":
            item = self._value(schema.get("items") or {}, name, depth + 1)
            return [] if item is None else [item]
        return self._scalar(schema, name)

    def _scalar(self, schema: Mapping[str, Any], name: str) -> Any:
        number = self._generation if name == _OBSERVED else 1 + self._side
        is_time = schema.get("format") == "date-time" or name.lower().endswith(_TIMES)
        text = _TIME if is_time else _TEXTS[self._side]
        scalars = {
            "integer": number,
            "number": number,
            "boolean": not self._side,
            "string": _STATUSES[self._side] if name == "status" else text,
        }
        fallback = number if schema.get("x-kubernetes-int-or-string") else None
        return scalars.get(schema.get("type", ""), fallback)
