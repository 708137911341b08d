"""Objects of a custom resource for Hypothesis, made from the schema of its definition.

Source: structural schemas (apiextensions/v1 JSONSchemaProps). Rules in CEL are not read: filter
        with `.filter()` what they refuse.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

from hypothesis import strategies as some
from hypothesis.strategies import SearchStrategy

_NAMES: Final = r"[a-z]([-a-z0-9]{0,10}[a-z0-9])?"
_TEXT: Final = 20
_NUMBER: Final = 1_000
_ITEMS: Final = 3
_TIME: Final = "2026-01-01T00:00:00Z"


def objects_of(
    definition: Mapping[str, Any], version: str | None = None
) -> SearchStrategy[dict[str, Any]]:
    """Return a strategy for objects that a CustomResourceDefinition allows, without a status.

        @given(objects_of(definition))
        def test_my_controller_converges(backup):
            with FakeApiServer(definition) as server:
                server.create(backup)
                assert_converges(server, "backups.example.org", step=lambda: reconcile(server))

    A failing example is shrunk to the fewest fields, and the assertion prints its writes. Needs the
    package hypothesis.

    version  one of the definition's; the first one that is served without it

    Raises LookupError for a version that the definition does not serve.
    """
    spec = definition["spec"]
    served = [version for version in spec["versions"] if version.get("served")]
    found = next((entry for entry in served if version in (None, entry["name"])), None)
    if found is None:
        raise LookupError(f"{definition['metadata']['name']} serves no version {version}")
    schema = (found.get("schema") or {}).get("openAPIV3Schema") or {}
    properties = schema.get("properties") or {}
    fields = {
        name: _values(inner)
        for name, inner in properties.items()
        if name not in ("apiVersion", "kind", "metadata", "status")
    }
    required = set(schema.get("required") or ()) | {"spec"}
    return some.fixed_dictionaries(
        {
            "apiVersion": some.just(f"{spec['group']}/{found['name']}"),
            "kind": some.just(spec["names"]["kind"]),
            "metadata": some.fixed_dictionaries({"name": some.from_regex(_NAMES, fullmatch=True)}),
            **{name: field for name, field in fields.items() if name in required},
        },
        optional={name: field for name, field in fields.items() if name not in required},
    )


def _values(schema: Mapping[str, Any]) -> SearchStrategy[Any]:
    made = _of_type(schema)
    return some.none() | made if schema.get("nullable") else made


def _of_type(schema: Mapping[str, Any]) -> SearchStrategy[Any]:
    if schema.get("enum"):
        return some.sampled_from(list(schema["enum"]))
    if schema.get("x-kubernetes-int-or-string"):
        return some.integers(0, _NUMBER)
    kind = schema.get("type")
    if kind == "array":
        return _lists(schema)
    if kind == "string":
        return _texts(schema)
    if kind in ("integer", "number"):
        return _numbers(schema)
    return some.booleans() if kind == "boolean" else _objects(schema)


def _numbers(schema: Mapping[str, Any]) -> SearchStrategy[int]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is None:
        least = 0 if most is None or most >= 0 else most - _NUMBER
    if most is None:
        most = least + _NUMBER
    first = math.floor(least) + 1 if schema.get("exclusiveMinimum") else math.ceil(least)
    last = math.ceil(most) - 1 if schema.get("exclusiveMaximum") else math.floor(most)
    step = schema.get("multipleOf", 1)
    return some.integers(first, last).filter(lambda number: number % step == 0)


def _objects(schema: Mapping[str, Any]) -> SearchStrategy[dict[str, Any]]:
    fields = {name: _values(inner) for name, inner in (schema.get("properties") or {}).items()}
    of_each = schema.get("additionalProperties")
    if isinstance(of_each, Mapping) and not fields:
        names = some.from_regex(_NAMES, fullmatch=True)
        return some.dictionaries(names, _values(of_each), max_size=_ITEMS)
    required = set(schema.get("required") or ())
    return some.fixed_dictionaries(
        {name: field for name, field in fields.items() if name in required},
        optional={name: field for name, field in fields.items() if name not in required},
    )


def _lists(schema: Mapping[str, Any]) -> SearchStrategy[list[Any]]:
    least = schema.get("minItems", 0)
    most = min(schema.get("maxItems", least + _ITEMS), least + _ITEMS)
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    is_set = schema.get("x-kubernetes-list-type") == "set"

    def identity(item: Any) -> str:
        return repr([item.get(key) for key in keys] if keys else item)

    return some.lists(
        _values(schema.get("items") or {}),
        min_size=least,
        max_size=most,
        unique_by=identity if keys or is_set else None,
    )


def _texts(schema: Mapping[str, Any]) -> SearchStrategy[str]:
    if schema.get("format") in ("date-time", "date"):
        return some.just(_TIME if schema["format"] == "date-time" else _TIME[:10])
    least, most = schema.get("minLength", 0), schema.get("maxLength", _TEXT)
    if schema.get("pattern"):
        texts = some.from_regex(schema["pattern"])
        return texts.filter(lambda text: least <= len(text) <= schema.get("maxLength", len(text)))
    letters = some.characters(codec="ascii", min_codepoint=32)
    return some.text(letters, min_size=least, max_size=max(least, min(most, _TEXT)))
