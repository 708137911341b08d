"""The two rules as one would first write them, for pods alone: what answers are compared with."""

import copy
from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]


def mutated(request: Mapping[str, Any]) -> Any:
    """The object with the generation and the observedGenerations that it should have."""
    new: Any = request.get("object")
    operation = request["operation"]
    if operation not in ("CREATE", "UPDATE"):
        return new
    result, old = copy.deepcopy(new), request.get("oldObject")
    subresource = request.get("subResource")
    assign_generation(result, old, operation, subresource)
    if subresource == "status":
        preserve_observed_generation(result["status"], old["status"])
    return result


def assign_generation(pod: Object, old: Any, operation: str, subresource: str | None) -> None:
    """1 on create, one more when the spec changes, otherwise as it was."""
    metadata = pod["metadata"]
    if operation == "CREATE":
        metadata["generation"] = 1
        return
    before = old["metadata"].get("generation", 0)
    counts = subresource is None and pod["spec"] != old["spec"]
    metadata["generation"] = before + 1 if counts else before


def preserve_observed_generation(status: Object, old: Object) -> None:
    """Put back what is 0, null or absent and was set."""
    keep(status, old)
    conditions = {condition["type"]: condition for condition in old.get("conditions", [])}
    for condition in status.get("conditions", []):
        keep(condition, conditions.get(condition["type"], {}))


def keep(value: Object, old: Object) -> None:
    """Keep one observedGeneration."""
    if not value.get("observedGeneration") and old.get("observedGeneration"):
        value["observedGeneration"] = old["observedGeneration"]
