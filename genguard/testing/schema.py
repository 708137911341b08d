"""Defaults and validation of custom resources, by the schema of their CustomResourceDefinition.

Rules in CEL (`x-kubernetes-validations`) and `format` are not evaluated.
"""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from genguard.objects.fields import mapping

Problem = tuple[str, str]
"""The path of a field, and what is wrong with it."""

_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def fill_defaults(schema: Mapping[str, Any], value: Any) -> None:
    """Set the fields that are absent and have a default, in place.

    A null where null is not allowed counts as absent if there is a default.
    """
    if isinstance(value, list):
        for item in value:
            fill_defaults(mapping(schema.get("items")), item)
        return
    if not isinstance(value, dict):
        return
    properties = mapping(schema.get("properties"))
    for name, inner in properties.items():
        if "default" not in inner:
            continue
        if name not in value or (value[name] is None and not inner.get("nullable")):
            value[name] = copy.deepcopy(inner["default"])
    others = mapping(schema.get("additionalProperties"))
    for name, child in value.items():
        fill_defaults(properties.get(name, others), child)


def find_problems(schema: Mapping[str, Any], value: Any, path: str = "") -> Iterator[Problem]:
    """Yield what the schema forbids in a value, each with the path of its field."""
    if value is None and schema.get("nullable"):
        return
    wrong = _wrong_type(schema, value)
    if wrong:
        yield path, wrong
        return
    yield from _find_wrong_value(schema, value, path)
    if isinstance(value, str):
        yield from _find_wrong_string(schema, value, path)
    elif isinstance(value, list):
        yield from _find_wrong_list(schema, value, path)
    elif isinstance(value, dict):
        yield from _find_wrong_fields(schema, value, path)
    elif not isinstance(value, bool) and value is not None:
        yield from _find_wrong_number(schema, value, path)
    yield from _find_wrong_choice(schema, value, path)


def _wrong_type(schema: Mapping[str, Any], value: Any) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        fits = isinstance(value, int | str) and not isinstance(value, bool)
        return "" if fits else "must be an integer or a string"
    wanted = schema.get("type")
    fits = wanted not in _TYPES or _TYPES[wanted](value)
    return "" if fits else f"must be of type {wanted}"


def _find_wrong_value(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[Problem]:
    allowed = schema.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        names = ", ".join(f'"{choice}"' for choice in allowed)
        yield path, f"Unsupported value: supported values: {names}"


def _find_wrong_string(schema: Mapping[str, Any], value: str, path: str) -> Iterator[Problem]:
    if len(value) < schema.get("minLength", 0):
        yield path, f"should be at least {schema['minLength']} chars long"
    if len(value) > schema.get("maxLength", len(value)):
        yield path, f"should be at most {schema['maxLength']} chars long"
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and re.search(pattern, value) is None:
        yield path, f"should match '{pattern}'"


def _find_wrong_number(schema: Mapping[str, Any], value: float, path: str) -> Iterator[Problem]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and (value < least or (value == least and schema.get("exclusiveMinimum"))):
        yield path, f"should be greater than or equal to {least}"
    if most is not None and (value > most or (value == most and schema.get("exclusiveMaximum"))):
        yield path, f"should be less than or equal to {most}"
    step = schema.get("multipleOf")
    if step and value % step:
        yield path, f"should be a multiple of {step}"


def _find_wrong_list(schema: Mapping[str, Any], value: list[Any], path: str) -> Iterator[Problem]:
    if len(value) < schema.get("minItems", 0):
        yield path, f"should have at least {schema['minItems']} items"
    if len(value) > schema.get("maxItems", len(value)):
        yield path, f"should have at most {schema['maxItems']} items"
    kind = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys", ())
    seen: list[Any] = []
    for index, item in enumerate(value):
        if kind in ("set", "map"):
            name = [mapping(item).get(key) for key in keys] if kind == "map" else item
            if name in seen:
                yield f"{path}[{index}]", "Duplicate value"
            seen.append(name)
        yield from find_problems(mapping(schema.get("items")), item, f"{path}[{index}]")


def _find_wrong_fields(
    schema: Mapping[str, Any], value: dict[str, Any], path: str
) -> Iterator[Problem]:
    before = f"{path}." if path else ""
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{before}{name}", "Required value"
    if len(value) < schema.get("minProperties", 0):
        yield path, f"should have at least {schema['minProperties']} properties"
    if len(value) > schema.get("maxProperties", len(value)):
        yield path, f"should have at most {schema['maxProperties']} properties"
    properties = mapping(schema.get("properties"))
    others = mapping(schema.get("additionalProperties"))
    for name, child in value.items():
        inner = properties.get(name, others)
        if inner:
            yield from find_problems(inner, child, f"{before}{name}")


def _find_wrong_choice(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[Problem]:
    def fits(part: Mapping[str, Any]) -> bool:
        return not any(find_problems(part, value, path))

    for part in schema.get("allOf", ()):
        yield from find_problems(part, value, path)
    if "anyOf" in schema and not any(map(fits, schema["anyOf"])):
        yield path, "must validate at least one schema (anyOf)"
    if "oneOf" in schema and sum(map(fits, schema["oneOf"])) != 1:
        yield path, "must validate one and only one schema (oneOf)"
    if "not" in schema and fits(schema["not"]):
        yield path, "must not validate the schema (not)"
