"""The conditions of an intent that nobody has acted on yet, and whether a schema takes them.

"Improve .status" proposes the flip and leaves it to the API server. A value that a schema refuses
fails the user's write, so what cannot be proved here is a no. Source: apiextensions-apiserver
pkg/apiserver/schema (structural schemas, pruning, validation); metav1.Condition.
"""

from typing import Any, Final

import msgspec

FLIPPED: Final = {"Ready": "Unknown", "Settled": "False"}
"""Condition type → its status once the intent has changed."""
REASON: Final = "IntentChanged"
MESSAGE: Final = "spec has changed and no controller has reported on it yet"
_EXAMPLES: Final = {
    "type": tuple(FLIPPED),
    "status": tuple(FLIPPED.values()),
    "reason": (REASON,),
    "message": (MESSAGE,),
    "lastTransitionTime": ("2026-01-02T03:04:05Z",),
}

_PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
_HARMLESS: Final = frozenset({
    "type", "title", "description", "default", "example", "externalDocs", "nullable", "properties",
    "items", "required", _PRESERVES, "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
})  # fmt: skip
_PROVED: Final = frozenset({"enum", "pattern", "minLength", "maxLength", "format"})
_PATTERNS: Final = frozenset({
    "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
    (
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    ),
})  # fmt: skip
"""Those of metav1.Condition, reason and type: each takes what is written here. Others prove
nothing: they are in Go's syntax, and in Python some would be matched for hours."""
_OF_THE_WHOLE: Final = ("x-kubernetes-validations", "allOf", "anyOf", "oneOf", "not")


def condition_fault(schema: Any) -> str:
    """Why the two may not fit the openAPIV3Schema of a version; "" where they do for certain."""
    if not isinstance(schema, dict):
        return ""  # a file that leaves the schema out
    for keyword in _OF_THE_WHOLE:
        if b"status" in msgspec.json.encode(schema.get(keyword)):
            return f"the schema's {keyword} speaks of status"
    path, node = "", schema
    for step, wanted in (("status", "object"), ("conditions", "array"), ("[]", "object")):
        inner = node.get("items") if step == "[]" else _properties(node).get(step)
        path = f"{path}{step}" if step == "[]" else f"{path}.{step}".removeprefix(".")
        if inner is None:
            return "" if node.get(_PRESERVES) is True else f"the schema has no {path}"
        if fault := _fault(inner, path, wanted):
            return fault
        node = inner
    required = node.get("required") or []
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return f"what {path} requires is no list of names"
    if missing := set(required) - _EXAMPLES.keys():
        return f"{path} requires {', '.join(sorted(missing))}"
    return _leaf_fault(node, path)


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    """None where they are no object: a file may say anything."""
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _fault(node: Any, path: str, wanted: str, proved: frozenset[str] = frozenset()) -> str:
    if not isinstance(node, dict):
        return f"the schema of {path} is no object"
    if node.get("type", wanted) != wanted:
        return f"{path} is no {wanted}"
    if node.get("x-kubernetes-list-map-keys", ["type"]) != ["type"]:
        return f"the keys of {path} are others than type"
    unproved = sorted(key for key in node if key not in _HARMLESS and key not in proved)
    return f"{path} has {', '.join(unproved)}, which is not evaluated here" if unproved else ""


def _leaf_fault(item: dict[str, Any], path: str) -> str:
    for name, values in _EXAMPLES.items():
        leaf = _properties(item).get(name)
        if leaf is None:
            if item.get(_PRESERVES) is True:
                continue
            return f"the schema has no {path}.{name}"
        if fault := _fault(leaf, f"{path}.{name}", "string", _PROVED):
            return fault
        if not all(_fits(leaf, value) for value in values):
            return f"{path}.{name} does not take {' and '.join(values)}"
    return ""


def _fits(leaf: dict[str, Any], value: str) -> bool:
    try:
        return (
            ("pattern" not in leaf or leaf["pattern"] in _PATTERNS)
            and value in leaf.get("enum", (value,))
            and leaf.get("minLength", 0) <= len(value) <= leaf.get("maxLength", len(value))
            and leaf.get("format", "date-time") == "date-time"
        )
    except TypeError:
        return False  # a keyword of the wrong type: nothing is proved
