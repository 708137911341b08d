"""Reads the versions of a CustomResourceDefinition, as far as `genguard explain` shows them.

Source: apiextensions-apiserver pkg/apis/apiextensions/v1/types.go.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from genguard.generation.custom import CustomResource, from_definition

_OBSERVED: Final = "observedGeneration"


class Column(msgspec.Struct, frozen=True, rename="camel"):
    """A printer column, which `kubectl get` shows."""

    name: str
    json_path: str


class Version(msgspec.Struct, frozen=True):
    """One version: what the generation engine reads, and what only `genguard explain` shows."""

    custom: CustomResource
    names: tuple[str, ...]
    """Singular and short names."""
    namespaced: bool
    stored: bool
    scales: bool
    observed: tuple[str, ...] | None
    """The fields of its schema for observedGeneration; None when the schema is open."""
    columns: tuple[Column, ...]


def read_versions(definition: Mapping[str, Any]) -> tuple[Version, ...]:
    """Return every version of a decoded definition, the stored version first.

    Raises BadDefinitionError when a field that the generation engine needs is missing.
    """
    known = from_definition(definition)
    spec = definition["spec"]
    names = spec["names"]
    singular = names.get("singular") or str(names["kind"]).lower()
    found = [
        Version(
            custom=custom,
            names=(singular, *_texts(names.get("shortNames"))),
            namespaced=spec.get("scope") == "Namespaced",
            stored=bool(version.get("storage")),
            scales=bool(_at(version, "subresources", "scale")),
            observed=_observed(version),
            columns=tuple(_columns(version.get("additionalPrinterColumns"))),
        )
        for custom, version in zip(known, spec["versions"], strict=True)
    ]
    return tuple(sorted(found, key=lambda version: not version.stored))


def _observed(version: Mapping[str, Any]) -> tuple[str, ...] | None:
    schema = _at(version, "schema", "openAPIV3Schema")
    status = _at(schema, "properties", "status")
    if any(_is_open(part) for part in (schema, status)):
        return None
    condition = _at(status, "properties", "conditions", "items", "properties")
    own = ("status.observedGeneration",) if _OBSERVED in _at(status, "properties") else ()
    return (*own, "status.conditions[].observedGeneration") if _OBSERVED in condition else own


def _is_open(schema: Mapping[str, Any]) -> bool:
    return schema.get("x-kubernetes-preserve-unknown-fields") is True


def _at(value: Any, *keys: str) -> Mapping[str, Any]:
    """Return the object below these keys; {} when there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _columns(value: Any) -> list[Column]:
    found = []
    for column in value if isinstance(value, list) else ():
        if not isinstance(column, Mapping):
            continue
        name, path = column.get("name"), column.get("jsonPath")
        if isinstance(name, str) and isinstance(path, str) and name:
            found.append(Column(name, path))
    return found
